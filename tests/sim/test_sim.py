"""The packet simulator through its Python face and the command line."""

import contextlib
import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from rig import WEIR

from weir import Time
from weir.cli import main
from weir.errors import BadInput
from weir.lab import load, parse
from weir.lab.addressing import plan
from weir.sim import Run, simulate
from weir.sim.compare import bars, compare, plot, read
from weir.sim.config import simulation_config
from weir.sim.run import run

SCENARIOS = Path(__file__).parents[2] / "scenarios"

DUMBBELL = """
[lab]
name = "small"
seed = 4
[hosts]
s1 = { congestion = "reno" }
s2 = {}
d1 = {}
d2 = {}
[routers]
r1 = {}
r2 = {}
[[link]]
name = "bottleneck"
ends = ["r1", "r2"]
rate = "20 Mbit/s"
delay = "10 ms"
queue = { limit = "50 packets" }
[[link]]
ends = ["s1", "r1"]
[[link]]
ends = ["s2", "r1"]
[[link]]
ends = ["d1", "r2"]
[[link]]
ends = ["d2", "r2"]
"""

TCP = """
[[traffic]]
name = "bulk"
kind = "iperf3"
from = "s1"
to = "d1"
streams = 2
stop = "20 s"
"""

UDP = """
[[traffic]]
name = "tone"
kind = "udp"
from = "s2"
to = "d2"
rate = "4 Mbit/s"
payload = "972 B"
stop = "10 s"
"""

PPBP = """
[[traffic]]
name = "bursts"
kind = "ppbp"
from = "s2"
to = "d2"
burst_rate = "2 Mbit/s"
burst_interval = "400 ms"
stop = "20 s"
"""


def link(result, name):
    return next(entry for entry in result["links"] if entry["name"] == name)


def test_tcp_of_a_scenario_fills_its_bottleneck():
    result = simulate(parse(DUMBBELL + TCP))
    [flow] = result["flows"]
    assert {stream["congestion"] for stream in flow["streams"]} == {"reno"}
    # 1448 of 1500 B are data; two seconds or so of slow start at most.
    assert flow["goodput_bps"] == pytest.approx(20e6 * 1448 / 1500, rel=0.03)
    forward = link(result, "bottleneck")["forward"]
    assert forward["utilisation"] == pytest.approx(1, abs=0.03)
    assert forward["dropped_queue"] == flow["lost_packets"] > 0
    # 50 packets of 1500 B wait for 30 ms at most.
    assert forward["classes"][0]["sojourn"]["max_ns"] <= 30_000_000
    assert result["jain_index"] > 0.8


@pytest.mark.parametrize(("options", "waits_ms"), [("", 60), (":target=20", 20)])
def test_a_control_has_the_options_that_a_scenario_names(options, waits_ms):
    # LEDBAT++ adds what it aims at to the delay of a path that it has to itself.
    control = TCP.replace("streams = 2", f'congestion = "ledbat{options}"')
    result = simulate(parse(DUMBBELL.replace("50 packets", "200 packets") + control))
    [waiting] = link(result, "bottleneck")["forward"]["classes"]
    assert waiting["sojourn"]["p50_ns"] == pytest.approx(waits_ms * 1e6, rel=0.1)


@pytest.mark.parametrize(
    ("host", "control"),
    [
        ('"dctcp"', "dctcp:growth-in-cwr=off,whole-segments=on"),
        # What is said of an option holds, whatever is so by default.
        (
            '"dctcp:whole-segments=off"',
            "dctcp:growth-in-cwr=off,whole-segments=on,whole-segments=off",
        ),
        ('"cubic:abe=0.85", ecn = true', "cubic:ecn=on,abe=0.85"),
        ('"bbr", ecn = true', "bbr"),
    ],
)
def test_options_join_those_that_a_host_has_anyway(host, control):
    scenario = parse(DUMBBELL.replace('"reno"', host) + TCP)
    [traffic] = simulation_config(scenario, Time("1 s"))["traffic"]
    assert traffic["application"]["tcp"]["congestion"] == control
    assert simulate(scenario)["flows"][0]["goodput_bps"] > 0


