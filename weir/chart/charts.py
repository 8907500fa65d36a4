"""A published figure as one SVG picture: curves with intervals, box plots, or confusion tables."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from weir import files
from weir.chart import svg
from weir.chart.plot import ticks

_WIDTH, _HEIGHT = 820, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 190, 44, 56
# Okabe and Ito's palette, told apart by all readers.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a7a00")
_LABEL_GAP = 16
_BOX, _BOX_STEP, _CELL = 14, 22, 46
_LETTER = 8  # at most, of a word's width
_NAMES_FROM = 18  # right of the axes


@dataclass(frozen=True, slots=True)
class Series:
    """A curve: places (x, y, half of y's interval) from left to right; a margin may be 0."""

    name: str
    places: Sequence[tuple[float, float, float]]


@dataclass(frozen=True, slots=True)
class Table:
    """How many of each label (row) were taken for each (column)."""

    title: str
    labels: Sequence[str]
    counts: Sequence[Sequence[int]]


def lines(
    path: Path, title: str, x: str, y: str, series: Sequence[Series], with_boxes: bool = False
) -> None:
    """Draws the series over common axes labelled `x` and `y`, each named at its right end.

    Places that are not finite are left out; at least one must be left. `with_boxes`: right of its
    name each series has a box plot of its values.
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
    shapes += _upright(y_marks, to_y, right, y)
    shapes.append(svg.text((_LEFT + right) / 2, _HEIGHT - 14, x, "middle"))
    heights = _spread([to_y(one.places[-1][1]) for one in kept])
    boxes_x = _width(title, [one.name for one in kept])
    for number, (one, height) in enumerate(zip(kept, heights, strict=True)):
        colour = _COLOURS[number % len(_COLOURS)]
        shapes.append(_curve(one, to_x, to_y, colour))
        end = to_x(one.places[-1][0]), to_y(one.places[-1][1])
        shapes.append(
            f'<path d="M{end[0] + 4:.1f} {end[1]:.1f}L{right + 14} {height:.1f}" '
            f'stroke="{colour}" stroke-opacity="0.5"/>'
        )
        name_x = right + _NAMES_FROM
        shapes.append(svg.text(name_x, height + 4, one.name, "start", f'fill="{colour}"'))
        if with_boxes:
            at = boxes_x + (number + 0.5) * _BOX_STEP
            shapes.append(_box([value for _, value, _ in one.places], at, to_y, colour, one.name))
    width = boxes_x + (len(kept) * _BOX_STEP + _BOX_STEP / 2 if with_boxes else 0)
    if with_boxes:
        shapes.append(svg.text((boxes_x + width) / 2, floor + 18, "all", "middle"))
    with files.whole(path) as partial:
        partial.write_text(svg.image(width, _HEIGHT, shapes, font_px=13))


def boxes(
    path: Path,
    title: str,
    x: str,
    y: str,
    places: Sequence[str],
    series: Mapping[str, Sequence[Sequence[float]]],
) -> None:
    """Draws a box plot of each series' values at each place, side by side.

    Args:
        path: of the picture.
        title: above it.
        x: what places are.
        y: what values are.
        places: from left to right.
        series: by name, at each place its values, one at least.
    """
    values = [value for groups in series.values() for group in groups for value in group]
    marks = _marks(values)
    right, floor = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    to_y = _scale(marks[0], marks[-1], floor, _TOP)
    shapes = [svg.text(_LEFT, 24, title, "start", 'font-weight="bold"')]
    shapes += _upright(marks, to_y, right, y)
    shapes.append(svg.text((_LEFT + right) / 2, _HEIGHT - 14, x, "middle"))
    step = (right - _LEFT) / len(places)
    for index, place in enumerate(places):
        middle = _LEFT + (index + 0.5) * step
        shapes.append(svg.text(middle, floor + 18, place, "middle"))
        for number, (name, groups) in enumerate(series.items()):
            aside = (number - (len(series) - 1) / 2) * min(_BOX_STEP, 0.9 * step / len(series))
            colour = _COLOURS[number % len(_COLOURS)]
            shapes.append(_box(groups[index], middle + aside, to_y, colour, f"{name}, {place}"))
    for number, name in enumerate(series):
        colour = _COLOURS[number % len(_COLOURS)]
        height = _TOP + 8 + number * _LABEL_GAP
        name_x = right + _NAMES_FROM
        shapes.append(svg.text(name_x, height, name, "start", f'fill="{colour}"'))
    with files.whole(path) as partial:
        partial.write_text(svg.image(_width(title, [*series]), _HEIGHT, shapes, font_px=13))


def tables(path: Path, title: str, drawn: Sequence[Table]) -> None:
    """Draws confusion tables side by side; a cell is the darker the more of its row it has."""
    shapes = [svg.text(24, 24, title, "start", 'font-weight="bold"')]
    left, height = 0.0, 0.0
    for table in drawn:
        longest = _LETTER * max(map(len, table.labels))
        cell = max(_CELL, longest)
        left += longest + 30
        shapes += _table(table, left, _TOP + 44, cell)
        left += cell * len(table.labels)
        height = max(height, _TOP + 44 + _CELL * len(table.labels) + 24)
    with files.whole(path) as partial:
        partial.write_text(svg.image(max(left + 24, 420), height, shapes, font_px=13))


def _table(table: Table, left: float, top: float, cell: float) -> Iterator[str]:
    """Its left upper corner is at a place; cells are `cell` wide."""
    yield svg.text(left, top - 28, table.title)
    for row, (label, counts) in enumerate(zip(table.labels, table.counts, strict=True)):
        all_of_row = max(1, sum(counts))
        middle = top + (row + 0.5) * _CELL
        yield svg.text(left - 8, middle + 4, label, "end")
        yield svg.text(left + (row + 0.5) * cell, top - 8, label, "middle")
        for column, count in enumerate(counts):
            share = count / all_of_row
            x = left + column * cell
            yield (
                f'<rect x="{x:.1f}" y="{top + row * _CELL:.1f}" width="{cell - 1}" '
                f'height="{_CELL - 1}" fill="{_COLOURS[0]}" fill-opacity="{max(0.04, share):.3f}">'
                f"<title>{escape(label)} taken for {escape(table.labels[column])}</title></rect>"
            )
            ink = 'fill="#fff"' if share > 0.5 else 'fill="#222"'
            yield svg.text(x + cell / 2, middle + 4, f"{count}", "middle", ink)


def _width(title: str, names: Sequence[str]) -> float:
    """How wide a picture is that holds its title, and the names right of its axes, uncut."""
    named = _WIDTH - _RIGHT + _NAMES_FROM + _LETTER * max(map(len, names))
    return max(_WIDTH, named, _LEFT + _LETTER * len(title))


def _upright(
    marks: Sequence[float], to_y: Callable[[float], float], right: float, y: str
) -> Iterator[str]:
    """The axis of values, with a line across at each mark."""
    for mark in marks:
        yield f'<path d="M{_LEFT} {to_y(mark):.1f}H{right}" stroke="#e4e4e4"/>'
        yield svg.text(_LEFT - 8, to_y(mark) + 4, f"{mark:g}", "end")
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    yield svg.text(18, middle, y, "middle", f'transform="rotate(-90 18 {middle:g})"')


def _box(
    values: Sequence[float], x: float, to_y: Callable[[float], float], colour: str, name: str
) -> str:
    """Dashed whiskers to the least and the most, a box between the quartiles, a line at the median.

    So the work draws them (001-spec 5.8).
    """
    if len(values) > 1:
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    else:
        low = middle = high = values[0]
    least, bottom, median, top, most = map(to_y, (min(values), low, middle, high, max(values)))
    half = _BOX / 2
    whiskers = f"M{x:.1f} {least:.1f}V{bottom:.1f}M{x:.1f} {top:.1f}V{most:.1f}"
    ends = f"M{x - half / 2:.1f} {least:.1f}h{half}M{x - half / 2:.1f} {most:.1f}h{half}"
    return (
        f'<g stroke="{colour}" fill="none"><title>{escape(name)}</title>'
        f'<path d="{whiskers}" stroke-dasharray="3 2"/><path d="{ends}"/>'
        f'<rect x="{x - half:.1f}" y="{top:.1f}" width="{_BOX}" height="{bottom - top:.1f}" '
        f'fill="{colour}" fill-opacity="0.15"/>'
        f'<path d="M{x - half:.1f} {median:.1f}h{_BOX}" stroke-width="2"/></g>'
    )


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
