"""Samples of a path while other things are done: none of them waits for one that is lost.

A prober gives its samples in order, so that all wait for one that is not answered, for a second.
Here a thread waits for them, from before a transfer's connections are made on. Imports nothing that
takes long: the file does not wait for the rest of the choice to be loaded.
"""

import queue
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Self

from weir.errors import WeirError
from weir.probe.echo import Target, echo_to
from weir.probe.probe import Probe
from weir.probe.sample import Sample
from weir.probe.sampling import Plan
from weir.transfer import Transfer

RATE_HZ = 100
"""Samples a second of a silence, which is short."""
SILENT_LEAST = 8
"""Samples of silence: fewer tell nothing."""
_LEAD_NS = 5_000_000  # the first sample may be too late then, and is left out
_STARTS_NS = 50_000_000  # so long it takes at most until a prober stands ready


class Samples:
    """Asks from `begin` to `end`, or within `with`.

    Args:
        probe: makes the prober, in a thread.

    Attributes:
        until_ns: when our own packets began to be on the path, on the monotonic clock; what is
            asked later is no silence. None while they are not, or as long as nobody noted it.
        is_over: whether no more samples will come.
    """

    def __init__(self, probe: Callable[[], Probe]) -> None:
        self._make = probe
        self._probe: Probe | None = None
        self._lock = threading.Lock()
        self._is_ended = False
        self._taken: queue.SimpleQueue[Sample | WeirError | None] = queue.SimpleQueue()
        self._begun_ns: int | None = None
        self._silent_ns = 0  # by then nothing of the transfer was on its way
        self.until_ns: int | None = None
        self.is_over = False

    def begin(self) -> None:
        """Asks from now on, or as soon as the other end's name is resolved."""
        if self._begun_ns is None:
            self._begun_ns = time.monotonic_ns()
            threading.Thread(target=self._run, name="weir-samples", daemon=True).start()

    def again(self) -> "Samples":
        """Other samples of the same path, from later on."""
        return Samples(self._make)

    def end(self) -> None:
        """Asks no more."""
        with self._lock:
            self._is_ended = True
            if self._probe:
                self._probe.stop()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ends_with(self, transfer: Transfer) -> None:
        """Notes when the transfer begins to send, if that is seen often enough."""
        if self.until_ns is not None:
            return
        now_ns = time.monotonic_ns()
        progress = transfer.progress()
        if transfer.tcp_info() and progress.bytes_done > progress.bytes_resumed:
            self.until_ns = self._silent_ns or now_ns
        else:
            self._silent_ns = now_ns

    @property
    def are_few(self) -> bool:
        """Whether a silence that ended now, or when it did, is too short."""
        if self.is_over or self._begun_ns is None:
            return False
        begun_ns = self._probe.begin_ns if self._probe else self._begun_ns + _STARTS_NS
        end_ns = time.monotonic_ns() if self.until_ns is None else self.until_ns
        return end_ns < begun_ns + SILENT_LEAST * 10**9 // RATE_HZ

    def take(self, at_most_s: float) -> Sample | None:
        """The next one, None if there is none for so long; `is_over` when no more will come.

        Raises:
            WeirError: the path cannot be probed.
        """
        try:
            taken = self._taken.get(timeout=at_most_s)
        except queue.Empty:
            return None
        if isinstance(taken, Sample):
            return taken
        self._taken.put(None)
        self.is_over = True
        if taken is not None:
            raise taken
        return None

    def take_all(self, at_most_s: float) -> list[Sample]:
        """All that have come; if there is none, the next one, or none if none comes for so long.

        Who takes one at a time, and is not scheduled often enough for each, falls ever further
        behind what happens on the path.

        Raises:
            WeirError: the path cannot be probed.
        """
        taken: list[Sample] = []
        while sample := self.take(0.0 if taken else at_most_s):
            taken.append(sample)
        return taken

    def _run(self) -> None:
        try:
            with self._make() as probe:
                with self._lock:
                    self._probe = probe
                    if self._is_ended:
                        return
                for sample in probe:
                    self._taken.put(sample)
        except WeirError as error:
            self._taken.put(error)
        finally:
            self._taken.put(None)


def silence(host: str, udp: int | None) -> Samples:
    """Samples as many as a silence takes.

    Args:
        host: the other end, by name.
        udp: port of a responder there; None for ICMP.
    """

    def probe() -> Probe:
        target = Target.resolve(host)
        plan = Plan(rate_hz=Fraction(RATE_HZ), requests=1, seconds=None)
        return Probe(target, echo_to(target, udp), plan, lead_ns=_LEAD_NS)

    return Samples(probe)
