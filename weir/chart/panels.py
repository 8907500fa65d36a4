"""Panels of curves over time, as one SVG file that stands by itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weir.chart import svg
from weir.chart.plot import ticks

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP_X, _GAP_Y, _BOTTOM = 360, 150, 52, 74, 60, 62, 40
_HAIR, _INK, _PALE = "#e4e4e4", "#222", "#666"


@dataclass(frozen=True)
class Curve:
    """One quantity of a panel.

    Attributes:
        name: for the legend; curves of one name have one colour in all panels.
        values: one for each step.
        colour: as SVG writes it.
    """

    name: str
    values: Sequence[float]
    colour: str


@dataclass(frozen=True)
class Panel:
    """Curves on one pair of axes.

    Attributes:
        title: above it.
        subtitle: below that.
        curves: in the order of the legend.
        step_s: between values.
        marks: instants that are marked, in s, each with a word.
    """

    title: str
    subtitle: str
    curves: Sequence[Curve]
    step_s: float
    marks: Sequence[tuple[float, str]] = ()


def draw(panels: Sequence[Panel], columns: int, title: str, unit: str, top: float) -> str:
    """All panels, row by row, on axes from 0 to `top` of `unit`, and as long as the longest."""
    rows = -(-len(panels) // columns)
    width = _LEFT + columns * (_WIDTH + _GAP_X)
    height = _TOP + rows * (_HEIGHT + _GAP_Y) + _BOTTOM - _GAP_Y
    shapes = [svg.text(_LEFT, 24, title, more=f'font-size="16" font-weight="bold" fill="{_INK}"')]
    legend = {curve.name: curve.colour for panel in panels for curve in panel.curves}
    for number, (name, colour) in enumerate(legend.items()):
        x = width - (len(legend) - number) * 150
        shapes.append(f'<path d="M{x} 20h22" stroke="{colour}" stroke-width="2.5"/>')
        shapes.append(svg.text(x + 28, 24, f"{name}, {unit}", more=f'fill="{_INK}"'))
    seconds = max(p.step_s * len(curve.values) for p in panels for curve in p.curves)
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        left = _LEFT + column * (_WIDTH + _GAP_X)
        shapes += _panel(panel, left, _TOP + row * (_HEIGHT + _GAP_Y), seconds, top)
    return svg.image(width, height, shapes)


def _panel(panel: Panel, left: float, upper: float, seconds: float, top: float) -> Iterator[str]:
    def x(at_s: float) -> float:
        return left + _WIDTH * at_s / seconds

    def y(value: float) -> float:
        return upper + _HEIGHT * (1 - min(value / top, 1.05))

    yield svg.text(left, upper - 20, panel.title, more=f'font-weight="bold" fill="{_INK}"')
    yield svg.text(left, upper - 6, panel.subtitle, more=f'fill="{_PALE}"')
    for mark in ticks(seconds, 5):
        yield f'<path d="M{x(mark):.1f} {upper}v{_HEIGHT}" stroke="{_HAIR}"/>'
        words = f"{mark:g} s" if mark == 0 else f"{mark:g}"
        yield svg.text(x(mark), upper + _HEIGHT + 15, words, "middle", more=f'fill="{_PALE}"')
    for mark in ticks(top, 4):
        yield f'<path d="M{left} {y(mark):.1f}h{_WIDTH}" stroke="{_HAIR}"/>'
        yield svg.text(left - 6, y(mark) + 4, f"{mark:g}", "end", more=f'fill="{_PALE}"')
    for at_s, words in panel.marks:
        yield f'<path d="M{x(at_s):.1f} {upper}v{_HEIGHT}" stroke="{_INK}" stroke-dasharray="4 3"/>'
        yield svg.text(x(at_s) + 4, upper + 12, words, more=f'fill="{_INK}"')
    for curve in panel.curves:
        places = " ".join(
            f"{x((i + 0.5) * panel.step_s):.1f},{y(value):.1f}"
            for i, value in enumerate(curve.values)
        )
        yield (
            f'<polyline points="{places}" fill="none" stroke="{curve.colour}" stroke-width="2"/>'
        )
