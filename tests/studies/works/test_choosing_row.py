"""The rows of choosing: their judges, on the printed figures and on others."""

import xml.etree.ElementTree as ET

import pytest

from studies.reproduction.catalogue import ROWS
from studies.rig.statistics import margin
from studies.works.row import Verdict
from studies.works.w001.ch6_choosing import PRINTED
from studies.works.w001.ch6_choosing_runs import Runs
from weir.numbers import jain

TABLE, BARS, TURNS_30, TURNS = (
    next(row for row in ROWS if row.id == id_)
    for id_ in ("001-tab-6.3", "001-fig-6.9", "001-fig-7.9", "001-fig-7.10")
)


def run(own, other, *chosen, damaged=0):
    """A trial of four seconds, each like the others."""
    return {
        "own_mbps": [own] * 4,
        "others_mbps": [other] * 4,
        "jain_of_means": jain([own, other]),
        "mean_of_jain": jain([own, other]),
        "chosen": list(chosen),
        "at_s": [1.5] * len(chosen),
        "intact": 2,
        "damaged": damaged,
        "flaws": [],
    }


def given(point, run_of):
    """What a point would give, of runs by background and control."""
    case_ = {name: point.arguments[name] for name in ("background", "control")}
    return case_ | run_of(*case_.values())


def case(background, control, scale, chosen, replaced):
    # What is by chance has the mean of the two.
    both = [PRINTED[background, fixed] for fixed in ("cubic", "bbr")]
    means = sum(one.own for one in both) / 2, sum(one.background for one in both) / 2
    if printed := PRINTED.get((background, control)):
        means = printed.own, printed.background
    own, other = replaced.get(f"{background}_{control}", means)
    choice = ["cubic"] if control == "auto" and chosen else []
    return run(own * scale, other * scale, *choice)


def table(quick=False, scale=1.0, chosen=True, **replaced):
    """What the points of the table would give."""
    return [
        given(point, lambda *case_: case(*case_, scale, chosen, replaced))
        for point in TABLE.points(quick)
    ]


def test_the_printed_figures_match_themselves():
    outcome = TABLE.judge(table())
    assert outcome.verdict == Verdict.MATCHES
    assert "CUBIC beside chosen (cubic): 243 and 258 Mbit/s, Jain 1.00" in outcome.ours
    assert "CUBIC beside by chance: 164 and 364 Mbit/s" in outcome.ours
    assert "H8: 100 of 100 files" in outcome.ours
    assert outcome.interval == "chosen 258 ± 0, 221 ± 0 Mbit/s"
    # 001-spec 6.6 and 15: Jain's index of 62 and 474, of 465 and 49; 243 / 62 and 221 / 49.
    assert "H1 holds: Jain's index at most 0.63 of a mixed pair" in outcome.reason
    # The shares of 474 beside 62, and of 465 beside 49.
    assert "BBR has 88% of a pair with CUBIC that it comes second to, 90%" in outcome.reason
    assert "H4 holds" in outcome.reason
    assert "CUBIC 3.9 times, a file beside BBR 4.5 times" in outcome.reason


@pytest.mark.parametrize(
    ("replaced", "verdict", "criterion"),
    [
        ({"scale": 0.8}, Verdict.TREND_HOLDS, "H4 holds"),
        # The chosen control is not fair.
        ({"BBR_auto": (140, 360)}, Verdict.DIFFERS, "H4 does not hold"),
        # The wrong one is.
        ({"CUBIC_bbr": (260, 240)}, Verdict.DIFFERS, "H1 does not hold"),
    ],
)
def test_other_figures_are_judged_by_fairness(replaced, verdict, criterion):
    outcome = TABLE.judge(table(**replaced))
    assert outcome.verdict == verdict
    assert criterion in outcome.reason


def test_the_bars_are_judged_by_what_the_choice_gives():
    assert BARS.judge(table()).verdict == Verdict.TREND_HOLDS
    outcome = BARS.judge(table(BBR_auto=(100, 400)))
    assert outcome.verdict == Verdict.DIFFERS
    assert "a file beside BBR 2.0 times" in outcome.ours


@pytest.mark.parametrize("row", [TABLE, BARS])
def test_at_the_reduced_size_only_the_choice_is_judged(row):
    assert [point.arguments["control"] for point in row.points(True)] == ["auto"] * 2
    assert len(row.points(False)) == 5 * 2 * 5
    assert row.judge(table(quick=True)).verdict == Verdict.TREND_HOLDS
    outcome = row.judge(table(quick=True, chosen=False))
    assert outcome.verdict == Verdict.DIFFERS
    assert "are too short for shares to settle" in outcome.reason


@pytest.mark.parametrize("row", [TABLE, TURNS_30, TURNS])
def test_what_is_chosen_is_measured_apart_from_what_is_not(row):
    for point in row.points(False):
        is_chosen = point.arguments["control"] == "auto" or "OPS" in point.arguments["control"]
        assert is_chosen == (point.arguments["learned"] is not None)


def test_the_plot_has_a_panel_for_each_case(tmp_path):
    TABLE.plot(table(), tmp_path / "plot.svg")
    root = ET.parse(tmp_path / "plot.svg").getroot()
    assert len([one for one in root.iter() if one.tag.endswith("polyline")]) == 2 * 10


