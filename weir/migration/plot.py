"""A plan as one SVG picture: a row for every machine, its rate over time, its arrival."""

from html import escape

from weir.chart import svg
from weir.chart.plot import ticks
from weir.migration.plan import Outcome
from weir.migration.problem import Problem

_LEFT, _WIDTH, _RIGHT = 150, 720, 90
_TOP, _ROW, _BOTTOM = 46, 26, 44
# Okabe and Ito's palette, told apart by all readers.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#8a7a00")


def draw(problem: Problem, outcome: Outcome) -> str:
    """The plan as an SVG document; a bar's height is its share of the machine's highest rate."""
    height = _TOP + _ROW * len(outcome.schedules) + _BOTTOM
    width = _LEFT + _WIDTH + _RIGHT
    floor = height - _BOTTOM
    scale = _WIDTH / max(outcome.makespan, 1)
    shapes = [
        svg.text(
            10,
            22,
            f"{outcome.planner}: total degradation {outcome.degradation}, at least "
            f"{outcome.bound}; makespan {outcome.makespan} steps of {problem.step}",
            "start",
        )
    ]
    for tick in ticks(outcome.makespan):
        x = _LEFT + tick * scale
        shapes.append(f'<path d="M{x:.1f} {_TOP - 6}V{floor}" stroke="#ddd"/>')
        shapes.append(svg.text(x, floor + 18, f"{tick:g}", "middle"))
    shapes.append(svg.text(_LEFT + _WIDTH / 2, floor + 36, "step", "middle"))
    for index, schedule in enumerate(outcome.schedules):
        base = _TOP + _ROW * (index + 1) - 4
        highest = max((amount for _, _, amount in schedule.pieces), default=1)
        shapes.append(svg.text(_LEFT - 8, base - 4, schedule.vm, "end"))
        for first, last, amount in schedule.pieces:
            tall = max(1.0, (_ROW - 8) * amount / highest)
            x, long = _LEFT + (first - 1) * scale, (last - first + 1) * scale
            shapes.append(
                f'<rect x="{x:.2f}" y="{base - tall:.2f}" width="{long:.2f}" '
                f'height="{tall:.2f}" fill="{_COLOURS[index % len(_COLOURS)]}">'
                f"<title>{escape(schedule.vm)}, steps {first} to {last}: {amount} bytes a step"
                "</title></rect>"
            )
        x = _LEFT + schedule.finish * scale
        shapes.append(f'<path d="M{x:.1f} {base}v{8 - _ROW}" stroke="#000" stroke-width="1.5"/>')
        shapes.append(svg.text(x + 4, base - 4, str(schedule.finish), "start"))
    return svg.image(width, height, shapes)
