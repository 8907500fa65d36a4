"""Rows of work 003's chapter 2: connections joined, linked acknowledgements, fairness."""

import pytest

from studies.works.row import Verdict
from studies.works.w003 import ch2_fairness, ch2_goodput, ch2_linked
from studies.works.w003.ch2_network import QUEUE, RECOVERY

ROWS = {row.id: row for module in (ch2_fairness, ch2_goodput, ch2_linked) for row in module.ROWS}


def goodput(variant, flows):
    found = ch2_goodput.goodput(
        variant=variant, flows=flows, queue=QUEUE, recovery=RECOVERY, seconds=60, seed=2
    )
    return found["goodput"]


def test_one_flow_fills_the_bottleneck_joined_or_not():
    # 1448 of 1514 bytes of a frame are data; joined, 4 of each 1448 may be a header. The rest is
    # the begin, up to 5 s late.
    for variant in ("regular", "V2"):
        assert 0.85 < goodput(variant, 1) < 1448 / 1514


def test_hundreds_of_flows_waste_what_they_do_not_if_joined():
    assert goodput("regular", 300) < goodput("V2", 300) - 0.03


def results(row, change=lambda result: result):
    """The row's own points at its reduced size, shorter."""
    shorter = {"seconds": 45}
    return [change(point.run(**{**point.arguments, **shorter})) for point in row.points(True)]


@pytest.mark.parametrize("id_", ["003-fig-2.7", "003-fig-2.8", "003-fig-2.9"])
def test_linked_legs_are_coupled(id_, tmp_path):
    row = ROWS[id_]
    found = results(row)
    assert row.judge(found).verdict == Verdict.MATCHES
    row.plot(found, tmp_path / "plot.svg")
    assert "<svg" in (tmp_path / "plot.svg").read_text()
    # The runs without linked acknowledgements in the place of those with them.
    half = len(found) // 2
    assert row.judge([*found[half:], *found[:half]]).verdict == Verdict.DIFFERS


def test_turns_are_fairer_than_cubic():
    found = results(ROWS["003-fig-2.14"])
    half = len(found) // 2
    assert ROWS["003-fig-2.14"].judge(found).verdict == Verdict.TREND_HOLDS
    assert ROWS["003-fig-2.12"].judge(found[:half]).verdict == Verdict.TREND_HOLDS
    assert ROWS["003-fig-2.13"].judge(found[half:]).verdict == Verdict.MATCHES
    assert ROWS["003-fig-2.13"].judge(found[:half]).verdict == Verdict.DIFFERS


def made_up(regular, joined):
    """Results of table 2.1 at its reduced size: two seeds for 1, 400 and 800 flows."""
    each = [("regular", regular), ("V1", regular), ("V2", joined), ("V3", joined)]
    return [{"goodput": share} for _, shares in each for share in shares for _ in range(2)]


@pytest.mark.parametrize(
    ("regular", "joined", "verdict"),
    [
        ((0.95, 0.87, 0.80), (0.95, 0.953, 0.953), Verdict.TREND_HOLDS),
        ((0.95, 0.95, 0.94), (0.95, 0.953, 0.953), Verdict.CANNOT_FOLLOW),
        ((0.95, 0.87, 0.80), (0.95, 0.953, 0.91), Verdict.DIFFERS),
        ((0.95, 0.87, 0.80), (0.935, 0.94, 0.95), Verdict.DIFFERS),
    ],
)
def test_table_2_1_is_judged_by_the_band_and_the_fall(regular, joined, verdict):
    assert ROWS["003-tab-2.1"].judge(made_up(regular, joined)).verdict == verdict


def test_the_choices_are_ours_while_they_say_what_table_2_1_stands_on():
    row = ROWS["003-own-2.6-choices"]

    def found(wasted, short=0.95):
        shares = {("regular", 800): 0.95, ("V2", 800): 0.953}
        lost = {("linux-3.18", 1000, "regular", 800): wasted, ("rack", 20, "regular", 800): short}
        settings = [
            tuple(point.arguments[name] for name in ("recovery", "queue", "variant", "flows"))
            for point in row.points(True)
        ]
        return [{"goodput": lost.get(one, shares.get(one[2:], 0.944))} for one in settings]

    assert row.judge(found(0.8)).verdict == Verdict.OURS
    assert row.judge(found(0.95)).verdict == Verdict.DIFFERS
    assert row.judge(found(0.8, short=0.9)).verdict == Verdict.DIFFERS
