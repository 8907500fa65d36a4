"""A probing that runs: samples as a stream, our own traffic beside it when it is active."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import Self

from weir import _core
from weir.errors import Unavailable
from weir.probe.active import PatternRun, TurnReport
from weir.probe.carrier import Carrier
from weir.probe.echo import Echo, Target
from weir.probe.pattern import Pattern
from weir.probe.sample import Sample
from weir.probe.sampling import Plan
from weir.probe.tcp_info import parse_tcp_info

GIVE_UP_S = 3.0  # without a single reply
_LEAD_NS = 50_000_000  # until the threads stand ready
_DENOMINATOR_MAX = 10**8  # of a period: ns are right for longer than any probing lasts


@dataclass(frozen=True)
class Active:
    """Our own traffic.

    Attributes:
        pattern: when it does what.
        carrier: what it goes over.
    """

    pattern: Pattern
    carrier: Carrier


class Probe:
    """Probes one host by a plan. Iterate over it, within `with`, for the samples.

    The samples are made by a thread of the core's, which no thread of Python's delays.

    Args:
        target: the host.
        echo: how it is asked; closed with the probe.
        plan: when.
        active: our own traffic meanwhile, None for passive probing.
        lead_ns: until sample 0 is due, for the threads to stand ready.

    Attributes:
        begin_ns: when sample 0 is due, CLOCK_MONOTONIC; the pattern is anchored to it.
    """

    def __init__(
        self,
        target: Target,
        echo: Echo,
        plan: Plan,
        active: Active | None = None,
        lead_ns: int = _LEAD_NS,
    ) -> None:
        self._target = target
        self._echo = echo
        self._plan = plan
        self._active = active
        self._lead_ns = lead_ns
        self._pattern_run: PatternRun | None = None
        self._prober: _core.Prober | None = None
        self._stopped = False
        self.begin_ns = 0

    @property
    def is_realtime(self) -> bool:
        """Whether the prober has real-time priority."""
        return bool(self._prober and self._prober.is_realtime())

    @property
    def stamped(self) -> int:
        """Replies so far whose round-trip time is a difference of kernel timestamps."""
        return self._echo.stamped

    @property
    def turns(self) -> list[TurnReport]:
        """The turns of the pattern that are over."""
        return list(self._pattern_run.reports) if self._pattern_run else []

    def stop(self) -> None:
        """Ends it early; the iteration ends."""
        self._stopped = True
        if self._prober:
            self._prober.stop()

    def __enter__(self) -> Self:
        self.begin_ns = time.monotonic_ns() + self._lead_ns
        self._prober = self._start()
        if self._active:
            length = None if self._plan.seconds is None else int(self._plan.seconds * 10**9)
            pattern, carrier = self._active.pattern, self._active.carrier
            self._pattern_run = PatternRun(pattern, carrier, self.begin_ns, length)
            self._pattern_run.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._pattern_run:
            self._pattern_run.stop()
        self._echo.close()

    def __iter__(self) -> Iterator[Sample]:
        """Samples in order, each as soon as it is complete.

        Raises:
            Unavailable: no request at all was answered within `GIVE_UP_S`, or by the end.
            TransferFailed: the connection of our own traffic broke off.
            Unsupported: the kernel does not let us switch its congestion control.
        """
        answered, asked = False, 0
        for sample in self._taken():
            asked += len(sample.rtts_ns)
            answered = answered or not sample.held
            if not answered and self._elapsed_s() >= GIVE_UP_S:
                raise self._silent(asked)
            yield sample
        if not answered and asked and not self._stopped:
            raise self._silent(asked)
        if run := self._pattern_run:
            if self._stopped:
                run.stop()
            run.join()  # what the last burst left on the way is still being confirmed
            if run.error:
                raise run.error

    def _taken(self) -> Iterator[Sample]:
        prober, active = self._prober, self._active
        while prober and (taken := prober.take()) is not None:
            for index, at_ns, late_ns, rtts_ns, held_ns, told in taken:
                segment = str(active.pattern.at(at_ns - self.begin_ns)) if active else None
                tcp = parse_tcp_info(told) if told else None
                yield Sample(index, at_ns, late_ns, rtts_ns, held_ns, segment, tcp)
            if self._ended():
                prober.stop()

    def _start(self) -> _core.Prober:
        plan, active = self._plan, self._active
        period = (Fraction(10**9) / plan.rate_hz).limit_denominator(_DENOMINATOR_MAX)
        return _core.Prober(
            self._echo.core,
            period_ns=period.as_integer_ratio(),
            requests=plan.requests,
            samples=plan.samples,
            timeout_ns=plan.timeout_ns,
            begin_ns=self.begin_ns,
            connection=active.carrier.fileno() if active else None,
        )

    def _ended(self) -> bool:
        """Whether our own traffic ended before the plan did."""
        run, active = self._pattern_run, self._active
        return bool(run and run.error) or bool(active and active.carrier.finished)

    def _elapsed_s(self) -> float:
        return (time.monotonic_ns() - self.begin_ns) / 1e9

    def _silent(self, asked: int) -> Unavailable:
        refused = f"; the last request: {self._echo.refused}" if self._echo.refused else ""
        return Unavailable(
            f"{self._target} answered none of {asked} echo requests in {self._elapsed_s():.1f} s "
            f"({self._echo.how}){refused}; {self._echo.advice}"
        )
