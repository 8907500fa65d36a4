"""Plots as inline SVG that stretches to any width, with HTML text laid over it.

The SVG is drawn in percent of the plot and scaled without keeping its aspect ratio, strokes
excepted; text is HTML placed at the same percentages, so it has its natural size on a phone, on
a wide screen and on paper.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Axes:
    """Both axes start at zero; positions come out in percent from the top left corner."""

    x_max: float
    y_max: float

    def x(self, value: float) -> float:
        """Percent from the left, clipped to the plot."""
        return round(100 * min(max(value / self.x_max, 0.0), 1.0), 2)

    def y(self, value: float) -> float:
        """Percent from the top, clipped to the plot."""
        return round(100 * (1 - min(max(value / self.y_max, 0.0), 1.0)), 2)


def ticks(maximum: float, about: int = 6) -> list[float]:
    """Round values from zero up to `maximum`, roughly `about` of them."""
    step = next(
        base * 10.0**power
        for power in range(-3, 13)
        for base in (1, 2, 5)
        if maximum / (base * 10.0**power) <= about
    )
    return [index * step for index in range(int(maximum / step + 1e-9) + 1)]


def svg(shapes: Iterable[str], label: str) -> str:
    """The drawing layer of a plot."""
    return (
        '<svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{"".join(shapes)}</svg>'
    )


def band(axes: Axes, step: float, low: Sequence[float], high: Sequence[float], css: str) -> str:
    """The filled band between two series sampled every `step`."""
    upper = [(axes.x((i + 0.5) * step), axes.y(value)) for i, value in enumerate(high)]
    lower = [(axes.x((i + 0.5) * step), axes.y(value)) for i, value in enumerate(low)]
    points = " ".join(f"{x:g},{y:g}" for x, y in [*upper, *reversed(lower)])
    return f'<polygon class="{css}" points="{points}"/>'


def line(axes: Axes, step: float, values: Sequence[float], css: str) -> str:
    """A series sampled every `step` as a line."""
    points = " ".join(
        f"{axes.x((i + 0.5) * step):g},{axes.y(value):g}" for i, value in enumerate(values)
    )
    return f'<polyline class="{css}" points="{points}"/>'


def trace(axes: Axes, corners: Sequence[tuple[float, float]], css: str) -> str:
    """A line through given places."""
    points = " ".join(f"{axes.x(x):g},{axes.y(y):g}" for x, y in corners)
    return f'<polyline class="{css}" points="{points}"/>'


def upright(axes: Axes, at: float, css: str) -> str:
    """A line across the plot's height."""
    x = axes.x(at)
    return f'<line class="{css}" x1="{x:g}" x2="{x:g}" y1="0" y2="100"/>'


def level(axes: Axes, at: float, css: str) -> str:
    """A line across the plot's width."""
    y = axes.y(at)
    return f'<line class="{css}" x1="0" x2="100" y1="{y:g}" y2="{y:g}"/>'


def grid(axes: Axes, verticals: Sequence[float], levels: Sequence[float]) -> str:
    """Hairlines at the ticks."""
    return "".join(
        [upright(axes, at, "grid") for at in verticals] + [level(axes, at, "grid") for at in levels]
    )


def text(left: float, top: float, content: str, css: str) -> str:
    """A piece of HTML text at a place of the plot, in percent."""
    return f'<span class="{css}" style="left:{left:g}%;top:{top:g}%">{content}</span>'


def time_axis(axes: Axes) -> str:
    """Seconds along the bottom edge."""
    return "".join(
        text(axes.x(at), 100, f"{at:g} s" if at == 0 else f"{at:g}", "tick below")
        for at in ticks(axes.x_max)
    )
