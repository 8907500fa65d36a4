"""Packets of a capture file, pcap or pcapng, of Ethernet, raw IP or Linux's cooked links.

Only headers are looked at: a capture that keeps 96 bytes of each packet is as good as a whole one.
"""

import bisect
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import BinaryIO, TypeAlias

from weir import files
from weir.errors import BadInput

Address: TypeAlias = IPv4Address | IPv6Address

TCP, UDP = 6, 17
ETHERNET_BYTES = 14
"""An Ethernet header: what other links' sizes are counted up to."""
_TUNNELS = {47: "GRE", 50: "ESP (IPsec)", 51: "AH (IPsec)", 4: "IP in IP", 41: "IPv6 in IP"}
_TUNNEL_PORTS = {51820: "WireGuard", 1194: "OpenVPN", 4500: "IPsec over UDP", 4789: "VXLAN"}

_ETHERNET, _COOKED, _COOKED_2 = 1, 113, 276
_RAW = {12, 14, 101, 228, 229}
_LOOPBACK = {0, 108}
_VLAN = {0x8100, 0x88A8, 0x9100}
_IP_TYPES = {0x0800, 0x86DD}
_EXTENSIONS = {0, 43, 60}
_FRAGMENT = 44
PAYLOAD_KEPT = 64
"""So many of a UDP packet's data are looked at."""
_MOST_BYTES = 1 << 18
"""What a packet's record has at most: more is a damaged file, not a packet."""
_PIECE = 1 << 20
_PLACES = 1 << 17
"""A packet that stands so many others behind its time, or fewer, is put where it belongs."""
MOST_PAIRS = 100_000
"""Bytes of so many pairs of addresses are counted, each by itself."""
_MOST_INTERFACES = 1 << 16
_BACK_NS = 1_000_000_000
"""Interfaces and processors put packets out of order by less; more is a clock that was set."""
_PCAP = {
    b"\xa1\xb2\xc3\xd4": (">", 1_000),
    b"\xd4\xc3\xb2\xa1": ("<", 1_000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
"""Byte order, and nanoseconds of a fraction's unit, by the first bytes."""
_SECTION = b"\n\r\r\n"
_BYTE_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_PACKERS = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd", b"\xfd\x37": "xz", b"BZ": "bzip2"}
"""What packs files, by how they begin."""
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET, _SECTION_HEAD = 1, 2, 3, 6, 0x0A0D0D0A
_OF_USE = {_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET}


@dataclass(frozen=True, slots=True)
class Packet:
    """An IP packet as it passed the tap.

    Attributes:
        at_ns: when, since 1970.
        size: in bytes with an Ethernet header, whatever the link was.
        source: whence.
        destination: where to.
        protocol: the number that IP has for it; of IPv6 the last header's.
        ports: of source and destination; zeros where it has none.
        sequence: of TCP: of the first byte of its data; None of others, or when not captured.
        length: of its data behind the header of TCP or UDP, in bytes.
        payload: the first bytes of a UDP packet's data.
    """

    at_ns: int
    size: int
    source: Address
    destination: Address
    protocol: int
    ports: tuple[int, int] = (0, 0)
    sequence: int | None = None
    length: int = 0
    payload: bytes = b""


@dataclass
class Capture:
    """What a file holds.

    Attributes:
        name: of the file.
        packets: in the order of their times; empty where they were handed on one by one.
        cut: why the file ends before its time; empty when it does not.
        others: packets that are not IP.
        short: packets whose IP header was not kept whole.
        back_ns: the furthest that the clock of an interface went back.
        late: packets that were left out: too many later ones stand before them.
        headless: packets of TCP whose sequence number was not kept.
        first_ns: the earliest packet's time.
        last_ns: that of the latest.
    """

    name: str
    packets: list[Packet] = field(default_factory=list)
    cut: str = ""
    others: int = 0
    short: int = 0
    back_ns: int = 0
    late: int = 0
    headless: int = 0
    first_ns: int = 0
    last_ns: int = 0
    _bytes: int = 0
    _by_ends: Counter[tuple[Address, Address]] = field(default_factory=Counter)
    _wrapped: Counter[str] = field(default_factory=Counter)
    _has_more_ends: bool = False

    def count(self, one: Packet) -> None:
        """Takes a packet into account, and does not keep it."""
        if not self._by_ends:
            self.first_ns = self.last_ns = one.at_ns
        elif one.at_ns > self.last_ns:
            self.last_ns = one.at_ns
        elif one.at_ns < self.first_ns:
            self.first_ns = one.at_ns
        self._bytes += one.size
        self.headless += one.protocol == TCP and one.sequence is None
        name = _tunnel_of(one)
        if name:
            self._wrapped[name] += one.size
        ends = one.source, one.destination
        if ends in self._by_ends or len(self._by_ends) < MOST_PAIRS:
            self._by_ends[ends] += one.size
        else:
            self._has_more_ends = True

    @property
    def warnings(self) -> list[str]:
        """What is doubtful about its times, or cannot be told, in words."""
        found = []
        if self.back_ns > _BACK_NS:
            found.append(
                f"the clock went back by {self.back_ns / 1e9:.3f} s while {self.name} was "
                "captured: what lasted across that is wrong"
            )
        if self.late:
            found.append(
                f"{self.late} packets of {self.name} stand more than {_PLACES} places behind "
                "their time and were left out: put it in order first (reordercap)"
            )
        if self.headless:
            found.append(
                f"of {self.headless} packets of {self.name} TCP's header was not kept: what was "
                "sent again is not told apart; capture 96 bytes of each"
            )
        return found

    @property
    def seconds(self) -> float:
        """From its first packet to its last."""
        return (self.last_ns - self.first_ns) / 1e9

    def between(self, server: Address, client: Address, port: int | None = None) -> list[Packet]:
        """What `server` sent to `client`, from `port` if one is given."""
        return [
            one
            for one in self.packets
            if one.source == server
            and one.destination == client
            and (port is None or one.ports[0] == port)
        ]

    def busiest(self) -> tuple[Address, Address]:
        """Source and destination of most bytes: a desktop sends more than is sent to it.

        Raises:
            BadInput: nothing was captured, or too many pairs to tell.
        """
        if self._has_more_ends:
            raise BadInput(
                f"{self.name} has packets of more than {MOST_PAIRS} pairs of addresses, too many "
                "to say which is a desktop's; give --server and --client"
            )
        if not self._by_ends:
            raise BadInput(f"{self.name} has no IP packets")
        return self._by_ends.most_common(1)[0][0]

    def tunnel(self) -> str | None:
        """What encrypts or wraps nearly all of its bytes, if something does."""
        if not self._wrapped or self._wrapped.total() < 0.9 * self._bytes:
            return None
        return self._wrapped.most_common(1)[0][0]


def _tunnel_of(one: Packet) -> str:
    """What a packet's data are wrapped by; empty if by nothing that is known."""
    name = _TUNNELS.get(one.protocol)
    if name or one.protocol != UDP:
        return name or ""
    return next((_TUNNEL_PORTS[port] for port in one.ports if port in _TUNNEL_PORTS), "")


def _when(one: Packet) -> int:
    return one.at_ns


def read(
    path: Path, most: int | None = None, keep: Callable[[Packet], bool] = lambda one: True
) -> Capture:
    """The packets of a pcap or pcapng file, all at once: a few hundred bytes of memory for each.

    Args:
        path: of the file.
        most: how many packets may be kept; None for any number.
        keep: which are; all others are counted only.

    Raises:
        BadInput: it cannot be read, is no capture, has too many packets, or its link is of a kind
            not known here.
    """
    capture = Capture(str(path))
    for one in _found(path, capture):
        if not keep(one):
            continue
        if len(capture.packets) == most:
            raise BadInput(
                f"{path} has more than {most} packets, which are not kept at once; give --server "
                "and --client, or cut it to a shorter time (editcap -A BEGIN -B END)"
            )
        capture.packets.append(one)
    # Several interfaces of one file may be a little out of order.
    capture.packets.sort(key=_when)
    return capture


def passing(
    path: Path, capture: Capture, order: Callable[[Packet], int] = _when
) -> Iterator[Packet]:
    """The packets of a pcap or pcapng file, one after the other, in memory that has an end.

    They come in order as long as none stands too far behind its time in the file; those are left
    out, and counted (`Capture.late`).

    Args:
        path: of the file.
        capture: told what the file holds, all of it with the last packet.
        order: what they are in the order of.

    Raises:
        BadInput: it cannot be read, is no capture, or its link is of a kind not known here.
    """
    waiting: list[Packet] = []
    latest: int | None = None
    for one in _found(path, capture):
        waiting.append(one)
        if len(waiting) == 2 * _PLACES:
            _sort(waiting, order, latest, capture)
            first = waiting[:_PLACES]
            latest = order(first[-1]) if first else latest
            del waiting[:_PLACES]
            yield from first
    _sort(waiting, order, latest, capture)
    yield from waiting


def _sort(
    waiting: list[Packet], order: Callable[[Packet], int], latest: int | None, capture: Capture
) -> None:
    """Puts packets in order, without those that belong before what was handed on."""
    waiting.sort(key=order)
    if latest is not None:
        late = bisect.bisect_left(waiting, latest, key=order)
        capture.late += late
        del waiting[:late]


def _found(path: Path, capture: Capture) -> Iterator[Packet]:
    """The packets of a file as they stand there, each of them counted."""
    is_empty = True
    try:
        with files.opened(path) as file:
            magic = file.read(4)
            if magic == _SECTION:
                records = _next_generation(file, capture)
            elif magic in _PCAP:
                records = _classic(file, capture, *_PCAP[magic])
            else:
                raise BadInput(f"{path} is no capture: neither pcap nor pcapng{_hint(magic)}")
            for one in _taken(capture, records):
                is_empty = False
                capture.count(one)
                yield one
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    if is_empty:
        raise BadInput(f"{path} has no IP packets{_why_empty(capture)}")


def _hint(magic: bytes) -> str:
    if not magic:
        return "; it is empty"
    packer = _PACKERS.get(magic[:2])
    return f"; it is compressed by {packer}: unpack it first" if packer else ""


def _why_empty(capture: Capture) -> str:
    if capture.short:
        return f": of {capture.short} no whole IP header was kept; capture 96 bytes of each"
    if capture.cut:
        return f": {capture.cut}"
    return f" but {capture.others} others" if capture.others else ""


_Record: TypeAlias = tuple[int, int, int, int, bytes]
"""Time in ns, number of the interface, kind of link, length on the wire, what was kept."""


class _Cut(Exception):
    """The file ends within a record, or is damaged from there on; says which."""


def _taken(capture: Capture, records: Iterator[_Record]) -> Iterator[Packet]:
    latest_ns: dict[int, int] = {}
    try:
        for at_ns, interface, link, length, kept in records:
            before_ns = latest_ns.get(interface, at_ns)
            if at_ns < before_ns:
                capture.back_ns = max(capture.back_ns, before_ns - at_ns)
            latest_ns[interface] = max(at_ns, before_ns)
            one = _read(capture, at_ns, link, length, kept)
            if one is not None:
                yield one
    except _Cut as cut:
        capture.cut = str(cut)


def _exactly(file: BinaryIO, count: int) -> bytes:
    content = file.read(count)
    if len(content) < count:
        raise _Cut("the file ends in the middle of a packet")
    return content


def _damaged(what: str) -> _Cut:
    return _Cut(f"{what}: the file is damaged from there on")


def _classic(file: BinaryIO, capture: Capture, order: str, unit_ns: int) -> Iterator[_Record]:
    """The records of a pcap file behind its first four bytes."""
    (link,) = struct.unpack_from(f"{order}16xI", _exactly(file, 20))
    link &= 0x0FFFFFFF  # above it stand flags on checksums
    _check_link(capture.name, link)
    while header := file.read(16):
        header += _exactly(file, 16 - len(header))
        seconds, fraction, kept, length = struct.unpack(f"{order}4I", header)
        # What was never written to the disk is zeros, of which many gigabytes take no room.
        if kept > _MOST_BYTES or not length:
            raise _damaged(f"a packet of {max(kept, length)} bytes")
        yield seconds * 10**9 + fraction * unit_ns, 0, link, length, _exactly(file, kept)


@dataclass(frozen=True)
class _Interface:
    link: int
    to_ns: Callable[[int], int]


def _next_generation(file: BinaryIO, capture: Capture) -> Iterator[_Record]:
    """The records of a pcapng file behind its first four bytes."""
    order, interfaces, earlier = "<", list[_Interface](), 0
    kind = _SECTION_HEAD
    while True:
        if kind == _SECTION_HEAD:
            length, magic = _exactly(file, 4), _exactly(file, 4)
            if magic not in _BYTE_ORDERS:
                raise _damaged("a section of no byte order")
            earlier += len(interfaces)
            order, interfaces = _BYTE_ORDERS[magic], []
            (size,) = struct.unpack(f"{order}I", length)
            _pass_by(file, size, 12)
        else:
            (size,) = struct.unpack(f"{order}I", _exactly(file, 4))
            if kind not in _OF_USE:
                _pass_by(file, size, 8)
            elif kind == _SIMPLE_PACKET:
                raise BadInput(f"{capture.name} has packets without times, which tell nothing")
            elif kind == _INTERFACE:
                if earlier + len(interfaces) >= _MOST_INTERFACES:
                    raise _damaged(f"more than {_MOST_INTERFACES} interfaces")
                interfaces.append(_interface(_body(file, size), order, capture.name))
            else:
                one = _packet_of(kind, _body(file, size), order, interfaces)
                yield one[0], earlier + one[1], *one[2:]
        header = file.read(4)
        if not header:
            return
        header += _exactly(file, 4 - len(header))
        # A new section has the same mark in both orders.
        (kind,) = struct.unpack(f"{order}I", header)


def _packet_of(kind: int, body: bytes, order: str, interfaces: list[_Interface]) -> _Record:
    shape = struct.Struct(order + ("HxxIIII" if kind == _OLD_PACKET else "IIIII"))
    if len(body) < shape.size:
        raise _damaged(f"a packet's block of {len(body) + 12} bytes")
    number, high, low, kept, length = shape.unpack_from(body)
    if number >= len(interfaces):
        raise _damaged("a packet of no interface")
    if kept > len(body) - shape.size or not length:
        raise _damaged(f"a packet of {max(kept, length)} bytes")
    one = interfaces[number]
    return one.to_ns(high << 32 | low), number, one.link, length, body[20 : 20 + kept]


def _body(file: BinaryIO, size: int) -> bytes:
    """What stands between a block's head and the length that ends it."""
    if not 12 <= size <= _MOST_BYTES + 4096:
        raise _damaged(f"a block of {size} bytes")
    return _exactly(file, size - 8)[:-4]


def _pass_by(file: BinaryIO, size: int, head: int) -> None:
    """Leaves out the rest of a block, of which so much is read; some have no end to speak of."""
    if size < head + 4:
        raise _damaged(f"a block of {size} bytes")
    rest = size - head
    while rest:
        rest -= len(_exactly(file, min(rest, _PIECE)))


def _interface(body: bytes, order: str, name: str) -> _Interface:
    if len(body) < 8:
        raise _damaged(f"an interface's block of {len(body) + 12} bytes")
    (link,) = struct.unpack_from(f"{order}H", body)
    _check_link(name, link)
    resolution, offset_s, at = 6, 0, 8
    while at + 4 <= len(body):
        code, size = struct.unpack_from(f"{order}HH", body, at)
        value = body[at + 4 : at + 4 + size]
        if len(value) < size:
            raise _damaged(f"an option of {size} bytes that runs past its block")
        if code == 0:
            break
        if code == 9 and size == 1:
            resolution = value[0]
        elif code == 14 and size == 8:
            (offset_s,) = struct.unpack(f"{order}q", value)
        at += 4 + -(-size // 4) * 4
    units = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution

    def to_ns(stamp: int) -> int:
        return int(offset_s * 10**9 + stamp * 10**9 // units)

    return _Interface(link, to_ns)


def _check_link(name: str, link: int) -> None:
    if link not in {_ETHERNET, _COOKED, _COOKED_2, *_RAW, *_LOOPBACK}:
        raise BadInput(
            f"{name} is of link type {link}; known are Ethernet (1), raw IP (101), "
            f"Linux cooked (113, 276) and loopback (0)"
        )


def _read(capture: Capture, at_ns: int, link: int, length: int, kept: bytes) -> Packet | None:
    """The packet of a record; None where there is none to be had, which is counted."""
    begin = _begin_of_ip(link, kept)
    if begin is None:
        capture.others += 1
        return None
    # Behind VLAN tags an Ethernet frame is counted as it was on the wire, tags and all.
    size = length if link == _ETHERNET else length - begin + ETHERNET_BYTES
    packet = _packet(at_ns, size, length - begin, kept[begin:])
    if packet is None:
        capture.short += 1
    return packet


def _begin_of_ip(link: int, kept: bytes) -> int | None:
    """Where the IP header begins; None if another protocol stands there."""
    if link in _RAW:
        return 0
    if link in _LOOPBACK:
        return 4 if len(kept) > 4 and kept[4] >> 4 in (4, 6) else None
    kind, begin = {_ETHERNET: (12, 14), _COOKED: (14, 16), _COOKED_2: (0, 20)}[link]
    if len(kept) < begin:
        return None
    (protocol,) = struct.unpack_from(">H", kept, kind)
    while link == _ETHERNET and protocol in _VLAN and len(kept) >= begin + 4:
        (protocol,) = struct.unpack_from(">H", kept, begin + 2)
        begin += 4
    return int(begin) if protocol in _IP_TYPES else None


@lru_cache(4096)
def _address(packed: bytes) -> Address:
    return ip_address(packed)


def _packet(at_ns: int, size: int, on_wire: int, kept: bytes) -> Packet | None:
    """What the headers say; None where that of IP is not whole."""
    version = kept[0] >> 4 if kept else 0
    begin = (kept[0] & 15) * 4 if version == 4 else 0
    if version == 4 and len(kept) >= 20 and begin >= 20:
        total, fragment, protocol = struct.unpack_from(">2xH2xHxB", kept)
        ends = _address(kept[12:16]), _address(kept[16:20])
        is_first = not fragment & 0x1FFF
        total = total or on_wire  # a train longer than the field can tell
    elif version == 6 and len(kept) >= 40:
        total = 40 + int.from_bytes(kept[4:6], "big") if any(kept[4:6]) else on_wire
        ends = _address(kept[8:24]), _address(kept[24:40])
        protocol, begin, is_first = _last_header(kept)
    else:
        return None
    if not is_first:
        return Packet(at_ns, size, *ends, protocol)
    return _with_ports(at_ns, size, ends, protocol, total - begin, kept[begin:])


def _last_header(kept: bytes) -> tuple[int, int, bool]:
    """IPv6's protocol behind the extensions, where it begins, whether it does so here."""
    protocol, begin, is_first = kept[6], 40, True
    while protocol in (*_EXTENSIONS, _FRAGMENT) and len(kept) >= begin + 8:
        if protocol == _FRAGMENT:
            is_first = not int.from_bytes(kept[begin + 2 : begin + 4], "big") >> 3
            protocol, begin = kept[begin], begin + 8
        else:
            protocol, begin = kept[begin], begin + 8 + kept[begin + 1] * 8
    return protocol, begin, is_first


def _with_ports(
    at_ns: int, size: int, ends: tuple[Address, Address], protocol: int, rest: int, kept: bytes
) -> Packet:
    """With what TCP or UDP say, as far as it was kept; `rest` is what IP carries, in bytes."""
    ports, sequence, length, payload = (0, 0), None, 0, b""
    if protocol in (TCP, UDP) and len(kept) >= 4:
        source, destination = struct.unpack_from(">HH", kept)
        ports = source, destination
    if protocol == TCP and len(kept) >= 13:
        (sequence,) = struct.unpack_from(">I", kept, 4)
        length = max(0, rest - (kept[12] >> 4) * 4)
    elif protocol == UDP and len(kept) >= 4:
        length = max(0, rest - 8)
        payload = kept[8 : 8 + min(length, PAYLOAD_KEPT)]
    return Packet(at_ns, size, *ends, protocol, ports, sequence, length, payload)
