"""Runs the calendar's HTTP server until it is told to stop."""

import asyncio
import gc
import logging
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import uvicorn

from weir import descriptors
from weir import listener as listener_module
from weir._core import calendar_policies
from weir.calendar.rest.api import create_app
from weir.calendar.rest.connections import (
    BACKLOG,
    Crowd,
    connections_of,
    sweep_forever,
)
from weir.calendar.rest.tokens import TokenFile
from weir.calendar.service.service import Service
from weir.calendar.settings import Settings, policy_of
from weir.calendar.storage.ownership import Held
from weir.calendar.storage.store import Store
from weir.calendar.storage.watch import STILL_S, Watch
from weir.errors import BadInput, Unavailable, WeirError

log = logging.getLogger(__name__)

# Told to stop, the server finishes what it is at for so long, less whoever does not read.
GRACE_S = 3
ABORT_S = 2.0
# A request that arrives while the writer computes should not wait for its turn by default's 5 ms.
SWITCH_S = 0.0005
# A service that stands by asks again after so long whether the store is free.
STANDBY_PAUSE_S = 0.2


def serve(
    settings: Settings,
    store_url: str,
    tokens_path: Path,
    address: str,
    on_listening: Callable[[str], None],
    on_standby: Callable[[str], None] | None = None,
    *,
    goes_on: bool = False,
) -> None:
    """Serves until SIGINT or SIGTERM; `on_listening` is told the URL.

    With `goes_on` a store that has a plan goes on with the policy of that plan, and the log says so
    where that is another than the one in `settings`.

    With `on_standby` this service stands by while another one holds the store, or the store does
    not answer: it is told why, and callers are refused until it is this one's turn.

    Raises:
        BadInput: no tokens yet, an address or a store that cannot be.
        Unavailable: the store does not answer; without `on_standby`, another service holds it.
    """
    tokens = TokenFile(tokens_path)
    if not tokens.identities():
        raise BadInput(
            f"nobody could use this calendar: {tokens_path} holds no token; "
            f"make one: weir calendar token create NAME --role admin --tokens {tokens_path}"
        )
    listener = listener_module.bind(address)
    try:
        if on_standby is None:
            listener_module.start(listener)
            store = Store(store_url)
        else:
            store = _stand_by(store_url, on_standby)
            listener_module.start(listener)
        # Until the plan is taken up nothing is thrown away that there would be to collect.
        gc.disable()
        if goes_on:
            settings = _as_begun(settings, store)
        settings.check_paths()
        service = Service(settings, store)
        crowd = Crowd(descriptors.raise_limit())
        config = uvicorn.Config(
            create_app(service, tokens),
            http=connections_of(crowd),
            backlog=BACKLOG,
            # Its warnings are about what strangers send, and strangers have no end.
            log_level="error",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE_S,
            # Started and stopped here, so that what cannot start says so in one line.
            lifespan="off",
        )
        server = _Server(config, service, crowd)
        sys.setswitchinterval(SWITCH_S)
        host, port = listener.getsockname()[:2]
        on_listening(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        server.run(sockets=[listener])
        if service.failure is not None:
            raise service.failure
    finally:
        listener.close()


def _as_begun(settings: Settings, store: Store) -> Settings:
    """The settings with the policy that the store's plan was made by, if it has one."""
    snapshot = store.snapshot()
    begun = settings.policy if snapshot is None else policy_of(snapshot.configuration)
    if begun == settings.policy or begun not in calendar_policies():
        return settings
    log.warning(
        "this store was begun with the policy %s and goes on with it; with --policy %s, which new "
        "stores have, everything active is planned anew, and --policy %s ends this message",
        *(begun, settings.policy, begun),
    )
    return replace(settings, policy=begun)


def _stand_by(store_url: str, on_standby: Callable[[str], None]) -> Store:
    """The store, once no other service holds it and it answers; `on_standby` is told what is so."""
    told = ""
    watch = Watch(store_url)
    while True:
        try:
            return Store(store_url)
        except Unavailable as error:
            # PostgreSQL's queue for the lock has waited already; what failed at once has not.
            time.sleep(STANDBY_PAUSE_S)
            if str(error) != told:
                told = str(error)
                on_standby(told)
            if isinstance(error, Held) and watch.ends_what_stands_still():
                on_standby(f"its holder has written nothing for {STILL_S:g} s, and is superseded")


class _Server(uvicorn.Server):
    """A server that lives as long as the service behind it."""

    def __init__(self, config: uvicorn.Config, service: Service, crowd: Crowd) -> None:
        super().__init__(config)
        self._service = service
        self._crowd = crowd
        service.on_failure = self._give_up

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts the service, then listens."""
        try:
            await self._service.start()
        except WeirError:
            await self._service.stop()
            raise
        _collect_little()
        await super().startup(sockets)
        self._keeping = [
            asyncio.create_task(sweep_forever(self._crowd), name="weir-sweep"),
            asyncio.create_task(self._service.shorten_log_forever(), name="weir-log"),
        ]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends what would never end by itself, then the rest, then the service."""
        for task in self._keeping:
            task.cancel()
        self._service.close_streams()
        asyncio.get_running_loop().call_later(ABORT_S, self._crowd.abort)
        await super().shutdown(sockets)
        await self._service.stop()

    def _give_up(self) -> None:
        self.should_exit = True


def _collect_little() -> None:
    """Sets the collector up for latency, once everything is there that is there to stay.

    It need not walk modules and plan again: 60 ms each time, and 40 ms for ten thousand transfers.
    What lives long hardly ever has cycles to be found, by default every few seconds of reports.
    """
    gc.freeze()
    gc.set_threshold(1_000, 10, 100)
    gc.enable()
