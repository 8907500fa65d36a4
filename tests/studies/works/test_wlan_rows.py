"""Rows of work 003's chapter 4: video and a game in a wireless cell, simulated and in a lab."""

import copy
from functools import cache

import pytest

from studies.works.row import Verdict
from studies.works.w003 import ch4_queues_live, ch4_wlan_live
from studies.works.w003.ch4_wlan import BUFFERS, ROWS, WAYS, WINDOW_SEGMENTS, cell, delay_ms

BY_ID = {row.id: row for row in ROWS}
GOOD = {Verdict.MATCHES, Verdict.TREND_HOLDS, Verdict.CANNOT_FOLLOW}


@cache
def run(way, clients=4, buffer=100):
    return cell(clients=clients, way=way, buffer=buffer, seconds=10, seed=3)


def small(row):
    """The results of the row's reduced size, with a few seconds each."""
    return [cell(**{**point.arguments, "seconds": 5}) for point in row.points(True)]


@pytest.mark.parametrize(
    ("clients", "mbit", "round_trip_ms"),
    [(1, 5, 4.93), (2, 5, 9.86), (3, 5, 14.78), (4, 5, 19.71), (2, 5.07, 9.7), (4, 3.92, 25.1)],
)
def test_the_delay_of_two_segments_is_that_of_the_specification(clients, mbit, round_trip_ms):
    """T-C1: (4.4), and (4.3): two segments each overflow no buffer that is looked at."""
    assert delay_ms(clients, mbit * 1e6) == pytest.approx(round_trip_ms, abs=0.06)
    # (4.5): what a connection gets is its part of what the access point serves, less headers.
    each_bps = WINDOW_SEGMENTS * 1460 * 8 / (delay_ms(clients, mbit * 1e6) / 1e3)
    assert each_bps == pytest.approx(0.948 * mbit * 1e6 / clients, rel=1e-3)
    assert min(BUFFERS) - 2 * clients * WINDOW_SEGMENTS > 0


@pytest.mark.parametrize("clients", [1, 2, 4])
def test_clamped_connections_have_the_delay_that_littles_law_gives(clients):
    got = cell(clients=clients, way="proposed, video alone", buffer=50, seconds=10, seed=1)
    # What the cell carries of segments and their acknowledgements.
    service_bps = sum(got["video_kbps"]) * 1e3 * 1540 / 1448
    assert got["delay_ms"] == pytest.approx(delay_ms(clients, service_bps), rel=0.05)


def test_a_cell_of_802_11b_carries_what_its_frames_leave():
    """A segment and, for two of them, an acknowledgement, by the standard's own times."""
    got = cell(clients=1, way="proposed, video alone", buffer=50, seconds=10, seed=1)
    # DIFS 50, mean backoff 15.5 slots of 20, long preamble 192, ACK 14 B at 2 Mbit/s after SIFS 10.
    overhead = 50 + 310 + 192 + 10 + 192 + 56
    segment, answer = ((36 + size) * 8 / 11 for size in (1500, 52))
    foreseen = 2 * 1448 * 8 / (2 * (overhead + segment) + overhead + answer) * 1e3
    # Two stations count their backoff down together: the cell is a little faster, or they collide.
    assert got["video_kbps"][0] == pytest.approx(foreseen, rel=0.1)


def test_the_game_is_the_same_however_the_videos_are_sent():
    assert run("proposed")["game_kbps"] == pytest.approx([38.72] * 3, rel=0.02)
    assert run("traditional")["game_kbps"] == pytest.approx([38.72] * 3, rel=0.05)
    assert run("proposed, video alone")["ping_ms"] is None


