"""Migration plans that are carried out by a relay's weights (003-spec section 6)."""

import contextlib
import itertools
import json
import math
import socket
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig import until

from weir import Bytes, Rate, Time
from weir.errors import BadInput
from weir.migration import Link, Problem, Vm
from weir.migration.carry import WEIGHT_MOST, Carrier, in_small_numbers
from weir.relay import control

# 003-spec section 5.7: costs, memory, access links; 10 are shared. The steps in which greedy has
# each arrive are computed there, by another program.
CASES = {
    1: ((10, 8, 4), (40, 40, 40), (10, 10, 10), (4, 8, 12)),
    2: ((10, 10, 10), (30, 40, 50), (10, 10, 10), (3, 7, 12)),
    3: ((10, 10, 10), (40, 40, 40), (10, 8, 4), (4, 9, 17)),
    4: ((10, 8, 6), (40, 50, 30), (6, 8, 7), (7, 14, 8)),
}
UNIT = 1_000_000


def problem(case):
    """A worked case, with steps of 8 s: 1 Mbit/s carries 1 MB in one."""
    costs, sizes, access, _ = CASES[case]
    ends = [(f"v{i}", "left", f"{access[i]} Mbit/s") for i in range(3)]
    ends += [("left", "right", "10 Mbit/s")] + [("right", f"w{i}", "10 Mbit/s") for i in range(3)]
    links = tuple(Link(f"{a}-{b}", (a, b), Rate(rate)) for a, b, rate in ends)
    vms = tuple(
        Vm(
            f"h{i}",
            f"v{i}",
            f"w{i}",
            Bytes(f"{sizes[i]} MB"),
            (costs[i],),
            address=f"10.0.0.{i + 1}",
        )
        for i in range(3)
    )
    nodes = ("left", "right", *(f"{x}{i}" for x in "vw" for i in range(3)))
    return Problem(nodes, links, vms, Time("8 s"))


def by_weights(weights, access):
    """What each gets of 10 that are shared by weights, none more than its own link has."""
    rates = dict.fromkeys(weights, 0.0)
    left, able = 10.0, {x for x, weight in weights.items() if weight}
    while able and left > 1e-9:
        one = left / sum(weights[x] for x in able)
        full = {x for x in able if weights[x] * one >= access[x]}
        for x in full or able:
            rates[x] = access[x] if full else weights[x] * one
        left = 10.0 - sum(rates.values())
        able = able - full if full else set()
    return rates


def told(flows=(), ended=0, reasons=(), broken=None):
    """What a relay tells of itself."""
    broken = len(reasons) if broken is None else broken
    return {"flows": flows, "ended": ended, "broken": broken, "reasons": reasons}


class Relay:
    """Machines that send through a relay which shares 10 by weights, in small steps of time."""

    def __init__(self, carrier, case, comes=None):
        _, sizes, access, _ = CASES[case]
        self.carrier = carrier
        self.left = {f"10.0.0.{i + 1}": size * UNIT for i, size in enumerate(sizes)}
        self.access = {f"10.0.0.{i + 1}": rate for i, rate in enumerate(access)}
        self.sent = dict.fromkeys(self.left, 0.0)
        self.comes = comes or dict.fromkeys(self.left, 0.0)

    def status(self, now):
        flows = [
            {"client": f"{x}:4000", "bytes_sent": int(self.sent[x])}
            for x in self.left
            if self.left[x] > 0 and now >= self.comes[x]
        ]
        return told(flows, ended=sum(left <= 0 for left in self.left.values()))

    def run(self, step_s=8.0, tick=0.01):
        """Until all have arrived; the events."""
        events, weights, again = [], {}, 0.0
        for count in itertools.count():
            now = count * tick
            new = self.carrier.hear(self.status(now), now * step_s)
            events += new
            if new or now >= again:
                weights, again = dict(self.carrier.weights(now * step_s)), now + 1.0
            if self.carrier.is_over:
                return events
            here = {x: weights.get(x, 0) for x in self.left if self.left[x] > 0}
            here = {x: weight for x, weight in here.items() if now >= self.comes[x]}
            for x, rate in by_weights(here, self.access).items():
                self.sent[x] += rate * UNIT * tick
                self.left[x] -= rate * UNIT * tick


