"""Echoes, the responder, bursts and TCP_INFO over the loopback device."""

import contextlib
import os
import re
import select
import socket
import struct
import subprocess
import threading
import time
from collections import deque
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig import told_by_ss, until

from weir.errors import BadInput, TransferFailed, Unavailable, Unsupported
from weir.probe import (
    Active,
    Filler,
    IcmpEcho,
    Pattern,
    Plan,
    Probe,
    Responder,
    SinkCarrier,
    Target,
    UdpEcho,
    message,
)
from weir.probe import probe as probe_module
from weir.probe.carrier import require_congestion, set_congestion
from weir.probe.realtime import realtime_priority
from weir.probe.tcp_info import parse_tcp_info, read_tcp_info

HERE = Target("localhost", socket.AF_INET, "127.0.0.1")


@pytest.fixture(scope="module")
def responder():
    with Responder(0) as responder:
        yield responder


@pytest.fixture
def echo_to():
    """A function that makes echoes by UDP, which are closed after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda port: stack.enter_context(contextlib.closing(UdpEcho(HERE, port)))


def replies(echo, count):
    """So many replies."""
    found = []
    poll = select.poll()
    poll.register(echo, select.POLLIN)
    while len(found) < count:
        assert poll.poll(60_000), f"{found}, then nothing"
        found += echo.replies()
    return found


def test_replies_are_told_apart_by_their_number(responder, echo_to, measured):
    def check():
        echoes = [echo_to(responder.port) for _ in range(2)]
        for key in (7, 2**40):
            for echo in echoes:
                echo.send(key)
        for echo in echoes:
            found = replies(echo, 2)
            assert [reply.key for reply in found] == [7, 2**40]
            assert all(reply.stamped for reply in found)
            # The loopback device and a copy, unless the responder is stopped on its way out.
            assert all(0 < reply.rtt_ns < 5_000_000 for reply in found)

    measured(check)


def test_a_link_local_address_keeps_its_interface():
    target = Target.resolve("fe80::1%lo")
    index = socket.if_nametoindex("lo")
    assert target.at(7412) == ("fe80::1", 7412, 0, index)
    assert Target.resolve("127.0.0.1").at(7412) == ("127.0.0.1", 7412)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_kernel_answers_icmp_of_either_version(address):
    target = Target.resolve(address)
    try:
        echo = IcmpEcho(target)
    except (Unsupported, Unavailable) as error:
        pytest.skip(str(error))
    with contextlib.closing(echo):
        for key in (7, 2**40):
            echo.send(key)
        found = replies(echo, 2)
    assert [reply.key for reply in found] == [7, 2**40]
    assert all(reply.stamped and reply.rtt_ns > 0 for reply in found)


def test_the_time_that_the_responder_keeps_a_request_is_not_the_paths(echo_to):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as late:
        late.bind(("127.0.0.1", 0))
        echo = echo_to(late.getsockname()[1])
        for kept_ns in (0, 30_000_000):
            sent_ns = time.monotonic_ns()
            echo.send(1)
            request, prober = late.recvfrom(100)
            begin = time.monotonic()
            until(lambda begin=begin: time.monotonic() > begin + 0.04)
            late.sendto(message.reply(request, kept_ns), prober)
            (reply,) = replies(echo, 1)
            took_ns = time.monotonic_ns() - sent_ns
            # It waited for 40 ms, and without its word they look like the path's.
            assert 40_000_000 - kept_ns <= reply.rtt_ns <= took_ns - kept_ns


@pytest.mark.parametrize("kept_ns", [-1, 2**62])
def test_a_responder_that_lies_is_not_believed(echo_to, kept_ns):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as liar:
        liar.bind(("127.0.0.1", 0))
        echo = echo_to(liar.getsockname()[1])
        echo.send(1)
        echo.send(2)
        first, prober = liar.recvfrom(100)
        second = liar.recv(100)
        # A duplicate and what is for somebody else are not counted, either.
        strangers = message.reply(request_of(bytes(8), 2), 0)
        answer = message.reply(first, kept_ns)
        for packet in (strangers, answer, answer, first, b"", answer[:-1]):
            liar.sendto(packet, prober)
        liar.sendto(message.reply(second, 0), prober)
        found = replies(echo, 2)
        assert [reply.key for reply in found] == [1, 2]
        assert found[0].rtt_ns > 0


def request_of(token, key):
    """A request by the table in `weir/probe/message.py`."""
    return struct.pack("!4sB3x8sQ32x", b"WEIR", 1, token, key)


@given(st.binary(max_size=80))
def test_only_requests_of_our_format_are_requests(payload):
    token, key = payload[:8].ljust(8), len(payload)
    whole = request_of(token, key)
    assert message.is_request(whole)
    assert not message.is_request(payload)
    answer = message.reply(whole, 5)
    assert len(answer) == len(whole) == 56
    assert not message.is_request(answer)
    assert struct.unpack("!4sB3x8sQq24x", answer) == (b"WEIR", 2, token, key, 5)


def test_the_responder_answers_nothing_but_requests_and_never_with_more(responder):
    whole = request_of(b"12345678", 9)
    others = [b"", b"x", whole[:-1], whole + b"x", message.reply(whole, 0), b"WEIR" + bytes(1400)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(60)
        asker.connect(("127.0.0.1", responder.port))
        for packet in [*others, whole]:
            asker.send(packet)
        answer = asker.recv(2000)
        # The first answer of all is to the last packet.
        assert answer[8:24] == b"12345678" + (9).to_bytes(8)
        assert len(answer) == len(whole)
        asker.setblocking(False)
        with pytest.raises(BlockingIOError):
            asker.recv(2000)


def test_the_sink_closes_on_whoever_does_not_greet(responder):
    with socket.create_connection(("127.0.0.1", responder.port), timeout=60) as stranger:
        stranger.sendall(b"GET / HT")
        assert stranger.recv(100) == b""


def test_a_port_that_is_taken_or_none_is_told(responder):
    with pytest.raises(Unavailable, match=f"port {responder.port}: Address already in use"):
        Responder(responder.port)
    with pytest.raises(BadInput, match="port 70000"):
        Responder(70_000)


class Listed:
    """A source of listed bytes, which remembers what was asked of it."""

    def __init__(self, content):
        self.content = content
        self.offsets = []

    def send(self, out, offset):
        self.offsets.append(offset)
        piece = self.content[offset : offset + 1000]
        return out.send(piece) if piece else 0


def test_bursts_carry_the_sources_bytes_from_the_offset_and_count_what_is_confirmed(responder):
    source = Listed(bytes(100_000))
    carrier = SinkCarrier(HERE, responder.port, source, offset=40_000)
    assert carrier.next_offset == 40_000
    carrier.carry("cubic")
    until(lambda: carrier.finished)
    assert carrier.next_offset == 100_000
    assert carrier.sent_bytes == carrier.confirmed_bytes == 60_000
    assert source.offsets == list(range(40_000, 100_001, 1000))
    carrier.close()


def silent_at(carrier):
    """The bytes that a carrier has sent if all are confirmed and no more come for a while."""
    sent, begin = carrier.sent_bytes, time.monotonic()
    until(lambda: time.monotonic() > begin + 0.05)
    return sent if carrier.sent_bytes == carrier.confirmed_bytes == sent else None


def test_one_connection_is_kept_through_silence_and_switches(responder):
    carrier = SinkCarrier(HERE, responder.port, Filler())
    for name in ("cubic", "reno", "cubic"):
        before = carrier.sent_bytes
        carrier.carry(name)
        until(lambda before=before: carrier.sent_bytes > before + 1_000_000)
        shown = subprocess.run(
            ["ss", "-tinH", "dport", "=", f":{responder.port}"], capture_output=True, text=True
        ).stdout
        assert f" {name} " in shown
        carrier.pause()
        silent = until(lambda: silent_at(carrier))
    carrier.check()
    assert carrier.tcp_info().acked_bytes >= silent
    carrier.close()


def test_a_sink_that_goes_away_is_told_with_what_was_confirmed():
    responder = Responder(0)
    carrier = SinkCarrier(HERE, responder.port, Filler())
    carrier.carry("cubic")
    until(lambda: carrier.confirmed_bytes > 0)
    responder.close()
    with pytest.raises(TransferFailed, match=r"broke off: .*; \d+ bytes were confirmed"):
        until(lambda: carrier.check())
    carrier.close()


def test_a_host_that_is_silent_is_given_up_with_the_time_and_the_count(monkeypatch):
    monkeypatch.setattr(probe_module, "GIVE_UP_S", 0.3)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        deaf.bind(("127.0.0.1", 0))
        echo = UdpEcho(HERE, deaf.getsockname()[1])
        plan = Plan(Fraction(50), 2, None, Fraction(1, 10))
        told = r"localhost \(127.0.0.1\) answered none of (\d+) echo requests in (\d+\.\d) s"
        with Probe(HERE, echo, plan) as probe, pytest.raises(Unavailable, match=told) as silent:
            list(probe)
    count, seconds = map(float, re.search(told, str(silent.value)).groups())
    assert seconds >= 0.3
    # Those of the last tenth of a second may still be answered; a late machine misses some.
    assert 0 < count <= 100 * (seconds - 0.1) + 8


@contextlib.contextmanager
def slow_responder():
    """The port of one that answers every request 300 ms later."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as slow:
        slow.bind(("127.0.0.1", 0))
        slow.settimeout(0.005)
        over, kept = threading.Event(), deque()

        def answer():
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    kept.append((time.monotonic() + 0.3, *slow.recvfrom(100)))
                while kept and time.monotonic() >= kept[0][0]:
                    _, request, prober = kept.popleft()
                    slow.sendto(message.reply(request, 0), prober)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield slow.getsockname()[1]
        finally:
            over.set()
            thread.join()


