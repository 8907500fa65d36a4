"""The conditions of 004-spec section 14.2 that belong to queues, video, web objects and games.

Bounds are the specification's; what the simulator does not meet is not here, but in
docs/validation-appendix.md. Runs are those of `weir reproduce`, shorter.
"""

import statistics

import pytest

from studies.rig.statistics import mean
from studies.works.w004 import ch2_games, ch3_streaming, ch3_web_objects, ch4_interactive


def _static(queue, scalable, classic, **more):
    return ch4_interactive.run(queue, scalable, classic, 40, 1, **more)


@pytest.mark.parametrize("queue", ["RED", "PIE"])
@pytest.mark.parametrize("flows", [(2, 2), (5, 5), (2, 8)])
def test_s1_dctcp_starves_cubic_on_one_queue(queue, flows):
    assert ch4_interactive.share(_static(queue, *flows)) < 0.25


def test_s3_pie_drops_where_it_should_mark():
    waits = _static("PIE", 10, 10)["queue"]["all"]
    assert waits["dropped"] > 0
    assert waits["marked"] < 0.01


def test_s5_fq_codel_shares_equally_but_for_collisions():
    apart = _static("FQ-CoDel", 5, 5)
    assert ch4_interactive.share(apart) == pytest.approx(1, abs=0.1)
    assert ch4_interactive.share(_static("FQ-CoDel, one queue", 1, 1)) < 0.25


def test_s6_dualq_shares_by_load_and_l4s_packets_do_not_wait():
    runs = [_static("DualQ", n, n) for n in (1, 2, 3, 4, 5)]
    ratios = [ch4_interactive.share(run) for run in runs]
    assert all(0.4 <= ratio <= 2.5 for ratio in ratios)
    assert ratios == sorted(ratios, reverse=True)
    assert all(run["queue"]["l4s"]["p99_ms"] < 2 for run in runs)


def test_s7_ten_flows_of_each_are_marked_always_and_send_two_segments():
    run = _static("DualQ", 10, 10)
    assert run["queue"]["l4s"]["marked"] > 0.9
    # Two segments a round trip of 7 ms and the L4S queue.
    floor = 2 * 1448 * 8 / (0.007 + run["queue"]["l4s"]["p50_ms"] / 1e3) / 1e6
    assert mean(run["scalable"]) == pytest.approx(floor, rel=0.15)


@pytest.mark.parametrize("rate", [10, 20])
@pytest.mark.parametrize("ecn", [False, True])
def test_cbr_keeps_its_rate_in_dualq_and_gets_an_equal_share_in_fq_codel(rate, ecn):
    left = ch4_interactive.cbr_left([_static("DualQ", 2, 2, cbr_mbit_s=rate, cbr_ecn=ecn)])
    assert left == pytest.approx(1, abs=0.15)
    kept = _static("FQ-CoDel", 2, 2, cbr_mbit_s=rate, cbr_ecn=ecn)["cbr"]
    assert kept == pytest.approx(8, rel=0.02)


@pytest.fixture(scope="module")
def video():
    """Experiments by name, each run once."""
    runs = {}
    return lambda name: runs.setdefault(name, ch3_streaming.run(name, 1))


@pytest.mark.parametrize(("name", "level"), [("H1", 1427), ("H3", 1427), ("H5", 1427)])
def test_the_level_that_is_on_for_longest(video, name, level):
    assert ch3_streaming.is_right(name, level, [video(name)])


def test_h_queues(video):
    runs = {name: [video(name)] for name in ("H1", "H2", "H3", "H5", "H6")}
    runs["H2"].append(ch3_streaming.run("H2", 2))
    assert ch3_streaming.h1_and_h2_waits(runs)
    assert ch3_streaming.red_waits({"H3": runs["H3"]})
    assert ch3_streaming.pie_and_fq_waits(runs)


def test_w1_dctcp_objects_are_near_the_least_and_renos_are_not():
    runs = [ch3_web_objects.run("W1", 120, 1)]
    assert ch3_web_objects.of_web(runs, "dctcp", "ratio", 0) < 1.5
    assert ch3_web_objects.of_web(runs, "reno", "ms", 1) > 200


def test_g2_and_g3_nagle_keeps_bundles_and_probes_away():
    on, off = ([ch2_games.play("baseline", nagle, 3600, 1)] for nagle in (True, False))
    assert ch2_games.again_ms(off, 0.95) < ch2_games.again_ms(on, 0.95)
    assert ch2_games.play("RITE", True, 300, 1)["bundles"] == 0


def test_g6_bundling_saves_half_of_the_retransmissions():
    seeds = range(1, 6)
    base, bundled = (
        [ch2_games.play(name, False, 3600, seed) for seed in seeds] for name in ("baseline", "RDB")
    )
    saved = ch2_games.saved(base, bundled)
    # Single runs differ by several points: the 95 % interval of five has to meet the range.
    half_width = 2.776 * statistics.stdev(saved) / 5**0.5
    assert half_width < 0.05
    assert mean(saved) + half_width >= 0.4 and mean(saved) - half_width <= 0.6


@pytest.mark.parametrize("interval_ms", [20, 50])
def test_g8_a_lost_message_is_late_by_the_formulas_of_the_model(interval_ms):
    plain, bundled = ch2_games.predicted_ms(interval_ms)
    for name, expected in (("baseline", plain), ("RDB", bundled)):
        assert ch2_games.lost_ms([ch2_games.emulate(name, interval_ms, 20, 1)]) == pytest.approx(
            expected, rel=0.05
        )
