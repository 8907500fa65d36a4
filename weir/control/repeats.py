"""Lines for an operator that come again and again: a few are told, then how many more there were.

A port that flaps, or a switch that comes and goes, says the same thousands of times a minute: it
would fill the disk, and hide what else is told.
"""

from dataclasses import dataclass

# The same line is told so often within so long.
AT_ONCE, WINDOW_S = 5, 10.0
# So many different lines are counted at a time; what is beyond that is told.
LINES_MAX = 1_000


@dataclass(slots=True)
class _Line:
    """Since when, and how often."""

    begun_s: float
    count: int = 0


class Repeats:
    """The lines of the last while. Times are in seconds of any steady clock."""

    def __init__(self) -> None:
        # Those that came last stand last.
        self._lines: dict[str, _Line] = {}

    def is_told(self, line: str, now_s: float) -> bool:
        """Whether a line is to be told now; it is counted."""
        one = self._lines.pop(line, None)
        if one is None:
            if len(self._lines) >= LINES_MAX:
                return True
            one = _Line(now_s)
        one.count += 1
        self._lines[line] = one
        return one.count <= AT_ONCE

    def due(self, now_s: float) -> list[str]:
        """What became of lines that were not told, where their while is over; the last one last."""
        over = [line for line, one in self._lines.items() if now_s - one.begun_s >= WINDOW_S]
        found = []
        for line in over:
            more = self._lines.pop(line).count - AT_ONCE
            if more > 0:
                found.append(f"{line} ({more} times more in {WINDOW_S:.0f} s)")
        return found
