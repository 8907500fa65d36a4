"""Row 003-own-2.6-live: goodput of the kernel's flows, plain and joined, beside the simulator's."""

import pytest
from rig import lab_lacks

from studies.rig.joined import Seen
from studies.works.row import Verdict
from studies.works.w003.ch2_goodput_live import ROWS, VARIANTS, counted, goodput

(ROW,) = ROWS
RATE_BPS = 1_500_000


def found(plain, joined, simulated):
    """Results at the reduced size: 1 and 100 flows, the second as told."""
    shares = {"regular": (0.95, plain)} | dict.fromkeys(VARIANTS[1:], (0.95, joined))
    return [
        {"line": {"live": live, "simulated": beside}}
        for variant in VARIANTS
        for live, beside in zip(shares[variant], (0.95, simulated), strict=True)
    ]


@pytest.mark.parametrize(
    ("plain", "joined", "simulated", "verdict"),
    [
        (0.91, 0.95, 0.93, Verdict.TREND_HOLDS),
        (0.95, 0.91, 0.93, Verdict.DIFFERS),
        (0.91, 0.95, 0.85, Verdict.DIFFERS),
    ],
)
def test_it_holds_where_joining_gains_and_the_simulator_has_the_same(
    plain, joined, simulated, verdict, tmp_path
):
    results = found(plain, joined, simulated)
    assert ROW.judge(results).verdict == verdict
    ROW.plot(results, tmp_path / "plot.svg")
    assert "<svg" in (tmp_path / "plot.svg").read_text()


def test_what_is_counted_begins_with_the_data_and_not_with_the_names():
    full = RATE_BPS // 8
    seen = Seen([(0.0, {0: 4}), (1.0, {0: 4, 1: 4}), (2.0, {0: full, 1: 8})])
    assert counted(seen, 2, 2.0) is None
    seen.arrived.append((3.0, {0: full, 1: full}))
    assert counted(seen, 2, 2.0) == pytest.approx(1.0, abs=1e-4)
    assert counted(Seen(seen.arrived[:2]), 2, 0.5) is None


@pytest.mark.skipif(lab_lacks() is not None, reason=f"cannot run: {lab_lacks()}")
def test_joined_flows_of_the_kernel_arrive():
    line = goodput(variant="V2", flows=10, seconds=3, seed=1)["line"]
    assert 0.8 < line["live"] < 1448 / 1500
