"""What was found, in the words of tables."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weir.observe.infiniband.asking import Names, Port
from weir.observe.infiniband.records import Flag, Rows
from weir.observe.infiniband.statistics import Category, Tally, box
from weir.observe.infiniband.waiting import Reason, intervals
from weir.terminal import Column, Table

_WORDS = {
    Reason.WRAPPED: "went over the counter's end",
    Reason.RESET: "reset meanwhile",
    Reason.STEPPED_BACK: "stepped back",
    Reason.NO_TIME: "answered out of order",
}


@dataclass(frozen=True, slots=True)
class Waited:
    """How long a port waited from the first sweep to the last.

    Attributes:
        port: which.
        kind: of its switch; nothing if that is not known.
        way: up or down; the same.
        fitf: the share of the time; NaN if nothing can be said.
        lost_bps: what the link would have carried meanwhile; NaN if its speed is not known.
        ticks: by how many the counter grew; NaN as `fitf`.
        reason: why nothing can be said, in words; nothing if it can.
        gaps: why it is not said of all the time, where it is of some; nothing if it is of all.
    """

    port: Port
    kind: str
    way: str
    fitf: float
    lost_bps: float
    ticks: float
    reason: str
    gaps: str = ""


@dataclass(slots=True)
class _Sum:
    """What a port's pairs of answers come to so far.

    Attributes:
        kind: of its switch.
        way: up or down.
        pairs: that say something.
        fitf: theirs together.
        ticks: by how many the counter grew in them.
        reason: why the first pair that says nothing does not; nothing if all do.
    """

    kind: str
    way: str
    pairs: int = 0
    fitf: float = 0.0
    ticks: float = 0.0
    reason: str = ""


class Waits:
    """How long ports wait, sweep by sweep: only the last sweep and some sums are kept."""

    def __init__(self) -> None:
        self._last: Rows | None = None
        self._sums: dict[tuple[int, int], _Sum] = {}

    def add(self, rows: Rows) -> None:
        """Another sweep, later than those before."""
        if self._last is not None:
            self._add_pairs(np.concatenate([self._last, rows]))
        self._last = rows

    def _add_pairs(self, rows: Rows) -> None:
        """The pairs of two sweeps."""
        rows = rows[np.lexsort((rows["port"], rows["lid"]))]  # stable: earlier answers stay first
        rows["round_ns"] = rows["round_ns"][0]
        pairs = intervals(rows)
        for begin, end in zip(pairs.starts.tolist(), pairs.ends.tolist(), strict=True):
            first = pairs.first[begin:end]
            row = rows[first[0]]
            key = int(row["lid"]), int(row["port"])
            value = pairs.fitf[begin:end]
            good = ~np.isnan(value)
            one = self._sums.setdefault(key, _Sum(str(row["kind"]), str(row["way"])))
            if not one.reason and not good.all():
                bad = int(np.argmin(good))
                why = Reason(int(pairs.reason[begin + bad]))
                one.reason = _why(rows, first[bad : bad + 1], why)
            grown = rows["wait_ticks"][first + 1].astype(float) - rows["wait_ticks"][first]
            one.pairs += int(good.sum())
            one.fitf += float(value[good].sum())
            one.ticks += float(grown[good].sum())

    def found(self, ports: Sequence[Port]) -> list[Waited]:
        """Each of these ports that was asked twice, those that waited most first.

        What is added up are the pairs of sweeps that say something; that others do not is told.
        """
        known = {port.place: port for port in ports}
        found = []
        for key, one in self._sums.items():
            port = known.get(key)
            if port is None:  # gone since the fabric was looked at again
                continue
            rate_bps = port.speed.rate_bps if port.speed else math.nan
            share = one.fitf / one.pairs if one.pairs else math.nan
            ticks = one.ticks if one.pairs else math.nan
            reason, gaps = ("", one.reason) if one.pairs else (one.reason, "")
            lost_bps = share * rate_bps
            found.append(Waited(port, one.kind, one.way, share, lost_bps, ticks, reason, gaps))
        return sorted(
            found, key=lambda one: -1.0 if math.isnan(one.fitf) else one.fitf, reverse=True
        )


def waited(swept: Iterable[Rows], ports: Sequence[Port]) -> list[Waited]:
    """Each port of some sweeps that followed one another, as `Waits` has it."""
    waits = Waits()
    for rows in swept:
        waits.add(rows)
    return waits.found(ports)


def _why(rows: Rows, first: np.ndarray, reason: Reason) -> str:
    if reason != Reason.NO_VALUE:
        return _WORDS[reason]
    for index in (*first, first[-1] + 1):
        flags = [one for one in str(rows["flags"][index]).split("+") if one != "tick-assumed"]
        if any(flags):
            return " and ".join(flags)
    return "clamped"


def flags_told(found: Sequence[Waited]) -> dict[str, int]:
    """How many ports say nothing, by why."""
    return dict(Counter(one.reason for one in found if one.reason).most_common())


def gaps_told(found: Sequence[Waited]) -> dict[str, int]:
    """How many ports say something, but not of all the time, by why."""
    return dict(Counter(one.gaps for one in found if one.gaps).most_common())


def none_answered(rows: Rows) -> bool:
    """Whether ports were asked, and none of them said anything."""
    is_missing = np.char.find(rows["flags"], Flag.MISSING) >= 0
    is_down = np.char.find(rows["flags"], Flag.DOWN) >= 0
    return bool(is_missing.any() and (is_missing | is_down).all())


def named(rows: Rows, names: Names) -> Rows:
    """The same rows with the kind and the direction of their ports."""
    rows = rows.copy()
    places, where = np.unique(rows[["lid", "port"]], return_inverse=True)
    categories = [names.category(int(lid), int(port)) for lid, port in places.tolist()]
    for number, name in enumerate(("kind", "way")):
        rows[name] = np.array([one[number] for one in categories], rows[name].dtype)[where]
    return rows


def facts(category: Category, tally: Tally) -> dict[str, object]:
    """A category for machines; shares of nothing are None."""
    kind, way = category
    maxima = box(tally.maxima)
    beyond = maxima.outliers if maxima else ()
    return {
        "kind": kind,
        "way": way,
        "rounds": tally.rounds,
        "rounds_discarded": tally.discarded,
        "rounds_waiting": len(tally.maxima),
        "intervals_zero": tally.zero,
        "intervals_waiting": tally.waiting,
        "waiting_share": _or_none(tally.waiting_share),
        "waiting_margin": _or_none(tally.waiting_margin()),
        "fitf_whole": tally.whole,
        "fitf_beyond": tally.beyond,
        "unusable": {reason.name.lower(): count for reason, count in tally.unusable.items()},
        "maximum_median": maxima.median if maxima else None,
        "maximum_high": maxima.high if maxima else None,
        "outliers": len(beyond),
        "outlier_least": beyond[0] if beyond else None,
        "outlier_most": beyond[-1] if beyond else None,
    }


def table(tallies: Mapping[Category, Tally]) -> Table:
    """Tables 2.1 and 2.2 and the medians of figures 2.5 to 2.7 in one."""
    figures = ("rounds", "waited", "intervals", "max", "mean", "outliers", "least", "most", "≥ 1")
    drawn = Table("kind", "way", *(Column(name, right=True) for name in figures), "of no use")
    for (kind, way), tally in sorted(tallies.items()):
        maxima, means = box(tally.maxima), box(tally.means)
        beyond = maxima.outliers if maxima else ()
        share = tally.waiting_share
        told = [f"{count} {reason.name.lower()}" for reason, count in tally.unusable.items()]
        told += [f"{tally.discarded} rounds"] * bool(tally.discarded)
        drawn.add_row(
            kind or "?",
            way or "?",
            str(tally.rounds),
            str(len(tally.maxima)),
            "" if math.isnan(share) else f"{share * 100:.1f} %",
            f"{maxima.median:.3f}" if maxima else "",
            f"{means.median:.3f}" if means else "",
            str(len(beyond)),
            f"{beyond[0]:.3f}" if beyond else "",
            f"{beyond[-1]:.3f}" if beyond else "",
            str(tally.whole),
            ", ".join(told).replace("_", " "),
        )
    return drawn


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
