"""A published figure's curves as one SVG picture: a line with intervals for every series."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from weir.report import svg
from weir.report.plot import ticks

_WIDTH, _HEIGHT = 820, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 190, 44, 56
# Okabe and Ito's palette, told apart by all readers.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a7a00")
_LABEL_GAP = 16


@dataclass(frozen=True, slots=True)
class Series:
    """A curve: places (x, y, half of y's interval) from left to right; a margin may be 0."""

    name: str
    places: Sequence[tuple[float, float, float]]


def lines(path: Path, title: str, x: str, y: str, series: Sequence[Series]) -> None:
    """Draws the series over common axes labelled `x` and `y`, each named at its right end.

    Places that are not finite are left out; at least one must be left.
    """
    kept = [
        Series(one.name, [place for place in one.places if all(map(math.isfinite, place))])
        for one in series
    ]
    kept = [one for one in kept if one.places]
    x_marks = _marks([at for one in kept for at, _, _ in one.places])
    y_marks = _marks([value for one in kept for _, y, m in one.places for value in (y - m, y + m)])
    right, floor = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    # The x axis ends with the curves, where their names begin.
    last = max(place[0] for one in kept for place in one.places)
    x_marks = [mark for mark in x_marks if mark <= last] if last > x_marks[0] else x_marks
    to_x = _scale(x_marks[0], max(last, x_marks[-1]), _LEFT, right)
    to_y = _scale(y_marks[0], y_marks[-1], floor, _TOP)
    shapes = [svg.text(_LEFT, 24, title, "start", 'font-weight="bold"')]
    for mark in x_marks:
        shapes.append(f'<path d="M{to_x(mark):.1f} {_TOP}V{floor}" stroke="#e4e4e4"/>')
        shapes.append(svg.text(to_x(mark), floor + 18, f"{mark:g}", "middle"))
    for mark in y_marks:
        shapes.append(f'<path d="M{_LEFT} {to_y(mark):.1f}H{right}" stroke="#e4e4e4"/>')
        shapes.append(svg.text(_LEFT - 8, to_y(mark) + 4, f"{mark:g}", "end"))
    middle = (_TOP + floor) / 2
    shapes.append(svg.text((_LEFT + right) / 2, _HEIGHT - 14, x, "middle"))
    shapes.append(svg.text(18, middle, y, "middle", f'transform="rotate(-90 18 {middle:g})"'))
    heights = _spread([to_y(one.places[-1][1]) for one in kept])
    for number, (one, height) in enumerate(zip(kept, heights, strict=True)):
        colour = _COLOURS[number % len(_COLOURS)]
        shapes.append(_curve(one, to_x, to_y, colour))
        end = to_x(one.places[-1][0]), to_y(one.places[-1][1])
        shapes.append(
            f'<path d="M{end[0] + 4:.1f} {end[1]:.1f}L{right + 14} {height:.1f}" '
            f'stroke="{colour}" stroke-opacity="0.5"/>'
        )
        shapes.append(svg.text(right + 18, height + 4, one.name, "start", f'fill="{colour}"'))
    path.write_text(svg.image(_WIDTH, _HEIGHT, shapes, font_px=13))


def _marks(values: Sequence[float]) -> list[float]:
    """Round values, evenly spaced, that enclose all of `values`; from zero if that is near."""
    low, high = min(values), max(values)
    if 0 < low < 0.4 * high:
        low = 0.0
    span = (high - low) or abs(high) or 1.0
    step = ticks(span)[1]
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, max(last, first + 1) + 1)]


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: start + (end - start) * (value - low) / (high - low)


def _curve(
    series: Series, to_x: Callable[[float], float], to_y: Callable[[float], float], colour: str
) -> str:
    places = [
        (to_x(x), to_y(y), to_y(y - margin), to_y(y + margin)) for x, y, margin in series.places
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y, _, _ in places)
    bars = "".join(
        f"M{x - 3:.1f} {low:.1f}h6M{x - 3:.1f} {high:.1f}h6M{x:.1f} {low:.1f}V{high:.1f}"
        for x, _, low, high in places
        if low - high > 1
    )
    return (
        f'<g stroke="{colour}" fill="{colour}"><title>{escape(series.name)}</title>'
        f'<polyline points="{line}" fill="none" stroke-width="1.8"/>{dots}<path d="{bars}"/></g>'
    )


def _spread(heights: Sequence[float]) -> list[float]:
    """Heights for the names, in the same order from top to bottom but far enough apart to read."""
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    placed = [0.0] * len(heights)
    free = float(_TOP)
    for index in order:
        placed[index] = max(heights[index], free)
        free = placed[index] + _LABEL_GAP
    # What was pushed below the floor moves up again, and its neighbours with it.
    limit = float(_HEIGHT - _BOTTOM)
    for index in reversed(order):
        placed[index] = min(placed[index], limit)
        limit = placed[index] - _LABEL_GAP
    return placed
