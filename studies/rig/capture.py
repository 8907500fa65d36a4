"""What a host sent and received, read back from a simulator's capture: data segments of TCP."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

_PACKET_BLOCK = 6
_TCP = 6
_IP_BYTES = 20


@dataclass(frozen=True, slots=True)
class Data:
    """A TCP segment with data.

    Attributes:
        at_ns: when it passed the host.
        ports: of its source and of its destination.
        begin, end: of its data in the stream.
        size: of the IP packet.
    """

    at_ns: int
    ports: tuple[int, int]
    begin: int
    end: int
    size: int


def data_from(source: IPv4Address, path: Path) -> Iterator[Data]:
    """The data segments that a host sent, in a capture (pcapng of raw IPv4) of any host."""
    content = path.read_bytes()
    at, address = 0, source.packed
    while at < len(content):
        kind, length = struct.unpack_from("<II", content, at)
        packet = at + 28
        if kind == _PACKET_BLOCK and content[packet + 12 : packet + 16] == address:
            high, low = struct.unpack_from("<II", content, at + 12)
            size, protocol = struct.unpack_from(">2xH5xB", content, packet)
            if protocol == _TCP:
                ports = struct.unpack_from(">HH", content, packet + _IP_BYTES)
                (begin,) = struct.unpack_from(">I", content, packet + 24)
                header = (content[packet + 32] >> 4) * 4
                payload = size - _IP_BYTES - header
                if payload > 0:
                    yield Data((high << 32) + low, ports, begin, begin + payload, size)
        at += length
