"""What a deadline demands of the path, as far as a transfer's goodput has told the path's rate."""

from collections import deque
from collections.abc import Callable
from datetime import datetime

from weir._core import Rate
from weir.deadline import wall

TREND_S = 10.0
"""Over so long it is seen whether a file will be late."""
_OF_PACE = 0.9  # who gets so much of a pace is held back by the pace, and by no control


class Demand:
    """The rate that a transfer needs; it may have a deadline, and may be paced.

    Args:
        deadline: None without one; nothing is demanded then.
        clock: by which that is kept.
    """

    def __init__(self, deadline: datetime | None, clock: Callable[[], datetime] = wall) -> None:
        self._deadline, self._clock = deadline, clock
        self._path_bps = 0.0

    def learn(self, goodput_bps: float, expected: float, pace: Rate | None) -> None:
        """Takes what the control in use got, where nothing but the path held it back.

        Args:
            goodput_bps: what it got.
            expected: the share of the path's rate that it should get; 0 if unknown.
            pace: None is unpaced.
        """
        if expected and not (pace and goodput_bps >= _OF_PACE * pace.bit_per_s):
            self._path_bps = goodput_bps / expected

    def bps(self, remaining_bytes: int, pace: Rate | None) -> float:
        """To be in time, as far as the pace lets it through; 0 without a deadline."""
        if self._deadline is None:
            return 0.0
        left_s = (self._deadline - self._clock()).total_seconds()
        needed_bps = 8 * remaining_bytes / max(left_s, 1e-3)
        return min(needed_bps, pace.bit_per_s) if pace else needed_bps

    def share(self, remaining_bytes: int, pace: Rate | None) -> float:
        """The share of the path's rate that it takes; 0 while that rate is unknown."""
        return self.bps(remaining_bytes, pace) / self._path_bps if self._path_bps else 0.0


class Trend:
    """Goodput of the last `TREND_S` seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def sees(self, at_s: float, acked_bytes: int) -> float | None:
        """In bit/s; None until it has seen as much.

        Args:
            at_s: on a clock of the caller's.
            acked_bytes: by then.
        """
        self._seen.append((at_s, acked_bytes))
        while len(self._seen) > 2 and at_s - self._seen[1][0] >= TREND_S:
            self._seen.popleft()
        since_s, since = self._seen[0]
        if at_s - since_s < TREND_S:
            return None
        return 8 * (acked_bytes - since) / (at_s - since_s)
