"""Deadlines as people write them: a time of day, an instant, or a span from now.

Local times are those of this machine's zone, by the rules of its C library (`TZ`, also as POSIX
has it). The clocks of many zones change twice a year, so a local time may be

- doubled: both its instants are meant, and the first one to come is the deadline;
- skipped: it is taken by the offset before the change (RFC 5545, 3.3.5), as much later as the
  clocks go forward: where they go from 02:00 to 03:00, 02:30 is 03:30.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

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


def read(
    text: str, now: datetime, zone: tzinfo | None = None, what: str = "deadline"
) -> datetime | timedelta:
    """Reads as `parse` does, but a span stays one, and an instant may have passed.

    `what` names in messages what the text is.
    """
    try:
        if text.startswith("+"):
            return _span(text, now)
        clock = re.fullmatch(_TIME_OF_DAY, text, re.ASCII)
        if clock is not None:
            return _next_time_of_day([int(part or 0) for part in clock.groups()], now, zone)
        return _instant(text, now, zone)
    except (ValueError, OverflowError, OSError):
        raise BadInput(
            f'{what} "{text}": write a time of day ("06:00"), an instant '
            f'("2026-11-20T06:00:00Z") or a span ("+90 s")'
        ) from None


def days_later(instant: datetime, days: int, zone: tzinfo | None = None) -> datetime:
    """When the clocks show the same time of day so many days later, with the offset of then."""
    local = instant.astimezone(zone).replace(tzinfo=None, fold=0)
    return _instants(local + timedelta(days=days), zone)[0]


def _span(text: str, now: datetime) -> timedelta:
    span = timedelta(microseconds=Time(text[1:].strip()).ns / 1000)
    if not span:
        raise BadInput(f'deadline "{text}" has to lie after now')
    # A deadline that no calendar can hold is refused.
    _ = now + span
    return span


def _next_time_of_day(clock: list[int], now: datetime, zone: tzinfo | None) -> datetime:
    today = now.astimezone(zone).replace(tzinfo=None)
    wanted = today.replace(hour=clock[0], minute=clock[1], second=clock[2], microsecond=0)
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
