"""How fast a transfer goes and when it will be over, from what it did over several seconds.

What is durable arrives in pieces: from one look to the next a rate is nothing or double. Here
each second counts the less the longer it is ago, by an exponential with a time constant.
"""

import math
import time
from collections.abc import Callable
from datetime import datetime

from weir._core import Rate
from weir.deadline import wall
from weir.transfer import Progress

TIME_CONSTANT_S = 5.0
"""After this long, what was before counts for 1/e of the rate."""
_FIRST_S = 1.0
"""A rate is told once it was measured for this long."""
STANDS_S = 3.0
"""An alarm is given when it has stood for this long."""


class SmoothedRate:
    """The rate of a count that grows, in bit/s; an exponentially weighted mean.

    It is the plain mean in the beginning, so that nothing weighs on it that never was.
    """

    def __init__(self, time_constant_s: float = TIME_CONSTANT_S) -> None:
        self._time_constant_s = time_constant_s
        self._last: tuple[float, int] | None = None
        self._measured_s = 0.0
        self._weighted_bps = 0.0
        self._weight = 0.0

    def saw(self, at_s: float, count: int) -> None:
        """Takes the bytes so far; a count that went back begins anew from there."""
        if self._last is None or count < self._last[1]:
            self._last = (at_s, count)
            return
        span_s = at_s - self._last[0]
        if span_s <= 0:
            return
        kept = math.exp(-span_s / self._time_constant_s)
        now_bps = (count - self._last[1]) * 8 / span_s
        self._weighted_bps = kept * self._weighted_bps + (1 - kept) * now_bps
        self._weight = kept * self._weight + (1 - kept)
        self._measured_s += span_s
        self._last = (at_s, count)

    @property
    def bps(self) -> float | None:
        """The rate; None before it was measured for a second."""
        return self._weighted_bps / self._weight if self._measured_s >= _FIRST_S else None

    @property
    def is_settled(self) -> bool:
        """Whether it was measured for long enough to give an alarm by: no longer beginning."""
        return self._measured_s >= self._time_constant_s


class Alarm:
    """A condition that counts only when it has stood for some time."""

    def __init__(self, stands_s: float = STANDS_S) -> None:
        self._stands_s = stands_s
        self._since_s: float | None = None

    def saw(self, at_s: float, condition: bool) -> bool:
        """Takes how it is; whether it has been so for long enough."""
        if not condition:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = at_s
        return self._since_s is not None and at_s - self._since_s >= self._stands_s


class Forecast:
    """What can be said of a transfer's end.

    Args:
        deadline: when it is due; None if it is not.
        clock: seconds that never go back.
        wall: the time of day, which deadlines are in: by whichever clock this one is kept.
    """

    def __init__(
        self,
        deadline: datetime | None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = wall,
    ) -> None:
        self._deadline = deadline
        self._clock, self._wall = clock, wall
        self._rate = SmoothedRate()
        self._alarm = Alarm()
        self._left = 0
        self._stood = False

    def saw(self, progress: Progress) -> None:
        """Takes how far it is; to be called several times a second."""
        at_s = self._clock()
        self._left = max(0, progress.bytes_total.count - progress.bytes_durable.count)
        if progress.state != "connecting":
            self._rate.saw(at_s, progress.bytes_durable.count - progress.bytes_resumed.count)
        slack_s = self.slack_s if self._rate.is_settled else None
        self._stood = self._alarm.saw(at_s, slack_s is not None and slack_s < 0)

    @property
    def rate(self) -> Rate:
        """The rate of durable bytes over the last seconds."""
        return Rate.from_bit_per_s(int(self._rate.bps or 0))

    @property
    def remaining_s(self) -> float | None:
        """How long the rest takes at that rate; None while that cannot be said."""
        if not self._left:
            return 0.0
        return self._left * 8 / self._rate.bps if self._rate.bps else None

    @property
    def slack_s(self) -> float | None:
        """Time to spare at the deadline, negative when it will be missed; None if unknown."""
        if self._deadline is None or self.remaining_s is None:
            return None
        return (self._deadline - self._wall()).total_seconds() - self.remaining_s

    @property
    def is_late(self) -> bool:
        """Whether it will miss its deadline: as seen for some seconds, or since that passed."""
        return self._stood or (self._deadline is not None and self._wall() > self._deadline)
