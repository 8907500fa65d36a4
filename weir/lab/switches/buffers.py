"""Room for bursts in front of a datapath: its packet sockets' buffers, which it has no setting for.

A host hands over 45 packets at once, and the kernel's default holds some 90 per port: a datapath
that waits for a processor for half a millisecond would lose what no scenario's queue has dropped.
The sockets are reached from outside, as a debugger reaches a program's descriptors.
"""

import contextlib
import ctypes
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

_RECEIVE_B = 4 << 20  # some 1800 packets
_SEND_B = 64 << 20  # one socket sends into the queues of all ports: no class may use up another's
_SYS_PIDFD_GETFD = 438
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_SO_MEMINFO, _MEMINFO_DROPS = 55, 8

_libc = ctypes.CDLL(None, use_errno=True)


def widen(pid: int) -> int:
    """Gives every packet socket of a process larger buffers; returns how many it has.

    Without root they grow to what the machine allows, which is twice the default in Debian.
    """
    found = 0
    for endpoint in _packet_sockets(pid):
        found += 1
        for forced, plain, size in (
            (_SO_RCVBUFFORCE, socket.SO_RCVBUF, _RECEIVE_B),
            (_SO_SNDBUFFORCE, socket.SO_SNDBUF, _SEND_B),
        ):
            try:
                endpoint.setsockopt(socket.SOL_SOCKET, forced, size)
            except PermissionError:
                endpoint.setsockopt(socket.SOL_SOCKET, plain, size)
    return found


def descriptors(pid: int) -> int:
    """How many descriptors a process has open; none if it has ended."""
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return 0


def dropped(pid: int) -> int:
    """Packets that came to a process's packet sockets and found no room: it was too slow."""
    drops = 0
    for endpoint in _packet_sockets(pid):
        about = endpoint.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * (_MEMINFO_DROPS + 1))
        drops += int.from_bytes(about[4 * _MEMINFO_DROPS :], sys.byteorder)
    return drops


def _packet_sockets(pid: int) -> Iterator[socket.socket]:
    """Those of a process, each open for as long as the caller looks at it."""
    with contextlib.ExitStack() as opened:
        opened.enter_context(
            contextlib.suppress(OSError)
        )  # it has ended, or is not ours to look at
        process = os.pidfd_open(pid)
        opened.callback(os.close, process)
        for link in Path(f"/proc/{pid}/fd").iterdir():
            if not str(link.readlink()).startswith("socket:"):
                continue
            descriptor = _libc.syscall(_SYS_PIDFD_GETFD, process, int(link.name), 0)
            if descriptor < 0:
                continue
            with socket.socket(fileno=descriptor) as endpoint:
                if endpoint.family == socket.AF_PACKET:
                    yield endpoint
