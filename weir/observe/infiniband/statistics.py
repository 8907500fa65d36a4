"""What rounds say by kind of switch and direction (000-spec 2.5, A5; tables 2.1 and 2.2).

Rounds come a piece at a time and only two numbers of each are kept, so that a campaign of any
length fits into memory.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from weir.observe.infiniband.records import Rows, flagged, round_starts
from weir.observe.infiniband.waiting import Intervals, Reason, intervals

Category = tuple[str, str]
"""Kind of switch, direction."""


@dataclass(frozen=True, slots=True)
class Box:
    """What a box plot shows, outliers hidden; and what is hidden.

    Attributes:
        low: least value within 1.5 times the box's height of it.
        q1: a quarter have no more.
        median: half have no more.
        q3: three quarters have no more.
        high: greatest value within 1.5 times the box's height of it.
        count: how many values.
        outliers: those beyond, in order.
    """

    low: float
    q1: float
    median: float
    q3: float
    high: float
    count: int
    outliers: Sequence[float]


def box(values: Sequence[float]) -> Box | None:
    """The box of values; None of none."""
    if not len(values):
        return None
    ordered = np.sort(np.asarray(values, float))
    q1, median, q3 = (float(one) for one in np.percentile(ordered, (25, 50, 75)))
    reach = 1.5 * (q3 - q1)
    within = (ordered >= q1 - reach) & (ordered <= q3 + reach)
    kept = ordered[within]
    beyond = [float(one) for one in ordered[~within]]
    return Box(float(kept[0]), q1, median, q3, float(kept[-1]), len(ordered), beyond)


@dataclass(slots=True)
class Tally:
    """What is known of one category.

    Attributes:
        rounds: how many; table 2.1.
        discarded: rounds with a query that nobody answered, of which nothing is used.
        zero: intervals without waiting; figure 2.5.
        waiting: intervals with some.
        whole: intervals of which all was waited, and more than that: FITF of 1 or more.
        beyond: intervals with more waiting than time, whenever the counter was read.
        unusable: pairs that say nothing, by reason.
        maxima: the largest FITF of each round that waited; figure 2.6.
        means: the mean of its FITF above 0; figure 2.7.
    """

    rounds: int = 0
    discarded: int = 0
    zero: int = 0
    waiting: int = 0
    whole: int = 0
    beyond: int = 0
    unusable: dict[Reason, int] = field(default_factory=dict)
    maxima: list[float] = field(default_factory=list)
    means: list[float] = field(default_factory=list)

    @property
    def waiting_share(self) -> float:
        """The intervals with waiting among all that say something; NaN of none."""
        counted = self.zero + self.waiting
        return self.waiting / counted if counted else math.nan

    def waiting_margin(self) -> float:
        """Half the 95 % interval of `waiting_share`, rounds taken for independent.

        Intervals of one round are alike, so that what counts is the number of rounds.
        """
        if self.rounds <= self.discarded:
            return math.nan
        share = self.waiting_share
        return 1.96 * math.sqrt(share * (1 - share) / (self.rounds - self.discarded))


def tallied(pieces: Iterable[Rows], tick_ns: float | None = None) -> dict[Category, Tally]:
    """The tally of each category in pieces of whole rounds; `tick_ns` as for `intervals`."""
    found: dict[Category, Tally] = {}
    for rows in pieces:
        if len(rows):
            _count(rows, intervals(rows, tick_ns), found)
    return found


def _count(rows: Rows, pairs: Intervals, found: dict[Category, Tally]) -> None:
    begins = round_starts(rows)
    is_missing = np.logical_or.reduceat(flagged(rows["flags"]) & _unanswered(rows), begins)
    of_round = np.searchsorted(begins, pairs.rounds)
    keys = list(zip(rows["kind"][begins].tolist(), rows["way"][begins].tolist(), strict=True))
    for category, gone in zip(keys, is_missing.tolist(), strict=True):
        tally = found.setdefault(category, Tally())
        tally.rounds += 1
        tally.discarded += gone
    for number, begin, end in zip(
        of_round.tolist(), pairs.starts.tolist(), pairs.ends.tolist(), strict=True
    ):
        if not is_missing[number]:
            _add(found[keys[number]], pairs, slice(begin, end))


def _unanswered(rows: Rows) -> np.ndarray:
    return np.char.find(rows["flags"], "missing") >= 0


def _add(tally: Tally, pairs: Intervals, part: slice) -> None:
    """One round more."""
    reasons = pairs.reason[part]
    good = pairs.fitf[part][reasons == Reason.GOOD]
    waited = good[good > 0]
    tally.zero += len(good) - len(waited)
    tally.waiting += len(waited)
    tally.whole += int((good >= 1).sum())
    tally.beyond += int(pairs.beyond[part].sum())
    if len(waited):
        tally.maxima.append(float(waited.max()))
        tally.means.append(float(waited.mean()))
    if len(good) < len(reasons):
        for reason, count in zip(*np.unique(reasons, return_counts=True), strict=True):
            if reason != Reason.GOOD:
                known = Reason(int(reason))
                tally.unusable[known] = tally.unusable.get(known, 0) + int(count)
