"""What a link can carry when: the entries of its timetable, by the clocks of a zone, as instants.

A dated entry says what there is from one instant to another, a daily one between two times of day,
the next day's where the second is not after the first. A dated entry goes before a daily one; two
of a kind must not overlap. A link that is down carries nothing, whatever its timetable says.
"""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from weir import Rate, deadline
from weir.calendar.clock import NS_PER_S, format_instant, parse_instant
from weir.errors import BadInput

# The engine is told of so many days ahead, again every day; what lies further ahead counts with
# the least that the timetable ever gives.
HORIZON_DAYS = 62
# How far ahead a dated entry may end, and overlaps are looked for.
AHEAD_DAYS = 400
ENTRIES_MAX = 64
_DAY_NS = 86_400 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Piece:
    """What a link carries from one instant to another, in calendar time."""

    from_ns: int
    to_ns: int
    capacity_bps: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: two times of day ("22:00") where it is `daily`, else two RFC 3339 instants."""

    capacity_bps: int
    start: str
    until: str
    daily: bool = False
    zone: str = "UTC"

    @property
    def is_told(self) -> bool:
        """Whether this machine can tell when it holds: it may lack the zone of a daily one."""
        try:
            _zone(self.zone)
        except BadInput:
            return not self.daily
        return True

    def pieces(self, from_ns: int, days: int) -> list[Piece]:
        """The times of it that end after `from_ns`, for so many days."""
        if not self.daily:
            piece = Piece(parse_instant(self.start), parse_instant(self.until), self.capacity_bps)
            return [piece] if piece.to_ns > from_ns else []
        zone = _zone(self.zone)
        start, until = deadline.time_of_day(self.start), deadline.time_of_day(self.until)
        over_midnight = timedelta(days=until <= start)
        # From the day before yesterday on: what began then may last.
        first = datetime.fromtimestamp(from_ns / NS_PER_S, zone).date() - timedelta(days=2)
        found = []
        for number in range(days + 4):
            day = first + timedelta(days=number)
            begins = deadline.at(day, start, zone)
            ends = deadline.at(day + over_midnight, until, zone)
            # The clocks may skip all of it.
            if _ns(begins) < _ns(ends) and _ns(ends) > from_ns:
                found.append(Piece(_ns(begins), _ns(ends), self.capacity_bps))
        return found

    def __str__(self) -> str:
        when = f"{self.start} to {self.until}"
        return f"{when} daily ({self.zone})" if self.daily else when


@dataclass(frozen=True, slots=True)
class Timetable:
    """All that is known of one link's capacity beside what the network says it always is.

    `fixed` are the entries of the network file, `entries` those that were set since.
    """

    entries: tuple[Entry, ...] = ()
    down: bool = False
    fixed: tuple[Entry, ...] = ()

    @property
    def all_entries(self) -> tuple[Entry, ...]:
        """Those of the network file first."""
        return (*self.fixed, *self.entries)

    def without_past(self, now_ns: int) -> "Timetable":
        """The same without those of its entries that are over, which say nothing any more."""
        ahead = tuple(x for x in self.entries if x.daily or _ends_after(x, now_ns))
        return replace(self, entries=ahead)

    def plan(self, now_ns: int, nominal_bps: int) -> tuple[list[Piece], int]:
        """The pieces of the days ahead, in order and without gaps between them; the rest."""
        if self.down:
            return [], 0
        if not self.all_entries:
            return [], nominal_bps
        end_ns = now_ns + HORIZON_DAYS * _DAY_NS
        told = self._told(now_ns, HORIZON_DAYS, nominal_bps)
        edges = {now_ns, end_ns}
        for piece in told:
            edges |= {x for x in (piece.from_ns, piece.to_ns) if now_ns < x < end_ns}
        pieces: list[Piece] = []
        for begin, end in itertools.pairwise(sorted(edges)):
            over = (x.capacity_bps for x in told if x.from_ns <= begin < x.to_ns)
            rate = next(over, nominal_bps)
            if pieces and pieces[-1].capacity_bps == rate:
                pieces[-1] = Piece(pieces[-1].from_ns, end, rate)
            else:
                pieces.append(Piece(begin, end, rate))
        # What is dated further ahead is told when it comes near.
        later = [x.capacity_bps for x in self.all_entries if x.daily or _ends_after(x, end_ns)]
        return pieces, min([nominal_bps, *later])

    def capacity_bps(self, now_ns: int, nominal_bps: int) -> int:
        """What the link carries now."""
        if self.down:
            return 0
        told = self._told(now_ns, 1, nominal_bps)
        over = (x.capacity_bps for x in told if x.from_ns <= now_ns < x.to_ns)
        return next(over, nominal_bps)

    @property
    def strange_zones(self) -> list[str]:
        """The zones of its daily entries that this machine does not know, another one did."""
        return sorted({x.zone for x in self.all_entries if not x.is_told})

    def _told(self, now_ns: int, days: int, nominal_bps: int) -> list[Piece]:
        """The times of all entries; those of dated ones, which go before, first.

        When an entry of a zone that is not known holds, nobody can tell. No more may be promised
        than the link surely carries: at all times the least of what it does by the day.
        """
        dated = [x for x in self.all_entries if not x.daily]
        daily = [x for x in self.all_entries if x.daily]
        told = [piece for entry in dated for piece in entry.pieces(now_ns, days)]
        if self.strange_zones:
            least_bps = min([nominal_bps, *(x.capacity_bps for x in daily)])
            return [*told, Piece(now_ns, now_ns + days * _DAY_NS, least_bps)]
        return told + [piece for entry in daily for piece in entry.pieces(now_ns, days)]

    def to_json(self) -> dict[str, Any]:
        """The same as it is stored: without what stands in the network file."""
        return {"entries": [asdict(x) for x in self.entries], "down": self.down}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Timetable":
        """What `to_json` wrote."""
        return cls(tuple(Entry(**x) for x in document["entries"]), document["down"])


def check(
    entries: Sequence[Entry],
    now_ns: int,
    fixed: Sequence[Entry] = (),
    known: Sequence[Entry] = (),
) -> None:
    """Refuses entries that are empty, past, too far ahead, or overlap others of their kind.

    Those that are `fixed` were there before, and may be past; those that were `known` are
    in the way of no change, though this machine may not know the zones that another one did.

    Raises:
        BadInput: naming the entries.
    """
    if len(entries) > ENTRIES_MAX:
        raise BadInput(f"a timetable has {ENTRIES_MAX} entries at most")
    for entry in fixed:
        _check_form(entry)
    for entry in entries:
        if entry not in known:
            _check_form(entry)
            _check_time(entry, now_ns)
    for kind in (True, False):
        pieces = [
            (piece.from_ns, piece.to_ns, str(entry))
            for entry in (*fixed, *entries)
            if entry.daily is kind and entry.is_told
            for piece in entry.pieces(now_ns, AHEAD_DAYS)
        ]
        pieces.sort()
        for earlier, later in itertools.pairwise(pieces):
            if later[0] < earlier[1]:
                at = format_instant(later[0])
                raise BadInput(f'"{earlier[2]}" and "{later[2]}" overlap, first at {at}')


def _check_form(entry: Entry) -> None:
    _zone(entry.zone)
    if entry.daily:
        if deadline.time_of_day(entry.start) == deadline.time_of_day(entry.until):
            raise BadInput(f'"{entry}" is empty')
    elif parse_instant(entry.until) <= parse_instant(entry.start):
        raise BadInput(f'"{entry}" is empty')


def _check_time(entry: Entry, now_ns: int) -> None:
    if entry.daily:
        return
    to_ns = parse_instant(entry.until)
    if to_ns <= now_ns:
        raise BadInput(f'"{entry}" is in the past: it is {format_instant(now_ns)}')
    if to_ns > now_ns + AHEAD_DAYS * _DAY_NS:
        raise BadInput(f'"{entry}" ends more than {AHEAD_DAYS} days ahead')


def capacity_of(text: str) -> int:
    """A capacity as it is written; "0 bit/s" is nothing."""
    return Rate(text).bit_per_s


def _zone(name: str) -> ZoneInfo:
    """The zone of a name.

    Raises:
        BadInput: nobody knows it; or this machine does not, which another one did.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput(
            f'"{name}" is not a time zone here; write one like "Europe/Berlin"'
        ) from None


def _ends_after(entry: Entry, end_ns: int) -> bool:
    return parse_instant(entry.until) > end_ns


def _ns(instant: datetime) -> int:
    return int(instant.timestamp()) * NS_PER_S
