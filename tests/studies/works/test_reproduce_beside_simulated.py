"""Live rows beside the simulator: the settings of the simulated rows, and what judges exclude."""

from contextlib import contextmanager
from itertools import product

import pytest

from studies.reproduction.catalogue import rows
from studies.rig import beside_simulated
from studies.rig.beside_simulated import simulated_again, through
from studies.works.row import Verdict
from studies.works.w000 import ch3_headroom_packets, ch3_headroom_packets_live
from studies.works.w001 import ch4_shared_network, ch4_shared_network_live
from studies.works.w004 import (
    ch3_streaming,
    ch3_streaming_live,
    ch3_web_objects,
    ch3_web_objects_live,
    ch4_interactive_live,
)
from weir import Time
from weir.lab import parse, queues
from weir.lab.scenario import Queue
from weir.runs.point import Point
from weir.sim.config import simulation_config
from weir.sim.traffic import Bulk, Tcp, generator_config

SIMULATED_LOADS = {"DualQ": "W1", "DualQ, smaller": "W1, smaller", "DualPI2": "Prague"}


def configured(scenario):
    return simulation_config(scenario, Time("5 s"))


def line(config, name="line"):
    (found,) = (link["forward"] for link in config["links"] if link["name"] == name)
    return found


@pytest.mark.parametrize(
    "queue", [Queue(), Queue("pie", parameters={"target": 20 * 10**6}), Queue("red", 100)], ids=str
)
def test_a_queue_before_a_link_is_as_the_scenarios_text_would_have_it(queue):
    words = {
        "fifo": 'discipline = "fifo"',
        "pie": 'discipline = "pie", target = "20 ms"',
        "red": 'discipline = "red", limit = "100 packets"',
    }
    text = """
[hosts]
a = {}
b = {}
[[link]]
name = "line"
ends = ["a", "b"]
rate = "500 kbit/s"
[[traffic]]
kind = "iperf3"
from = "a"
to = "b"
stop = "1 s"
"""
    named = text.replace("[[traffic]]", f"queue = {{ {words[queue.discipline]} }}\n[[traffic]]")
    assert through(queue, parse(text, "row")) == parse(named, "row")


@pytest.mark.parametrize("load", ch3_web_objects_live.LOADS)
def test_web_objects_meet_the_queue_and_have_the_sizes_of_the_simulated_row(load):
    _, classic, _ = ch3_web_objects_live.LOADS[load]
    config = configured(ch3_web_objects_live.scenario(load, seconds=5, seed=1))
    simulated = ch3_web_objects.LOADS[SIMULATED_LOADS[load]]
    assert line(config)["queue"] == queues.config(simulated.queue)
    assert line(config)["rate_bps"] == ch3_web_objects.LINE.rate_bps
    assert 2 * line(config)["delay_ns"] == ch3_web_objects.LINE.rtt_ns
    assert simulated.kinds[1] == classic
    for flow in config["traffic"]:
        load = ch3_web_objects.web_load(flow["name"], simulated.shape, 100.0)
        made = generator_config(load.generator)
        asked = flow["application"]
        assert {key: asked[key] for key in made if key != "tcp"} | {"tcp": made["tcp"]} == made


@pytest.mark.parametrize("name", ch3_streaming_live.EXPERIMENTS)
def test_video_meets_the_queue_and_the_flows_of_the_simulated_row(name, monkeypatch):
    made = {}
    monkeypatch.setattr(
        ch3_streaming_live,
        "beside_simulated",
        lambda scenarios, facts, at_once: made.update(scenarios),
    )
    ch3_streaming_live.stream(seconds=5, seed=1)
    config, simulated = configured(made[name]), ch3_streaming.EXPERIMENTS[name]
    assert line(config)["queue"] == queues.config(simulated.queue)
    assert line(config)["rate_bps"] == ch3_streaming.LINE.rate_bps
    assert 2 * line(config)["delay_ns"] == ch3_streaming.LINE.rtt_ns
    player, *flows = config["traffic"]
    asked = {key: player["application"][key] for key in ("samples", "caution", "of_both")}
    assert asked == {
        "samples": ch3_streaming.SAMPLES,
        "caution": ch3_streaming.CAUTION,
        "of_both": True,
    }
    streams = {flow["from"]: flow["application"]["streams"] for flow in flows}
    assert streams == dict(simulated.background)
    # The kernel's kin of the controls that it lacks.
    assert player["from"] == {"ctcp": "reno", "dctcp-windows": "dctcp"}[simulated.player]


