"""Runs the calendar's HTTP server until it is told to stop."""

import gc
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import uvicorn

from weir.calendar.api import create_app
from weir.calendar.listener import listen
from weir.calendar.service import Service, Settings
from weir.calendar.store import Store
from weir.calendar.tokens import TokenFile
from weir.errors import BadInput, Unavailable

log = logging.getLogger(__name__)


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