class Told:
    """A carrier that notes what it is told, and has all confirmed at once."""

    sent_bytes = confirmed_bytes = next_offset = 0
    finished = False

    def __init__(self):
        self.told = []

    def carry(self, congestion):
        self.told.append((congestion, time.monotonic_ns()))

    def pause(self):
        self.told.append((None, time.monotonic_ns()))

    def fileno(self):
        return None

    def tcp_info(self):
        return None

    def check(self):
        pass


def test_a_pattern_is_carried_out_at_its_times_and_the_last_replies_are_awaited():
    carrier, plan = Told(), Plan(Fraction(10), 1, Fraction(2), Fraction(10))
    active = Active(Pattern.parse("B1-S1"), carrier)
    with slow_responder() as port, Probe(HERE, UdpEcho(HERE, port), plan, active) as probe:
        samples = list(probe)
    assert [sample.segment for sample in samples] == ["B1"] * 10 + ["S1"] * 10
    assert [sample.lost for sample in samples] == [0] * 20
    assert [name for name, _ in carrier.told] == ["bbr", None, None]
    for second, (_, at_ns) in enumerate(carrier.told):
        # The machine may be late, but never early.
        assert 0 <= at_ns - probe.begin_ns - second * 10**9 < 5 * 10**9
    assert [turn.segment for turn in probe.turns] == ["B1", "S1"]


