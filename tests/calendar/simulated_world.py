"""A world in virtual time for the calendar's own code: a loop, clocks, a network, one thread.

The loop's time stands still while anything can run and jumps when all wait, so an hour of
calendar takes a second and the same seed gives the same run. What the code under test reads from
`time` is this world's; what it hands to threads runs at once, and its answer comes later.
"""

import asyncio
import contextlib
import itertools
import selectors
import time
from collections.abc import AsyncIterator

import httpx

NS_PER_S = 10**9
# Where the world's wall clock stands at first: 2026-11-25.
WALL_START_NS = 1_795_564_800 * NS_PER_S
BOOT_START_NS = 5_000 * NS_PER_S


class StandStill(Exception):
    """Everybody waits and nothing is due: what was waited for will never come."""


class _NoWait(selectors.SelectSelector):
    """A selector that lets virtual time pass instead of waiting."""

    def __init__(self):
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise StandStill
        self.now_s += max(timeout, 1e-6)
        return []


class NumberedTask(asyncio.Task):
    """A task whose place in a set depends on when it was made, not on where in memory."""

    def __init__(self, *args, number, **choices):
        self._number = number
        super().__init__(*args, **choices)

    def __hash__(self):
        return self._number


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time` is virtual and whose executors are this thread."""

    def __init__(self, latency_s=lambda: 0.0):
        self._virtual = _NoWait()
        super().__init__(self._virtual)
        self._latency_s = latency_s
        numbers = itertools.count()
        self.set_task_factory(
            lambda loop, work, **more: NumberedTask(work, loop=loop, number=next(numbers), **more)
        )

    def time(self):
        return self._virtual.now_s

    def run_in_executor(self, executor, call, *args):
        """Runs `call` now; whoever awaits it is answered after a random while."""
        answer = self.create_future()
        try:
            result = call(*args)
        except Exception as error:
            self.call_later(self._latency_s(), _settle, answer, None, error)
        else:
            self.call_later(self._latency_s(), _settle, answer, result, None)
        return answer


def _settle(future, result, error):
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class Clocks:
    """What the code under test reads as time: monotonic time runs, the wall's can be stepped."""

    def __init__(self, loop):
        self._loop = loop
        self.wall_offset_ns = 0

    def elapsed_ns(self):
        return int(self._loop.time() * NS_PER_S)

    def monotonic_ns(self):
        return BOOT_START_NS + self.elapsed_ns()

    def wall_ns(self):
        return WALL_START_NS + self.elapsed_ns() + self.wall_offset_ns

    def by_id(self, clock):
        return self.wall_ns() if clock == time.CLOCK_REALTIME else self.monotonic_ns()

    @contextlib.contextmanager
    def installed(self, monkeypatch):
        """Puts these clocks in the place of the machine's."""
        with monkeypatch.context() as patch:
            patch.setattr(time, "monotonic_ns", self.monotonic_ns)
            patch.setattr(time, "monotonic", lambda: self.monotonic_ns() / NS_PER_S)
            patch.setattr(time, "time_ns", self.wall_ns)
            patch.setattr(time, "time", lambda: self.wall_ns() / NS_PER_S)
            patch.setattr(time, "clock_gettime_ns", self.by_id)
            patch.setattr(time, "clock_gettime", lambda clock: self.by_id(clock) / NS_PER_S)
            yield


class _Body(httpx.AsyncByteStream):
    """A response's body as the application sends it, piece by piece."""

    def __init__(self, pieces, close):
        self._pieces = pieces
        self._close = close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self):
        self._close()


class Network(httpx.AsyncBaseTransport):
    """Carries requests to whatever application is up, or loses, delays, doubles and cuts them.

    `faults` is asked before each message; `application` is None while the service is down.
    """

    def __init__(self, faults):
        self._faults = faults
        self.application = None
        self.exchanges = {}

    async def handle_async_request(self, request):
        body = await request.aread()
        await asyncio.sleep(self._faults.delay_s())
        if self.application is None or self._faults.loses_request():
            raise httpx.ConnectError("the network lost the request", request=request)
        if self._faults.doubles(request):
            # A request that a proxy sent twice; nobody reads the first answer.
            await self._begin(request, body).started
        exchange = self._begin(request, body)
        try:
            status, headers = await exchange.started
            await asyncio.sleep(self._faults.delay_s())
            if self._faults.loses_answer():
                raise httpx.ReadError("the network lost the answer", request=request)
        except BaseException:
            # Whoever asked is gone, and its connection with it.
            exchange.cut()
            raise
        if (after_s := self._faults.cuts_stream_after_s(request)) is not None:
            asyncio.get_running_loop().call_later(after_s, exchange.cut)
        return httpx.Response(status, headers=headers, stream=_Body(exchange.pieces, exchange.cut))

    def cut_all(self):
        """The service dies: every exchange ends where it is."""
        self.application = None
        for exchange in list(self.exchanges):
            exchange.cut()

    def _begin(self, request, body):
        exchange = Exchange(self.application, request, body)
        self.exchanges[exchange] = True
        exchange.task.add_done_callback(lambda _: self.exchanges.pop(exchange, None))
        return exchange


class Exchange:
    """One request at the application, and its answer as it comes."""

    def __init__(self, application, request, body):
        self.pieces = asyncio.Queue()
        self.started = asyncio.get_running_loop().create_future()
        self._body = [body]
        self._gone = asyncio.Event()
        url = request.url
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": url.path,
            "raw_path": url.raw_path,
            "query_string": url.query,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        self.task = asyncio.create_task(self._run(application, scope))

    def cut(self):
        """Ends it: the application's task, and whatever the client still reads."""
        if not self.task.done():
            self._gone.set()
            self.task.cancel()
        self._break(httpx.ReadError("the connection broke"))

    async def _run(self, application, scope):
        try:
            await application(scope, self._receive, self._send)
            self._break(httpx.ReadError("no answer came"))
        except asyncio.CancelledError:
            self._break(httpx.ReadError("the connection broke"))
        except Exception as error:
            # A server would write it to its log and close the connection.
            self._break(httpx.ReadError(f"the application failed: {error}"))
        finally:
            self.pieces.put_nowait(None)

    async def _receive(self):
        if self._body:
            return {"type": "http.request", "body": self._body.pop(), "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        if message["type"] == "http.response.start":
            if not self.started.done():
                self.started.set_result((message["status"], message["headers"]))
            return
        if message.get("body"):
            self.pieces.put_nowait(message["body"])
        if not message.get("more_body"):
            self.pieces.put_nowait(None)

    def _break(self, error):
        if not self.started.done():
            self.started.set_exception(error)
            # Nobody may wait for it any more.
            self.started.exception()
        elif not self.task.done() or self.task.cancelled():
            self.pieces.put_nowait(error)
