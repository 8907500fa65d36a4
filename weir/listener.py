"""Listening sockets, and what is wrong with an address that cannot have one."""

import asyncio
import socket
import time

from weir.errors import BadInput

# How many callers the kernel lets wait to be accepted.
_WAITING_MAX = 1024
# What a killed process held is free once the kernel has ended it.
_PATIENCE_S = 3.0
# A peer that takes nothing of what it asked for is cut off by the kernel after so long.
_STALL_MS = 30_000
# What the kernel holds for such a peer.
_SEND_BYTES = 256 * 1024


def listen(address: str) -> socket.socket:
    """A listening socket for "ADDR:PORT"; port 0 lets the kernel choose.

    Raises:
        BadInput: not an address, or one that is in use or not ours.
    """
    listener = bind(address)
    start(listener)
    return listener


def bind(address: str) -> socket.socket:
    """As `listen`, but callers are refused until `start`."""
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdecimal() or len(port) > 5 or int(port) > 65_535:
        raise BadInput(f'"{address}" is not ADDR:PORT')
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol spelt out: asyncio sets TCP_NODELAY only where it sees IPPROTO_TCP, and
    # without it every answer waits for the client's delayed acknowledgement, 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What is accepted inherits these.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STALL_MS)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        listener.bind((host, int(port)))
    except (OSError, UnicodeError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot listen on {address}: {why}") from None
    return listener


def start(listener: socket.socket) -> None:
    """Takes callers from now on; raises `BadInput` where somebody else does so there."""
    try:
        listener.listen(_WAITING_MAX)
    except OSError as error:
        host, port = listener.getsockname()[:2]
        listener.close()
        raise BadInput(f"cannot listen on {host}:{port}: {error.strerror}") from None


async def await_free(address: str) -> None:
    """Waits a moment until "ADDR:PORT" can be listened on; raises `BadInput` if it cannot be."""
    end_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            listen(address).close()
            return
        except BadInput:
            if time.monotonic() > end_s:
                raise
        await asyncio.sleep(0.1)
