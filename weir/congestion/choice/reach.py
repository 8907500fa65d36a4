"""What becomes of a meeting where a path bounds some of the streams.

Where a path loses packets at random, or leaves a control's window too small, that control gets no
more than it can reach (`response`), whoever else is there, and so do others under loss-based ones.
An equal share is then what each has if what some cannot use is shared by the rest (max-min
fairness), and Jain's index is that of the parts that the streams have of it, as R. Jain and others
(1984) have it where demands differ: who takes what nobody else can use harms nobody.

A loss-based stream that comes late among others has less than they for minutes, the longer the path
the longer. That is no unfairness of its control: they come to equal shares in the end, and at once
where it enters (`weir.congestion.cycle.entering`). So a control is judged by how fair it is then.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weir.congestion.choice.interaction import Meeting
from weir.congestion.choice.response import reach_bps
from weir.congestion.path import PathState
from weir.numbers import jain

LOSS_BASED = frozenset({"B0-C1", "C1-C1", "R1", "R2", "Cn"})
"""Backgrounds of greedy streams that all take loss for congestion."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one's own stream gets beside others, and how fair that is.

    Attributes:
        own: share of the path's rate.
        of_fair: the same as a multiple of an equal share.
        jain: Jain's index of what each has of the share that it could have.
        settled: the same once a stream that came late among its like has come to its share.
    """

    own: float
    of_fair: float
    jain: float
    settled: float


@dataclass(frozen=True, slots=True)
class Reach:
    """How much of a path streams can use.

    Attributes:
        path: what it does to packets; None bounds nothing.
        current: the control in use, which is not bounded while it fills the path.
    """

    path: PathState | None
    current: str

    def share(self, control: str) -> float:
        """What one stream can use, 0 to 1; 0 where the path has more than was ever seen."""
        if self.path is None or (self.path.use == "ours" and control == self.current):
            return 1.0
        most_bps = reach_bps(control, self.path)
        if math.isinf(most_bps):
            return 1.0
        return min(1.0, most_bps / self.path.full_bps) if self.path.full_bps else 0.0

    def outcome(self, meeting: Meeting) -> Outcome:
        """What becomes of a meeting on this path."""
        others_most = self.share("cubic") if meeting.background in LOSS_BASED else 1.0
        others = [min(other, others_most) for other in meeting.others]
        own = meeting.own
        if (own_most := self.share(meeting.control)) < 1:
            own = min(own, own_most)
        elif others_most < 1:
            # What they leave is there to be taken.
            own = max(own, meeting.own + math.fsum(meeting.others) - math.fsum(others))
        fair = max_min([1.0] + [others_most] * len(others))
        parts = [got / share for got, share in zip([own, *others], fair, strict=True) if share]
        index = jain(parts)
        is_alike = meeting.background in LOSS_BASED and not meeting.control.startswith("bbr")
        settled = max(index, jain(_evened(parts))) if is_alike else index
        return Outcome(own, own * (1 + len(others)), index, settled)


def _evened(parts: Sequence[float]) -> list[float]:
    """The first of several parts no less than the mean, to which the others give alike."""
    own, *others = parts
    mean, left = math.fsum(parts) / len(parts), math.fsum(others)
    if own >= mean or not left:
        return list(parts)
    return [mean, *(other * (left - mean + own) / left for other in others)]


def max_min(most: Sequence[float]) -> list[float]:
    """Shares of 1 by max-min fairness among those who can use so much each."""
    shares = [0.0] * len(most)
    left, waiting = 1.0, sorted(range(len(most)), key=most.__getitem__)
    while waiting:
        who = waiting.pop(0)
        shares[who] = min(most[who], left / (1 + len(waiting)))
        left -= shares[who]
    return shares
