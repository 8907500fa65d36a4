"""Applications of scenario files in the simulator, and runs under several seeds."""

import json
import re
import statistics
from pathlib import Path

import pytest

from weir import Time
from weir._core import simulate_packets
from weir.cli import main
from weir.errors import BadInput
from weir.lab import parse
from weir.lab.applications import KINDS
from weir.sim import Run, simulate
from weir.sim.compare import compare
from weir.sim.config import simulation_config
from weir.sim.run import run
from weir.sim.seeds import Seeds, read_seeds, run_seed, run_seeds, summary

SCENARIOS = Path(__file__).parents[2] / "scenarios"
REQUIRED = {
    "web": 'interval = "100 ms"',
    "pages": 'interval = "500 ms"',
    "messages": 'size = "100 B"\ninterval = "20 ms"',
}


def path(*traffic, queue="", rate="100 Mbit/s"):
    """Two hosts, 10 ms apart, and traffic from a to b for 4 s."""
    text = f"""
    [hosts]
    a = {{}}
    b = {{}}
    [[link]]
    name = "line"
    ends = ["a", "b"]
    rate = "{rate}"
    delay = "10 ms"
    {queue}
    """
    for lines in traffic:
        text += f'[[traffic]]\nfrom = "a"\nto = "b"\nstop = "4 s"\n{lines}\n'
    return text


