"""What is known of a path where a control is to be chosen, and how much each measured path counts.

Meetings were measured on a grid of rates, round-trip times and queues. Where one of these is known
of a path, those next to it on the grid count, by interpolation in logarithms; where it may lie
anywhere between two values, the mean over all of these does. Beyond the grid its edge counts.

A round-trip time is the least that was seen. Beside others who keep a queue full that is more than
the path's own: CUBIC gives back three tenths of what is in flight, Reno a half, and a queue that
holds more than that never empties. What is certain is the round trip with the queue full; so a deep
queue is then one of a shorter path.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from weir.congestion.path import PathState, noise_s
from weir.format import delay, rate
from weir.probe.sample import Sample

Range = tuple[float, float]
"""Least and most; the same where a value is known."""
ANY: Range = (0.0, math.inf)
_EMPTIES = 1.1
"""A queue that grows by more round trips than this above the least has emptied in between: CUBIC
leaves seven tenths of a full one and its path, Reno a half, from where it is one more at most."""
_NEAR = 1.1  # so much beyond the grid is its edge

Point = tuple[float, float, float]
"""A rate in bit/s, a round-trip time in s, a queue in bandwidth-delay products."""


@dataclass(frozen=True, slots=True)
class Echoes:
    """How long echoes took beside our own stream.

    Attributes:
        least_s: the least round-trip time.
        middle_s: the median. A stream that uses less than half of a path delays fewer than half of
            the echoes by its own packets.
    """

    least_s: float
    middle_s: float

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> "Echoes | None":
        """None where none was answered."""
        rtts_ns = [sample.min_ns for sample in samples if sample.min_ns is not None]
        return cls(min(rtts_ns) / 1e9, median(rtts_ns) / 1e9) if rtts_ns else None

    @property
    def wait(self) -> bool:
        """Whether most of them waited in a queue."""
        return self.middle_s - self.least_s > noise_s(self.least_s)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a path.

    Attributes:
        rate_bps: of the bottleneck.
        rtt_s: the least round-trip time that was seen, None if none was.
        queue_bdp: what its queue holds, in products of rate and round-trip time.
        full_s: the round-trip time with the queue full, where it was never seen empty; None where
            `rtt_s` is that of the empty path.
    """

    rate_bps: Range = ANY
    rtt_s: float | None = None
    queue_bdp: Range = ANY
    full_s: float | None = None

    @classmethod
    def of(
        cls, path: PathState | None, rtt_s: float | None = None, *, is_alone: bool = False
    ) -> "Known":
        """What our connections tell of it, and who asked for echoes.

        Args:
            path: None where the connections' counters tell nothing.
            rtt_s: the least that an echo took.
            is_alone: whether nobody else was recognised. Beside a steady stream our counters look
                as if we filled the path.
        """
        if path is None:
            return cls(rtt_s=rtt_s)
        least_s = path.rtt_s if rtt_s is None else min(path.rtt_s, rtt_s)
        most_bps = max(path.best_bps, path.full_bps or 0.0, path.goodput_bps)
        is_ours = is_alone and path.use == "ours"
        is_full = is_ours and path.full_bps is not None
        rate_bps = (most_bps, most_bps if is_full else math.inf)
        full_s = path.rtt_s + path.queue_s
        depth = full_s / least_s - 1
        if path.overflows <= path.lost:  # it may be the path that lost them
            return cls(rate_bps, least_s, (depth, math.inf))
        if is_ours or depth > _EMPTIES:
            return cls(rate_bps, least_s, (depth, depth))
        return cls(rate_bps, least_s, (depth, math.inf), full_s)

    def weights(self, grid: Sequence[Point]) -> list[float]:
        """How much each point of a grid counts, 1 in all; nothing of an empty one."""
        if not grid:
            return []
        rates, rtts, depths = (sorted(set(axis)) for axis in zip(*grid, strict=True))
        of_rate = _weights(rates, self.rate_bps)
        of_depth = _weights(depths, self.queue_bdp)
        of_rtt = {depth: _weights(rtts, self._rtt_range(depth)) for depth in depths}
        times = Counter(grid)
        counts = [
            of_rate[bps] * of_depth[depth] * of_rtt[depth][rtt] / times[bps, rtt, depth]
            for bps, rtt, depth in grid
        ]
        # Where a point is missing the others count for it; all of them where those that count are.
        total = math.fsum(counts)
        return [count / total for count in counts] if total else [1 / len(grid)] * len(grid)

    def beyond(self, grid: Sequence[Point]) -> str:
        """What of the path lies beyond a grid, for a person; empty where nothing does."""
        if not grid:
            return ""
        rates, rtts, depths = (sorted(set(axis)) for axis in zip(*grid, strict=True))
        said = [
            f"{name} of {words(value)} counts as {words(edge)}"
            for name, axis, known, words in (
                ("a rate", rates, self.rate_bps, rate),
                ("a round trip", rtts, self._rtt_range(depths[0]), delay),
                ("a queue", depths, self.queue_bdp, _products),
            )
            if (edge := _edge(axis, known)) is not None
            for value in [known[0] if known[0] > edge else known[1]]
        ]
        return "; ".join(said)

    def _rtt_range(self, depth: float) -> Range:
        """What it may be where the queue holds so much."""
        if self.rtt_s is None:
            return ANY
        rtt_s = self.rtt_s if self.full_s is None else min(self.rtt_s, self.full_s / (1 + depth))
        return rtt_s, rtt_s


def _weights(axis: Sequence[float], known: Range) -> dict[float, float]:
    """The mean of what is interpolated between an axis' values over all that is possible."""
    least, most = (math.log(min(max(value, axis[0]), axis[-1])) for value in known)
    at = [math.log(value) for value in axis]
    counts = [0.0] * len(axis)
    if len(axis) == 1 or least >= most:
        where = next((i for i in range(1, len(at)) if at[i] >= least), 0)
        after = (least - at[where - 1]) / (at[where] - at[where - 1]) if where else 1.0
        counts[where] = after
        counts[where - 1] += 1 - after
        return dict(zip(axis, counts, strict=True))
    for i in range(1, len(at)):
        begin, end = max(least, at[i - 1]), min(most, at[i])
        if begin < end:
            after = ((begin + end) / 2 - at[i - 1]) / (at[i] - at[i - 1])
            counts[i - 1] += (end - begin) / (most - least) * (1 - after)
            counts[i] += (end - begin) / (most - least) * after
    return dict(zip(axis, counts, strict=True))


def _edge(axis: Sequence[float], known: Range) -> float | None:
    """The value that counts for what lies beyond an axis; None for what does not."""
    least, most = known
    if least > _NEAR * axis[-1]:
        return axis[-1]
    return axis[0] if most < axis[0] / _NEAR else None


def _products(depth: float) -> str:
    return f"{depth:.2g} bandwidth-delay products"