def test_a_kept_run_is_simulated_again_without_a_lab(monkeypatch):
    def none(*args, **kwargs):
        raise AssertionError("a lab")

    monkeypatch.setattr(beside_simulated.Lab, "up", none)
    point = Point(ch4_interactive_live.through_each_queue, {"flows": 1, "seconds": 2, "seed": 1})
    kept = {
        name: {"live": {"share": 1.0}, "simulated": {"share": 7.0}, "flaws": ["late"]}
        for name in ch4_interactive_live.QUEUES
    }
    found = simulated_again(point, kept)
    assert found.keys() == kept.keys()
    text = ch4_interactive_live._SCENARIO.format(flows=1, seconds=2, seed=1)
    for name, queue in ch4_interactive_live.QUEUES.items():
        simulated = beside_simulated._simulated(through(queue, parse(text, "row")))
        expected = {**kept[name], "simulated": ch4_interactive_live._facts(simulated)}
        assert found[name] == expected
    # And the next run is of a lab.
    with pytest.raises(AssertionError, match="a lab"):
        point.run(**point.arguments)


@pytest.mark.parametrize("kept", [3, [1], "r", {}, {"DualQ": 1}, {"DualQ": {"live": 1}}])
def test_what_has_no_simulated_half_is_left_as_it_is(kept):
    def none(**arguments):
        raise AssertionError("run")

    assert simulated_again(Point(none, {}), kept) is kept


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        ({}, Verdict.MATCHES),
        ({"H2": 1427}, Verdict.TREND_HOLDS),
        ({"H3": 991, "H2": 1427}, Verdict.DIFFERS),
    ],
)
def test_video_has_the_level_that_was_on_for_longest(other, verdict):
    def levels(kbit_s):
        return [0.6 if level == kbit_s else 0.4 / 7 for level in ch3_streaming.LEVELS]

    simulated = {"levels": levels(230), "stalls": 0}
    run = {
        name: {
            "live": {"levels": levels(other.get(name, level)), "stalls": 0},
            "simulated": simulated,
            "flaws": [],
        }
        for name, level in ch3_streaming_live.STATED.items()
    }
    (row,) = rows(["004-own-3.6-live"])
    outcome = row.judge([run, run])
    assert outcome.verdict is verdict
    assert "(simulated 230, " in outcome.ours


def test_headroom_has_a_tenth_of_the_rates_and_buffers():
    services = ch3_headroom_packets_live.SERVICES
    assert set(services) == set(ch3_headroom_packets.QUEUES)
    text = ch3_headroom_packets_live._SCENARIO.format(
        burst_kbit_s=100, interval_us=500, seconds=5, seed=1, elephants=""
    )
    for service, queue in services.items():
        config = configured(through(queue, parse(text, service)))
        simulated = queues.config(ch3_headroom_packets.QUEUES[service])
        assert line(config)["queue"]["discipline"] == simulated["discipline"]
        limit = line(config)["queue"]["limit"]["packets"]
        assert 10 * limit == simulated["limit"]["packets"]
        assert 10 * line(config)["rate_bps"] == ch3_headroom_packets._GBIT_PER_S


