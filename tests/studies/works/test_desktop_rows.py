"""Rows of work 000's chapter 5: judged on made-up runs, and the quick ones run."""

import itertools

import pytest

from studies.works.row import Verdict
from studies.works.w000 import (
    ch5_desktop_live,
    ch5_desktop_own_live,
    ch5_opinions,
    ch5_programs_live,
)
from studies.works.w000.ch5_desktop_live import LOSSES
from weir import Rate
from weir.lab.queues import DISCIPLINES, refusal
from weir.observe.desktop.capacity import Demand, loads

MODULES = (ch5_opinions, ch5_desktop_live, ch5_desktop_own_live, ch5_programs_live)
ROWS = {row.id: row for module in MODULES for row in module.ROWS}


def task(time, marker=0.02, frames=100, clip_bytes=10**6, server=6.0):
    return {
        "fresh_dut": time,
        "screen": time,
        "marker": marker,
        "server": server,
        "frames": frames,
        "clip_bytes": clip_bytes,
    }


def updates(times, markers=(0.02,) * 5):
    return [[task(time, one)] * 3 for time, one in zip(times, markers, strict=True)]


@pytest.mark.parametrize(
    ("times", "markers", "verdict"),
    [
        ((1, 1.02, 1.1, 1.3, 1.467), (0.02,) * 5, Verdict.MATCHES),
        ((1, 1.1, 1.5, 2.5, 4.0), (0.02,) * 5, Verdict.TREND_HOLDS),
        ((1, 1, 1, 1, 1), (0.02,) * 5, Verdict.DIFFERS),
        ((1, 1.02, 1.1, 1.3, 1.467), (0.02, 0.02, 0.02, 0.02, 0.2), Verdict.DIFFERS),
    ],
)
def test_pictures_are_judged_by_growth_and_by_the_servers_timer(times, markers, verdict, tmp_path):
    row = ROWS["000-fig-5.6"]
    found = updates(times, markers)
    assert row.judge(found).verdict == verdict
    row.plot(found, tmp_path / "plot.svg")
    assert "RT-Marker" in (tmp_path / "plot.svg").read_text()


def clips(frames, sizes):
    slow = [task(1.0, frames=12, clip_bytes=12 * 10_000, server=12.0)]
    played = zip(frames, sizes, strict=True)
    return [*([task(1.0, frames=count, clip_bytes=size)] for count, size in played), slow]


