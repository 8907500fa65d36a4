"""The forced idle time fraction (FITF) of a port: the share of time that it waited for credits.

From two answers that follow one another in a round (000-spec 2.5, A4):

    F = tick * (W2 - W1) / ((tq2 + tp2 / 2) - (tq1 + tp1 / 2))

A value above 1 is kept: when exactly a counter was read is not known, only that it was between
query and answer. A pair that says nothing, for the counter ran backwards or one of its answers
has no value, is NaN with its reason; it counts neither as waiting nor as calm.
"""

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weir.errors import BadInput
from weir.observe.infiniband.records import CLAMPED, Rows, flagged, round_starts

_WRAP = 2**32
Floats = npt.NDArray[np.float64]


class Reason(enum.IntEnum):
    """What a pair of answers is worth."""

    GOOD = 0
    NO_VALUE = 1
    """One of the two has none: no answer, no link, a clamped counter."""
    WRAPPED = 2
    """The counter went over its end, and the ticks to there fit into the time."""
    RESET = 3
    """It is lower, by as little as it may have counted since somebody set it to zero."""
    STEPPED_BACK = 4
    """It is lower, and neither explains it."""
    NO_TIME = 5
    """The second answer is not later than the first."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """The pairs of whole rounds.

    Attributes:
        fitf: a value a pair; NaN where it says nothing.
        reason: why, as `Reason`.
        beyond: where the port would have waited longer than from the first query to the last
            answer: no matter when the counter was read, the tick is too long.
        first: where in the rows each pair's first answer is.
        starts: where among the pairs each round begins.
        rounds: where in the rows each round with a pair begins.
    """

    fitf: Floats
    reason: npt.NDArray[np.int8]
    beyond: npt.NDArray[np.bool_]
    first: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]
    rounds: npt.NDArray[np.intp]

    @property
    def ends(self) -> npt.NDArray[np.intp]:
        """Where among the pairs each round ends."""
        return np.append(self.starts[1:], len(self.fitf))[: len(self.starts)]


def fitf(ticks: int, tick_ns: float, asked_ns: int, took_ns: tuple[int, int]) -> float:
    """The FITF of one pair.

    Args:
        ticks: by how many the counter grew.
        tick_ns: how long one takes.
        asked_ns: from the first query to the second.
        took_ns: how long each answer took.
    """
    return tick_ns * ticks / (asked_ns + (took_ns[1] - took_ns[0]) / 2)


def intervals(rows: Rows, tick_ns: float | None = None) -> Intervals:
    """The pairs of answers in whole rounds.

    Args:
        rows: of whole rounds.
        tick_ns: how long a tick takes; None for what the rows say.

    Raises:
        BadInput: a row does not say how long its tick takes, and nobody else does.
    """
    begins = round_starts(rows)
    pairs_in = np.diff(np.append(begins, len(rows))) - 1
    first = np.delete(np.arange(len(rows)), begins + pairs_in) if len(rows) else begins
    a, b = rows[first], rows[first + 1]
    tick = a["tick_ns"] if tick_ns is None else np.full(len(a), tick_ns)
    no_value = _has_none(rows)
    bad = no_value[first] | no_value[first + 1]
    if np.isnan(tick[~bad]).any():
        raise BadInput("the records do not say how long a tick takes: give it, such as 22 ns")
    span = (b["asked_ns"] - a["asked_ns"]) + (b["took_ns"] - a["took_ns"]) / 2
    most_span = b["asked_ns"] + b["took_ns"] - a["asked_ns"]
    # Two counters below 2^32: their difference is exact.
    ticks = b["wait_ticks"].astype(np.int64) - a["wait_ticks"].astype(np.int64)
    most = np.divide(most_span, tick, where=~bad, out=np.zeros(len(a)))
    reason = np.zeros(len(a), np.int8)
    back = ticks < 0
    reason[back] = Reason.STEPPED_BACK
    reason[back & (b["wait_ticks"] <= most)] = Reason.RESET
    reason[back & (ticks + _WRAP <= most)] = Reason.WRAPPED
    reason[span <= 0] = Reason.NO_TIME
    reason[bad] = Reason.NO_VALUE
    good = reason == Reason.GOOD
    value = np.full(len(a), np.nan)
    np.divide(tick * ticks, span, where=good, out=value)
    has_pair = pairs_in > 0
    starts = np.concatenate([[0], np.cumsum(pairs_in[has_pair])[:-1]]).astype(np.intp)
    return Intervals(
        value,
        reason,
        good & (ticks > most),
        first,
        starts if has_pair.any() else np.zeros(0, np.intp),
        begins[has_pair],
    )


def _has_none(rows: Rows) -> npt.NDArray[np.bool_]:
    """Which rows have no value; in files of others a clamped counter is not flagged."""
    return flagged(rows["flags"]) | (rows["wait_ticks"] >= CLAMPED)
