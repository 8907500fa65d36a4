"""The controller of a lab's switches, `weir.control`, in a thread of this process."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from weir.calendar.agents.enforcer import Allotment, Pair
from weir.calendar.network import Network
from weir.control.core import Core
from weir.control.enforcer import SwitchEnforcer
from weir.control.openflow import Switches
from weir.errors import Unavailable

_LIMIT_S = 30.0
_LOOK_S = 0.01
_T = TypeVar("_T")


class Control:
    """A controller that listens while the context lasts.

    Args:
        network: whose switches it has.
        listen: where they connect, as `weir control serve --listen`.
    """

    def __init__(self, network: Network, listen: str) -> None:
        self._core = Core(network)
        self._listen = listen
        self._count = len(network.datapaths)
        self._said: list[str] = []
        self._switches = Switches(self._core, self._said.append)
        self._enforcer = SwitchEnforcer(self._core, self._switches.pump)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def allot(self, wanted: Mapping[Pair, Allotment]) -> None:
        """Returns when every switch has confirmed that it does this.

        Raises:
            Unavailable: one has not for half a minute.
        """
        self.tell(wanted)
        self._until(self._is_done)

    def _until(self, is_so: Callable[[], bool]) -> None:
        end_s = time.monotonic() + _LIMIT_S
        while not self._in_loop(is_so):
            if time.monotonic() > end_s:
                raise Unavailable(f"the switches did not obey within {_LIMIT_S:g} s: {self._said}")
            time.sleep(_LOOK_S)

    def tell(self, wanted: Mapping[Pair, Allotment]) -> None:
        """Has the switches told of this, and does not wait for them."""
        self._in_loop(lambda: self._enforcer.apply(wanted))

    def send_along(self, wanted: Mapping[Pair, Allotment], pair: Pair) -> None:
        """Tells them this, and returns when this pair is sent along its path.

        Raises:
            Unavailable: it has not been for half a minute.
        """
        self.tell(wanted)
        self._until(lambda: self._core.is_in_force(pair))

    def path(self, pair: Pair) -> list[str]:
        """The links that a pair is sent along."""
        return self._in_loop(lambda: self._core.path(pair))

    def _is_done(self) -> bool:
        return len(self._core.connected()) == self._count and self._core.is_settled()

    def _in_loop(self, what: Callable[[], _T]) -> _T:
        async def work() -> _T:
            return what()

        return asyncio.run_coroutine_threadsafe(work(), self._loop).result()

    async def _open(self) -> None:
        self._server = await self._switches.listen(self._listen)
        self._running = asyncio.create_task(self._switches.run())

    async def _close(self) -> None:
        self._server.close()
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running
        await self._switches.close()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
