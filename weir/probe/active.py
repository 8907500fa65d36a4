"""Goes through a pattern: each segment at its time, whatever the one before has left behind."""

import threading
import time
from dataclasses import dataclass, replace

from weir.errors import WeirError
from weir.probe.carrier import Carrier
from weir.probe.pattern import Pattern, Turn
from weir.probe.realtime import realtime_priority

_LOOK_S = 0.005  # how often one looks whether a burst's last byte has arrived
_IDLE_S = 0.1  # and otherwise, whether the connection still stands
_DRAIN_MAX_NS = 10_000_000_000
_ENDLESS_NS = 2**62


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What became of one turn of a segment.

    Attributes:
        number: of the turn, from 0.
        segment: such as "C5".
        begin_s: when it was due, from the beginning of the probing.
        end_s: likewise, or when the source ended or the probing was stopped.
        late_ns: by how much this machine began it late.
        cwnd_packets: congestion window at its beginning, inherited from the turn before.
        confirmed_bytes: by the receiver, from its beginning to its end.
        drain_ns: from its end until the receiver had confirmed every byte that had been given to
            the kernel by then; None if that was not before the next turn's end.
    """

    number: int
    segment: str
    begin_s: float
    end_s: float
    late_ns: int
    cwnd_packets: int | None
    confirmed_bytes: int
    drain_ns: int | None


class PatternRun:
    """Drives a carrier through a pattern, in a thread of its own, anchored to `begin_ns`.

    Args:
        pattern: what to do.
        carrier: with what.
        begin_ns: when the first segment begins, CLOCK_MONOTONIC.
        length_ns: of the whole, None until stopped; it ends early with the carrier's source.
    """

    def __init__(
        self, pattern: Pattern, carrier: Carrier, begin_ns: int, length_ns: int | None
    ) -> None:
        self._pattern = pattern
        self._carrier = carrier
        self._begin_ns = begin_ns
        self._length_ns = length_ns or _ENDLESS_NS
        self._stop = threading.Event()
        # The bytes given by the end of the turn before, while they are not all confirmed.
        self._undrained: int | None = None
        self._ended_ns = 0
        self._thread = threading.Thread(target=self._run, name="weir-pattern", daemon=True)
        self.reports: list[TurnReport] = []
        self.error: WeirError | None = None

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it, now if it is not over; the last turn is reported as far as it came."""
        self._stop.set()
        self._thread.join()

    def join(self) -> None:
        """Waits for the end of the pattern and of what it left on the way."""
        self._thread.join()

    @realtime_priority()
    def _run(self) -> None:
        try:
            for turn in self._pattern.turns(self._length_ns):
                self._until(self._begin_ns + turn.begin_ns)
                if self._ends_early():
                    break
                self._take_turn(turn)
            self._carrier.pause()
            self._until(time.monotonic_ns() + _DRAIN_MAX_NS, drained_is_enough=True)
        except WeirError as error:
            self.error = error

    def _ends_early(self) -> bool:
        return self._stop.is_set() or self._carrier.finished

    def _take_turn(self, turn: Turn) -> None:
        late_ns = time.monotonic_ns() - self._begin_ns - turn.begin_ns
        confirmed = self._carrier.confirmed_bytes
        if turn.segment.congestion:
            self._carrier.carry(turn.segment.congestion)
        else:
            self._carrier.pause()
        info = self._carrier.tcp_info()
        self._until(self._begin_ns + turn.end_ns)
        self._ended_ns = time.monotonic_ns()
        self._undrained = self._carrier.sent_bytes
        self.reports.append(
            TurnReport(
                number=turn.number,
                segment=str(turn.segment),
                begin_s=turn.begin_ns / 1e9,
                end_s=min(turn.end_ns, self._ended_ns - self._begin_ns) / 1e9,
                late_ns=late_ns,
                cwnd_packets=info.cwnd_packets if info else None,
                confirmed_bytes=self._carrier.confirmed_bytes - confirmed,
                drain_ns=None,
            )
        )

    def _until(self, until_ns: int, drained_is_enough: bool = False) -> None:
        """Waits, and notes meanwhile when the bytes of the turn before have all arrived."""
        while not self._stop.is_set():
            self._note_drained()
            if self._carrier.finished or (drained_is_enough and self._undrained is None):
                return
            self._carrier.check()
            rest_s = (until_ns - time.monotonic_ns()) / 1e9
            if rest_s <= 0:
                return
            pause_s = _IDLE_S if self._undrained is None else _LOOK_S
            self._stop.wait(min(rest_s, pause_s))

    def _note_drained(self) -> None:
        if self._undrained is not None and self._carrier.confirmed_bytes >= self._undrained:
            drain = time.monotonic_ns() - self._ended_ns
            self.reports[-1] = replace(self.reports[-1], drain_ns=drain)
            self._undrained = None
