"""Runs the calendar's HTTP server until it is told to stop."""

import gc
import logging
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import uvicorn

from weir.calendar.api import create_app
from weir.calendar.service import Service, Settings
from weir.calendar.store import Store
from weir.calendar.tokens import TokenFile
from weir.errors import BadInput, Unavailable

log = logging.getLogger(__name__)


def listen(address: str) -> socket.socket:
    """A listening socket for "ADDR:PORT"; port 0 lets the kernel choose.

    Raises:
        BadInput: not an address, or one that is in use or not ours.
    """
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise BadInput(f'"{address}" is not ADDR:PORT')
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol spelt out: asyncio sets TCP_NODELAY only where it sees IPPROTO_TCP, and
    # without it every answer waits for the client's delayed acknowledgement, 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise BadInput(f"cannot listen on {address}: {error.strerror or error}") from None
    return listener


def serve(
    settings: Settings,
    store_url: str,
    tokens_path: Path,
    address: str,
    on_listening: Callable[[str], None],
) -> None:
    """Serves until SIGINT or SIGTERM; `on_listening` is told the URL.

    Raises:
        BadInput: no tokens yet, an address or a store that cannot be.
        Unavailable: the store does not answer.
    """
    tokens = TokenFile(tokens_path)
    if not tokens.identities():
        raise BadInput(
            f"nobody could use this calendar: {tokens_path} holds no token; "
            f"make one: weir calendar token create NAME --role admin --tokens {tokens_path}"
        )
    listener = listen(address)
    try:
        app = create_app(Service(settings, Store(store_url)), tokens)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=3,
            lifespan="on",
        )
        server = uvicorn.Server(config)
        _prefer_short_pauses()
        host, port = listener.getsockname()[:2]
        on_listening(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        server.run(sockets=[listener])
        if not server.started:
            raise Unavailable("the calendar could not start; its log says why")
    finally:
        listener.close()


def _prefer_short_pauses() -> None:
    """Sets the interpreter up for latency.

    The modules are there to stay, so the collector need not walk them again: 60 ms each time. And
    a request that arrives while the writer computes should not wait 5 ms for its turn.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(0.0005)