@pytest.mark.parametrize("case", CASES)
def test_machines_arrive_in_the_steps_of_the_plan(case):
    carrier = Carrier(problem(case))
    events = Relay(carrier, case).run()
    arrived = {event.vm: event.step for event in events if event.kind == "arrived"}
    assert len(arrived) == 3
    for vm, finish in zip(("h0", "h1", "h2"), CASES[case][3], strict=True):
        assert finish - 1 < arrived[vm] < 1.1 * finish, (vm, arrived[vm])


def test_who_comes_late_is_held_until_it_is_there():
    carrier = Carrier(problem(1))
    assert carrier.weights(0.0) == [(f"10.0.0.{i}", 0) for i in (1, 2, 3)]
    late = {"10.0.0.1": 2.0, "10.0.0.2": 0.0, "10.0.0.3": 0.0}
    events = Relay(carrier, 1, late).run()
    arrived = [event.vm for event in events if event.kind == "arrived"]
    steps = {event.vm: event.step for event in events if event.kind == "arrived"}
    assert arrived == ["h1", "h0", "h2"] or arrived == ["h0", "h1", "h2"]
    assert math.isclose(max(steps.values()), 12.0, abs_tol=0.2)  # nothing stands idle


def test_a_connection_that_breaks_has_not_arrived():
    carrier = Carrier(problem(1))
    flow = {"client": "10.0.0.1:4000", "bytes_sent": 39 * UNIT}
    assert [x.kind for x in carrier.hear(told([flow]), 0.0)] == ["come"]
    reasons = ["10.0.0.11:4000: it was reset", "10.0.0.1:4000: it was reset"]
    (event,) = carrier.hear(told(reasons=reasons), 1.0)
    assert (event.kind, event.vm, event.reason) == ("broken", "h0", reasons[1])
    assert not carrier.is_over
    assert dict(carrier.weights(2.0)).keys() == {"10.0.0.2", "10.0.0.3"}


def came(carrier, before):
    flows = [{"client": f"10.0.0.{i}:4000", "bytes_sent": 7} for i in (1, 2, 3)]
    assert [x.kind for x in carrier.hear({**before, "flows": flows}, 0.0)] == ["come"] * 3


def ends(carrier, status):
    return {event.vm: event.kind for event in carrier.hear(status, 1.0)}


def test_who_is_gone_has_arrived_only_where_the_relay_leaves_no_doubt():
    broken = {"h0": "broken", "h1": "broken", "h2": "broken"}
    # So many others broke before that the relay keeps the reasons of none of ours.
    carrier = Carrier(problem(1))
    came(carrier, told())
    others = [f"10.0.1.{i}:4000: it was reset" for i in range(32)]
    assert ends(carrier, told(reasons=others, broken=35)) == broken
    # The aggregate broke, and the last words are no connection's.
    carrier = Carrier(problem(1))
    came(carrier, told())
    words = ["10.0.0.1:4000: it was reset", "10.0.0.2:4000: it was reset", "it ended"]
    assert ends(carrier, told(reasons=words, broken=3)) == broken
    # A relay that was started anew knows nothing of those of the one before.
    carrier = Carrier(problem(1))
    came(carrier, told(ended=5))
    assert ends(carrier, told()) == broken
    # What was broken before it began is nobody's now, though it had the same port.
    carrier = Carrier(problem(1))
    before = ["10.0.0.1:4000: it was reset"]
    came(carrier, told(ended=9, reasons=before))
    arrived = {"h0": "arrived", "h1": "arrived", "h2": "arrived"}
    assert ends(carrier, told(ended=12, reasons=before)) == arrived
    # One of three, by name.
    carrier = Carrier(problem(1))
    came(carrier, told())
    assert ends(carrier, told(ended=2, reasons=before)) == arrived | {"h0": "broken"}


def test_several_connections_of_a_machine_count_together():
    carrier = Carrier(problem(1))
    flows = [{"client": f"[::ffff:10.0.0.1]:{4000 + i}", "bytes_sent": 20 * UNIT} for i in (0, 1)]
    carrier.hear(told(flows), 0.0)
    assert carrier.hear(told(flows[1:], ended=1), 1.0) == []
    (event,) = carrier.hear(told(ended=2), 2.0)
    assert (event.kind, event.bytes) == ("arrived", 40 * UNIT)


def test_whom_the_relay_cannot_tell_apart_is_refused():
    whole = problem(1)
    first, *others = whole.vms
    with pytest.raises(BadInput, match="h0 has no address"):
        Carrier(replace(whole, vms=(replace(first, address=""), *others)))
    with pytest.raises(BadInput, match="one address"):
        Carrier(replace(whole, vms=(replace(first, address="10.0.0.2"), *others)))
    with pytest.raises(BadInput, match="no plan"):
        Carrier(whole, "tcp")


