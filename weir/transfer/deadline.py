"""Deadlines as people write them: a clock time, an instant, or a span from now."""

from datetime import datetime, timedelta

from weir._core import Time
from weir.errors import BadInput


def parse(text: str, now: datetime) -> datetime:
    """The instant that `text` means at `now` (which carries a time zone).

    `"+90 s"` is a span from now, `"06:00"` or `"06:00:30"` the next time the clock shows that,
    anything else an RFC 3339 instant; one without a zone is in `now`'s.

    Raises:
        BadInput: it is none of these, or it has passed.
    """
    if text.startswith("+"):
        return now + timedelta(microseconds=Time(text[1:].strip()).ns / 1000)
    try:
        clock = datetime.strptime(text, "%H:%M:%S" if text.count(":") == 2 else "%H:%M")
    except ValueError:
        return _instant(text, now)
    today = now.replace(hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0)
    return today if today > now else today + timedelta(days=1)


def _instant(text: str, now: datetime) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(
            f'deadline "{text}": write a time of day ("06:00"), an instant '
            f'("2026-11-20T06:00:00Z") or a span ("+90 s")'
        ) from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=now.tzinfo)
    if instant <= now:
        raise BadInput(f'deadline "{text}" is in the past: it is {now.isoformat("T", "seconds")}')
    return instant
