"""Promises kept inside a relay's aggregate: weights as told, and by real relays and agents."""

import contextlib
import random
import subprocess
import threading

import pytest
from calendar_lab import NETWORK, CalendarProcess, request, wait_for
from relay_rig import PATIENCE_S, Server, connected, relay, send_until, throttled
from rig import WEIR

from weir.calendar.agents.enforcer import Allotment, Pair
from weir.calendar.agents.weighing import (
    Aggregate,
    Weigher,
    parse_aggregate,
    promises,
    weigh,
)
from weir.errors import BadInput
from weir.relay import control

RATE_BPS = 32_000_000
ONE, TWO, FREE, OTHER = (f"127.0.0.{x}" for x in (2, 3, 4, 5))


@pytest.mark.parametrize(
    ("promised", "busy", "weights"),
    [
        # A quarter for one; the rest is two others', who have a weight each.
        ({ONE: 8}, {ONE: 1, FREE: 1, OTHER: 1}, {ONE: 2, None: 3}),
        # The same where one of them has both connections, and where nobody of them sends.
        ({ONE: 8}, {ONE: 1, FREE: 2}, {ONE: 2, None: 3}),
        ({ONE: 8}, {ONE: 1}, {ONE: 1, None: 3}),
        # Connections of one client share its promise, as far as they send.
        ({ONE: 16}, {ONE: 4, FREE: 1}, {ONE: 1, None: 4}),
        ({ONE: 16}, {FREE: 1}, {ONE: 1, None: 1}),
        ({ONE: 8, TWO: 16}, {ONE: 1, TWO: 2, FREE: 1}, {ONE: 1, TWO: 1, None: 1}),
        # What is promised is all there is: who has no promise is not held, and has a hundredth.
        ({ONE: 32}, {ONE: 1, FREE: 1}, {ONE: 100, None: 1}),
        # More than there is: all lack the same.
        ({ONE: 32, TWO: 64}, {ONE: 1, TWO: 1}, {ONE: 100, TWO: 200, None: 1}),
        # Next to nothing, for who waits.
        ({ONE: 0.008}, {FREE: 1}, {ONE: 1, None: 1}),
    ],
)
def test_weights_are_what_is_promised(promised, busy, weights):
    told = {client: int(rate * 1e6) for client, rate in promised.items()}
    found = weigh(told, busy, RATE_BPS).weights
    rest = weights.pop(None)
    assert found == [*weights.items(), ("0.0.0.0/0", rest), ("::/0", rest)]


def test_nobody_has_a_weight_where_nothing_is_promised():
    assert weigh({}, {FREE: 3}, RATE_BPS).weights == []


