"""The progress of a transfer in one line, no longer than the terminal is wide."""

import os
from typing import TextIO

from weir.format import rate, size
from weir.printable import printable
from weir.transfer import Progress
from weir.transfer.forecast import Forecast

_COLUMNS = 80  # of a terminal that does not say
_BAR_MIN, _BAR_MAX, _BAR_STEP = 8, 24, 4
_GAP = "  "
_ENDLESS_S = 1000 * 3600.0


def columns(stream: TextIO) -> int:
    """How wide the terminal is at this moment."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _COLUMNS
    except (OSError, ValueError):  # no terminal, or a stream without a descriptor
        return _COLUMNS


def fitted(progress: Progress, forecast: Forecast, status: str, width: int) -> str:
    """The line; the least important fields go first where there is no room for all.

    Args:
        progress: how far it is.
        forecast: how it will go on, which has seen this progress.
        status: what a companion is at; empty for nothing.
        width: of the terminal. Its last column stays free: a full line may break.
    """
    total = progress.bytes_total.count
    share = min(1.0, progress.bytes_durable.count / total) if total else 0.0
    percent = f"{share:4.0%}"
    room = width - 1 - len(percent)
    fields = _fields(progress, forecast, printable(status))
    kept = []
    for _, place, text in sorted(fields):
        if len(_GAP + text) <= room:
            room -= len(_GAP + text)
            kept.append((place, text))
    words = [percent, *(text for _, text in sorted(kept))]
    return _bar(share, room) + _GAP.join(words)


def _fields(progress: Progress, forecast: Forecast, status: str) -> list[tuple[int, int, str]]:
    """Each with its importance (1 is the last to go) and its place."""
    held = f"{size(progress.bytes_durable.count)} of {size(progress.bytes_total.count)}"
    fields = [(4, 0, held)]
    if progress.state == "connecting":
        fields.append((3, 1, "connecting"))
    else:
        fields.append((3, 1, rate(forecast.rate.bit_per_s)))
        fields.append((2, 2, f"ETA {_until(forecast.remaining_s)}"))
    due = _due(forecast)
    if due:
        fields.append((1, 3, due))
    if status:
        fields.append((5, 4, status))
    return fields


def _until(seconds: float | None) -> str:
    return "?" if seconds is None or seconds > _ENDLESS_S else duration(seconds)


def _due(forecast: Forecast) -> str:
    """How it stands at its deadline; what may pass within seconds is not an alarm."""
    slack = forecast.slack_s
    if forecast.is_late:
        return "LATE" if slack is None else f"LATE by {_until(max(0.0, -slack))}"
    if slack is None:
        return ""
    return f"slack {_until(slack)}" if slack >= 0 else "slack ?"


def _bar(share: float, room: int) -> str:
    """A bar that fills the room in whole steps, so that it does not breathe; maybe empty."""
    width = min(_BAR_MAX, (room - 1) // _BAR_STEP * _BAR_STEP)
    if width < _BAR_MIN:
        return ""
    filled = int(share * width)
    return "━" * filled + "─" * (width - filled) + " "


def duration(seconds: float) -> str:
    """Seconds for a person: `4.2 s`, `3:05 min`, `2:10 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02} h"
