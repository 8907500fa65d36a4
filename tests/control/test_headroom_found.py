"""Elephants that are found: what sFlow carries, and which flows samples show to be some."""

import socket
import struct
from dataclasses import replace

import pytest
from control_rig import Fabric, network
from hypothesis import given
from hypothesis import strategies as st

from weir.calendar.agents.enforcer import Allotment, Pair
from weir.control.core import Core
from weir.control.elephant import TCP, UDP, Flow
from weir.control.headroom.book import Book
from weir.control.headroom.detector import PACKETS_MIN, Detector, Threshold
from weir.control.headroom.marker import Marker
from weir.control.headroom.sflow import Sample, samples

FLOW = Flow("10.0.0.1", "10.0.0.2", TCP, 50_000, 7000)
LINE = network(["h1", "h2"], [("h1", "s1"), ("s1", "h2")], ["s1"])

# --- sFlow, by its specification (sflow_version_5.txt, 2004) ---


def frame(flow, wire_bytes=1514, vlan=b"", fragment=0):
    """An Ethernet frame of IPv4, by RFC 791, 793 and 768."""
    ends = b"".join(bytes(map(int, x.split("."))) for x in (flow.source, flow.target))
    ip = struct.pack("!BBHHHBBH", 0x45, 0, wire_bytes - 14, 1, fragment, 64, flow.protocol, 0)
    ports = struct.pack("!HH", flow.source_port, flow.port)
    whole = b"\x02" * 12 + vlan + b"\x08\x00" + ip + ends + ports
    return whole.ljust(64, b"\0")


def frame6(flow, *extensions):
    """An Ethernet frame of IPv6, by RFC 8200: extension headers as numbers, and what they say."""
    numbers = [number for number, _ in extensions] + [flow.protocol]
    head = struct.pack("!IHBB", 6 << 28 | 0xB8 << 20, 1460, numbers[0], 64)
    ends = b"".join(socket.inet_pton(socket.AF_INET6, x) for x in (flow.source, flow.target))
    more = zip(numbers[1:], extensions, strict=True)
    between = b"".join(bytes([number]) + said for number, (_, said) in more)
    ports = struct.pack("!HH", flow.source_port, flow.port)
    return b"\x02" * 12 + b"\x86\xdd" + head + ends + between + ports