def test_whoever_is_idle_nobody_has_less_than_it_was_promised():
    draw = random.Random(3)
    for _ in range(200):
        count = draw.randint(1, 6)
        each = (RATE_BPS // 50, RATE_BPS * 9 // 10 // count)
        promised = {f"10.0.0.{x}": draw.randint(*each) for x in range(count)}
        busy = {x: draw.randint(1, 3) for x in promised} | {"10.1.0.1": draw.randint(0, 9)}
        found = weigh(promised, busy, RATE_BPS)
        weights = dict(found.weights)
        sent = {x: busy[x] * weights.get(x, weights["0.0.0.0/0"]) for x in busy}
        total = sum(sent.values())
        for idle in (None, *busy):
            rest = total - sent.get(idle, 0)
            for client in promised.keys() - {idle}:
                assert sent[client] / rest >= 0.996 * promised[client] / RATE_BPS
        assert found.off == pytest.approx(0, abs=0.004)


def test_what_is_promised_to_a_source_is_one_promise():
    pairs = {Pair(ONE, FREE, 1): 5, Pair(ONE, OTHER, 1): 6, Pair(TWO, FREE, 1): 7}
    allotted = {pair: Allotment(rate, least_bps=100) for pair, rate in pairs.items()}
    assert promises(allotted) == {ONE: 11, TWO: 7}


def test_an_aggregate_is_read_as_it_is_written():
    assert parse_aggregate("/run/a=b.sock=1 Gbit/s").rate_bps == 10**9
    assert str(parse_aggregate("/run/a=b.sock=1 Gbit/s").control) == "/run/a=b.sock"
    for wrong in ("", "/run/join.sock", "=1 Gbit/s", "x=", "x=0 bit/s"):
        with pytest.raises(BadInput):
            parse_aggregate(wrong)


@contextlib.contextmanager
def joined(path):
    """A relay whose aggregate carries `RATE_BPS`; where clients connect."""
    server = Server()
    at = f"127.0.0.1:{server.port}"
    try:
        passed = ("--from", "127.0.0.1", "--to", at, "--control", f"{path}.split")
        with relay("split", *passed) as split:
            line = f"127.0.0.1:{throttled(split, RATE_BPS // 8)}"
            with relay("join", "--split", line, "--server", at, "--control", path) as port:
                wait_for(lambda: control.ask(path, {})["is_connected"])
                yield port
    finally:
        server.close()


@contextlib.contextmanager
def sending(port, *sources):
    """A connection of each of these clients that always has something to send."""
    stop = threading.Event()
    with contextlib.ExitStack() as stack:
        for source in sources:
            client = stack.enter_context(connected(port, source))
            threading.Thread(target=send_until, args=(client, stop), daemon=True).start()
        try:
            yield
        finally:
            stop.set()


def given(path):
    """The weight of each client's connections, in their order."""
    found = {}
    for flow in sorted(control.ask(path, {})["flows"], key=lambda x: x["client"]):
        found.setdefault(control.host(flow["client"]), []).append(flow["weight"])
    return found


def arrived(path):
    """What the split end has handed to the server, by clients."""
    found = {}
    (aggregate,) = control.ask(f"{path}.split", {})["aggregates"]
    for flow in aggregate["flows"]:
        client = control.host(flow["client"])
        found[client] = found.get(client, 0) + flow["bytes_received"]
    return found


def shares(path, count=24_000_000):
    """What each client has of so many bytes, after the first two millions."""

    def later(before, more):
        def found():
            now = arrived(path)
            return now if sum(now.values()) >= sum(before.values()) + more else None

        return wait_for(found)

    begin = later(arrived(path), 2_000_000)
    end = later(begin, count)
    total = sum(end.values()) - sum(begin.values())
    return {client: (end[client] - begin[client]) / total for client in end}


def test_a_booking_has_its_part_of_an_aggregate_and_what_is_over_is_taken_back(tmp_path):
    path = tmp_path / "join.sock"
    network = NETWORK | {
        "nodes": {name: {} for name in NETWORK["nodes"]}
        | {"dtn1": {"address": ONE}, "dtn3": {"address": "127.0.0.9"}}
    }
    calendar = CalendarProcess(tmp_path, network=network).start()
    try:
        with joined(path) as port, sending(port, ONE, FREE, FREE, OTHER), calendar.client() as asks:
            asks._call("POST", "/v1/agents/dtn3/reports", json={"data_address": "127.0.0.9:7411"})
            # Two fifths of the aggregate, promised before the agent comes.
            booked = asks.submit(request(rate_max="12.8 Mbit/s", deadline_s=3600.0))["id"]
            assert asks.show(booked)["rate_bps"] == RATE_BPS * 2 // 5
            with edge(calendar, path):
                # 2/5 beside 3/5 for three connections.
                wait_for(lambda: given(path) == {ONE: [2], FREE: [1, 1], OTHER: [1]})
                found = shares(path)
                assert found[ONE] == pytest.approx(0.4, rel=0.01)
                assert found == pytest.approx({ONE: 0.4, FREE: 0.4, OTHER: 0.2}, rel=0.02)
                asks.cancel(booked)
                wait_for(lambda: given(path) == {ONE: [1], FREE: [1, 1], OTHER: [1]})
                asks.submit(request(rate_max="25.6 Mbit/s", deadline_s=3600.0))
                wait_for(lambda: given(path)[ONE] == [12])
            assert given(path) == {ONE: [1], FREE: [1, 1], OTHER: [1]}
    finally:
        calendar.stop()


@contextlib.contextmanager
def edge(calendar, path):
    """A real agent at the edge, until the block is left."""
    command = [WEIR, "agent", "--calendar", calendar.url, "--token", calendar.token, "--edge"]
    command += ["--host", "west", "--relay", f"{path}={RATE_BPS} bit/s"]
    with subprocess.Popen(command) as agent:
        try:
            yield
        finally:
            agent.terminate()
            assert agent.wait(PATIENCE_S) == 0


def test_a_relay_that_comes_back_is_given_its_weights_again(tmp_path, caplog):
    path = tmp_path / "join.sock"
    weigher = Weigher(Aggregate(path, RATE_BPS))
    weigher.install()
    try:
        weigher.apply({Pair(ONE, OTHER, 7411): Allotment(RATE_BPS * 3 // 4)})
        for _ in range(2):
            with joined(path) as port:
                wait_for(lambda: "kept again" in caplog.messages[-1])
                # Whoever comes finds the weights there.
                with connected(port, ONE):
                    assert wait_for(lambda: given(path)) == {ONE: [3]}
            wait_for(lambda: "no relay answers" in caplog.messages[-1])
        said = [x.removeprefix(f"{path}: ").split(":")[-1].strip() for x in caplog.messages]
        assert said.count("promises are kept again") == 2
        assert len(said) == 5
    finally:
        weigher.remove()


def test_who_gives_other_weights_is_overruled(tmp_path):
    path = tmp_path / "join.sock"
    with joined(path) as port, sending(port, ONE, FREE, OTHER):
        weigher = Weigher(Aggregate(path, RATE_BPS))
        weigher.install()
        try:
            weigher.apply({Pair(ONE, OTHER, 7411): Allotment(RATE_BPS * 3 // 4)})
            wait_for(lambda: given(path) == {ONE: [6], FREE: [1], OTHER: [1]})
            control.ask(path, {"weights": [[FREE, 7]]})
            wait_for(lambda: given(path) == {ONE: [6], FREE: [1], OTHER: [1]})
        finally:
            weigher.remove()
        assert given(path) == {ONE: [1], FREE: [1], OTHER: [1]}


def test_an_end_that_has_no_weights_is_refused(tmp_path):
    path = tmp_path / "split.sock"
    ends = ("--from", "127.0.0.1", "--to", "127.0.0.1:9", "--control", path)
    with relay("split", *ends), pytest.raises(BadInput, match="only the join end"):
        Weigher(Aggregate(path, RATE_BPS)).install()