def test_a_constant_stream_arrives_as_it_was_sent():
    result = simulate(parse(DUMBBELL + UDP))
    [flow] = result["flows"]
    # 1000 B at 4 Mbit/s: one each 2 ms, the one due at the very end not.
    assert flow["sent_packets"] == 4999
    assert flow["goodput_bps"] == pytest.approx(4e6, rel=0.01)
    # 10 ms and 1000 B at 20 Mbit/s, to the nanosecond.
    assert flow["delay"]["max_ns"] == 10_400_000


def test_bursts_are_those_of_the_lab():
    # The mean of the process: bursts of 200 ms each 400 ms are half a burst at a time.
    scenario = parse(DUMBBELL + PPBP)
    first, second = simulate(scenario), simulate(scenario)
    assert first == second
    [flow] = first["flows"]
    assert 0.3e6 < flow["goodput_bps"] < 3e6


def test_two_processes_write_the_same_bytes(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(DUMBBELL + TCP + PPBP)
    for hash_seed in ("1", "2"):
        command = [WEIR, "sim", file, "--duration", "5 s"]
        keep = ["--out", tmp_path / hash_seed, "--capture", "s1", "--capture", "d2"]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        subprocess.run([*command, *keep], env=environment, check=True, capture_output=True)
    first, second = (sorted((tmp_path / seed).iterdir()) for seed in ("1", "2"))
    assert [path.name for path in first] == [
        "connections.parquet",
        "d2.pcapng",
        "queues.parquet",
        "result.json",
        "s1.pcapng",
    ]
    for one, other in zip(first, second, strict=True):
        assert one.name == other.name
        assert one.stat().st_size > 1_000
        assert one.read_bytes() == other.read_bytes(), one.name


def test_another_seed_is_another_run():
    scenario = parse(DUMBBELL + PPBP)
    assert simulate(scenario)["flows"] != run(Run(scenario, seed=5))["flows"]


def test_routes_are_those_of_the_lab():
    # Two ways from a to b: the lab's plan prefers the one of less delay, so does the simulator.
    text = """
    [hosts]
    a = {}
    b = {}
    [routers]
    fast = {}
    slow = {}
    """
    for via, delay in (("slow", "5 ms"), ("fast", "1 ms")):
        text += f"""
        [[link]]
        ends = ["a", "{via}"]
        rate = "10 Mbit/s"
        delay = "{delay}"
        [[link]]
        ends = ["{via}", "b"]
        rate = "10 Mbit/s"
        """
    text += """
    [[traffic]]
    kind = "udp"
    from = "a"
    to = "b"
    rate = "1 Mbit/s"
    stop = "1 s"
    """
    scenario = parse(text)
    assert plan(scenario).next_hops["a"]["b"].peer == "fast"
    result = simulate(scenario)
    assert link(result, "a-fast")["forward"]["packets_out"] > 80
    assert link(result, "a-slow")["forward"]["packets_out"] == 0


@pytest.mark.parametrize(
    "kind",
    [
        'kind = "udp"\nrate = "12 Mbit/s"',
        'kind = "ppbp"\nburst_rate = "12 Mbit/s"\nburst_interval = "20 ms"',
    ],
)
@pytest.mark.parametrize(("ecn", "marks"), [("", False), ("ect0", True), ("ect1", True)])
def test_datagrams_have_the_ecn_field_of_the_scenario(kind, ecn, marks):
    """As in the lab: what is capable of it is marked, the rest dropped."""
    text = f"""
    [hosts]
    a = {{}}
    b = {{}}
    [[link]]
    name = "line"
    ends = ["a", "b"]
    rate = "10 Mbit/s"
    queue = {{ discipline = "codel", ecn = true }}
    [[traffic]]
    from = "a"
    to = "b"
    stop = "2 s"
    {kind}
    """
    result = simulate(parse(text + (f'ecn = "{ecn}"' if ecn else "")))
    (queue,) = link(result, "line")["forward"]["classes"]
    assert (queue["marked"] > 0) == marks
    assert result["flows"][0]["marked_packets"] == queue["marked"]


@pytest.mark.skipif(not shutil.which("tcpdump"), reason="captures are read by tcpdump")
@pytest.mark.parametrize(
    ("option", "usual"),
    [("", 2), (", segmentation_offload = false", 2), (", segmentation_offload = true", 9)],
)
def test_a_host_with_segmentation_offload_sends_trains(tmp_path, option, usual):
    """1.2 of 96.5 Mbit/s of data in 1/1024 s are 9.8 segments; an acknowledgement is of two."""
    text = DUMBBELL.replace('"20 Mbit/s"', '"100 Mbit/s"').replace("50 packets", "200 packets")
    scenario = parse(text.replace('"reno"', f'"reno"{option}') + TCP.replace("streams = 2", ""))
    run(Run(scenario, Time("3 s"), out=tmp_path, captures=("s1",)))
    listing = ["tcpdump", "-nn", "-tt", "-r", tmp_path / "s1.pcapng", "tcp and greater 1000"]
    shown = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    instants = Counter(line.split()[0] for line in shown.splitlines())
    assert Counter(instants.values()).most_common(1)[0][0] == usual


def test_files_of_a_run(tmp_path):
    out = tmp_path / "run"
    order = Run(parse(DUMBBELL + TCP), Time("2 s"), out=out, captures=("s1",))
    result = run(order)
    assert json.loads((out / "result.json").read_text()) == result
    capture = out / "s1.pcapng"
    if shutil.which("tcpdump"):
        shown = subprocess.run(
            ["tcpdump", "-nn", "-r", capture, "tcp"], capture_output=True, text=True, check=True
        ).stdout
        syn = next(line for line in shown.splitlines() if "Flags [S]" in line)
        assert "mss 1448" in syn
        assert "sackOK" in syn
        assert "wscale" in syn
        assert "bad" not in shown


def test_traces_are_read_by_others_and_agree_with_the_result(tmp_path):
    result = run(Run(parse(DUMBBELL + TCP), Time("4 s"), out=tmp_path))
    connections, queues = tmp_path / "connections.parquet", tmp_path / "queues.parquet"
    [flow] = result["flows"]
    ends = duckdb.sql(
        f"select stream, window_bytes, srtt_ns, delivered_bytes from '{connections}' "
        f"where traffic = 'bulk' and time_ns = 4000000000 order by stream"
    ).fetchall()
    assert [row[:3] for row in ends] == [
        (number, stream["window_bytes"], stream["srtt_ns"])
        for number, stream in enumerate(flow["streams"])
    ]
    goodput = sum(row[3] for row in ends) * 8 / 4
    assert goodput == pytest.approx(sum(s["goodput_bps"] for s in flow["streams"]), rel=1e-9)
    # At 0, 10, ... 4000 ms: five links, both ways.
    assert duckdb.sql(f"select count(*) from '{queues}'").fetchall() == [(401 * 10,)]
    [looked] = duckdb.sql(
        f"select max(queue_packets), max(queue_bytes), avg(queue_bytes) from '{queues}' "
        f"where link = 'bottleneck' and way = 'forward'"
    ).fetchall()
    forward = link(result, "bottleneck")["forward"]
    assert looked[:2] == (50, forward["queue_bytes_max"])
    assert looked[2] == pytest.approx(forward["queue_bytes_mean"])
    [[flight]] = duckdb.sql(f"select max(in_flight_bytes) from '{connections}'").fetchall()
    assert 0 < flight <= 200_000  # a path of 50 kB and a queue of 75 kB, and what was lost


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (DUMBBELL, "no \\[\\[traffic\\]\\]"),
        (DUMBBELL + TCP.replace("streams = 2", 'congestion = "fast"'), '"fast" is not a cong'),
        (DUMBBELL.replace("reno", "reno:hystart=off") + TCP, 'reno has no option "hystart"'),
        (DUMBBELL + UDP.replace("972 B", "1473 B"), "packets of 1501 bytes"),
    ],
)
def test_what_cannot_be_simulated_is_refused(text, words):
    with pytest.raises(BadInput, match=words):
        simulate(parse(text))


