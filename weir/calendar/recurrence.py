"""Windows of time as people write them, and the same window again every day, week or span."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from typing import Any

from weir import Time, deadline
from weir.errors import BadInput

TIMES_MAX = 366
_DAYS = {"day": 1, "week": 7}


@dataclass(frozen=True, slots=True)
class Window:
    """From when (None: at once) until when something is to be sent.

    `clocks` are the times of day that both were said as, if they were: where the clocks skip one on
    the first day, later days have it all the same.
    """

    start: datetime | None
    deadline: datetime
    clocks: tuple[time | None, time | None] = (None, None)

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
    if begins is None or start is None or by.startswith("+"):
        ends = deadline.read(by, now, zone)
    else:
        ends = deadline.end_of(by, start, begins, zone)
    clocks = None if start is None else deadline.clock_of(start), deadline.clock_of(by)
    return Window(begins, now + ends if isinstance(ends, timedelta) else ends, clocks)


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

    def later(instant: datetime, number: int, clock: time | None) -> datetime:
        if every in _DAYS:
            return deadline.days_later(instant, number * _DAYS[every], zone, clock)
        return instant + number * span

    def again(number: int) -> Window:
        begins, ends = map(later, (start, window.deadline), (number, number), window.clocks)
        shown, due = window.clocks
        if ends <= begins and shown is not None and due is not None:
            # The clocks skip what was between.
            ends = begins + deadline.span_between(shown, due)
        return Window(begins, ends)

    span = timedelta(0) if every in _DAYS else _span(every)
    try:
        found = [again(number) for number in range(times)]
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