@pytest.mark.parametrize("overlay", ch4_shared_network.RATES)
def test_the_shared_network_is_the_dumbbell_of_the_tables(overlay):
    streams = [ch4_shared_network_live.Streams("background", "bbr", 16, 0, 5000)]
    config = configured(ch4_shared_network_live.scenario(overlay, 1, streams))
    simulated = configured(ch4_shared_network.scenario(overlay, "FIFO", [], 1))
    assert line(config, "bottleneck") == line(simulated, "bottleneck")
    for mover, (congestion, streams) in ch4_shared_network_live.MOVERS.items():
        simulated = ch4_shared_network.MOVERS[mover]
        assert simulated == Bulk(Tcp(congestion), streams)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    ("best_effort", "headroom", "verdict"),
    [
        ([0.002, 0.003, 0.005, 0.009], 0.0, Verdict.TREND_HOLDS),
        ([0.009, 0.005, 0.003, 0.002], 0.0, Verdict.DIFFERS),
        ([0.002, 0.003, 0.005, 0.009], 0.001, Verdict.DIFFERS),
        ([0.0, 0.0, 0.0, 0.0], 0.0, Verdict.DIFFERS),
    ],
)
def test_headroom_keeps_all_and_best_effort_less_the_burstier(
    quick, best_effort, headroom, verdict
):
    (row,) = rows(["000-own-3.5-live"])
    loss = {
        burst_mbit_s: share
        for (burst_mbit_s, *_), share in zip(ch3_headroom_packets.BURSTS, best_effort, strict=True)
    }
    made = [
        {
            "best effort": {
                "live": loss[point.arguments["burst_mbit_s"]],
                "simulated": 0.01,
                "flaws": [],
            },
            "headroom": {"live": headroom, "simulated": 0.0, "flaws": ["the emulator was late"]},
        }
        for point in row.points(quick)
    ]
    outcome = row.judge(made)
    assert outcome.verdict == verdict
    assert "headroom: the emulator was late" in outcome.reason


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("id_", ["001-own-4.2-live", "001-own-4.3-live"])
@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        # Jain's indices of tables 4.2 and 4.3: 1 and 0.68, 0.99 and 0.64.
        ({"iPerf": (238, 253), "GridFTP-16": (738, 130), "BBR": (400, 40)}, Verdict.MATCHES),
        ({"iPerf": (238, 253), "GridFTP-16": (300, 200), "BBR": (400, 40)}, Verdict.TREND_HOLDS),
        ({"iPerf": (253, 238), "GridFTP-16": (200, 300), "BBR": (400, 40)}, Verdict.DIFFERS),
        ({"iPerf": (253, 238), "GridFTP-16": (415, 76), "BBR": (40, 400)}, Verdict.DIFFERS),
        ({"iPerf": (300, 100), "GridFTP-16": (415, 76), "BBR": (400, 40)}, Verdict.DIFFERS),
    ],
)
def test_sixteen_streams_and_bbr_are_greedy_and_one_stream_is_not(quick, id_, rates, verdict):
    (row,) = rows([id_])
    told = {
        mover: {"live": [back, front], "simulated": [back, front], "flaws": []}
        for mover, (back, front) in rates.items()
    }
    assert row.judge([told for _ in row.points(quick)]).verdict == verdict


def web_run(*, median=1.1, p95_ms=900.0, cluster_ms=240):
    bins = [0] * 50
    bins[1] = 900
    if cluster_ms:
        bins[cluster_ms // 20] = 100
    objects = {"count": 1000, "ratio": [median, 9.0], "ms": [30.0, p95_ms], "bins": bins}
    return {
        load: {
            "live": {"web": {"dctcp": objects, classic: objects}},
            "simulated": {"web": {"dctcp": objects, classic: objects}},
            "flaws": [],
        }
        for load, (_, classic, _) in ch3_web_objects_live.LOADS.items()
    }


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    ("wrong", "verdict"),
    [
        ({}, Verdict.TREND_HOLDS),
        ({"median": 1.6}, Verdict.DIFFERS),
        ({"p95_ms": 150.0}, Verdict.DIFFERS),
        ({"cluster_ms": 0}, Verdict.DIFFERS),
        ({"cluster_ms": 600}, Verdict.DIFFERS),
    ],
)
def test_timeouts_make_the_cluster_and_dctcp_is_near_the_least(quick, wrong, verdict):
    (row,) = rows(["004-own-3.23-live"])
    assert row.judge([web_run(**wrong) for _ in row.points(quick)]).verdict == verdict


def status(**flow):
    return {"headroom": {"bottleneck": False}, "traffic": [{"name": "web", "state": "done"} | flow]}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (status(), []),
        (status() | {"headroom": {"bottleneck": True}}, ["the emulator was late"]),
        (status(state="failed"), ["web failed"]),
        (status(stalled_s=0.05), []),
        (status(stalled_s=0.25), ["web was held up for 0.2 s"]),
    ],
)
def test_both_worlds_run_the_scenario_and_what_a_lab_should_not_be_believed_for_is_told(
    monkeypatch, found, told
):
    """The lab is not there, the simulator is."""
    sizes = [5_000, 70_000]

    class Lab:
        @contextmanager
        @staticmethod
        def up(scenario, name):
            assert scenario.traffic[0].name == "web"
            yield Lab()

        def finish(self):
            return dict(found)

        def requests(self, name):
            assert name == "web"
            return [(0, size, 1_000_000) for size in sizes]

    monkeypatch.setattr(beside_simulated, "Lab", Lab)
    text = """
[hosts]
a = {}
b = {}
[[link]]
ends = ["a", "b"]
rate = "100 Mbit/s"
delay = "5 ms"
[[traffic]]
name = "web"
kind = "web"
from = "a"
to = "b"
interval = "20 ms"
smallest = "3 kB"
largest = "3 kB"
stop = "2 s"
"""
    facts = beside_simulated.beside_simulated(
        {name: parse(text, name) for name in ("one", "two")},
        lambda result: result["requests"]["web"],
        at_once=2,
    )
    assert list(facts) == ["one", "two"]
    for fact in facts.values():
        assert fact["flaws"] == told
        assert fact["live"] == [(size, 1_000_000) for size in sizes]
        # Some hundred requests in 2 s, each of two round trips of 10 ms and what 3 kB take.
        assert 60 < len(fact["simulated"]) < 140
        assert {size for size, _ in fact["simulated"]} == {3_000}
        assert all(20e6 < took_ns < 30e6 for _, took_ns in fact["simulated"])


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    ("bbr", "verdict"), [(300.0, Verdict.TREND_HOLDS), (90.0, Verdict.DIFFERS)]
)
def test_bbr_depresses_cubic_in_every_mixture_or_it_differs(quick, bbr, verdict):
    (row,) = rows(["001-own-4.7-live"])
    rates = {"cubic": 100.0, "bbr": bbr}
    made = {
        name: {
            "live": [rates[control] for control in controls],
            "simulated": [1.0] * len(controls),
            "flaws": ["stream 0 failed"] if name == "2 BBR" else [],
        }
        for name, controls in ch4_shared_network_live.MIXES.items()
    }
    outcome = row.judge([made] * len(row.points(quick)))
    assert outcome.verdict == verdict
    assert f"CUBIC and 2 BBR 100/{bbr:.0f}/{bbr:.0f}, simulated 1/1/1" in outcome.ours
    assert "2 BBR: stream 0 failed" in outcome.reason


