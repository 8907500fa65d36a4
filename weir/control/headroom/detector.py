"""Finds elephants among flows of which only some packets are seen.

Each sampled packet stands for many. Of each flow a sum of their bytes is kept that fades: after
`within_s` a third of it is left (1/e). A flow that keeps up a rate comes to that rate times
`within_s`, so an elephant is a flow whose sum is as much as a rate asked for would come to, and
one that has nothing left is forgotten. One packet proves nothing, however many it stands for.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from weir.control.elephant import Flow
from weir.control.headroom.sflow import Sample

# A flow is seen at least so often before it is believed to be an elephant.
PACKETS_MIN = 3
# Flows that are kept in mind: those that came first or were seen most.
FLOWS_MAX = 20_000
# A flow may be seen by the switches that it passes, of which one counts: the first, unless it has
# been silent for so long while others were not.
SILENT_S = 0.5
# How often what has faded is forgotten.
_SWEEP_S = 1.0


@dataclass(frozen=True, slots=True)
class Threshold:
    """From when on a flow is an elephant.

    Attributes:
        rate_bps: at which it sends, on the wire.
        within_s: for about so long.
    """

    rate_bps: float
    within_s: float = 1.0

    @property
    def wire_bytes(self) -> float:
        """What the faded sum of an elephant comes to."""
        return self.rate_bps * self.within_s / 8


THRESHOLD = Threshold(10_000_000)
"""Unless another is asked for."""


@dataclass(slots=True)
class _Seen:
    sampler: str
    sampled_s: float
    faded_bytes: float = 0.0
    packets: int = 0


class Detector:
    """The flows that samples show, and which of them are elephants.

    Args:
        threshold: from when on a flow is one.
        flows_max: how many are kept in mind at most.
    """

    def __init__(self, threshold: Threshold, flows_max: int = FLOWS_MAX) -> None:
        self.threshold = threshold
        self._flows_max = flows_max
        self._seen: dict[Flow, _Seen] = {}
        self._swept_s = 0.0

    def __len__(self) -> int:
        return len(self._seen)

    def take(self, sample: Sample, now_s: float) -> bool:
        """Takes a sample; whether its flow is an elephant. One that is found is forgotten."""
        if now_s - self._swept_s >= _SWEEP_S:
            self._sweep(now_s)
        seen = self._seen.get(sample.flow)
        if seen is None:
            if len(self._seen) >= self._flows_max:
                self._make_room(now_s)
            seen = self._seen[sample.flow] = _Seen(sample.sampler, now_s)
        elif seen.sampler != sample.sampler:
            if now_s - seen.sampled_s < SILENT_S:
                return False
            seen.sampler = sample.sampler
        seen.faded_bytes = self._faded(seen, now_s) + sample.wire_bytes * sample.one_of
        seen.sampled_s, seen.packets = now_s, seen.packets + 1
        if seen.packets < PACKETS_MIN or seen.faded_bytes < self.threshold.wire_bytes:
            return False
        del self._seen[sample.flow]
        return True

    def forget(self, flow: Flow) -> None:
        """What was seen of a flow counts no more."""
        self._seen.pop(flow, None)

    def _faded(self, seen: _Seen, now_s: float) -> float:
        lasted_s = max(0.0, now_s - seen.sampled_s)
        return seen.faded_bytes * math.exp(-lasted_s / self.threshold.within_s)

    def _sweep(self, now_s: float) -> None:
        """Forgets flows of which next to nothing is left."""
        self._swept_s = now_s
        least = self.threshold.wire_bytes / 100
        for flow in list(self._faint(now_s, least)):
            del self._seen[flow]

    def _faint(self, now_s: float, least: float) -> Iterator[Flow]:
        return (x for x, seen in self._seen.items() if self._faded(seen, now_s) < least)

    def _make_room(self, now_s: float) -> None:
        """Forgets the quarter of which least is left: who floods with flows drives out no other."""
        order = sorted(self._seen, key=lambda x: self._faded(self._seen[x], now_s))
        for flow in order[: max(1, len(order) // 4)]:
            del self._seen[flow]
