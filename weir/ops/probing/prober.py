"""Sends the requests of a plan at their times and makes samples of the replies.

Time comes from a `Clock`: the machine's in `weir probe`, a recorded one in the tests.
"""

import ctypes
import select
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from weir.ops.probing.collector import Collector
from weir.ops.probing.echo import Reply
from weir.ops.probing.pattern import Pattern
from weir.ops.probing.plan import Plan, Request
from weir.ops.sample import Sample
from weir.ops.tcp_info import TcpInfo

_PR_SET_TIMERSLACK = 29
_MS = 1_000_000
_NAP_MAX_NS = 100 * _MS  # after which one looks whether to stop


class Requests(Protocol):
    """What the prober needs of an `Echo`."""

    def send(self, key: int) -> None:
        """Sends a request."""

    def replies(self) -> Iterator[Reply]:
        """What has come."""

    def fileno(self) -> int:
        """Readable when replies have come."""


class Clock(Protocol):
    """Time, and waiting for it."""

    def now_ns(self) -> int:
        """Of CLOCK_MONOTONIC."""

    def wait(self, until_ns: int, readable: int) -> None:
        """Until that time, or until the descriptor is readable if that is earlier."""


class MonotonicClock:
    """The machine's."""

    def __init__(self) -> None:
        # Of this thread, which makes its clock: 1 ns instead of the usual 50 us.
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
        self._poll = select.poll()
        self._polled = -1

    def now_ns(self) -> int:
        """Of CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def wait(self, until_ns: int, readable: int) -> None:
        """`poll` counts whole milliseconds; the rest is slept."""
        if readable != self._polled:
            self._poll.register(readable, select.POLLIN)
            self._polled = readable
        left = until_ns - time.monotonic_ns()
        if left >= _MS:
            self._poll.poll(left // _MS)
        elif left > 0:
            time.sleep(left / 1e9)


class Prober:
    """Carries out a plan.

    Args:
        echo: where requests go.
        plan: when.
        clock: by which time.
        begin_ns: when sample 0 is due.
        pattern: what our own traffic does meanwhile, anchored to `begin_ns`.
        tcp: asks the kernel about our own connection.
        stopped: whether to send no more; asked a few times a second.
    """

    def __init__(
        self,
        echo: Requests,
        plan: Plan,
        clock: Clock,
        begin_ns: int,
        *,
        pattern: Pattern | None = None,
        tcp: Callable[[], TcpInfo | None] = lambda: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._echo = echo
        self._plan = plan
        self._clock = clock
        self._begin_ns = begin_ns
        self._pattern = pattern
        self._tcp = tcp
        self._stopped = stopped
        self._collector = Collector(plan, begin_ns)
        self.stamped = 0

    def samples(self) -> Iterator[Sample]:
        """Every sample, in order, as soon as it is complete; what is open when stopped is not."""
        for request in self._plan.requests_in_time():
            yield from self._until(self._begin_ns + request.due_ns)
            if self._stopped():
                return
            self._send(request)
        yield from self._until(None)

    def _until(self, until_ns: int | None) -> Iterator[Sample]:
        """Takes replies in until a time, None until nothing more is awaited."""
        while True:
            for reply in self._echo.replies():
                sample, number = divmod(reply.key, self._plan.requests)
                self.stamped += reply.stamped
                self._collector.reply(sample, number, reply.rtt_ns)
            now = self._clock.now_ns()
            yield from self._collector.ready(now)
            over = self._collector.due_ns()
            limit = over if until_ns is None else until_ns
            if limit is None or now >= limit or self._stopped():
                return
            wake = min(limit, limit if over is None else over, now + _NAP_MAX_NS)
            self._clock.wait(wake, self._echo.fileno())

    def _send(self, request: Request) -> None:
        now = self._clock.now_ns()
        if request.number == 0:
            segment = None
            if self._pattern:
                segment = str(self._pattern.at(request.due_ns))
            self._collector.begin(request.sample, segment, self._tcp())
        if now < self._begin_ns + request.end_ns:
            self._echo.send(request.sample * self._plan.requests + request.number)
            self._collector.sent(request, now)
        if request.number == self._plan.requests - 1:
            self._collector.end()
