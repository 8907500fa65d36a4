"""Rows of work 001, chapter 4: what a run gives, and that verdicts follow what was obtained."""

import pytest

from studies.reproduction.catalogue import rows
from studies.works.row import Verdict
from studies.works.w001.ch4_shared_network import Cell, Size, compete, found, points


def run(foreground, background, *, lead_s=0, seconds=8):
    return compete(1, "FIFO", foreground, background, lead_s, 2, seconds, seed=1)


def test_a_mover_alone_fills_the_bottleneck_and_a_burst_takes_its_share():
    # 1448 of 1500 bytes are data.
    alone = run("iPerf", "none")
    assert sum(alone["foreground"]) == pytest.approx(500 * 1448 / 1500, rel=0.1)
    assert alone["background"] == []
    beside = run("iPerf", "UDP(1,1)")
    # Half of the time all of the link.
    assert beside["background"][0] == pytest.approx(250, rel=0.15)
    assert sum(beside["foreground"]) < 0.5 * sum(alone["foreground"])


def test_waves_are_connections_of_their_own_and_seeds_move_starts():
    waves = run("iPerf", "iPerf 2/1")
    assert len(waves["background"]) == 3
    again = compete(1, "FIFO", "iPerf", "iPerf 2/1", 0, 2, 8, seed=2)
    assert again["background"] != waves["background"]


def test_means_indices_and_intervals_are_those_of_the_runs():
    cell = Cell(1, "FIFO", "iPerf", "UDT")
    given = [
        {"foreground": [100.0], "background": [100.0], "series": [1.0]},
        {"foreground": [300.0], "background": [100.0], "series": [3.0]},
    ]
    one = found([cell], given)[cell]
    assert (one.foreground, one.background, one.series) == (200, 100, [2])
    # Jain's index: 1, and 400^2 / (2 * 10^5) = 0.8; t = 12.706 for two runs.
    assert one.jain == pytest.approx(0.9)
    assert one.spread == pytest.approx(12.706 * 0.1)
    assert len(points({cell: Size(10, (1, 2))})) == 2


PUBLISHED = {"iPerf": (253, 238), "GridFTP-16": (75.6, 415), "UDT": (85.3, 398)}


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        (lambda other: PUBLISHED.get(other, (200, 200)), Verdict.MATCHES),
        (lambda other: (200, 250) if other != "iPerf" else (300, 150), Verdict.TREND_HOLDS),
        (lambda other: (300, 150), Verdict.DIFFERS),
    ],
)
def test_the_table_is_judged_by_what_each_tool_takes(quick, rates, verdict):
    (row,) = rows(["001-tab-4.2"])
    given = [
        {
            "foreground": [rates(point.arguments["background"])[0]],
            "background": [rates(point.arguments["background"])[1]],
            "series": [100.0] * 40,
        }
        for point in row.points(quick)
    ]
    assert row.judge(given).verdict == verdict


@pytest.mark.parametrize(
    ("id_", "kept", "verdict"),
    [
        ("001-fig-4.1a", {"UDP": {"GridFTP-16": 0.2, "UDT": 0.5}}, Verdict.TREND_HOLDS),
        ("001-fig-4.1a", {"UDP": {"GridFTP-16": 0.5, "UDT": 0.2}}, Verdict.DIFFERS),
        ("001-fig-4.1a", {"iPerf": {"UDT": 0.5}, "UDP": {"GridFTP-16": 0.2}}, Verdict.DIFFERS),
        ("001-fig-4.1b", {"UDP(1,1)": {"GridFTP-16": 0.1}}, Verdict.MATCHES),
        ("001-fig-4.1b", {"UDP(1,1)": {"GridFTP-16": 0.2}}, Verdict.TREND_HOLDS),
        ("001-fig-4.1b", {"UDP(1,1)": {"GridFTP-16": 0.6}}, Verdict.DIFFERS),
        ("001-fig-4.3", {"NFS": {"GridFTP-16": 0.95, "UDT": 0.95}}, Verdict.MATCHES),
        ("001-fig-4.3", {"NFS": {"iPerf": 0.1, "UDT": 0.4}}, Verdict.CANNOT_FOLLOW),
        # Tools of many connections keep no more than a single one does.
        ("001-fig-4.3", {"NFS": {"iPerf": 0.5, "UDT": 0.4}}, Verdict.DIFFERS),
        ("001-fig-4.5", {"BBR": {"iPerf": 0.05}}, Verdict.MATCHES),
        ("001-fig-4.5", {"BBR": {"iPerf": 0.3}}, Verdict.TREND_HOLDS),
        ("001-fig-4.5", {"BBR": {"iPerf": 0.6}}, Verdict.DIFFERS),
    ],
)
def test_the_figures_are_judged_by_what_is_kept(id_, kept, verdict):
    """`kept`: by beginning of the background's name and tool, of 480 Mbit/s; else 0.8 of it."""

    def rates(front, back):
        for beginning, tools in kept.items():
            if back.startswith(beginning) and front in tools:
                return 480 * tools[front], 300
            if front.startswith(beginning) and back in tools:
                return 300, 480 * tools[back]
        return 480 * (1 if back == "none" else 0.8 if back != front else 0.5), 240

    (row,) = rows([id_])
    given = []
    for point in row.points(True):
        front, back = point.arguments["foreground"], point.arguments["background"]
        mine, other = rates(front, back)
        given.append({"foreground": [mine], "background": [other], "series": [mine] * 9})
    assert row.judge(given).verdict == verdict
