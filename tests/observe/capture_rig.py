"""Captures made by hand, byte by byte."""

import socket
import struct

SERVER, CLIENT, KEEPER = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def ip(payload, protocol, source=SERVER, destination=CLIENT, size=None):
    """An IPv4 packet; `size` is its length where only its begin is there."""
    total = size or 20 + len(payload)
    head = struct.pack(">BxH4xBBxx", 0x45, total, 64, protocol)
    return head + socket.inet_aton(source) + socket.inet_aton(destination) + payload


def tcp(length, sequence=0, port=5901, **ends):
    """A segment of TCP with so many bytes of data, of which none is there."""
    header = struct.pack(">HHIIBBHxxxx", port, 40000, sequence, 0, 0x50, 0x18, 1000)
    return ip(header, 6, size=40 + length, **ends)


def udp(payload, port=5300, source=SERVER, destination=KEEPER):
    return ip(
        struct.pack(">HHHxx", 4000, port, 8 + len(payload)) + payload, 17, source, destination
    )


def pcap(packets, link=101, order="<", unit_ns=1):
    """A pcap file: of each packet its time in ns, its bytes, how many it had on the wire."""
    magic = 0xA1B23C4D if unit_ns == 1 else 0xA1B2C3D4
    content = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 96, link)
    for at_ns, kept, length in packets:
        seconds, rest = divmod(at_ns, 10**9)
        content += struct.pack(f"{order}IIII", seconds, rest // unit_ns, len(kept), length) + kept
    return content


def block(kind, body, order="<"):
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + size + body + size


def section(order="<"):
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link=101, options=b"", order="<"):
    return block(1, struct.pack(f"{order}HxxI", link, 96) + options, order)


def enhanced(stamp, kept, length, number=0, order="<"):
    head = struct.pack(f"{order}IIIII", number, stamp >> 32, stamp & 0xFFFFFFFF, len(kept), length)
    return block(6, head + kept, order)


def whole(packet):
    """How long a packet of IPv4 says that it is."""
    return struct.unpack_from(">H", packet, 2)[0]


def raw(at_ns, packet):
    return at_ns, packet, whole(packet)
