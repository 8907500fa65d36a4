"""From requests sent and replies received to samples, in order; time is an argument."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from weir.ops.probing.plan import Plan, Request
from weir.ops.sample import Sample
from weir.ops.tcp_info import TcpInfo


@dataclass(slots=True)
class _Open:
    """A sample whose replies are still awaited."""

    index: int
    at_ns: int
    segment: str | None
    tcp: TcpInfo | None = None
    late_ns: int = 0
    rtts_ns: list[int | None] = field(default_factory=list)
    last_sent_ns: int = 0
    ended: bool = False
    waiting: int = 0


class Collector:
    """Holds samples until every request of theirs is answered or lost.

    Args:
        plan: how the path is sampled.
        begin_ns: when sample 0 is due, CLOCK_MONOTONIC.
    """

    def __init__(self, plan: Plan, begin_ns: int) -> None:
        self._plan = plan
        self._begin_ns = begin_ns
        self._open: deque[_Open] = deque()
        self._held_ns: float | None = None

    def begin(self, index: int, segment: str | None, tcp: TcpInfo | None) -> None:
        """A sample's turn has come."""
        at = self._begin_ns + self._plan.due_ns(index)
        self._open.append(_Open(index, at, segment, tcp))

    def sent(self, request: Request, now_ns: int) -> None:
        """A request of the sample that began last left at `now_ns`."""
        sample = self._open[-1]
        sample.rtts_ns.append(None)
        sample.waiting += 1
        sample.last_sent_ns = now_ns
        sample.late_ns = max(sample.late_ns, now_ns - self._begin_ns - request.due_ns)

    def end(self) -> None:
        """No further request of the sample that began last will be sent."""
        self._open[-1].ended = True

    def reply(self, sample: int, number: int, rtt_ns: int) -> None:
        """A request was answered; in time, if its sample is still open."""
        first = self._open[0].index if self._open else sample + 1
        if sample < first or rtt_ns > self._plan.timeout_ns:
            return
        found = self._open[sample - first]
        if found.rtts_ns[number] is None:
            found.rtts_ns[number] = rtt_ns
            found.waiting -= 1

    def ready(self, now_ns: int) -> Iterator[Sample]:
        """Takes out the samples that are over at `now_ns`."""
        while self._open and self._open[0].ended:
            first = self._open[0]
            if first.waiting and now_ns < first.last_sent_ns + self._plan.timeout_ns:
                return
            self._open.popleft()
            yield self._sample(first)

    def due_ns(self) -> int | None:
        """When the next sample is over even without replies; None when none is waited for."""
        if not self._open or not self._open[0].ended:
            return None
        return self._open[0].last_sent_ns + self._plan.timeout_ns

    def _sample(self, done: _Open) -> Sample:
        rtts = tuple(done.rtts_ns)
        sample = Sample(
            done.index, done.at_ns, done.late_ns, rtts, self._held_ns, done.segment, done.tcp
        )
        if sample.mean_ns is not None:
            self._held_ns = sample.mean_ns
        return sample
