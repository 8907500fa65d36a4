"""A probing that runs: samples as a stream, our own traffic beside it when it is active."""

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from weir.errors import Unavailable
from weir.ops.probing.active import PatternRun, TurnReport
from weir.ops.probing.carrier import Carrier
from weir.ops.probing.echo import Echo, Target
from weir.ops.probing.pattern import Pattern
from weir.ops.probing.plan import Plan
from weir.ops.probing.prober import MonotonicClock, Prober
from weir.ops.probing.punctual import punctual
from weir.ops.sample import Sample

GIVE_UP_S = 3.0  # without a single reply
_LEAD_NS = 50_000_000  # until the threads stand ready
_LOOK_S = 0.2


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

    The samples are made by a thread of its own, so that a slow consumer delays no request.

    Args:
        target: the host.
        echo: how it is asked; closed with the probe.
        plan: when.
        active: our own traffic meanwhile, None for passive probing.

    Attributes:
        begin_ns: when sample 0 is due, CLOCK_MONOTONIC; the pattern is anchored to it.
        punctual: whether the prober has real-time priority.
    """

    def __init__(
        self, target: Target, echo: Echo, plan: Plan, active: Active | None = None
    ) -> None:
        self._target = target
        self._echo = echo
        self._plan = plan
        self._samples: queue.SimpleQueue[Sample | BaseException | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weir-prober", daemon=True)
        self._active = active
        self._pattern_run: PatternRun | None = None
        self._prober: Prober | None = None
        self.begin_ns = 0
        self.punctual = False

    @property
    def stamped(self) -> int:
        """Replies so far whose round-trip time is a difference of kernel timestamps."""
        return self._prober.stamped if self._prober else 0

    @property
    def turns(self) -> list[TurnReport]:
        """The turns of the pattern that are over."""
        return list(self._pattern_run.reports) if self._pattern_run else []

    def stop(self) -> None:
        """Ends it early; the iteration ends."""
        self._stop.set()

    def __enter__(self) -> Self:
        self.begin_ns = time.monotonic_ns() + _LEAD_NS
        if self._active:
            length = None if self._plan.seconds is None else int(self._plan.seconds * 10**9)
            pattern, carrier = self._active.pattern, self._active.carrier
            self._pattern_run = PatternRun(pattern, carrier, self.begin_ns, length)
            self._pattern_run.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._pattern_run:
            self._pattern_run.stop()
        self._thread.join()
        self._echo.close()

    def __iter__(self) -> Iterator[Sample]:
        """Samples in order, each as soon as it is complete.

        Raises:
            Unavailable: no request at all was answered within `GIVE_UP_S`, or by the end.
            TransferFailed: the connection of our own traffic broke off.
            Unsupported: the kernel does not let us switch its congestion control.
        """
        answered, asked = False, 0
        while (told := self._samples.get()) is not None:
            if isinstance(told, BaseException):
                raise told
            asked += len(told.rtts_ns)
            answered = answered or not told.held
            if not answered and self._elapsed_s() >= GIVE_UP_S:
                raise self._silent(asked)
            yield told
        stopped = self._stop.is_set()
        if not answered and asked and not stopped:
            raise self._silent(asked)
        if run := self._pattern_run:
            if stopped:
                run.stop()
            run.join()  # what the last burst left on the way is still being confirmed
            if run.error:
                raise run.error

    def _run(self) -> None:
        try:
            with punctual() as self.punctual:
                self._prober = self._make_prober()
                for sample in self._prober.samples():
                    self._samples.put(sample)
            self._samples.put(None)
        except BaseException as error:  # raised again where it is iterated over
            self._samples.put(error)

    def _make_prober(self) -> Prober:
        active = self._active
        return Prober(
            self._echo,
            self._plan,
            MonotonicClock(),
            self.begin_ns,
            pattern=active.pattern if active else None,
            tcp=active.carrier.tcp_info if active else lambda: None,
            stopped=self._over,
        )

    def _over(self) -> bool:
        """Whether to end before the plan does."""
        if self._stop.is_set():
            return True
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
