"""The first packet of a connection, as a switch hands it on, and the packet that refuses it."""

import ipaddress
import struct
from dataclasses import dataclass

from weir.control import messages as m

_ETHERNET, _TCP = struct.Struct("!6s6sH"), struct.Struct("!HHIIBBHHH")
_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16
# Options of TCP by their kinds (RFC 9293, 7323, 2018), and the lengths that they have.
_END, _NOTHING, _MSS, _SCALE, _SACK, _TIMESTAMPS = 0, 1, 2, 3, 4, 8
_LENGTHS = {_MSS: 4, _SCALE: 3, _SACK: 2, _TIMESTAMPS: 10}
_HOPS = 64


@dataclass(frozen=True, slots=True, order=True)
class End:
    """An address of either IP, as `ipaddress` writes it, and a port."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else self.text4()

    def text4(self) -> str:
        """As an address of IPv4 is written."""
        return f"{self.address}:{self.port}"


def end_of(text: str) -> End:
    """The end that `ADDRESS:PORT` names, with brackets around an address of IPv6.

    Raises:
        ValueError: it is none.
    """
    address, colon, port = text.rpartition(":")
    if address.startswith("[") != (":" in address):
        raise ValueError(f"{text}: an address of IPv6 wants brackets")
    number = int(port) if colon and port.isascii() and port.isdigit() else 0
    if not 0 < number < 65_536:
        raise ValueError(f"{text}: wanted ADDRESS:PORT")
    return End(str(ipaddress.ip_address(address.strip("[]"))), number)


@dataclass(frozen=True, slots=True)
class Offered:
    """What a client offers in its SYN.

    Attributes:
        mss: the longest segment that it takes, in bytes.
        window_scale: by how many bits its windows are shifted; None: they are not.
        has_sack, has_timestamps: whether it takes selective acknowledgements, and timestamps.
    """

    mss: int | None = None
    window_scale: int | None = None
    has_sack: bool = False
    has_timestamps: bool = False


@dataclass(frozen=True, slots=True)
class Syn:
    """The first packet of a connection."""

    client: End
    server: End
    sequence: int
    offered: Offered
    frame: bytes


def syn(frame: bytes) -> Syn | None:
    """What a frame begins; None if it is no SYN that a whole packet of TCP brings."""
    try:
        return _syn(frame)
    except (struct.error, IndexError, ValueError):
        return None


def _syn(frame: bytes) -> Syn | None:
    found = _packet(frame)
    if found is None:
        return None
    source, target, tcp = found
    ports = struct.unpack_from("!HH", tcp)
    sequence, _, offset, flags = struct.unpack_from("!IIBB", tcp, 4)
    if flags & (_FIN | _SYN | _RST | _ACK) != _SYN or (offset >> 4) * 4 < _TCP.size or 0 in ports:
        return None
    options = tcp[_TCP.size : (offset >> 4) * 4]
    client, server = End(source, ports[0]), End(target, ports[1])
    return Syn(client, server, sequence, _offered(options), frame)


def _packet(frame: bytes) -> tuple[str, str, bytes] | None:
    """The addresses of a packet of TCP, and its segment."""
    (kind,) = struct.unpack_from("!H", frame, 12)
    packet = frame[_ETHERNET.size :]
    if kind == m.IPV4:
        (length,) = struct.unpack_from("!H", packet, 2)
        (fragment,) = struct.unpack_from("!H", packet, 6)
        head = (packet[0] & 0xF) * 4
        if packet[0] >> 4 != 4 or head < 20 or packet[9] != m.TCP or fragment & 0x3FFF:
            return None
        ends, tcp = (packet[12:16], packet[16:20]), packet[head:length]
    elif kind == m.IPV6:
        (length,) = struct.unpack_from("!H", packet, 4)
        if packet[0] >> 4 != 6 or packet[6] != m.TCP:
            return None  # Behind further headers switches would not look either.
        ends, tcp = (packet[8:24], packet[24:40]), packet[40 : 40 + length]
    else:
        return None
    source, target = (str(ipaddress.ip_address(one)) for one in ends)
    return source, target, tcp


def _offered(options: bytes) -> Offered:
    found: dict[int, bytes] = {}
    at = 0
    while at < len(options) and options[at] != _END:
        if options[at] == _NOTHING:
            at += 1
            continue
        length = options[at + 1]
        if length < 2 or at + length > len(options):
            break
        if _LENGTHS.get(options[at]) == length:
            found[options[at]] = options[at + 2 : at + length]
        at += length
    return Offered(
        int.from_bytes(found[_MSS]) if _MSS in found else None,
        min(found[_SCALE][0], 14) if _SCALE in found else None,
        _SACK in found,
        _TIMESTAMPS in found,
    )


def refusal(one: Syn) -> bytes:
    """The frame by which a server would refuse a connection: a reset (RFC 9293, 3.10.7.1)."""
    source, target = (ipaddress.ip_address(x.address) for x in (one.server, one.client))
    acknowledged = (one.sequence + 1) % 2**32
    ports = one.server.port, one.client.port
    tcp = _TCP.pack(*ports, 0, acknowledged, _TCP.size // 4 << 4, _RST | _ACK, 0, 0, 0)
    kind = m.IPV4 if source.version == 4 else m.IPV6
    ends = source.packed + target.packed
    checked = ends + (
        struct.pack("!BBH", 0, m.TCP, len(tcp))
        if kind == m.IPV4
        else struct.pack("!I3xB", len(tcp), m.TCP)
    )
    tcp = tcp[:16] + _checksum(checked + tcp) + tcp[18:]
    if kind == m.IPV4:
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, _HOPS, m.TCP, 0)
        head = head[:10] + _checksum(head + ends) + ends
    else:
        head = struct.pack("!IHBB", 6 << 28, len(tcp), m.TCP, _HOPS) + ends
    return _ETHERNET.pack(one.frame[6:12], one.frame[:6], kind) + head + tcp


def _checksum(data: bytes) -> bytes:
    """The checksum of the Internet (RFC 1071) of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~total & 0xFFFF)
