"""The row of Table 6.3: its judge, on the printed figures and on others."""

import xml.etree.ElementTree as ET

import pytest

from weir.ops.numbers import jain
from weir.reproduce.catalogue import ROWS
from weir.reproduce.choosing import PRINTED
from weir.reproduce.row import Verdict

(ROW,) = (row for row in ROWS if row.id == "001-tab-6.3")


def results(scale=1.0, cases=PRINTED, chosen=True, **replaced):
    made = []
    for (background, control), printed in cases.items():
        own, other = replaced.get(f"{background}_{control}", (printed.own, printed.background))
        made.append(
            {
                "own_mbps": [own * scale] * 4,
                "others_mbps": [other * scale] * 4,
                "jain_of_means": jain([own, other]),
                "mean_of_jain": jain([own, other]),
                "chosen": ["cubic"] if control == "auto" and chosen else [],
                "at_s": [1.5] if control == "auto" and chosen else [],
                "flaws": [],
            }
        )
    return made


def test_the_printed_figures_match_themselves():
    outcome = ROW.judge(results())
    assert outcome.verdict == Verdict.MATCHES
    assert "CUBIC beside chosen (cubic): 243 and 258 Mbit/s, Jain 1.00" in outcome.ours


@pytest.mark.parametrize(
    ("replaced", "verdict"),
    [
        ({"scale": 0.8}, Verdict.TREND_HOLDS),
        ({"BBR_auto": (140, 360)}, Verdict.DIFFERS),  # the chosen control is not fair
        ({"CUBIC_bbr": (260, 240)}, Verdict.DIFFERS),  # the wrong one is
    ],
)
def test_other_figures_are_judged_by_fairness(replaced, verdict):
    assert ROW.judge(results(**replaced)).verdict == verdict


def test_at_the_reduced_size_only_the_choice_is_judged():
    reduced = {case: printed for case, printed in PRINTED.items() if case[1] == "auto"}
    assert len(ROW.points(True)) == len(reduced) == 2
    assert ROW.judge(results(cases=reduced)).verdict == Verdict.TREND_HOLDS
    outcome = ROW.judge(results(cases=reduced, chosen=False))
    assert outcome.verdict == Verdict.DIFFERS
    assert "are too short for shares to settle" in outcome.reason


def test_the_plot_has_a_panel_for_each_case(tmp_path):
    ROW.plot(results(), tmp_path / "plot.svg")
    root = ET.parse(tmp_path / "plot.svg").getroot()
    assert len([one for one in root.iter() if one.tag.endswith("polyline")]) == 2 * len(PRINTED)
