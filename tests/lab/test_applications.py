"""Applications between the lab's hosts, by the kernel's TCP: what closed forms say of a path."""

import json

import pytest
from rig import until

from weir.lab import parse
from weir.sim import simulate

HOSTS = """
[lab]
name = "apps"
[hosts]
a = {}
b = {}
[[link]]
ends = ["a", "b"]
rate = "200 Mbit/s"
delay = "10 ms"
"""


def traffic(kind, lines="", name=None):
    named = f'name = "{name}"\n' if name else ""
    return f"""
[[traffic]]
kind = "{kind}"
from = "a"
to = "b"
stop = "3 s"
{named}{lines}
"""


EVERY = HOSTS + "".join(
    [
        traffic("web", 'interval = "50 ms"\nsmallest = "10 kB"\nlargest = "10 kB"'),
        traffic(
            "pages",
            'interval = "300 ms"\nroot = "10 kB"\nobjects = 8\nconnections = 2\n'
            'smallest = "4 kB"\nlargest = "4 kB"\ndscp = "AF41"',
        ),
        traffic("video"),
        traffic("messages", 'size = "100 B"\ninterval = "20 ms"'),
        traffic("messages", 'size = "15 kB"\ninterval = "200 ms"\nfrom_end = true', "bursts"),
        traffic("game", 'think = "100 ms"\nclients = 4'),
        traffic("piv", 'rate = "4 Mbit/s"'),
        traffic("rpc", 'concurrency = 4\nreply = "1 kB"\nservice = "20 ms"\ncongestion = "reno"'),
    ]
)


def outcome(lab):
    """What each traffic of a lab found, by name, once all have ended."""

    def finished():
        flows = lab.status()["traffic"]
        return flows if all(f["state"] in ("done", "failed") for f in flows) else None

    flows = until(finished, timeout_s=60)
    assert [flow["state"] for flow in flows] == ["done"] * len(flows), flows
    assert not any(flow["failed_connections"] for flow in flows)
    return {flow["name"]: flow for flow in flows}


@pytest.mark.alone
def test_applications_measure_what_the_path_allows(lab_of, measured):
    def check():
        lab = lab_of(EVERY)
        seen = outcome(lab)
        lab.down()
        as_the_path_allows(seen)

    measured(check)


def as_the_path_allows(measured):
    # Quantiles are exact to 1/16; a busy machine adds some milliseconds, and takes none off.
    def p50_ms(name, key="time"):
        return measured[name]["application"][key]["p50_ns"] / 1e6

    # Handshake and one round: 40 ms.
    assert 38 <= p50_ms("web-1") < 55
    web = measured["web-1"]["application"]
    assert web["begun"] - web["completed"] <= 4
    # Root 40 ms; after m round trips more 2 m - 1 of 8 objects are there: 5 of them.
    assert 135 <= p50_ms("pages-2") < 175
    pages = measured["pages-2"]
    assert pages["received_bytes"] >= 42_000 * pages["application"]["completed"] > 0
    # The buffer fills at once: the first chunks come as fast as TCP goes.
    assert sum(measured["video-3"]["application"]["chunks"]) >= 10
    assert 9.6 <= p50_ms("messages-4") < 14
    ticks = measured["messages-4"]["application"]
    assert 140 <= ticks["written"] <= 151
    # 11 segments are one more than the first window: a round trip more, where that has not grown.
    assert 9.6 <= p50_ms("bursts") < 40
    # One each 200 ms, and what a burst takes, 10 ms at least: 15 in 3 s at most.
    assert 11 <= measured["bursts"]["application"]["written"] <= 15
    assert 9.6 <= p50_ms("game-6") < 14
    panorama = measured["piv-7"]["application"]
    assert 65 <= panorama["displayed"] <= 76
    assert 30 <= p50_ms("piv-7", "reaction") < 60
    # 4 calls at a time of 20 ms on the way and 20 ms of service.
    assert 85 < measured["rpc-8"]["application"]["per_s"] <= 100
    # One application, one seed: the same random numbers as in the simulator.
    simulated = {flow["name"]: flow["application"] for flow in simulate(parse(EVERY))["flows"]}
    for name in ("web-1", "pages-2"):
        assert abs(measured[name]["application"]["begun"] - simulated[name]["begun"]) <= 1, name


def test_a_traffics_own_control_is_that_of_both_ends_whatever_their_route_has(lab_of):
    """Each of the lab's routes has a control: CUBIC where nothing is said."""
    lines = ['size = "10 kB"\ninterval = "50 ms"', ""]
    kinds = ("messages", "video")  # one sends on what it opens, the other on what it accepts
    streams = [
        traffic(kind, f'{line}\ncongestion = "reno"').replace("3 s", "60 s")
        for kind, line in zip(kinds, lines, strict=True)
    ]
    lab = lab_of(HOSTS + "".join(streams))

    def controls(host):
        """By the port of its traffic: what a connection has as well before it was given its own."""
        told = lab.run(host, ["ss", "-tinHO"], capture_output=True, text=True).stdout
        return {
            (place.rpartition(":")[2], control)
            for _, _, _, *places, control in (line.split()[:6] for line in told.splitlines())
            for place in places
            if place.endswith((":20001", ":20002"))
        }

    for host in ("a", "b"):
        assert until(lambda host=host: controls(host) == {("20001", "reno"), ("20002", "reno")})


def test_each_request_is_kept_with_its_size_and_how_long_it_took(lab_of):
    lines = 'interval = "20 ms"\nsmallest = "3 kB"\nlargest = "60 kB"'
    lab = lab_of(HOSTS + traffic("web", lines) + traffic("rpc", 'reply = "1 kB"'))
    measured = {flow["name"]: flow for flow in lab.finish()["traffic"]}
    requests = lab.requests("web-1")
    web = measured["web-1"]
    assert len(requests) == web["application"]["completed"] > 10
    begun, sizes, took = zip(*requests, strict=True)
    assert 0 <= min(begun) <= max(begun) < 3e9
    assert 3_000 <= min(sizes) < max(sizes) <= 60_000
    # What was under way at the end has arrived in part.
    under_way = web["application"]["begun"] - len(requests)
    assert 0 <= web["received_bytes"] - sum(sizes) <= 60_000 * under_way
    # Handshake and one round at least.
    assert min(took) >= 38e6
    median = sorted(took)[len(took) // 2]
    assert abs(web["application"]["time"]["p50_ns"] - median) < median / 8
    assert lab.requests("rpc-2") == []


def test_one_command_runs_an_application_and_one_without_a_control_is_refused(
    lab_of, weir, tmp_path
):
    file = tmp_path / "one.toml"
    file.write_text(HOSTS + traffic("rpc", 'reply = "1 kB"').replace("3 s", "500 ms"))
    done = weir("lab", "run", file, "--json")
    assert done.returncode == 0, done.stderr
    [flow] = json.loads(done.stdout)["traffic"]
    assert flow["kind"] == "rpc"
    assert flow["application"]["answered"] > 0
    file.write_text(HOSTS + traffic("rpc", 'congestion = "none_such"'))
    refused = weir("lab", "run", file)
    assert refused.returncode == 3
    assert "none_such" in refused.stderr