def test_the_command_lets_the_dearer_machine_go_first(tmp_path):
    """`weir migrate run` beside real relays and connections: who is held sends nothing."""
    path = tmp_path / "join.sock"
    (tmp_path / "problem.toml").write_text(PROBLEM)
    with Servers() as servers:
        split = servers.relay("split", "--from", "127.0.0.1", "--to", f"127.0.0.1:{servers.port}")
        ends = ("--split", f"127.0.0.1:{split}", "--server", f"127.0.0.1:{servers.port}")
        port = servers.relay("join", *ends, "--control", path)
        until(lambda: control.ask(path, {})["is_connected"])
        run = servers.weir("migrate", "run", tmp_path / "problem.toml", "--relay", path, "--json")
        cheap = socket.create_connection(("127.0.0.1", port), 60, ("127.0.0.2", 0))
        cheap.sendall(bytes(1000))
        # It has come alone, and goes.
        assert json.loads(run.stdout.readline())["vm"] == "cheap"
        until(lambda: sent(path) == {"127.0.0.2": 1000})
        dear = socket.create_connection(("127.0.0.1", port), 60, ("127.0.0.3", 0))
        assert json.loads(run.stdout.readline())["vm"] == "dear"
        until(lambda: weights(path) == {"127.0.0.2": 0, "127.0.0.3": 1})
        cheap.sendall(bytes(500))
        dear.sendall(bytes(1_000_000))
        until(lambda: sent(path) == {"127.0.0.2": 1000, "127.0.0.3": 1_000_000})
        for machine, name in ((dear, "dear"), (cheap, "cheap")):
            machine.shutdown(socket.SHUT_WR)
            assert machine.recv(1) == b""
            event = json.loads(run.stdout.readline())
            assert (event["kind"], event["vm"]) == ("arrived", name)
            machine.close()
        assert run.wait(60) == 0
        late = socket.create_connection(("127.0.0.1", port), 60, ("127.0.0.2", 0))
        until(lambda: weights(path) == {"127.0.0.2": 1})  # nobody is held afterwards
        late.close()


PROBLEM = """
step = "5 s"
nodes = ["a", "b", "c"]
links = [
  { ends = ["a", "c"], capacity = "8 Mbit/s" },
  { ends = ["c", "b"], capacity = "8 Mbit/s" },
]
[[vms]]
name = "cheap"
source = "a"
destination = "b"
size = "50 MB"
cost = 1
address = "127.0.0.2"
[[vms]]
name = "dear"
source = "a"
destination = "b"
size = "50 MB"
cost = 9
address = "127.0.0.3"
"""


class Servers(contextlib.ExitStack):
    """A server that reads what comes and ends when its client does, and programs of Weir."""

    def __enter__(self):
        self.listener = self.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def weir(self, *words):
        command = [sys.executable, "-m", "weir.cli", *map(str, words)]
        run = self.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        self.callback(run.kill)
        return run

    def relay(self, *words):
        run = self.weir("relay", *words, "--listen", "127.0.0.1:0", "--json")
        return json.loads(run.stdout.readline())["port"]

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._read, args=(client,), daemon=True).start()

    def _read(self, client):
        with client, contextlib.suppress(OSError):
            while client.recv(1 << 16):
                pass


def flows(path):
    return {x["client"].split(":")[0]: x for x in control.ask(path, {})["flows"]}


def sent(path):
    return {source: flow["bytes_sent"] for source, flow in flows(path).items()}


def weights(path):
    return {source: flow["weight"] for source, flow in flows(path).items()}


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 10**12), max_size=6))
def test_weights_are_small_and_in_proportion(shares):
    found = in_small_numbers(shares)
    assert found.keys() == shares.keys()
    assert all((found[x] == 0) == (shares[x] == 0) for x in shares)
    assert max(found.values(), default=0) <= WEIGHT_MOST
    most = max(shares.values(), default=0)
    for x, share in shares.items():
        if share * WEIGHT_MOST >= most > 0:
            exact = max(found.values()) * share / most
            assert abs(found[x] - exact) <= 0.5 + 1e-9


def test_weights_of_worked_shares_are_exact():
    assert in_small_numbers({"a": 8_000_000, "b": 2_000_000}) == {"a": 4, "b": 1}
    assert in_small_numbers({"a": 6, "b": 4, "c": 0}) == {"a": 3, "b": 2, "c": 0}
