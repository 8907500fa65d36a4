"""Records what passes an interface into a file: the headers of IP packets, with the kernel's times.

It is `tcpdump -s 96` where there is no tcpdump, with nanoseconds.
"""

import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

from weir.errors import BadInput, Unsupported

SNAP_BYTES = 96
_ALL = 0x0003
_TIMES = 35  # SO_TIMESTAMPNS: Python has no name for it
_BUFFER_BYTES = 8 << 20
_LOOK_S = 0.1
_LINK = {1: 1, 772: 1, 65534: 101}
"""Kind of link in a capture by the kernel's hardware type: Ethernet, loopback, TUN."""


def record(interface: str, path: Path, is_over: Callable[[], bool]) -> int:
    """Writes a pcap file until `is_over`; returns how many packets it has.

    Args:
        interface: such as `eth0`.
        path: of the file.
        is_over: asked ten times a second.

    Raises:
        BadInput: there is no such interface, or the file cannot be written.
        Unsupported: this user may not capture, or the interface is of another kind.
    """
    try:
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    except PermissionError:
        raise Unsupported("capturing needs root or the capability CAP_NET_RAW") from None
    with tap:
        tap.setsockopt(socket.SOL_SOCKET, _TIMES, 1)
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        try:
            tap.bind((interface, _ALL))
        except OSError as error:
            raise BadInput(f"interface {interface}: {error.strerror}") from None
        link = _LINK.get(tap.getsockname()[3])
        if link is None:
            raise Unsupported(f"{interface} is neither Ethernet nor a tunnel of plain IP")
        tap.settimeout(_LOOK_S)
        try:
            with path.open("wb") as file:
                file.write(
                    struct.pack("<4s2H4I", b"\x4d\x3c\xb2\xa1", 2, 4, 0, 0, SNAP_BYTES, link)
                )
                file.flush()
                return _copy(tap, file.write, is_over)
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from None


def _copy(tap: socket.socket, write: Callable[[bytes], int], is_over: Callable[[], bool]) -> int:
    count, looked_s = 0, time.monotonic()
    room = bytearray(SNAP_BYTES)
    while True:
        now_s = time.monotonic()
        if now_s - looked_s > _LOOK_S:
            looked_s = now_s
            if is_over():
                return count
        try:
            # The kernel says how long a packet was, however little of it is taken.
            length, told, _, _ = tap.recvmsg_into([room], 64, socket.MSG_TRUNC)
        except TimeoutError:
            continue
        kept = room[: min(length, SNAP_BYTES)]
        stamp = next((value for _, kind, value in told if kind == _TIMES), None)
        seconds, nanoseconds = (
            struct.unpack("qq", stamp) if stamp else divmod(time.time_ns(), 10**9)
        )
        write(struct.pack("<4I", seconds, nanoseconds, len(kept), length) + kept)
        count += 1