def test_no_sink_is_told_with_what_to_start():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(Unavailable, match=f"refused; start it there: .* --serve {port}"):
            SinkCarrier(HERE, port, Filler())


def test_a_congestion_control_that_the_kernel_lacks_is_named():
    require_congestion(["cubic", "bbr"])
    with pytest.raises(Unsupported, match=r"no congestion control vegas9; it has .*cubic"):
        require_congestion(["cubic", "vegas9"])
    with socket.socket() as connection:
        set_congestion(connection, "reno")
        found = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    assert found.rstrip(b"\0") == b"reno"


def test_real_time_priority_is_given_back():
    before = os.sched_getscheduler(0)
    with realtime_priority() as permitted:
        assert os.sched_getscheduler(0) == (os.SCHED_FIFO if permitted else before)
    assert os.sched_getscheduler(0) == before


@pytest.mark.parametrize("name", ["no such host", "", "a..b", "x" * 300])
def test_a_name_that_stands_for_no_host_is_told(name):
    with pytest.raises(BadInput, match="unknown host"):
        Target.resolve(name)


@pytest.fixture
def connection():
    """A connection that has carried 10 MB and is idle."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        out = socket.create_connection(listener.getsockname())
        into, _ = listener.accept()

    def take():
        while into.recv(1 << 20):
            pass

    taker = threading.Thread(target=take)
    taker.start()
    with out, into:
        out.sendall(bytes(10_000_000))
        until(lambda: read_tcp_info(out).in_flight_packets == 0)
        yield out
        out.shutdown(socket.SHUT_WR)
        taker.join()


def told_twice(connection):
    """What iproute2 prints of a connection, and what we read of it, while nothing changed."""
    before = read_tcp_info(connection)
    shown = told_by_ss(connection.getsockname(), connection.getpeername())
    told = read_tcp_info(connection)
    same = (getattr(before, name) == getattr(told, name) for name in told.__slots__)
    return (shown, told) if all(same) else None


def test_tcp_info_is_what_ss_prints(connection):
    """An independent reader of the kernel's structure: iproute2."""
    shown, told = until(lambda: told_twice(connection))
    srtt_ms, rttvar_ms = map(float, re.search(r" rtt:([\d.]+)/([\d.]+)", shown).groups())
    assert told.srtt_ns == pytest.approx(srtt_ms * 1e6, abs=1)
    assert told.rttvar_ns == pytest.approx(rttvar_ms * 1e6, abs=1)

    def number(pattern):
        return float(re.search(pattern + r"([\d.]+)", shown)[1])

    assert told.min_rtt_ns == pytest.approx(number("minrtt:") * 1e6, abs=1)
    assert told.cwnd_packets == number(" cwnd:")
    assert told.mss_bytes == number(" mss:")
    assert told.sent_bytes == number("bytes_sent:")
    # ss is silent about what is 0: a busy machine makes the kernel repeat a tail, and a quick
    # one is done within the jiffy by which the kernel counts busy time.
    silent = (r"bytes_retrans:(\d+)", r" retrans:\d+/(\d+)", r"busy:(\d+)ms")
    found = (re.search(pattern, shown) for pattern in silent)
    again_bytes, again_packets, busy_ms = (int(each[1]) if each else 0 for each in found)
    assert told.retransmitted_bytes == again_bytes == told.sent_bytes - 10_000_000
    assert told.retransmitted_packets == again_packets
    assert told.busy_ns // 10**6 == busy_ms
    assert told.acked_bytes == number("bytes_acked:")
    assert told.delivered_packets == number("delivered:")
    scale = {"bps": 1, "Kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9}
    for name, ours in (
        ("pacing_rate", told.pacing_rate_bps),
        ("delivery_rate", told.delivery_rate_bps),
    ):
        value, unit = re.search(rf"{name} (\d+)([KMG]?bps)", shown).groups()
        assert ours == pytest.approx(float(value) * scale[unit], rel=1e-3)
    assert told.app_limited == ("app_limited" in shown)
    assert told.lost_packets == told.marked_packets == told.unsent_bytes == 0
    assert told.ecn is False
    assert told.recovering is False
    # ss shows the threshold that ends slow start once there is one.
    assert told.starting is ("ssthresh:" not in shown)


def test_an_older_kernels_shorter_structure_has_less_and_the_same(connection):
    whole = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    full = parse_tcp_info(whole)
    # Linux 3.x ended after total_retrans; 4.4 after segs_in.
    old, newer = parse_tcp_info(whole[:104]), parse_tcp_info(whole[:144])
    assert (old.srtt_ns, old.cwnd_packets) == (full.srtt_ns, full.cwnd_packets)
    assert old.retransmitted_packets == full.retransmitted_packets
    assert old.pacing_rate_bps is None and old.min_rtt_ns is None and old.delivered_packets is None
    assert newer.pacing_rate_bps == full.pacing_rate_bps
    assert newer.acked_bytes == full.acked_bytes
    assert newer.unsent_bytes is None and newer.delivery_rate_bps is None
    nothing = parse_tcp_info(b"")
    assert {getattr(nothing, name) for name in nothing.__slots__} == {None}


def test_a_pacing_rate_that_is_none_is_none():
    told = bytearray(os.urandom(256))
    told[104:112] = b"\xff" * 8
    assert parse_tcp_info(bytes(told)).pacing_rate_bps is None
