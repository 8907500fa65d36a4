"""Whoever enforces allotments does what the seam says: at an edge, in switches, at the source."""

import contextlib
import ipaddress
import os
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from control_rig import Fabric, network
from namespace_rig import namespace as namespace
from namespace_rig import tc
from rig import told_by_ss, until

from weir.calendar.agents.enforcer import RATE_MIN_BPS, Allotment, Pair, TrafficClass
from weir.calendar.agents.htb import CEILING_PER_RATE, Device, Shaper
from weir.calendar.agents.pacing import Opened, Pacer, of_process
from weir.control.core import DRAIN_S, Core
from weir.control.enforcer import SwitchEnforcer
from weir.control.rules import METER_PER_RATE, pair_of
from weir.errors import Unsupported

ONE = Pair("10.0.0.1", "10.0.0.2", 7411)
OTHER = Pair("10.0.0.2", "10.0.0.1", 7412)
ONE6, OTHER6 = Pair("fd00::1", "fd00::2", 7411), Pair("fd00::2", "fd00::1", 7412)
SO_MAX_PACING_RATE = 47


class Edge:
    """HTB on a device of this kernel, read back by `tc`."""

    def __init__(self, *_):
        self.enforcer = Shaper([Device("wan0")])

    def anew(self):
        """What another process puts in its place."""
        self.enforcer = Shaper([Device("wan0")])

    def held(self):
        """Every pair that is held, with its rate, and whether it comes before the rest."""
        classes = {}
        for line in _tc("class").splitlines():
            found = re.search(r"class htb 1:(\w+) .*prio (\d) .*?rate (\d+)(K|M|G)?bit", line)
            if found:
                unit = {None: 1, "K": 10**3, "M": 10**6, "G": 10**9}[found[4]]
                classes[found[1]] = (int(found[3]) * unit, found[2] == "0")
        held = {}
        for filter_ in _tc("filter").split("filter ")[1:]:
            flow = re.search(r"flowid 1:(\w+)", filter_)
            if flow and "at 12" in filter_:  # others are no pair's
                matches = re.findall(r"match (\w{8})/\w+ at (\d+)", filter_)
                words = {int(at): bytes.fromhex(x) for x, at in matches}
                # By RFC 791 and RFC 8200; the ports stand behind 20 bytes, or 40.
                starts, size, ports = ((8, 24), 16, 40) if 40 in words else ((12, 16), 4, 20)
                ends = [b"".join(words[x] for x in range(y, y + size, 4)) for y in starts]
                ends = [str(ipaddress.ip_address(x)) for x in ends]
                held[Pair(*ends, int.from_bytes(words[ports][2:]))] = classes[flow[1]]
        return held


def _tc(what):
    return subprocess.check_output(["tc", what, "show", "dev", "wan0"], text=True)


class InSwitches:
    """A controller's core and switches that do by the book what they are told."""

    def __init__(self, *_):
        cables = [("h1", "s1"), ("s1", "s2"), ("s2", "h2")]
        made = network(["h1", "h2"], cables, ["s1", "s2"], has_ipv6=True)
        self.core, self.fabric, self.now_s = Core(made), Fabric(made), 0.0
        self.fabric.connect(self.core)
        self.enforcer = SwitchEnforcer(self.core, self.pump)
        self.pump()

    def anew(self):
        self.enforcer = SwitchEnforcer(self.core, self.pump)

    def pump(self):
        for _ in range(3):
            self.fabric.settle(self.core, self.now_s)
            self.now_s += DRAIN_S

    def held(self):
        """The same, from the rules and meters of the first switch of each pair."""
        found = {}
        for tables in self.fabric.does.values():
            for place, entry in tables.rules.items():
                pair = pair_of(place)
                if pair is not None and entry.actions.meter is not None:
                    rate_bps = tables.meters[entry.actions.meter].rate_kbps * 1000 / METER_PER_RATE
                    promised = entry.actions.dscp == TrafficClass.PROMISED.dscp
                    found[pair] = (pytest.approx(rate_bps, rel=0.01, abs=1000), promised)
        return found


