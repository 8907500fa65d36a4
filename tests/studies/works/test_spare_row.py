"""Row 000-own-3.5-spare: promise and rest beside SH, packet by packet and as fluid."""

import pytest

from studies.works.row import Verdict
from studies.works.w000.ch3_spare import KINDS, PROMISES_MBIT_S, ROWS, fluid, packets

(ROW,) = ROWS


def test_the_fluid_gives_promises_first_and_shares_what_best_effort_leaves():
    found = fluid()
    # 100 Mbit/s, of which best effort takes 40.
    assert found["SH"] == pytest.approx([40, 15, 15, 15, 15])
    assert found["best effort"] == pytest.approx([20] * 5)
    assert found["promise alone"] == pytest.approx([40, *PROMISES_MBIT_S])
    rest = (60 - sum(PROMISES_MBIT_S)) / 4
    assert found["promise and rest"] == pytest.approx([40, *(x + rest for x in PROMISES_MBIT_S)])


def test_promises_are_kept_and_the_rest_takes_nothing_from_best_effort():
    alone, both = (packets(kind=kind, seconds=10, seed=3) for kind in KINDS[2:])
    for rate, promise in zip(both["elephants_mbit_s"], PROMISES_MBIT_S, strict=True):
        assert rate > promise
    assert both["in_use"] > 0.99 > alone["in_use"]
    assert both["lost_percent"] == pytest.approx(alone["lost_percent"], abs=0.1)
    headroom = packets(kind="SH", seconds=10, seed=3)
    assert headroom["lost_percent"] == 0


def test_a_promise_that_is_not_kept_makes_the_row_differ():
    found = [point.run(**{**point.arguments, "seconds": 5}) for point in ROW.points(True)[:-1]]
    found.append(fluid())
    assert ROW.judge(found).verdict == Verdict.OURS
    found[3] = {**found[3], "elephants_mbit_s": [20.0, 12.0, 5.0, 5.0]}
    assert ROW.judge(found).verdict == Verdict.DIFFERS