def test_a_capture_needs_a_directory_and_a_node(tmp_path):
    scenario = parse(DUMBBELL + UDP)
    with pytest.raises(BadInput, match="--out"):
        run(Run(scenario, captures=("s1",)))
    with pytest.raises(BadInput, match='no node "x"'):
        run(Run(scenario, out=tmp_path, captures=("x",)))


def test_the_command_line_prints_tables_and_json(tmp_path, capsys):
    file = tmp_path / "small.toml"
    file.write_text(DUMBBELL + TCP + UDP)
    assert main(["sim", str(file), "--duration", "5 s", "--warmup", "1 s"]) == 0
    shown = capsys.readouterr().out
    assert "bulk" in shown
    assert "r1 → r2" in shown
    assert "Jain index" in shown
    assert main(["sim", str(file), "--duration", "5 s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["duration_ns"] == 5_000_000_000
    assert main(["sim", str(file), "--duration", "1 s", "--warmup", "2 s"]) == 2
    assert "a warm-up of 2 s leaves nothing of 1 s" in capsys.readouterr().err
    assert main(["sim", str(file), "--duration", "0 s"]) == 2
    assert "is nothing to simulate" in capsys.readouterr().err


def test_traffic_of_which_nothing_is_measured_is_warned_of(tmp_path, capsys):
    """Its goodput of 0 would else look like a measurement."""
    ended = DUMBBELL + TCP.replace("20 s", "3 s")
    warned = run(Run(parse(ended), Time("6 s"), Time("3 s")))["warnings"]
    ends = "it ends at 3 s, and what happens before 3 s is warm-up"
    assert warned == [f"bulk: nothing of it is measured, for {ends}"]
    late = DUMBBELL + TCP + 'start = "2 s"\n'
    [warning] = run(Run(parse(late), Time("2 s")))["warnings"]
    assert warning.startswith("bulk: nothing of it is measured, for it starts at 2 s")
    [warning] = run(Run(parse(ended), Time("6 s"), Time("2 s")))["warnings"]
    assert warning.startswith("the last traffic ends at 3 s") and "until 6 s" in warning
    assert run(Run(parse(ended), None, Time("2 s")))["warnings"] == []
    file = tmp_path / "ended.toml"
    file.write_text(ended)
    assert main(["sim", str(file), "--duration", "6 s", "--warmup", "3 s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == warned


@pytest.mark.parametrize(
    "name", ["background.toml", "dualq.toml", "home.toml", "two-hosts.toml", "wan.toml"]
)
def test_scenarios_of_the_lab_are_read(name):
    scenario = load(SCENARIOS / name)
    if scenario.traffic:
        assert run(Run(scenario, Time("1 s")))["flows"]
    else:
        with pytest.raises(BadInput, match="traffic"):
            simulate(scenario)


def test_two_results_are_compared(tmp_path, capsys):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text(json.dumps(run(Run(parse(DUMBBELL + TCP), Time("5 s")))))
    second.write_text(
        json.dumps(run(Run(parse(DUMBBELL.replace("20 M", "10 M") + TCP), Time("5 s"))))
    )
    image = tmp_path / "both.svg"
    assert main(["compare", str(first), str(second), "--plot", str(image), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    goodput = next(f for f in figures if f["quantity"].startswith("goodput"))
    assert goodput["subject"] == "bulk"
    assert goodput["ratio"] == pytest.approx(0.5, rel=0.1)
    assert image.read_text().count("<rect") == 1 + 2 * len(figures)  # and the ground
    assert main(["compare", str(first), str(second)]) == 0
    assert "bottleneck forward" in capsys.readouterr().out


def test_a_lab_and_the_simulator_are_compared():
    # The form of `weir lab run --json`.
    way = {
        "packets_in": 100,
        "dropped_queue": 2,
        "classes": [
            {
                "name": "all",
                "packets_out": 98,
                "marked": 0,
                "sojourn": {"p50_ns": 2e6, "p99_ns": 9e6},
            }
        ],
    }
    live = {
        "traffic": [{"name": "bulk", "received_rate_bps": 15e6, "retransmits": 7}],
        "links": [{"name": "bottleneck", "forward": way, "backward": way | {"packets_in": 0}}],
    }
    found = {
        (figure.subject, figure.quantity): figure.values
        for figure in compare(run(Run(parse(DUMBBELL + TCP), Time("5 s"))), live)
    }
    assert found["bulk", "goodput, Mbit/s"][1] == 15
    assert found["bottleneck forward", "dropped by the queue, %"][1] == 2
    assert found["bottleneck forward, all", "wait p99, ms"][1] == 9
    assert None not in found["bottleneck forward, all", "wait p50, ms"]


def test_what_classes_at_a_switch_drop_is_dropped_by_the_links_queue():
    """In a lab packets wait in the port before the link, in a simulation in the link's queue."""
    still = {"from": "s2", "to": "s1", "packets_in": 0, "dropped_queue": 0, "classes": []}
    core = {"name": "core", "backward": still}

    def result(packets, dropped, at_port):
        ways = core["backward"] | {"from": "s1", "packets_in": packets, "dropped_queue": dropped}
        classes = [{"name": name, "dropped": count} for name, count in at_port.items()]
        ports = [{"link": "core", "classes": classes}, {"link": "other", "classes": classes}]
        switches = [{"name": "s1", "ports": ports}, {"name": "s2", "ports": []}]
        return {"links": [core | {"forward": ways}], "switches": switches if at_port else []}

    lab, simulated = result(600, 0, {"promised": 100, "lower": 300}), result(1_000, 400, {})
    assert [(x.subject, x.quantity, x.values) for x in compare(lab, simulated)] == [
        ("core forward", "dropped by the queue, %", (40.0, 40.0))
    ]


def test_what_is_no_result_is_not_compared(tmp_path, capsys):
    file = tmp_path / "other.json"
    for text in ("{", "[]", '{"links": []}'):
        file.write_text(text)
        assert main(["compare", str(file), str(file)]) == 2
        assert "other.json" in capsys.readouterr().err


def places(value, path=()):
    """Every place in a result."""
    if path:
        yield path
    if isinstance(value, dict | list):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in inside:
            yield from places(item, (*path, key))


def test_a_result_that_is_not_whole_is_named_whatever_is_wrong_with_it(tmp_path, capsys):
    result = run(Run(parse(DUMBBELL + TCP + UDP), Time("100 ms")))
    result["links"] = result["links"][:1]
    file = tmp_path / "damaged.json"
    for path in places(result):
        for wrong in (None, [], {}, "x", -1, float("nan")):
            damaged = json.loads(json.dumps(result))
            *above, last = path
            place = damaged
            for key in above:
                place = place[key]
            place[last] = wrong
            file.write_text(json.dumps(damaged))
            with contextlib.suppress(BadInput):
                figures = compare(result, read(file))
                assert all(bars(figure) for figure in figures) and plot(figures, ("a", "b"))
    file.write_bytes(b"\xff")
    assert main(["compare", str(file), str(file)]) == 2
    file.write_text("[" * 100_000)
    assert main(["compare", str(file), str(file)]) == 2
    assert capsys.readouterr().err.count("damaged.json") == 2


def test_a_queue_under_study_that_cannot_fill_is_warned_of(tmp_path, capsys):
    studied = DUMBBELL.replace('limit = "50 packets"', 'discipline = "priority"')
    # Two greedy connections can fill it; 4 Mbit/s of UDP cannot fill 20 Mbit/s.
    assert run(Run(parse(studied + TCP), Time("1 s")))["warnings"] == []
    [warning] = run(Run(parse(studied + UDP), Time("1 s")))["warnings"]
    assert warning.startswith("bottleneck forward: its priority queue cannot fill")
    assert "4 Mbit/s" in warning
    # Nor can anything that comes through a narrower link first.
    narrow = studied.replace('ends = ["s1", "r1"]', 'ends = ["s1", "r1"]\nrate = "15 Mbit/s"')
    assert len(run(Run(parse(narrow + TCP), Time("1 s")))["warnings"]) == 1
    file = tmp_path / "idle.toml"
    file.write_text(studied + UDP)
    assert main(["sim", str(file)]) == 0
    assert "WARNING" in capsys.readouterr().out