class AtSource:
    """Connections of this machine, as iproute2 tells of them."""

    def __init__(self, one=ONE, other=OTHER):
        tc("link", "set", "lo", "up", program="ip")
        for address in ("10.0.0.1/32", "10.0.0.2/32", "fd00::1/128", "fd00::2/128"):
            more = ["nodad"] if ":" in address else []
            tc("address", "add", address, "dev", "lo", *more, program="ip")
        # The kernel adds IPv6's routes to its own addresses a little later.
        until(lambda: all(map(_reaches_itself, (ONE6, OTHER6))))
        self.connections = {pair: [connected(pair)] for pair in (one, other)}
        # Nobody's business.
        self.connections[Pair(one.source, one.destination, 80)] = [connected(one, 80)]
        self.enforcer = Pacer()

    def anew(self):
        self.enforcer._stop()
        self.enforcer = Pacer()

    def close(self):
        for connections in self.connections.values():
            for one, other in connections:
                one.close()
                other.close()

    def held(self):
        """The same, from the sockets of each pair; all of one must be held alike."""
        found = {}
        for pair, connections in self.connections.items():
            states = {_paced(one) for one, _ in connections}
            assert len(states) == 1, states
            rate_bps, service = states.pop()
            if rate_bps is not None:
                rate_bps *= len(connections)
                found[pair] = (pytest.approx(rate_bps, rel=0.001), service == 10 << 2)
        return found


def _reaches_itself(pair):
    # As a connection asks: iproute2 may know a route a moment before.
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as ours:
        try:
            ours.bind((pair.source, 0))
            ours.connect((pair.destination, 9))
        except OSError:
            return False
    return True


def connected(pair, port=None):
    """The two ends of a connection between the hosts of a pair."""
    family = socket.AF_INET6 if pair.is_ipv6 else socket.AF_INET
    with socket.create_server((pair.destination, port or pair.port), family=family) as server:
        ours = socket.create_connection(server.getsockname()[:2], source_address=(pair.source, 0))
        return ours, server.accept()[0]


def _paced(connection):
    """The rate that a connection may send, None if it is not held, and its type of service."""
    said = told_by_ss(connection.getsockname(), connection.getpeername(), "-e")
    found = re.search(r"pacing_rate \w+bps/(\d+)bps", said)
    rate_bps = int(found[1]) / CEILING_PER_RATE if found else None
    if ":" in connection.getsockname()[0] and "." not in connection.getsockname()[0]:
        return rate_bps, connection.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
    return rate_bps, connection.getsockopt(socket.IPPROTO_IP, socket.IP_TOS)


@pytest.fixture(params=[(ONE, OTHER), (ONE6, OTHER6), (ONE, ONE6)], ids=["IPv4", "IPv6", "both"])
def pairs(request):
    """Two pairs."""
    return request.param


@pytest.fixture(params=[Edge, InSwitches, AtSource])
def at_work(request, pairs):
    """An enforcer, and what is really held."""
    if request.param is not InSwitches:
        request.getfixturevalue("namespace")
    made = request.param(*pairs)
    yield made
    made.enforcer.remove()
    if isinstance(made, AtSource):
        made.close()


def test_it_holds_those_that_it_is_told_and_no_others(at_work, pairs):
    enforcer, (one, other) = at_work.enforcer, pairs
    enforcer.install()
    assert enforcer.in_force() == {}
    for wanted in (
        {one: Allotment(10**7)},
        {one: Allotment(10**7), other: Allotment(5 * 10**7, traffic_class=TrafficClass.LOWER)},
        {one: Allotment(2 * 10**7), other: Allotment(5 * 10**7)},
        {other: Allotment(RATE_MIN_BPS)},
        {},
        {one: Allotment(10**9, ("h1s1.forward", "s1s2.forward", "s2h2.forward"))},
    ):
        enforcer.apply(wanted)
        assert enforcer.in_force() == wanted
        assert at_work.held() == {
            pair: (allotment.rate_bps, allotment.traffic_class is TrafficClass.PROMISED)
            for pair, allotment in wanted.items()
        }
    enforcer.remove()
    assert at_work.held() == {}


def test_what_an_earlier_process_has_left_is_gone_with_the_first_that_is_told(at_work, pairs):
    one, other = pairs
    at_work.enforcer.install()
    at_work.enforcer.apply({one: Allotment(10**7)})
    at_work.anew()
    again = at_work.enforcer
    again.install()
    assert again.in_force() == {}
    again.apply({other: Allotment(10**7)})
    assert list(at_work.held()) == [other]


def test_a_path_that_it_does_not_know_holds_the_pair_all_the_same(at_work, pairs):
    at_work.enforcer.install()
    at_work.enforcer.apply({pairs[0]: Allotment(10**7, ("nowhere",))})
    assert list(at_work.held()) == [pairs[0]]