def of(kind, *more):
    return "\n".join([f'kind = "{kind}"', REQUIRED.get(kind, ""), *more])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_delivers_and_measures(kind):
    [flow] = simulate(parse(path(of(kind))))["flows"]
    assert flow["kind"] == kind
    assert flow["delivered_bytes"] > 0
    assert flow["application"]["measure"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_core_has_the_defaults_of_the_file(kind):
    # The core told them; left out, the same bytes must come of it.
    config = simulation_config(parse(path(of(kind))), Time("2 s"))
    whole = simulate_packets(json.dumps(config))
    application = config["traffic"][0]["application"]
    for parameter in KINDS[kind].parameters.values():
        if parameter.default is not None:
            del application[parameter.core]
    assert simulate_packets(json.dumps(config)) == whole


def test_pages_wait_behind_a_download_and_not_in_a_fair_queue():
    download = 'kind = "iperf3"\nname = "download"'
    pages = of("pages", 'interval = "300 ms"').replace(REQUIRED["pages"], "")
    first, second = (
        run(Run(parse(path(download, pages, queue=queue, rate="20 Mbit/s")), seed=3))
        for queue in ('queue = { limit = "200 ms" }', 'queue = { discipline = "fq-codel" }')
    )
    values = {(f.subject, f.quantity): f.values for f in compare(first, second)}
    behind, beside = values["pages-2", "page load p50, ms"]
    assert behind > 2 * beside > 0


def test_ecn_is_asked_for_by_the_host_that_opens():
    queue = 'queue = { discipline = "codel", ecn = true }'
    text = path(of("web", 'smallest = "500 kB"'), queue=queue, rate="10 Mbit/s")
    plain, asked = (
        run(Run(parse(text.replace("b = {}", f"b = {{ {ecn} }}"))))["flows"][0]
        for ecn in ("", "ecn = true")
    )
    assert plain["marked_packets"] == 0 < asked["marked_packets"]


def test_applications_that_cannot_fill_a_queue_under_study_are_warned_of():
    queue = 'queue = { discipline = "dual-pi2" }'

    def warnings(*traffic, rate="40 Mbit/s"):
        return run(Run(parse(path(*traffic, queue=queue, rate=rate)), Time("1 s")))["warnings"]

    # 8 Mbit/s of frames, 60 kbit/s of messages and a game beside them do not fill 40 Mbit/s.
    thin = (of("piv"), of("messages"), of("game", "clients = 2"))
    [warning] = warnings(*thin)
    assert warning.startswith("line forward: its dual-pi2 queue cannot fill")
    assert warnings(*thin, rate="8 Mbit/s") == []
    # Four replies of 10 kB, in 7 packets with 52 B of headers each, in 25 ms.
    calls = of("rpc", "concurrency = 4", 'reply = "10 kB"', 'service = "5 ms"')
    assert "13265.92 kbit/s" in warnings(calls)[0]
    assert warnings(calls, rate="10 Mbit/s") == []
    for kind in ("web", "pages", "video"):
        assert warnings(of(kind), *thin) == []


def test_the_home_of_the_scenarios_runs(capsys):
    assert main(["sim", str(SCENARIOS / "home.toml"), "--duration", "6 s"]) == 0
    shown = capsys.readouterr().out
    assert "page load p50" in shown
    assert "message delay p99" in shown
    # A value stands before its unit.
    assert re.search(r"page load p50 [\d.]+ ms, page load p99 [\d.]+ ms$", shown, re.M)
    assert re.search(r"video rate [\d.]+ Mbit/s, .* stalled \d\S* s$", shown, re.M)
    assert "WARNING" not in shown


def test_lists_of_seeds_are_read_and_wrong_ones_refused():
    assert read_seeds("1-5") == [1, 2, 3, 4, 5]
    assert read_seeds("7, 1-2") == [7, 1, 2]
    for wrong in ("", "a", "1-", "3-1", "1,1", "0-99999", "1-2-3"):
        with pytest.raises(BadInput, match="--seeds"):
            read_seeds(wrong)


def test_no_seeds_are_not_the_scenarios_own(tmp_path, capsys):
    """One run under another seed was the answer."""
    (tmp_path / "one.toml").write_text(path(of("web")))
    assert main(["sim", str(tmp_path / "one.toml"), "--seeds", ""]) == 2
    assert "--seeds" in capsys.readouterr().err


def test_seeds_give_means_and_intervals_and_processes_change_nothing(tmp_path):
    file = tmp_path / "two.toml"
    file.write_text(path(of("web", 'interval = "20 ms"').replace(REQUIRED["web"], "")))
    answer = run_seeds(Seeds(file, [1, 2, 3], workers=2))
    alone = [run_seed(file.read_text(), "two", None, 0, seed) for seed in (1, 2, 3)]
    assert answer["quantities"] == summary(alone)
    rates = [result["flows"][0]["goodput_bps"] / 1e6 for result in alone]
    found = next(q for q in answer["quantities"] if q["quantity"] == "goodput, Mbit/s")
    assert found["values"] == rates
    assert found["mean"] == pytest.approx(statistics.mean(rates))
    # Student's t of two degrees of freedom at 97.5 %: 4.303.
    half = 4.3027 * statistics.stdev(rates) / 3**0.5
    assert found["interval"] == pytest.approx(half, rel=1e-4)


def test_the_command_line_takes_seeds(tmp_path, capsys):
    file = tmp_path / "calls.toml"
    file.write_text(path(of("rpc")))
    assert main(["sim", str(file), "--seeds", "1-2", "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert "2 seeds" in shown
    assert "calls per s" in shown
    for wrong in (
        ["--seeds", "2-1"],
        ["--seeds", "1-2", "--workers", "0"],
        ["--seeds", "1-2", "--scheduler", "nowhere"],
        ["--seeds", "1-2", "--out", str(tmp_path)],
        ["--workers", "2"],
    ):
        assert main(["sim", str(file), *wrong]) == 2, wrong
    file.write_text(path(of("rpc", "knd = 1")))
    assert main(["sim", str(file), "--seeds", "1-2"]) == 2
    assert "knd is not a key here" in capsys.readouterr().err


def test_a_quantity_that_does_not_vary_has_no_interval_and_one_run_none():
    result = simulate(parse(path(of("messages"))))
    for runs, half in (([result], None), ([result] * 3, 0.0)):
        assert {quantity["interval"] for quantity in summary(runs)} == {half}


@pytest.mark.parametrize(
    ("traffic", "count"),
    [
        ('kind = "pages"\ninterval = "9 min"', "pages loaded"),
        ('kind = "messages"\nsize = "60 MB"\ninterval = "1 s"', "messages received"),
        (of("web", 'smallest = "60 MB"', 'largest = "61 MB"'), "requests completed"),
    ],
    ids=["pages", "messages", "web"],
)
def test_what_never_came_to_its_end_took_no_time_of_nought(tmp_path, capsys, traffic, count):
    """Nothing arrived, and did so within 0 ms: so it was shown, compared and put into means."""
    (tmp_path / "none.toml").write_text(path(traffic, rate="1 Mbit/s"))
    result = simulate(parse(path(traffic, rate="1 Mbit/s")))
    found = compare(result, result)
    assert {
        one.quantity for one in found if one.subject.startswith(result["flows"][0]["name"])
    } == {
        "goodput, Mbit/s",
        count,
    }
    assert main(["sim", str(tmp_path / "none.toml")]) == 0
    assert f": {count} 0\n" in capsys.readouterr().out


def test_a_connection_without_a_round_trip_shows_none(tmp_path, capsys):
    file = tmp_path / "lost.toml"
    file.write_text(path('kind = "iperf3"', queue='loss = "100 %"'))
    assert main(["sim", str(file)]) == 0
    shown = next(line for line in capsys.readouterr().out.splitlines() if "iperf3-1" in line)
    assert "ms" not in shown and "0 bit/s" in shown