# What each control gets and leaves beside any background.
SHARES = {
    "cubic": (10, 80),
    "bbr": (70, 20),
    "oracle": (46, 46),
    "auto": (44, 48),
    "random-60": (40, 50),
    "OPS-60": (40, 50),
    "OPS-100": (42, 50),
    "OPS-200": (44, 50),
    "OPS-100 P1": (11, 80),
    "OPS-100 P2": (40, 50),
    "OPS-200 P2": (41, 50),
    "OPS-300 P2": (45, 48),
}


def turns(points, **replaced):
    """What the points would give."""
    return [
        given(point, lambda _, control: run(*replaced.get(control, SHARES[control])))
        for point in points
    ]


def test_both_figures_share_the_turns_of_30_s():
    of_30, of_all = (row.points(False) for row in (TURNS_30, TURNS))
    assert [point.arguments for point in of_all[:60]] == [point.arguments for point in of_30]
    assert len(of_all) == 5 * (12 + 3 * 6 + 2 * 5)
    reduced = [row.points(True)[0].arguments for row in (TURNS_30, TURNS)]
    assert reduced[0] == reduced[1]


def test_turns_are_judged_by_order_and_against_the_oracle():
    outcome = TURNS.judge(turns(TURNS.points(False)))
    assert outcome.verdict == Verdict.TREND_HOLDS
    assert "in 4 of 4 backgrounds in turns" in outcome.reason
    assert "H7 with P2 holds: OPS-100 P2 40.0 ± 0.0, OPS-200 P2 41.0 ± 0.0" in outcome.reason
    assert "passive, it holds: OPS-60 40.0 ± 0.0, OPS-100 42.0 ± 0.0" in outcome.reason
    assert "on 100 Mbit/s, 30 ms, 1 BDP, files of 120 s to 600 s" in outcome.reason
    assert "H6 holds: with P1 a file has 1.10 of what it has under CUBIC" in outcome.reason
    # 44 / 46, and 2 * 44 of 100 * 1448 / 1500; Jain's index of 44 and 48 is 0.998.
    assert "beside ALT-300 the chosen has 0.96 of the oracle's goodput" in outcome.reason
    assert (
        "beside CUBIC the chosen has 0.91 of an equal share's goodput (0.95 asked)"
        in outcome.reason
    )
    assert "with Jain's index 1.00 (0.96; 1.00 by interval): missed: goodput" in outcome.reason


@pytest.mark.parametrize(
    ("replaced", "verdict", "word"),
    [
        ({"auto": (71, 20)}, Verdict.DIFFERS, "H5 does not hold"),  # more than BBR gets
        ({"auto": (20, 70)}, Verdict.TREND_HOLDS, "missed: goodput and fairness"),
        ({"OPS-200": (39, 50)}, Verdict.TREND_HOLDS, "passive, it does not hold"),
        ({"OPS-300 P2": (39, 50)}, Verdict.TREND_HOLDS, "H7 with P2 does not hold"),
        ({"OPS-100 P1": (13, 80)}, Verdict.TREND_HOLDS, "H6 does not hold"),
        ({"OPS-100 P2": (9, 80)}, Verdict.DIFFERS, "H5 does not hold"),
        ({"cubic": (10, 80, "cubic")}, Verdict.TREND_HOLDS, "H8: 120 of 120 files"),
    ],
)
def test_what_is_missed_is_said(replaced, verdict, word):
    outcome = TURNS_30.judge(turns(TURNS_30.points(False), **replaced))
    assert outcome.verdict == verdict
    assert word in outcome.reason


@pytest.mark.parametrize(
    ("replaced", "verdict"),
    [
        ({"auto": (5, 80, "cubic")}, Verdict.TREND_HOLDS),
        ({}, Verdict.DIFFERS),  # nothing is chosen
        ({"auto": (5, 80, "cubic"), "cubic": (50, 40)}, Verdict.DIFFERS),
    ],
)
def test_at_the_reduced_size_only_the_order_of_the_others_is_judged(replaced, verdict):
    outcome = TURNS.judge(turns(TURNS.points(True), **replaced))
    assert outcome.verdict == verdict
    assert "only the order of CUBIC, the oracle and BBR is judged" in outcome.reason
    assert not outcome.interval


def test_turns_are_drawn_over_time_or_by_their_length(tmp_path):
    for row, quick, curves in ((TURNS_30, True, 2 * 4), (TURNS, False, 5)):
        row.plot(turns(row.points(quick)), tmp_path / "plot.svg")
        root = ET.parse(tmp_path / "plot.svg").getroot()
        assert len([one for one in root.iter() if one.tag.endswith("polyline")]) == curves


def test_a_margin_is_students():
    """Five values of 1 to 5: 2.776 * sqrt(2.5) / sqrt(5), from Student's table."""
    assert margin([1, 2, 3, 4, 5]) == pytest.approx(1.963, abs=1e-3)
    assert margin([7]) == 0
    assert margin([2, 4]) == pytest.approx(12.706, abs=1e-3)
    assert Runs.of([run(1, 2), run(3, 2)]).own == [1, 3]
