"""What rounds say by kind of switch and direction (000-spec 2.5, A5; tables 2.1 and 2.2).

Rows come a piece at a time and only two numbers of each round are kept, so that a campaign of any
length fits into memory, and a sweep of any number of times.
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


@dataclass(slots=True)
class _Round:
    """What is known so far of a round that more rows may follow of.

    Attributes:
        category: of its port.
        is_missing: a query was not answered.
        counts: of its intervals, as those of a category.
        most: the largest FITF.
        total: the sum of those above 0.
    """

    category: Category
    is_missing: bool = False
    counts: Tally = field(default_factory=Tally)
    most: float = 0.0
    total: float = 0.0


_Rounds = dict[tuple[int, int], _Round]
"""By LID and port: those of one begin."""


def tallied(pieces: Iterable[Rows], tick_ns: float | None = None) -> dict[Category, Tally]:
    """The tally of each category.

    Rows of one begin that follow one another are a round of each port that they name, whatever the
    order of the ports: `rounds` writes one port's after the other's, `sweep` all ports' at once.
    However many rows there are, one of each port and a few numbers are kept.

    Args:
        pieces: of rows, cut anywhere.
        tick_ns: as for `intervals`.
    """
    found: dict[Category, Tally] = {}
    going: _Rounds = {}
    last: Rows | None = None
    for rows in pieces:
        if not len(rows):
            continue
        if last is not None and last["round_ns"][0] == rows["round_ns"][0]:
            rows = np.concatenate([last, rows])
        else:
            _end(going, found)
            going = {}
        going, last = _counted(rows, tick_ns, going, found)
    _end(going, found)
    return found


def _counted(
    rows: Rows, tick_ns: float | None, going: _Rounds, found: dict[Category, Tally]
) -> tuple[_Rounds, Rows]:
    """Counts rows, of which the first go on with some rounds; what may go on behind the last.

    Returns:
        Those rounds, and the last row of each.
    """
    begun = np.cumsum(np.append(False, rows["round_ns"][1:] != rows["round_ns"][:-1]))
    order = np.lexsort((rows["port"], rows["lid"], begun))  # stable: rows of a port stay in order
    rows, begun = rows[order], begun[order]
    begins = round_starts(rows)
    is_missing = np.logical_or.reduceat(flagged(rows["flags"]) & _unanswered(rows), begins)
    rounds, still = [], {}
    names = zip(rows[["lid", "port", "kind", "way"]][begins].tolist(), begun[begins], strict=True)
    for ((lid, port, kind, way), number), gone in zip(names, is_missing.tolist(), strict=True):
        one = (going.get((lid, port)) if number == 0 else None) or _Round((kind, way))
        one.is_missing |= gone
        rounds.append(one)
        if number == begun[-1]:
            still[lid, port] = one
    pairs = intervals(rows, tick_ns)
    of_round = np.searchsorted(begins, pairs.rounds)
    for index, begin, end in zip(
        of_round.tolist(), pairs.starts.tolist(), pairs.ends.tolist(), strict=True
    ):
        _add(rounds[index], pairs, slice(begin, end))
    over = len(rounds) - len(still)
    for one in rounds[:over]:
        _close(one, found)
    ends = np.append(begins[1:], len(rows)) - 1
    return still, rows[ends[over:]]


def _end(going: _Rounds, found: dict[Category, Tally]) -> None:
    for one in going.values():
        _close(one, found)


def _close(one: _Round, found: dict[Category, Tally]) -> None:
    """A round is over: its category has one more."""
    tally = found.setdefault(one.category, Tally())
    tally.rounds += 1
    if one.is_missing:
        tally.discarded += 1
        return
    counts = one.counts
    tally.zero += counts.zero
    tally.waiting += counts.waiting
    tally.whole += counts.whole
    tally.beyond += counts.beyond
    for reason, count in counts.unusable.items():
        tally.unusable[reason] = tally.unusable.get(reason, 0) + count
    if counts.waiting:
        tally.maxima.append(one.most)
        tally.means.append(one.total / counts.waiting)


def _unanswered(rows: Rows) -> np.ndarray:
    return np.char.find(rows["flags"], "missing") >= 0


def _add(one: _Round, pairs: Intervals, part: slice) -> None:
    """Intervals more of a round."""
    reasons, counts = pairs.reason[part], one.counts
    good = pairs.fitf[part][reasons == Reason.GOOD]
    waited = good[good > 0]
    counts.zero += len(good) - len(waited)
    counts.waiting += len(waited)
    counts.whole += int((good >= 1).sum())
    counts.beyond += int(pairs.beyond[part].sum())
    if len(waited):
        one.most = max(one.most, float(waited.max()))
        one.total += float(waited.sum())
    if len(good) < len(reasons):
        for reason, count in zip(*np.unique(reasons, return_counts=True), strict=True):
            if reason != Reason.GOOD:
                known = Reason(int(reason))
                counts.unusable[known] = counts.unusable.get(known, 0) + int(count)
