"""Where switches' samples come in."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

from weir.errors import BadInput
from weir.listener import clear_socket, port_of

# Samples of some seconds of a busy switch: what nobody has room for is lost.
_BUFFER_BYTES = 4 << 20


async def listen(where: str, take: Callable[[bytes, str], None]) -> asyncio.DatagramTransport:
    """Hands every datagram, with its sender, to `take`.

    Args:
        where: `HOST:PORT`, or `unix:PATH` for a socket of datagrams.
        take: raises `ValueError` for one that it cannot read, which is passed over.

    Raises:
        BadInput: this is no address, or nobody can listen there.
    """
    try:
        endpoint = _bound(where)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot listen at {where}: {why}") from None
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Taker(take), sock=endpoint)
    return transport


def _bound(where: str) -> socket.socket:
    if where.startswith("unix:"):
        path = where.removeprefix("unix:")
        clear_socket(Path(path))
        endpoint = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        address: str | tuple[str, int] = path
    else:
        host, _, text = where.rpartition(":")
        port = port_of(text)
        if not host or port is None:
            raise BadInput(f'"{where}" is not HOST:PORT or unix:PATH')
        host = host.strip("[]")
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        endpoint, address = socket.socket(found[0], socket.SOCK_DGRAM), (host, port)
    try:
        endpoint.setblocking(False)
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        endpoint.bind(address)
    except OSError:
        endpoint.close()
        raise
    return endpoint


class _Taker(asyncio.DatagramProtocol):
    def __init__(self, take: Callable[[bytes, str], None]) -> None:
        self._take = take

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Hands it on, whoever sent it."""
        sender = addr[0] if isinstance(addr, tuple) else addr
        with contextlib.suppress(ValueError):
            self._take(data, str(sender or ""))
