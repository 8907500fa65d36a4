"""Windows of time as people write them, and the same window again every day, week or span."""

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

from weir import Time, deadline
from weir.errors import BadInput

TIMES_MAX = 366
_DAYS = {"day": 1, "week": 7}


@dataclass(frozen=True, slots=True)
class Window:
    """From when (None: at once) until when something is to be sent."""

    start: datetime | None
    deadline: datetime

    def fields(self) -> dict[str, Any]:
        """The request's fields for it."""
        fields = {"deadline": self.deadline.isoformat()}
        return fields if self.start is None else fields | {"start": self.start.isoformat()}


def read_window(text: str, now: datetime, zone: tzinfo | None = None) -> Window:
    """The window that `"22:00-06:00"` means, or two instants with a `/` between them.

    Raises:
        BadInput: it is neither, is empty or has passed.
    """
    first, bar, last = text.partition("/" if "/" in text else "-")
    if not bar:
        raise BadInput(f'window "{text}": write two times of day ("22:00-06:00") or FROM/UNTIL')
    window = window_of(first.strip(), last.strip(), now, zone)
    assert window.start is not None, "it was given"
    if window.deadline <= now:
        raise BadInput(f'window "{text}" is in the past: it is {now.isoformat("T", "seconds")}')
    if window.deadline <= window.start:
        raise BadInput(f'window "{text}" is empty')
    return window


def window_of(start: str | None, by: str, now: datetime, zone: tzinfo | None = None) -> Window:
    """The window from `start` until the deadline `by`; a time of day is the next after the start.

    Raises:
        BadInput: either is not a span of time.
    """
    begins = None if start is None else deadline.read(start, now, zone, "start")
    if isinstance(begins, timedelta):
        begins = now + begins
    is_span = by.startswith("+")
    ends = deadline.read(by, now if begins is None or is_span else begins, zone)
    return Window(begins, now + ends if isinstance(ends, timedelta) else ends)


def occurrences(
    window: Window, every: str, times: int, now: datetime, zone: tzinfo | None = None
) -> list[Window]:
    """The window again every "day" or "week", by the clocks here, or after a span ("6 h").

    Raises:
        BadInput: no such period, too many or too few times, or one begins before the last is due.
    """
    if not 1 <= times <= TIMES_MAX:
        raise BadInput(f"--times {times}: from 1 to {TIMES_MAX}")
    start = window.start or now

    def later(instant: datetime, number: int) -> datetime:
        if every in _DAYS:
            return deadline.days_later(instant, number * _DAYS[every], zone)
        return instant + number * span

    span = timedelta(0) if every in _DAYS else _span(every)
    try:
        found = [
            Window(later(start, number), later(window.deadline, number)) for number in range(times)
        ]
    except OverflowError:
        raise BadInput(
            f"--every {every} --times {times}: that is longer than any calendar"
        ) from None
    if times > 1 and window.deadline > (found[1].start or now):
        raise BadInput(f"--every {every}: each is due only after the next one begins")
    return [Window(window.start, window.deadline), *found[1:]]


def _span(every: str) -> timedelta:
    try:
        span = timedelta(microseconds=Time(every).ns / 1000)
    except (BadInput, OverflowError):
        raise BadInput(f'--every "{every}": write day, week or a span such as "6 h"') from None
    if not span:
        raise BadInput(f'--every "{every}" has to be above zero')
    return span
