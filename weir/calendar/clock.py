"""Wall-clock time at the service's edge, and RFC 3339 text.

Inside, an instant is whole nanoseconds since 1970-01-01T00:00:00Z, handed on as an argument.
"""

import re
import time
from datetime import UTC, datetime

from weir.errors import BadInput

NS_PER_S = 1_000_000_000
# SQLite and PostgreSQL hold instants as signed 64-bit nanoseconds: the year 2262.
LAST_NS = 2**63 - 1

_RFC3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d{2}:\d{2})",
    re.ASCII,
)


class Clock:
    """The wall clock, made to never step back, as the engine's time must not."""

    def __init__(self) -> None:
        self._last_ns = 0

    def now_ns(self) -> int:
        """Now, in nanoseconds since 1970; at least as large as the last answer."""
        self._last_ns = max(self._last_ns, time.time_ns())
        return self._last_ns


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
    whole = datetime.fromtimestamp(seconds, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"