@pytest.mark.parametrize(
    ("name", "holds"),
    [("000-fig-5.9", Verdict.TREND_HOLDS), ("000-own-5.3-clip", Verdict.OURS)],
)
def test_video_is_judged_by_where_frames_are_lost(tmp_path, name, holds):
    row = ROWS[name]
    full = 143 * 10_000
    early = clips((140, 130, 70, 60, 40), (full, full, full // 2, full // 3, full // 4))
    assert len(row.points(True)) == len(early)
    outcome = row.judge(early)
    assert outcome.verdict == holds
    assert "23.3 at 0 %" in outcome.ours
    assert "quality 100 %" in outcome.ours
    row.plot(early, tmp_path / "plot.svg")
    late = clips((140, 140, 139, 100, 40), (full, full, full, full // 3, full // 4))
    assert row.judge(late).verdict == Verdict.DIFFERS
    busy = clips((70, 65, 35, 30, 20), (full, full, full // 2, full // 3, full // 4))
    assert row.judge(busy).verdict == Verdict.DIFFERS
    assert "no time" in row.judge(busy).reason


def test_calls_lose_quality_and_gain_distance(tmp_path):
    row = ROWS["000-fig-5.8"]
    found = [point.run(**point.arguments) for point in row.points(True)]
    outcome = row.judge(found)
    assert outcome.verdict in (Verdict.MATCHES, Verdict.TREND_HOLDS)
    row.plot(found, tmp_path / "plot.svg")
    assert row.judge(found[::-1]).verdict == Verdict.DIFFERS


@pytest.fixture(scope="module")
def draws():
    pytest.importorskip("statsmodels", reason="statsmodels is not installed: extra observe")
    return [point.run(**point.arguments) for point in ROWS["000-fig-5.11"].points(True)]


def test_counts_follow_from_stations():
    row = ROWS["000-tab-5.1"]
    (point,) = row.points(True)
    counts = point.run()
    assert row.judge([counts]).verdict == Verdict.MATCHES
    assert row.judge([counts | {"video": [66, 28, 38, 38, 27]}]).verdict == Verdict.DIFFERS


def test_planted_opinions_are_found(draws, tmp_path):
    row = ROWS["000-fig-5.10"]
    assert row.judge(draws).verdict == Verdict.CANNOT_FOLLOW
    lower = [run | {"video": run["images"]} for run in draws]
    assert row.judge(lower).verdict == Verdict.DIFFERS
    row.plot(draws, tmp_path / "plot.svg")
    for id_ in ("000-tab-5.2", "000-fig-5.11"):
        assert "raters" in ROWS[id_].judge(draws).reason


def test_differences_that_nobody_has_are_judged(draws):
    row = ROWS["000-fig-5.11"]

    def only_from_none(run):
        return {
            activity: one
            | {
                "honest": {
                    pair: [0.01 if activity == "video" or pair.startswith("0-") else 0.5, 0, 0]
                    for pair in one["honest"]
                }
            }
            for activity, one in run.items()
        }

    assert row.judge([only_from_none(run) for run in draws]).verdict == Verdict.MATCHES


def test_slopes_put_all_together(draws):
    row = ROWS["000-tab-5.3"]
    calls = [[1 + loss, 0.1 * loss, 5 - loss / 4] for loss in LOSSES for _ in range(4)]
    full = 143 * 10_000
    video = clips((140, 130, 70, 60, 40), (full, full, full // 2, full // 3, full // 4))
    times = updates((1, 1.1, 1.5, 2.5, 4.0))
    assert len([*times, *times, *video, *calls, *draws]) == len(row.points(True))
    assert row.judge([*times, *times, *video, *calls, *draws]).verdict == Verdict.TREND_HOLDS
    other = updates((4.0, 2.5, 1.5, 1.1, 1))
    assert row.judge([*other, *times, *video, *calls, *draws]).verdict == Verdict.DIFFERS


def seen(time, late=0.002, waited=0.0, server=0.02, size=10**5):
    return {
        "fresh_dut": time,
        "screen": time and time + late,
        "waited": waited,
        "server": server,
        "bytes": size,
    }


@pytest.mark.parametrize(
    ("late", "verdict"), [(0.002, Verdict.OURS), (0.03, Verdict.DIFFERS)], ids=["near", "late"]
)
def test_packets_are_judged_beside_the_pixels(late, verdict):
    row = ROWS["000-own-5.3-near"]
    found = [[seen(0.1, late, waited=0.02)] * 4 for _ in row.points(True)]
    outcome = row.judge(found)
    assert outcome.verdict == verdict
    machine = 20 if verdict == Verdict.DIFFERS else 0
    assert f"in {machine} its program had waited" in outcome.ours


def test_a_screen_that_stays_behind_is_a_result():
    row = ROWS["000-own-5.6-line"]
    points = row.points(True)
    slow = {"100 ms", "5 Mbit/s", "3 % lost"}
    later = {str(ch5_desktop_own_live._LINES[name]) for name in slow}
    times = [0.5 if str(one.arguments["setting"]) in later else 0.1 for one in points]
    found = [[seen(time)] * 6 for time in times]
    assert row.judge(found).verdict == Verdict.OURS
    found[1] = [seen(0.2) | {"screen": None}] * 2 + [seen(0.2)] * 4
    found[2] = [seen(None) | {"screen": None}] * 6
    outcome = row.judge(found)
    assert outcome.verdict == Verdict.OURS
    assert "25 ms 0.200 s (screen 0.202 s; 2 of 6 not within a minute)" in outcome.ours
    assert "100 ms never within a minute" in outcome.ours


def test_udp_grows_with_loss_and_the_servers_timer_does_not(tmp_path):
    row = ROWS["000-own-5.6-udp"]
    tcp, udp = (0.1, 0.11, 0.12, 0.2, 0.9), (0.1, 0.11, 0.12, 0.13, 0.2)
    found = [[seen(time)] * 6 for time in (*tcp, *udp)]
    outcome = row.judge(found)
    assert outcome.verdict == Verdict.OURS
    assert "+100.0 %" in outcome.ours
    row.plot(found, tmp_path / "plot.svg")
    other = [*found]
    other[4] = [seen(0.9, server=0.2)] * 6
    assert row.judge(other).verdict == Verdict.DIFFERS
    other[4] = [seen(0.9, late=0.3)] * 6
    assert row.judge(other).verdict == Verdict.DIFFERS
    assert row.judge(found[5:] + found[:5]).verdict == Verdict.DIFFERS


def test_lines_and_queues_are_judged_by_what_makes_a_picture_late():
    for id_, late in (("000-own-5.6-line", True), ("000-own-5.6-queues", False)):
        row = ROWS[id_]
        points = row.points(True)
        first = {"000-own-5.6-line": {}, "000-own-5.6-queues": {"queue": "fifo"}}[id_]
        rest = points[0].arguments["setting"] | first
        found = [
            [seen(0.1 if (one.arguments["setting"] == rest) == late else 0.5)] * 6 for one in points
        ]
        assert row.judge(found).verdict == Verdict.OURS
        assert row.judge([[seen(0.2)] * 6 for _ in points]).verdict == Verdict.DIFFERS


def test_every_discipline_is_tried():
    assert set(ch5_desktop_own_live.QUEUES) == set(DISCIPLINES)
    for one in ch5_desktop_own_live.QUEUES:
        queue = ch5_desktop_own_live.line({"queue": one, "rate": "20 Mbit/s"}).queue
        assert refusal(queue, Rate("20 Mbit/s")) is None


def test_calls_over_the_line_are_judged(tmp_path):
    row = ROWS["000-own-5.8-line"]
    found = [[[3 + at, 0.3 + at / 10, 4.5 - at / 5]] * 2 for at in range(len(row.points(True)))]
    assert row.judge(found).verdict == Verdict.OURS
    assert row.judge(found[::-1]).verdict == Verdict.DIFFERS
    row.plot(found, tmp_path / "plot.svg")


def test_many_desktops_are_beside_the_model_of_one(tmp_path):
    row = ROWS["000-own-5.9-desktops"]
    # 10 Mbit/s carry 10**5 bytes in 80 ms; with the server's 20 ms nothing is left of 100 ms.
    demand = Demand(0.02, 0.08, 0.0, 1.0)
    counts = [point.arguments["desktops"] for point in row.points(True)]
    modelled = {one.desktops: one.dut for one in itertools.islice(loads(demand), max(counts))}
    found = [[seen(modelled[count])] * 5 for count in counts]
    outcome = row.judge(found)
    assert outcome.verdict == Verdict.OURS
    assert "off by 0 %" in outcome.reason
    row.plot(found, tmp_path / "plot.svg")
    assert row.judge([*found[:-1], [seen(9.0)] * 5]).verdict == Verdict.DIFFERS


def with_programs(times, server=0.03, late=0.001, cut=0.0):
    return [
        [
            {
                "key": key,
                "patient_dut": time,
                "fresh_dut": time - cut,
                "screen": time + late,
                "server": server,
            }
            for key in "iippp"
        ]
        for time in times
    ]


@pytest.mark.parametrize("by", ["vnc", "rdp"])
def test_programs_are_judged_by_pixels_and_by_what_the_server_knows(tmp_path, by):
    row = ROWS["000-own-5.3-programs" if by == "vnc" else "000-own-5.3-programs-rdp"]
    assert len(row.points(True)) == len(ch5_programs_live.LOSSES)
    assert {one.arguments.get("protocol", "vnc") for one in row.points(True)} == {by}
    good = with_programs((0.1, 0.5, 2.0))
    outcome = row.judge(good)
    assert outcome.verdict == Verdict.OURS
    assert "15 of 15 updates" in outcome.ours
    assert "95 % of them within 1.0 ms; 15 with a GAP of 2 s" in outcome.ours
    row.plot(good, tmp_path / "plot.svg")
    assert "turn, screen" in (tmp_path / "plot.svg").read_text()
    assert "; 0 with a GAP of 2 s" in row.judge(with_programs((0.1, 0.5, 2.0), cut=0.05)).ours
    for other in (
        with_programs((0.1, 0.5, 2.0), late=0.1),
        with_programs((2.0, 0.5, 0.1)),
        good[:2] + with_programs((2.0,), server=1.9),
        [good[0], [one | {"screen": None} for one in good[1]], good[2]],
        [good[0], [one | {"patient_dut": None} for one in good[1]], good[2]],
        [[one | {"screen": None, "patient_dut": None} for one in run] for run in good],
    ):
        assert row.judge(other).verdict == Verdict.DIFFERS