def sender(traffic):
    application = traffic["application"]
    return application["tcp"]["congestion"], application.get("streams", 1)


@pytest.mark.parametrize("seconds", [30, 120])
def test_waves_are_those_of_the_simulated_row_as_far_as_they_are_whole(seconds, monkeypatch):
    made = {}
    monkeypatch.setattr(
        ch4_shared_network_live,
        "beside_simulated",
        lambda scenarios, facts, at_once: made.update(scenarios),
    )
    ch4_shared_network_live.meet_waves(seconds=seconds, seed=1)
    assert list(made)[2:4] == ["CUBIC-16 beside CUBIC", "CUBIC-16 beside BBR"]
    for scenario, (mover, wave) in zip(
        made.values(), product(ch4_shared_network_live.MOVERS, ["iPerf", "BBR"]), strict=True
    ):
        *bursts, front = configured(scenario)["traffic"]
        assert sender(front) == ch4_shared_network_live.MOVERS[mover]
        assert front["stop_ns"] - front["start_ns"] == seconds * 1e9
        first_s = bursts[0]["start_ns"] / 1e9
        assert 4 < front["start_ns"] / 1e9 - first_s < 6
        simulated = list(ch4_shared_network._background(f"{wave} 10/10", 1, first_s, seconds + 5))
        whole = [each for each in simulated if each.stop.ns <= front["stop_ns"]]
        assert len(whole) >= seconds // 20
        for burst, expected in zip(bursts, whole, strict=True):
            assert burst["start_ns"] == expected.start.ns
            assert burst["stop_ns"] == expected.stop.ns
            assert Bulk(Tcp(sender(burst)[0]), sender(burst)[1]) == expected.generator


def test_what_bursts_and_the_mover_get_is_told_apart():
    flows = [{"goodput_bps": rate} for rate in (100e6, 200e6, 300e6)]
    assert ch4_shared_network_live._burst_rates({"flows": flows}) == [150.0, 300.0]


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    ("unlike", "verdict"),
    [
        ({}, Verdict.TREND_HOLDS),
        ({"CUBIC beside BBR": [100.0, 300.0]}, Verdict.DIFFERS),
        ({"BBR beside CUBIC": [300.0, 400.0]}, Verdict.DIFFERS),
    ],
)
def test_bbr_depresses_cubic_whichever_is_the_wave_or_it_differs(quick, unlike, verdict):
    (row,) = rows(["001-own-4.5-live"])
    rates = {
        "CUBIC beside CUBIC": [250.0, 150.0],
        "CUBIC beside BBR": [300.0, 50.0],
        "CUBIC-16 beside CUBIC": [20.0, 440.0],
        "CUBIC-16 beside BBR": [60.0, 400.0],
        "BBR beside CUBIC": [40.0, 450.0],
        "BBR beside BBR": [200.0, 330.0],
    } | unlike
    made = {
        name: {"live": of, "simulated": [1.0, 2.0], "flaws": ["late"] if "16" in name else []}
        for name, of in rates.items()
    }
    outcome = row.judge([made] * len(row.points(quick)))
    assert outcome.verdict == verdict
    assert "CUBIC-16 beside BBR 400/60, simulated 2/1" in outcome.ours
    assert "CUBIC-16 beside BBR: late" in outcome.reason
