"""What switches sample of packets, as sFlow version 5 carries it (sflow.org, 2004).

Only what elephants are found by is read: samples of flows with the raw header of an Ethernet frame
of IPv4 or IPv6. What else a datagram has is passed over.
"""

import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from weir.control.elephant import TCP, UDP, Flow

VERSION = 5
# Formats of samples and of records, with enterprise 0.
_FLOW_SAMPLE, _EXPANDED_FLOW_SAMPLE, _RAW_HEADER = 1, 3, 1
_ETHERNET = 1
_VLAN, _IPV4, _IPV6 = 0x8100, 0x0800, 0x86DD
# Headers of IPv6 that may stand before a protocol's (RFC 8200): options for hops, routing and the
# destination say their length in units of 8 bytes behind the first 8; a fragment has 8.
_EXTENSIONS, _FRAGMENT = {0, 43, 60}, 44
_SAMPLES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Sample:
    """One packet of those that a switch has drawn.

    Attributes:
        sampler: who has drawn it: a switch's agent and its part.
        flow: whose packet it is.
        wire_bytes: of this packet, as a frame.
        one_of: it stands for so many packets.
    """

    sampler: str
    flow: Flow
    wire_bytes: int
    one_of: int


def samples(datagram: bytes, sender: str = "") -> list[Sample]:
    """The samples of a datagram, in order; those of other packets than TCP and UDP are left out.

    Args:
        datagram: as it came.
        sender: where from; it tells apart switches whose agents say the same of themselves.

    Raises:
        ValueError: it is not of sFlow version 5, or is broken off.
    """
    try:
        return list(_samples(datagram, sender))
    except struct.error:
        raise ValueError("a datagram of sFlow that is broken off") from None


def _samples(datagram: bytes, sender: str) -> Iterator[Sample]:
    version, kind = struct.unpack_from("!II", datagram)
    if version != VERSION:
        raise ValueError(f"a datagram of sFlow version {version}, where 5 is read")
    if kind not in (1, 2):
        raise ValueError(f"an agent's address of kind {kind}, where 1 is IPv4 and 2 is IPv6")
    at = 8 + (4 if kind == 1 else 16)
    address = ipaddress.ip_address(datagram[8:at])
    part, _, _, count = struct.unpack_from("!IIII", datagram, at)
    sampler = f"{sender} {address} {part}"
    at += 16
    for _ in range(min(count, _SAMPLES_MAX)):
        form, length = struct.unpack_from("!II", datagram, at)
        body = _cut(datagram, at + 8, length)
        at += 8 + length
        if form in (_FLOW_SAMPLE, _EXPANDED_FLOW_SAMPLE):
            yield from _of_flow(body, sampler, expanded=form == _EXPANDED_FLOW_SAMPLE)


def _of_flow(body: bytes, sampler: str, *, expanded: bool) -> Iterator[Sample]:
    # Sequence number, source, rate, pool, drops, input, output, count of records.
    head = "!I2IIII2I2II" if expanded else "!IIIIIIII"
    fields = struct.unpack_from(head, body)
    one_of, count = fields[3 if expanded else 2], fields[-1]
    at = struct.calcsize(head)
    for _ in range(min(count, _SAMPLES_MAX)):
        form, length = struct.unpack_from("!II", body, at)
        record = _cut(body, at + 8, length)
        at += 8 + length
        if form != _RAW_HEADER:
            continue
        protocol, wire_bytes, _, size = struct.unpack_from("!IIII", record)
        flow = _flow(_cut(record, 16, size)) if protocol == _ETHERNET else None
        if flow is not None:
            yield Sample(sampler, flow, wire_bytes, max(1, one_of))


def _flow(frame: bytes) -> Flow | None:
    """Whose packet this is; None if it is none of TCP or UDP with ports."""
    at = 12
    if len(frame) < 34:
        return None
    if frame[at : at + 2] == _VLAN.to_bytes(2):
        at += 4
    kind, packet = int.from_bytes(frame[at : at + 2]), frame[at + 2 :]
    read = {_IPV4: _ends_of_4, _IPV6: _ends_of_6}.get(kind)
    ends = read(packet) if read else None
    if ends is None:
        return None
    source, target, protocol, size = ends
    if protocol not in (TCP, UDP) or len(packet) < size + 4:
        return None
    source_port, port = struct.unpack_from("!HH", packet, size)
    if not source_port or not port:
        return None  # 0 stands for any port here, and is nobody's.
    return Flow(source, target, protocol, source_port, port)


def _ends_of_4(packet: bytes) -> tuple[str, str, int, int] | None:
    """Addresses, protocol and length of a header of IPv4; None if no ports follow it."""
    if len(packet) < 20 or packet[0] >> 4 != 4:
        return None
    size = 4 * (packet[0] & 15)
    if size < 20 or int.from_bytes(packet[6:8]) & 0x1FFF:
        return None  # Of a fragment only the first has ports.
    source, target = (str(ipaddress.IPv4Address(packet[x : x + 4])) for x in (12, 16))
    return source, target, packet[9], size


def _ends_of_6(packet: bytes) -> tuple[str, str, int, int] | None:
    """The same of IPv6; the length is that of all headers up to the ports."""
    if len(packet) < 40 or packet[0] >> 4 != 6:
        return None
    source, target = (str(ipaddress.IPv6Address(packet[x : x + 16])) for x in (8, 24))
    protocol, size = packet[6], 40
    while (protocol in _EXTENSIONS or protocol == _FRAGMENT) and len(packet) >= size + 8:
        if protocol == _FRAGMENT and int.from_bytes(packet[size + 2 : size + 4]) & 0xFFF8:
            return None
        length = 8 if protocol == _FRAGMENT else 8 + 8 * packet[size + 1]
        protocol, size = packet[size], size + length
    return source, target, protocol, size


def _cut(data: bytes, at: int, length: int) -> bytes:
    """A part of it; lengths of sFlow are padded to 4 bytes where they stand."""
    if at + length > len(data):
        raise ValueError("a datagram of sFlow that is broken off")
    return data[at : at + length]