def record(header, wire_bytes=1514, protocol=1):
    padded = header.ljust(-(-len(header) // 4) * 4, b"\0")
    data = struct.pack("!IIII", protocol, wire_bytes, 4, len(header)) + padded
    return struct.pack("!II", 1, len(data)) + data


def flow_sample(*records, one_of=64, expanded=False):
    if expanded:
        head = struct.pack("!IIIIIIIIIII", 7, 0, 3, one_of, 99, 0, 0, 3, 0, 4, len(records))
    else:
        head = struct.pack("!IIIIIIII", 7, 3, one_of, 99, 0, 3, 4, len(records))
    data = head + b"".join(records)
    return struct.pack("!II", 3 if expanded else 1, len(data)) + data


def datagram(*found, version=5, part=2):
    head = struct.pack("!II4sIIII", version, 1, bytes([10, 0, 0, 9]), part, 1, 2, len(found))
    return head + b"".join(found)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("vlan", [b"", b"\x81\x00\x00\x05"])
def test_a_sample_is_read_as_the_specification_has_it(expanded, vlan):
    other = replace(FLOW, protocol=UDP, port=53)
    # Records and samples that say something else are passed over.
    gateway = struct.pack("!III", 1003, 4, 0)
    counters = struct.pack("!III", 2, 4, 0)
    data = datagram(
        counters,
        flow_sample(gateway, record(frame(FLOW, vlan=vlan)), one_of=64, expanded=expanded),
        flow_sample(record(frame(other), wire_bytes=90), one_of=8, expanded=expanded),
    )
    sampler = "unix 10.0.0.9 2"
    assert samples(data, "unix") == [Sample(sampler, FLOW, 1514, 64), Sample(sampler, other, 90, 8)]


@pytest.mark.parametrize("protocol", [TCP, UDP])
def test_a_sample_of_ipv6_is_read_whatever_headers_it_has(protocol):
    flow = Flow("fd00::1", "2001:db8::1:2", protocol, 50_000, 7000)
    options, long = (0, bytes(7)), (60, b"\x01" + bytes(14))
    routing, first = (43, b"\x00" + bytes(6)), (44, b"\x00\x00\x01\x00\x00\x00\x09")
    ways = [(), (options,), (options, long), (routing, first), (long, options, routing)]
    records = [record(frame6(flow, *one)) for one in ways]
    assert [x.flow for x in samples(datagram(*map(flow_sample, records)))] == [flow] * 5
    # Nobody knows the ports of what is broken off, encrypted or a later fragment.
    later = (44, b"\x00\x00\x08\x00\x00\x00\x09")
    strange = [frame6(flow)[:57], frame6(flow, long)[:70], frame6(flow, options)[:55]]
    strange += [frame6(flow, later), frame6(flow, (50, bytes(7))), frame6(flow, (59, bytes(7)))]
    assert samples(datagram(*(flow_sample(record(x)) for x in strange))) == []


def test_packets_without_ports_of_their_own_are_left_out():
    arp = b"\x02" * 12 + b"\x08\x06" + b"\0" * 50
    icmp = frame(replace(FLOW, protocol=1))
    second = frame(FLOW, fragment=100)
    short = frame(FLOW)[:30]
    of_no_port = frame(replace(FLOW, source_port=0))
    records = [record(x) for x in (arp, icmp, second, short, of_no_port)]
    records.append(record(frame(FLOW), protocol=11))
    assert samples(datagram(*map(flow_sample, records))) == []


@pytest.mark.parametrize("version", [2, 4, 6])
def test_other_versions_are_refused(version):
    with pytest.raises(ValueError, match=f"version {version}"):
        samples(datagram(version=version))


@given(st.binary(max_size=300), st.integers(0, 300))
def test_whatever_a_stranger_sends_is_read_or_refused(data, at):
    sound = datagram(flow_sample(record(frame(FLOW))))
    for broken in (data, sound[:at], sound[:at] + data, sound[:at] + data + sound[at:]):
        try:
            samples(broken)
        except ValueError as error:
            assert str(error)


# --- the detector ---


def sample(flow=FLOW, wire_bytes=1_000, one_of=10, sampler="s1"):
    return Sample(sampler, flow, wire_bytes, one_of)


def found_after(detector, rate_bps, *, one_of=10, lasts_s=20.0, **about):
    """When a flow of this rate, sampled evenly, is found; None if it is not."""
    gap_s = 8 * 1_000 * one_of / rate_bps
    for number in range(1, int(lasts_s / gap_s)):
        if detector.take(sample(one_of=one_of, **about), number * gap_s):
            return number * gap_s
    return None


def test_a_flow_is_found_when_it_has_kept_up_the_rate_and_sooner_the_faster():
    # The sum of a flow with k times the rate is enough after -ln(1 - 1/k) of the time.
    assert found_after(Detector(Threshold(10e6, 1.0)), 20e6) == pytest.approx(0.693, rel=0.05)
    assert found_after(Detector(Threshold(10e6, 2.0)), 20e6) == pytest.approx(1.386, rel=0.05)
    assert found_after(Detector(Threshold(10e6, 1.0)), 100e6) == pytest.approx(0.105, rel=0.1)
    assert found_after(Detector(Threshold(10e6, 1.0)), 9.5e6) is None


def test_one_packet_proves_nothing_however_many_it_stands_for():
    detector = Detector(Threshold(1e6))
    found = [detector.take(sample(one_of=10_000), 0.1 * x) for x in range(PACKETS_MIN)]
    assert found == [False] * (PACKETS_MIN - 1) + [True]


def test_switches_that_see_the_same_packets_are_not_added_up():
    detector = Detector(Threshold(10e6))
    for number in range(1, 4_000):
        for sampler in ("s1", "s2", "s3"):
            assert not detector.take(sample(sampler=sampler), number * 0.01)


def test_a_flow_whose_switch_is_silent_goes_on_at_another():
    detector = Detector(Threshold(10e6, 10.0))
    assert found_after(detector, 40e6, lasts_s=2.0) is None
    later = [detector.take(sample(sampler="s2"), 2.6 + 0.002 * x) for x in range(1_000)]
    assert any(later)


def test_what_is_over_is_forgotten():
    detector = Detector(Threshold(10e6))
    for port in range(1, 1_001):
        detector.take(sample(replace(FLOW, port=port)), 1.0)
    assert len(detector) == 1_000
    detector.take(sample(), 20.0)
    assert len(detector) == 1


def test_a_flood_of_flows_drives_out_no_elephant_and_takes_no_more_memory():
    detector = Detector(Threshold(10e6), flows_max=100)
    for number in range(1_000):
        now_s = 0.002 * number
        mouse = Flow(f"10.1.{number // 250}.{number % 250}", "10.0.0.2", UDP, 1, 1)
        assert not detector.take(sample(mouse, one_of=1), now_s)
        assert len(detector) <= 100
        if detector.take(sample(one_of=5), now_s):
            return
    raise AssertionError("not found")


# --- from datagrams to rules ---


def finding(allotted=None, made=LINE):
    core, fabric, said = Core(made), Fabric(made), []
    core.allot(allotted or {})
    fabric.connect(core)
    fabric.settle(core, 0.0)
    threshold = Threshold(1e6)
    marker = Marker(core, Book(threshold.rate_bps), said.append, Detector(threshold))
    return core, fabric, marker


def fed(marker, flow, count=PACKETS_MIN):
    """Whether enough samples of a flow bring about a mark."""
    data = datagram(*[flow_sample(record(frame(flow)), one_of=100)] * count)
    return marker.sampled(data, "", 1.0)


def marks(fabric, core):
    fabric.settle(core, 2.0)
    return [x.match.source_port for x in fabric.does["s1"].rules if x.match.source_port]


def test_an_elephant_in_samples_is_marked_by_its_ports_and_told_as_found():
    core, fabric, marker = finding()
    assert not fed(marker, FLOW, PACKETS_MIN - 1)
    assert fed(marker, FLOW, 1)
    assert marks(fabric, core) == [50_000]
    assert not fed(marker, FLOW), "it is marked already"
    assert marker.reports() == [
        {
            **{"id": None, "source": "h1", "destination": "h2", "protocol": "tcp"},
            **{"source_port": 50_000, "destination_port": 7000, "carried_bytes": 0, "path": []},
        }
    ]


def test_an_elephant_that_is_found_by_ipv6_is_told_by_its_hosts_and_is_no_booking():
    made = network(["h1", "h2"], [("h1", "s1"), ("s1", "h2")], ["s1"], has_ipv6=True)
    pair = Pair(FLOW.source, FLOW.target, FLOW.port)
    core, fabric, marker = finding({pair: Allotment(10**8)}, made)
    flow = replace(FLOW, source="fd00::1", target="fd00::2")
    data = datagram(*[flow_sample(record(frame6(flow)), one_of=100)] * PACKETS_MIN)
    assert marker.sampled(data, "", 1.0)
    assert marks(fabric, core) == [50_000, 50_000]
    assert [(x["source"], x["destination"]) for x in marker.reports()] == [("h1", "h2")]
    assert not marker.sampled(data, "", 2.0), "it is marked already"
    strange = replace(flow, target="fd00::9")
    data = datagram(*[flow_sample(record(frame6(strange)), one_of=100)] * PACKETS_MIN)
    assert not marker.sampled(data, "", 3.0)


def test_what_is_promised_and_what_is_of_nobody_known_is_no_elephant():
    pair = Pair(FLOW.source, FLOW.target, FLOW.port)
    core, fabric, marker = finding({pair: Allotment(10**8)})
    assert not fed(marker, FLOW)
    back = Flow(FLOW.target, FLOW.source, TCP, FLOW.port, FLOW.source_port)
    assert not fed(marker, back), "it answers what is promised"
    assert not fed(marker, replace(FLOW, target="10.9.9.9"))
    assert fed(marker, replace(FLOW, protocol=UDP))
    assert marks(fabric, core) == [50_000]
    assert fed(marker, replace(back, source_port=FLOW.port + 1))