def test_a_plain_queue_delays_the_game_by_what_it_holds():
    for buffer in (50, 100):
        got = run("traditional", buffer=buffer)
        per_packet = 1448 * 8 / sum(got["video_kbps"])
        # A ping waits in it twice, to the server and back; Reno keeps it half full at least.
        assert buffer * per_packet < got["ping_ms"] < 2.1 * buffer * per_packet
    assert run("proposed")["ping_ms"] < run("traditional")["ping_ms"] / 4
    assert run("fq-codel")["ping_ms"] < run("proposed")["ping_ms"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_each_row_judges_good_runs_well_and_spoilt_ones_as_different(row):
    found = small(row)
    assert row.judge(found).verdict in GOOD
    spoilt = copy.deepcopy(found)
    for point, result in zip(row.points(True), spoilt, strict=True):
        if point.arguments["way"].startswith("proposed"):
            result["video_kbps"][0] *= 0.1
            result["jain_by_second"] = [0.7] * 5
            result["delay_ms"] *= 2
            if result["ping_ms"]:
                result["ping_ms"] *= 10
                result["game_kbps"][0] *= 0.5
    assert row.judge(spoilt).verdict == Verdict.DIFFERS


def test_every_way_is_run():
    ways = {point.arguments["way"] for row in ROWS for point in row.points(False)}
    assert ways == set(WAYS)


[LIVE] = ch4_wlan_live.ROWS


def measured(*, clients, way, seconds, seed):
    """What both worlds may show of a cell that keeps what the row asks for."""
    is_plain = way == "plain"
    shown = {
        "video_kbps": [5_000 / clients] * clients,
        "jain_by_second": [0.99] * seconds[1],
        "delay_ms": 200.0 if is_plain else 20.0,
        "ping_ms": 250.0 if is_plain else 30.0,
    }
    live = shown | {"windows": [4, 120] if is_plain else [2, 2], "flaws": []}
    return {"cell": {"simulated": shown, "live": live}}


def changed(way, what, value):
    results = [measured(**point.arguments) for point in LIVE.points(False)]
    for point, result in zip(LIVE.points(False), results, strict=True):
        if point.arguments["way"] == way:
            result["cell"]["live"][what] = value(result["cell"]["live"][what])
    return results


def test_the_live_row_holds_where_both_worlds_agree():
    outcome = LIVE.judge(changed("plain", "ping_ms", float))
    assert outcome.verdict == Verdict.TREND_HOLDS
    assert "`ss`, from the first connection on: 2 segments, of the plain up to 120" in outcome.ours
    quick = [measured(**point.arguments) for point in LIVE.points(True)]
    assert LIVE.judge(quick).verdict == Verdict.TREND_HOLDS


@pytest.mark.parametrize(
    ("way", "what", "value"),
    [
        ("plain", "video_kbps", lambda rates: [0.88 * rate for rate in rates]),
        ("clamped", "video_kbps", lambda rates: [1.12 * rate for rate in rates]),
        ("clamped", "video_kbps", lambda rates: [rates[0] / 2, rates[0] * 3 / 2, *rates[2:]]),
        ("clamped", "ping_ms", lambda ms: 5 * ms),
        ("clamped", "windows", lambda _: [2, 10]),
        ("plain", "windows", lambda _: [2, 2]),
    ],
)
def test_the_live_row_can_say_that_it_differs(way, what, value):
    assert LIVE.judge(changed(way, what, value)).verdict == Verdict.DIFFERS


def test_a_lab_that_was_late_is_said():
    late = changed("plain", "flaws", lambda _: ["the emulator was late, 3.00 ms"])
    assert "the emulator was late" in LIVE.judge(late).reason


[QUEUES] = ch4_queues_live.ROWS


@pytest.mark.parametrize(
    ("live_ms", "verdict"), [([54, 17, 48], Verdict.OURS), ([54, 57, 48], Verdict.DIFFERS)]
)
def test_which_queue_has_the_lowest_ping_is_told_and_is_the_same_in_both_worlds(live_ms, verdict):
    ways = [point.arguments["way"] for point in QUEUES.points(False)]
    assert ways == ["windows", "fq-codel", "dual-pi2"]
    found = [measured(clients=4, way="clamped", seconds=(4, 12), seed=1) for _ in ways]
    for result, live, simulated in zip(found, live_ms, [57, 22, 51], strict=True):
        cell = result["cell"]
        cell["live"], cell["simulated"] = (
            {**cell[world], "ping_ms": ping_ms}
            for world, ping_ms in (("live", live), ("simulated", simulated))
        )
    outcome = QUEUES.judge(found)
    assert outcome.verdict == verdict
    assert "simulated fq-codel" in outcome.reason
