"""What became of a trial: who got how much, and how fairly."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from weir.numbers import jain


@dataclass(frozen=True, slots=True)
class Outcome:
    """Goodput of a trial, in bit/s of payload.

    Attributes:
        step_s: length of an interval.
        own: of the file, in each interval from its request on.
        others: of each stream of the background, likewise.
        choices: what `weir send` told of its choices, with `at_s` from the request on.
        flaws: why it should not be believed, in words.
        intact: files that had arrived whole by its end, bit by bit as they were sent.
        damaged: files that had arrived and are not.
    """

    step_s: float
    own: tuple[float, ...]
    others: tuple[tuple[float, ...], ...]
    choices: tuple[Mapping[str, Any], ...] = ()
    flaws: tuple[str, ...] = ()
    intact: int = 0
    damaged: int = 0

    def last(self, seconds: float) -> "Outcome":
        """The outcome of the last `seconds` alone, without what was chosen before."""
        count = round(seconds / self.step_s)
        others = tuple(series[-count:] for series in self.others)
        return Outcome(self.step_s, self.own[-count:], others)

    @property
    def own_bps(self) -> float:
        """The file's mean rate over the whole time, probing included."""
        return fmean(self.own)

    @property
    def others_bps(self) -> tuple[float, ...]:
        """The mean rate of each stream of the background."""
        return tuple(map(fmean, self.others))

    @property
    def jain_of_means(self) -> float:
        """Jain's index of the means over the whole time."""
        return jain([self.own_bps, *self.others_bps])

    @property
    def mean_of_jain(self) -> float:
        """Mean over the intervals of each one's index, as the work may have had it (A-22)."""
        return fmean(jain(shares) for shares in zip(self.own, *self.others, strict=True))

    @property
    def controls(self) -> tuple[str, ...]:
        """Each control that was chosen, in order."""
        return tuple(one["control"] for one in self.choices if one["event"] == "choice")
