"""Records what passes an interface into a file: the headers of IP packets, with the kernel's times.

It is `tcpdump -s 96` where there is no tcpdump, with nanoseconds.
"""

import contextlib
import io
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from weir import files
from weir.errors import BadInput, Unavailable, Unsupported

SNAP_BYTES = 96
_ALL = 0x0003
_TIMES = 35  # SO_TIMESTAMPNS: Python has no name for it
_BUFFER_BYTES = 8 << 20
_OUTGOING = 4  # PACKET_OUTGOING
_LOOK_S = 0.1
_PIECE = 1 << 16
_LOOPBACK = 772
_LINK = {1: 1, _LOOPBACK: 1, 65534: 101}
"""Kind of link in a capture by the kernel's hardware type: Ethernet, loopback, TUN."""


def record(interface: str, path: Path, is_over: Callable[[], bool]) -> int:
    """Writes a pcap file until `is_over`; returns how many packets it has.

    What was written before something failed stays, and is a capture that is read as a part.

    Args:
        interface: such as `eth0`.
        path: of the file.
        is_over: asked ten times a second.

    Raises:
        BadInput: there is no such interface, or the file cannot be written; says how many packets
            had been written.
        Unsupported: this user may not capture, or the interface is of another kind.
        Unavailable: the interface went away, or a pipe's reader took nothing when all was over.
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
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise BadInput(f"interface {interface}: {why}") from None
        link = _LINK.get(tap.getsockname()[3])
        if link is None:
            raise Unsupported(f"{interface} is neither Ethernet nor a tunnel of plain IP")
        tap.settimeout(_LOOK_S)
        with _written(path, is_over) as file:
            file.write(struct.pack("<4s2H4I", b"\x4d\x3c\xb2\xa1", 2, 4, 0, 0, SNAP_BYTES, link))
            file.flush()
            return _copy(tap, interface, file, path, is_over)


@contextlib.contextmanager
def _written(path: Path, is_over: Callable[[], bool]) -> Iterator[BinaryIO]:
    """A file to write, made anew; where that fails, what is in it already stays."""
    try:
        # A FIFO that nobody reads is refused: signals are held back, and could not end the waiting.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
        is_broken_off = False
        raw = files.written(os.open(path, flags, 0o666), lambda: is_broken_off or is_over())
        file = io.BufferedWriter(raw, _PIECE)
        try:
            yield file
            file.close()
        except BaseException:
            is_broken_off = True
            raise
        finally:
            with contextlib.suppress(OSError):
                file.close()
    except TimeoutError as error:
        raise Unavailable(f"{path}: {error.strerror}") from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None


def _copy(
    tap: socket.socket, interface: str, file: BinaryIO, path: Path, is_over: Callable[[], bool]
) -> int:
    count, looked_s = 0, time.monotonic()
    room = bytearray(SNAP_BYTES)
    try:
        while True:
            now_s = time.monotonic()
            if now_s - looked_s > _LOOK_S:
                looked_s = now_s
                # Who is killed has written all but the last moment.
                file.flush()
                if is_over():
                    return count
            try:
                # The kernel says how long a packet was, however little of it is taken.
                length, told, _, where = tap.recvmsg_into([room], 64, socket.MSG_TRUNC)
            except TimeoutError:
                continue
            except OSError as error:
                said = f"{error.strerror}; {count} packets were captured before, and are kept"
                raise Unavailable(f"interface {interface}: {said}") from None
            # The loopback interface shows each packet as it goes and as it comes.
            if where[2] == _OUTGOING and where[3] == _LOOPBACK:
                continue
            kept = room[: min(length, SNAP_BYTES)]
            stamp = next((value for _, kind, value in told if kind == _TIMES), None)
            seconds, nanoseconds = (
                struct.unpack("qq", stamp) if stamp else divmod(time.time_ns(), 10**9)
            )
            file.write(struct.pack("<4I", seconds, nanoseconds, len(kept), length) + kept)
            count += 1
    except TimeoutError as error:
        said = f"{error.strerror}; of {count} packets captured before, the last are lost"
        raise Unavailable(f"{path}: {said}") from None
    except OSError as error:
        said = f"{error.strerror}; of {count} packets captured before, most are kept"
        raise BadInput(f"{path}: {said}") from None
