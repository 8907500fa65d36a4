"""A picture for each class: the round-trip time over time, a panel for each recording."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weir.chart import svg
from weir.chart.plot import ticks
from weir.congestion.recordings import Recording
from weir.errors import BadInput

PANELS_MAX = 3
SECONDS_MAX = 60.0
"""So much of a recording is drawn, from its beginning: as much as an eye can take in."""

_WIDTH, _PANEL, _LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 820, 150, 56, 16, 40, 34, 44
_LINE, _HAIR, _BOUND = "#0072b2", "#e4e4e4", "#d55e00"


def draw(recordings: Sequence[Recording], folder: Path) -> list[Path]:
    """Writes `LABEL.svg` for each class into a folder, which is made if absent.

    Of a class the first recordings without a flaw are drawn, `PANELS_MAX` at most; if all have
    one, the first is.

    Raises:
        BadInput: the folder cannot be written to.
    """
    written = []
    for label in dict.fromkeys(one.label for one in recordings):
        of_class = [one for one in recordings if one.label == label]
        sound = [one for one in of_class if not one.flaws][:PANELS_MAX]
        path = folder / f"{label}.svg"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(picture(sound or of_class[:1]))
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from None
        written.append(path)
    return written


def picture(recordings: Sequence[Recording]) -> str:
    """Recordings of one class above each other, on axes of their own, as SVG."""
    height = _TOP + len(recordings) * (_PANEL + _GAP) - _GAP + _BOTTOM
    title = f"{recordings[0].label}: round-trip time, ms"
    shapes = [svg.text(_LEFT, 22, title, more='font-weight="bold"')]
    for number, one in enumerate(recordings):
        shapes += _panel(one, _TOP + number * (_PANEL + _GAP))
    shapes.append(svg.text((_LEFT + _WIDTH) / 2, height - 8, "s", "middle"))
    return svg.image(_WIDTH, height, shapes)


def _panel(one: Recording, top: float) -> Iterator[str]:
    """A recording between its idle path's round-trip time and that with a full queue."""
    shown = one.rtt_ms[: max(1, int(SECONDS_MAX * one.rate_hz))]
    idle_ms = one.path.rtt_ns / 1e6
    answered = shown[np.isfinite(shown)]
    low, high = 0.9 * idle_ms, float(answered.max(initial=1.05 * one.path.full_ms))
    seconds = len(shown) / one.rate_hz

    def x(at_s: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * at_s / seconds

    def y(rtt_ms: float) -> float:
        return top + _PANEL * (1 - (rtt_ms - low) / (high - low))

    for mark in ticks(seconds, 12):
        yield f'<path d="M{x(mark):.1f} {top:g}v{_PANEL}" stroke="{_HAIR}"/>'
        yield svg.text(x(mark), top + _PANEL + 14, f"{mark:g}", "middle", 'fill="#666"')
    for mark in (tick for tick in ticks(high, 6) if tick >= low):
        yield f'<path d="M{_LEFT} {y(mark):.1f}H{_WIDTH - _RIGHT}" stroke="{_HAIR}"/>'
        yield svg.text(_LEFT - 6, y(mark) + 4, f"{mark:g}", "end")
    for bound in (idle_ms, one.path.full_ms):
        yield (
            f'<path d="M{_LEFT} {y(bound):.1f}H{_WIDTH - _RIGHT}" stroke="{_BOUND}" '
            'stroke-dasharray="5 4" stroke-opacity="0.7"/>'
        )
    for begin, values in _runs(shown):
        places = " ".join(
            f"{x((begin + i) / one.rate_hz):.1f},{y(rtt):.1f}" for i, rtt in enumerate(values)
        )
        yield f'<polyline points="{places}" fill="none" stroke="{_LINE}" stroke-width="1.2"/>'
    words = [str(one.path), one.pattern or "passive", f"{one.source}, seed {one.seed}"]
    if one.background_bps:
        rates = " + ".join(f"{rate / 1e6:.0f}" for rate in one.background_bps)
        words.append(f"streams of {rates} Mbit/s")
    yield svg.text(_LEFT, top - 5, "; ".join(words), more='fill="#666"')


def _runs(values: NDArray[np.float64]) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Stretches between samples without a reply, each with the number of its first sample."""
    answered = np.flatnonzero(np.isfinite(values))
    for run in np.split(answered, np.flatnonzero(np.diff(answered) > 1) + 1):
        if len(run):
            yield int(run[0]), values[run]
