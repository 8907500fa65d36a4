"""Kernel timestamps of datagrams (Documentation/networking/timestamping.rst).

A packet is stamped when the kernel hands it to its queueing discipline and when the kernel takes
it from the device: what a busy machine does to this process in between is not in the difference.
"""

import socket
import struct

_SO_TIMESTAMPING = 37  # <asm-generic/socket.h>; also the type of the control message
_TX_SCHED, _RX_SOFTWARE, _SOFTWARE = 1 << 8, 1 << 3, 1 << 4  # SOF_TIMESTAMPING_…
_TIMESPEC = struct.Struct("qq")
CONTROL_BYTES = 512


def request_stamps(endpoint: socket.socket, sent: bool = True) -> None:
    """Asks for stamps of what `endpoint` receives and, if `sent`, sends.

    A kernel without them goes without. Sent packets come back on the error queue, stamped.
    """
    try:
        wanted = _RX_SOFTWARE | _SOFTWARE | (_TX_SCHED if sent else 0)
        endpoint.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, wanted)
    except OSError:
        return


def stamp_of(control: list[tuple[int, int, bytes]]) -> int | None:
    """The stamp among a packet's control messages, in ns of CLOCK_REALTIME; None unstamped."""
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPING:
            seconds, ns = _TIMESPEC.unpack_from(data)
            return (seconds * 10**9 + ns) or None
    return None