@pytest.fixture
def at_source(namespace):
    """Connections, and an enforcer that looks after them."""
    made = AtSource()
    made.enforcer.install()
    yield made
    made.enforcer.remove()
    made.close()


def test_connections_to_come_are_held_as_those_that_are_there(at_source):
    at_source.enforcer.apply({ONE: Allotment(10**7)})
    at_source.connections[ONE].append(connected(ONE))
    # Neither has anything to send: each may begin with all of it.
    until(lambda: {_paced(x)[0] for x, _ in at_source.connections[ONE]} == {10**7})


def test_a_socket_of_ipv6_that_carries_ipv4_is_held_as_that(at_source):
    with (
        socket.create_server((ONE.destination, ONE.port)) as server,
        socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as ours,
    ):
        ours.bind((f"::ffff:{ONE.source}", 0))
        ours.connect((f"::ffff:{ONE.destination}", ONE.port))
        with server.accept()[0] as theirs:
            at_source.enforcer.apply({ONE: Allotment(10**7)})
            here, there = theirs.getpeername(), theirs.getsockname()
            ends = [(f"::ffff:{address}", port) for address, port in (here, there)]
            said = told_by_ss(*ends, "-e")
            assert float(re.search(r"pacing_rate \w+bps/(\d+)bps", said)[1]) == 10_200_000
            assert ours.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 40


def test_whoever_waits_goes_on_as_slowly_as_its_source_does(at_source):
    at_source.enforcer.apply({ONE: Allotment(RATE_MIN_BPS, least_bps=10**6)})
    assert _paced(at_source.connections[ONE][0][0])[0] == pytest.approx(10**6)


def test_switches_let_pass_what_sources_send_that_wait():
    switches = InSwitches()
    switches.enforcer.apply({ONE: Allotment(RATE_MIN_BPS, least_bps=10**6)})
    assert switches.held() == {ONE: (10**6, True)}


def test_connections_that_have_something_to_send_share_the_rate(at_source):
    at_source.connections[ONE] += [connected(ONE), connected(ONE)]
    idle, *busy = (one for one, _ in at_source.connections[ONE])
    for one in busy:
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                one.send(bytes(65536))
    at_source.enforcer.apply({ONE: Allotment(10**6)})
    assert [_paced(x)[0] for x in (idle, *busy)] == pytest.approx([10**6, 5 * 10**5, 5 * 10**5])


def test_a_program_that_gives_itself_another_rate_is_held_again(at_source):
    at_source.enforcer.apply({ONE: Allotment(10**7)})
    one = at_source.connections[ONE][0][0]
    one.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 10**9)
    until(lambda: _paced(one)[0] == pytest.approx(10**7))


@pytest.mark.parametrize("dscp", [1, 8])
def test_what_says_itself_that_it_may_wait_is_left_alone(at_source, dscp):
    one = at_source.connections[ONE][0][0]
    one.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
    at_source.enforcer.apply({ONE: Allotment(10**7)})
    assert _paced(one) == (None, dscp << 2)


def test_a_paced_connection_sends_no_more(at_source):
    at_source.enforcer.apply({ONE: Allotment(64 * 10**6)})
    one, other = at_source.connections[ONE][0]
    size, began_s = 8_000_000, time.monotonic()
    sending = threading.Thread(target=one.sendall, args=(bytes(size),))
    sending.start()
    assert len(other.recv(size, socket.MSG_WAITALL)) == size
    # Eight megabytes a second, but for the first ten packets; no machine makes it less.
    assert time.monotonic() - began_s > 0.5
    sending.join()


def test_others_programs_are_paced_by_root_only(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unsupported, match="paced by root only"):
        Pacer().install()


def test_a_number_that_is_another_files_by_now_is_let_go():
    with socket.socket() as one, socket.socket() as other, Path(os.devnull).open() as no_socket:
        inode, mine = os.fstat(one.fileno()).st_ino, os.getpid()
        with of_process(Opened(inode, mine, one.fileno())) as found:
            assert os.fstat(found.fileno()).st_ino == inode
        strange = [
            Opened(inode, mine, other.fileno()),
            Opened(os.fstat(no_socket.fileno()).st_ino, mine, no_socket.fileno()),
        ]
        before = _descriptors()
        for opened in strange:
            with pytest.raises(OSError), of_process(opened):
                pass
        assert _descriptors() == before


def _descriptors():
    """The numbers that are open in this process, but for the one that lists them."""
    return {x.name for x in Path("/proc/self/fd").iterdir() if x.exists()}
