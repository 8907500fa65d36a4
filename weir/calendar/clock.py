"""The calendar's time, and RFC 3339 text.

Two times are kept apart. *Engine time* counts the nanoseconds that really pass. It comes from
CLOCK_BOOTTIME, which goes on while the machine sleeps and which nobody can set, and it continues
where the store last was, so it never goes back, not even over restarts. *Calendar time* is engine
time plus an offset: it is what deadlines are compared with and what events carry, in nanoseconds
since 1970-01-01T00:00:00Z. The wall clock is read only to find the offset.

When somebody sets the wall clock, the offset is wrong from then on, or was wrong before; nobody
can tell at once. So a step is told as soon as it is seen, and followed only once the wall clock
has kept to it for `SETTLE_NS`. Until then the calendar goes on by its own count, so that a clock
which is wrong for some seconds does no harm. To follow a step is to change the offset: deadlines
are instants of the wall, so all of them come nearer or move away, and every active transfer is
planned anew.

- NTP that slews changes both clocks alike: no step. So does sleep: both go on.
- A virtual machine that stood still has lost time by both clocks until its wall clock is
  corrected: a step forward.
- A restart within one boot of the machine knows from CLOCK_BOOTTIME how long it was, whatever
  the wall clock did meanwhile. Over a reboot, on another machine, or from a restored copy of the
  store, the wall clock is all there is: engine time is what it says by the stored offset, but
  never before what the store has seen. If it says less, that is a step, and followed as one.
- The engine sees differences of engine time only, so a leap that turns out to be wrong costs
  nothing but a wrong estimate of what has moved, which the agents' next reports correct.
"""

import re
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal

from weir.errors import BadInput
from weir.kernel_files import text_if_any

NS_PER_S = 1_000_000_000
# SQLite and PostgreSQL hold instants as signed 64-bit nanoseconds: the year 2262.
LAST_NS = 2**63 - 1
# The wall may differ by this much from the calendar's time: less than the margin of any plan.
TOLERANCE_NS = NS_PER_S // 2
# A step is followed once the wall clock has kept to it for so long.
SETTLE_NS = 15 * NS_PER_S
# Two readings further apart than this were not taken at one time.
_READ_NS_MAX = NS_PER_S // 20

_RFC3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d{2}:\d{2})",
    re.ASCII,
)


class Source:
    """The machine's clocks."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970, by whoever has set the clock."""
        return time.time_ns()

    def boot_ns(self) -> int:
        """Nanoseconds since the machine was started, sleep included."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def boot_id(self) -> str:
        """A name for the time from one start of the machine to the next.

        Where nobody tells it, no two times are taken for the same.
        """
        told = text_if_any(Path("/proc/sys/kernel/random/boot_id")).strip()
        return told or secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Anchor:
    """What the store keeps of time: engine time and offset, and when that was within a boot."""

    engine_ns: int
    offset_ns: int
    boot_id: str
    boot_ns: int


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A step of the wall clock: by how much the wall is ahead of the calendar, in nanoseconds.

    It has been seen ("stepped"), has gone away again ("returned"), or has lasted ("settled") and
    is to be followed.
    """

    kind: Literal["stepped", "returned", "settled"]
    ahead_ns: int


class Clock:
    """Engine time and calendar time, going on from an anchor, without one from the wall clock."""

    def __init__(self, anchor: Anchor | None = None, source: Source | None = None) -> None:
        self._source = source or Source()
        self._boot_id = self._source.boot_id()
        boot_ns, wall_ns = self._source.boot_ns(), self._source.wall_ns()
        if anchor is None:
            engine_ns = wall_ns
        elif anchor.boot_id == self._boot_id and anchor.boot_ns <= boot_ns:
            engine_ns = anchor.engine_ns + boot_ns - anchor.boot_ns
        else:
            engine_ns = max(anchor.engine_ns, wall_ns - anchor.offset_ns)
        self._engine_at_boot_ns = engine_ns - boot_ns
        self._offset_ns = anchor.offset_ns if anchor else 0
        self._step_ns: int | None = None
        self._step_since_ns = 0

    @property
    def offset_ns(self) -> int:
        """Calendar time minus engine time."""
        return self._offset_ns

    def now_ns(self) -> int:
        """Calendar time; goes back only where a step is followed."""
        return self._source.boot_ns() + self._engine_at_boot_ns + self._offset_ns

    def anchor(self) -> Anchor:
        """What a later clock needs to go on from now."""
        boot_ns = self._source.boot_ns()
        engine_ns = boot_ns + self._engine_at_boot_ns
        return Anchor(engine_ns, self._offset_ns, self._boot_id, boot_ns)

    def observe(self) -> ClockChange | None:
        """Compares with the wall clock, and says what has changed about it; to be called often."""
        boot_ns, wall_ns = self._source.boot_ns(), self._source.wall_ns()
        if self._source.boot_ns() - boot_ns > _READ_NS_MAX:
            return None
        ahead_ns = wall_ns - (boot_ns + self._engine_at_boot_ns + self._offset_ns)
        if abs(ahead_ns) <= TOLERANCE_NS:
            returned, self._step_ns = self._step_ns is not None, None
            return ClockChange("returned", ahead_ns) if returned else None
        if self._step_ns is None or abs(ahead_ns - self._step_ns) > TOLERANCE_NS:
            self._step_ns, self._step_since_ns = ahead_ns, boot_ns
            return ClockChange("stepped", ahead_ns)
        if boot_ns - self._step_since_ns >= SETTLE_NS:
            return ClockChange("settled", ahead_ns)
        return None

    def ahead_ns(self) -> int:
        """By how much the wall clock is ahead of the calendar."""
        return self._source.wall_ns() - self.now_ns()

    def follow(self, ahead_ns: int) -> None:
        """Takes a step over: calendar time moves by it, engine time does not."""
        self._offset_ns += ahead_ns
        self._step_ns = None


def parse_instant(text: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 date-time, which must carry its UTC offset.

    Raises:
        BadInput: the text is not one, or lies outside 1970-2262.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise BadInput(
            f'"{text[:80]}" is not an RFC 3339 time; write one like "2030-01-31T06:00:00Z"'
        )
    date, clock, fraction, offset = match.groups()
    try:
        whole = datetime.fromisoformat(f"{date}T{clock}{'+00:00' if offset in 'Zz' else offset}")
        seconds = int(whole.timestamp())
    except (ValueError, OverflowError) as error:
        raise BadInput(f'"{text}" is not a time that exists: {error}') from None
    instant_ns = seconds * NS_PER_S + int((fraction or "0").ljust(9, "0"))
    if not 0 <= instant_ns <= LAST_NS:
        raise BadInput(f'"{text}" is outside the years 1970-2262')
    return instant_ns


def format_instant(instant_ns: int) -> str:
    """RFC 3339 text in UTC, to the millisecond, rounded down."""
    seconds, rest = divmod(instant_ns, NS_PER_S)
    return f"{_second_text(seconds)}.{rest // 1_000_000:03d}Z"


def _second_text(seconds: int) -> str:
    day, second = divmod(seconds, 86_400)
    minute = second // 60
    return f"{_day_text(day)}T{minute // 60:02d}:{minute % 60:02d}:{second % 60:02d}"


@lru_cache(1_024)
def _day_text(day: int) -> str:
    # `strftime` takes longer than all the rest.
    return f"{datetime.fromtimestamp(day * 86_400, UTC):%Y-%m-%d}"
