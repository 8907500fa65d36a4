"""Listening sockets, and what is wrong with an address that cannot have one."""

import contextlib
import errno
import os
import socket
import stat
import time
from pathlib import Path

from weir.errors import BadInput

PORT_MAX = 65_535
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
    number = port_of(port)
    if not colon or number is None:
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
        # An address of one link has the name of its interface, which a bare pair would lose.
        is_six = family == socket.AF_INET6
        found = socket.getaddrinfo(host, number, family, socket.SOCK_STREAM) if is_six else []
        listener.bind(found[0][4] if found else (host, number))
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


def port_of(text: str) -> int | None:
    """The number of a port as people write it, 0 included; None for anything else."""
    is_one = text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= PORT_MAX
    return int(text) if is_one else None


def clear_socket(path: Path) -> None:
    """Takes the file of a socket away, which whoever listened there has left.

    Raises:
        BadInput: somebody listens there, or something else is there, which stays; or it cannot be
            taken away.
    """
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise BadInput(f"{path}: there is something that is no socket; name another place")
        if _is_listened_at(path):
            raise BadInput(f"{path}: another process listens there")
        path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None


def _is_listened_at(path: Path) -> bool:
    """Whether a process has the socket of this file, be it stopped or busy, or a datagram's."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.setblocking(False)
        try:
            asking.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except BlockingIOError:
            return True  # Those who wait for it are as many as there may be.
        except OSError as error:
            return error.errno == errno.EPROTOTYPE
    return True


def remove_socket(path: Path, made: os.stat_result) -> None:
    """Takes the file of our own socket away, which is still open; what else is there stays.

    Args:
        path: where it was bound.
        made: what was there then: while the socket is open no other file is the same.
    """
    with contextlib.suppress(OSError):
        if os.path.samestat(path.lstat(), made):
            path.unlink()


async def await_free(address: str) -> None:
    """Waits a moment until "ADDR:PORT" can be listened on; raises `BadInput` if it cannot be."""
    # Only here: who listens without it need not wait for it.
    import asyncio

    end_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            listen(address).close()
            return
        except BadInput:
            if time.monotonic() > end_s:
                raise
        await asyncio.sleep(0.1)
