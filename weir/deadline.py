"""Deadlines as people write them: a time of day, an instant, or a span from now.

Local times are those of this machine's zone, by the rules of its C library (`TZ`, also as POSIX
has it). The clocks of many zones change twice a year, so a local time may be

- doubled: both its instants are meant, and the first one to come is the deadline;
- skipped: it is taken by the offset before the change (RFC 5545, 3.3.5), as much later as the
  clocks go forward: where they go from 02:00 to 03:00, 02:30 is 03:30.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from time import CLOCK_BOOTTIME, clock_gettime

from weir._core import Time
from weir.errors import BadInput

_TIME_OF_DAY = r"(\d{1,2}):(\d{2})(?::(\d{2}))?"


def parse(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """The instant that `text` means at `now`, with the offset that the clocks have then.

    `"+90 s"` is a span from now, `"06:00"` or `"06:00:30"` the next time that the clocks here show
    that, anything else an RFC 3339 instant; one without an offset is in local time. `zone` is
    another zone than this machine's.

    Raises:
        BadInput: the text is not one of these, or the instant has passed.
    """
    meant = read(text, now, zone)
    instant = now + meant if isinstance(meant, timedelta) else meant
    if instant <= now:
        raise BadInput(f'deadline "{text}" is in the past: it is {now.isoformat("T", "seconds")}')
    return instant


def wall() -> datetime:
    """The time of day, by whoever sets this machine's clock."""
    return datetime.now().astimezone()


def clock_for(text: str, now: datetime) -> Callable[[], datetime]:
    """The clock by which what `parse` made of `text` at `now` is kept or missed.

    A span is over when so much time has passed, sleep included, whatever somebody sets the clock of
    this machine to meanwhile; everything else is an instant of that clock.
    """
    if not text.startswith("+"):
        return wall
    began_s = clock_gettime(CLOCK_BOOTTIME)
    return lambda: now + timedelta(seconds=clock_gettime(CLOCK_BOOTTIME) - began_s)


def read(
    text: str, now: datetime, zone: tzinfo | None = None, what: str = "deadline"
) -> datetime | timedelta:
    """Reads as `parse` does, but a span stays one, and an instant may have passed.

    `what` names in messages what the text is.
    """
    try:
        if text.startswith("+"):
            return _span(text, now)
        clock = _clock(text)
        if clock is not None:
            return _next_time_of_day(clock, now, zone)
        return _instant(text, now, zone)
    except (ValueError, OverflowError, OSError):
        raise BadInput(
            f'{what} "{text}": write a time of day ("06:00"), an instant '
            f'("2026-11-20T06:00:00Z") or a span ("+90 s")'
        ) from None


def end_of(
    text: str, start: str, begins: datetime, zone: tzinfo | None = None
) -> datetime | timedelta:
    """Reads when something is due that begins at `start`, which was read as `begins`.

    Of two times of day the due one is the next after the start. Where the clocks skip the start,
    it begins as much later and is due at its own time still, or, where that would be over by then,
    as long after as it is from the one to the other. Anything else is read at `begins`.
    """
    local = begins.astimezone(zone)
    shown, due = (clock_of(one) if ":" in one[:3] else None for one in (start, text))
    if shown is None or due is None or local.time() == shown:
        return read(text, begins, zone)
    ends = at(local.date() + timedelta(days=due <= shown), due, zone)
    return ends if ends > begins else begins + span_between(shown, due)


def clock_of(text: str) -> time | None:
    """What clocks here are to show by a text; None for a span, and for an instant of any zone."""
    try:
        clock = _clock(text)
        written = None if clock else datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return clock if written is None else written.time() if written.tzinfo is None else None


def time_of_day(text: str) -> time:
    """What "22:00" or "22:00:30" says; raises `BadInput` for any other text."""
    try:
        clock = _clock(text)
    except ValueError:
        clock = None
    if clock is None:
        raise BadInput(f'"{text}" is not a time of day; write one like "22:00"')
    return clock


def span_between(start: time, due: time) -> timedelta:
    """How long it is by the clocks until the next `due`: at most a day, and never nothing."""
    span = datetime.combine(date.min, due) - datetime.combine(date.min, start)
    return span if span > timedelta(0) else span + timedelta(days=1)


def at(day: date, clock: time, zone: tzinfo | None = None) -> datetime:
    """When the clocks show a time of day; the first time of two, and see above where it is none."""
    return _instants(datetime.combine(day, clock), zone)[0]


def days_later(
    instant: datetime, days: int, zone: tzinfo | None = None, clock: time | None = None
) -> datetime:
    """When the clocks show the same time of day so many days later, with the offset of then.

    `clock` is that time, where the clocks skip it on the day of the `instant`.
    """
    local = instant.astimezone(zone).replace(tzinfo=None, fold=0)
    return at(local.date() + timedelta(days=days), clock or local.time(), zone)


def _clock(text: str) -> time | None:
    """The time of day that a text is; None if it is none, ValueError for one that no day has."""
    clock = re.fullmatch(_TIME_OF_DAY, text, re.ASCII)
    if clock is None:
        return None
    hour, minute, second = (int(part or 0) for part in clock.groups())
    return time(hour, minute, second)


def _span(text: str, now: datetime) -> timedelta:
    span = timedelta(microseconds=Time(text[1:].strip()).ns / 1000)
    if not span:
        raise BadInput(f'deadline "{text}" has to lie after now')
    # A deadline that no calendar can hold is refused.
    _ = now + span
    return span


def _next_time_of_day(clock: time, now: datetime, zone: tzinfo | None) -> datetime:
    wanted = datetime.combine(now.astimezone(zone).date(), clock)
    days = (wanted + timedelta(days=number) for number in (-1, 0, 1, 2))
    return min(x for day in days for x in _instants(day, zone) if x > now)


def _instant(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    written = datetime.fromisoformat(text.upper())
    if written.tzinfo is not None:
        return written
    meant = _instants(written, zone)
    return next((x for x in meant if x > now), meant[-1])


def _instants(local: datetime, zone: tzinfo | None) -> list[datetime]:
    """The instants, oldest first, at which clocks show a local time; where it is skipped, one.

    (Not by `astimezone` of the local time, which puts a skipped one an hour before the change.)
    """
    both = sorted({local.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1)})
    shown = [_fixed(datetime.fromtimestamp(instant, UTC).astimezone(zone)) for instant in both]
    # Between two changes both are the same; of a skipped time the later one has the offset that
    # was before the change.
    return [x for x in shown if x.replace(tzinfo=None, fold=0) == local] or shown[-1:]


def _fixed(instant: datetime) -> datetime:
    """The instant with its offset only: with a zone, doubled ones never compare as equal."""
    offset = instant.utcoffset()
    return instant.replace(tzinfo=None if offset is None else timezone(offset), fold=0)
