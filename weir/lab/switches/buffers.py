"""Room for bursts in front of a datapath: its packet sockets' buffers, which it has no setting for.

A host hands over 45 packets at once, and the kernel's default holds some 90 per port: a datapath
that waits for a processor for half a millisecond would lose what no scenario's queue has dropped.
The sockets are reached from outside, as a debugger reaches a program's descriptors.
"""

import contextlib
import ctypes
import os
import socket
from pathlib import Path

_RECEIVE_B = 4 << 20  # some 1800 packets
_SEND_B = 64 << 20  # one socket sends into the queues of all ports: no class may use up another's
_SYS_PIDFD_GETFD = 438
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33

_libc = ctypes.CDLL(None, use_errno=True)


def widen(pid: int) -> int:
    """Gives every packet socket of a process larger buffers; returns how many it has.

    Without root they grow to what the machine allows, which is twice the default in Debian.
    """
    found = 0
    with contextlib.suppress(OSError):  # not permitted, or the process has ended
        process = os.pidfd_open(pid)
        try:
            for number in _sockets(pid):
                found += _widen_one(process, number)
        finally:
            os.close(process)
    return found


def _sockets(pid: int) -> list[int]:
    links = Path(f"/proc/{pid}/fd").iterdir()
    return [int(link.name) for link in links if str(link.readlink()).startswith("socket:")]


def _widen_one(process: int, number: int) -> bool:
    descriptor = _libc.syscall(_SYS_PIDFD_GETFD, process, number, 0)
    if descriptor < 0:
        return False
    with socket.socket(fileno=descriptor) as endpoint:
        if endpoint.family != socket.AF_PACKET:
            return False
        for forced, plain, size in (
            (_SO_RCVBUFFORCE, socket.SO_RCVBUF, _RECEIVE_B),
            (_SO_SNDBUFFORCE, socket.SO_SNDBUF, _SEND_B),
        ):
            try:
                endpoint.setsockopt(socket.SOL_SOCKET, forced, size)
            except PermissionError:
                endpoint.setsockopt(socket.SOL_SOCKET, plain, size)
    return True
