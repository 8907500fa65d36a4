"""The page's plots: rates stacked, file by file, time used, and the bottleneck's utilisation."""

from bisect import bisect_right
from collections.abc import Iterable
from html import escape

from studies.demonstration.report import format
from studies.demonstration.report.result import Decision, Delivery, Half, Result
from weir.chart import plot
from weir.chart.plot import Axes
from weir.format import percent, size

HALVES = {"weir": "With Weir", "plain": "Plain TCP"}


def halves(result: Result) -> dict[str, Half]:
    """Both halves under the names that the page's data uses."""
    return {"weir": result.weir, "plain": result.plain}


def span(result: Result) -> float:
    """The length in seconds that every time axis of the page has."""
    return max(half.end_s for half in (result.weir, result.plain)) * 1.03 or 1.0


def rates(result: Result) -> str:
    """Both halves' rates over time, stacked, one plot beside the other."""
    capacity = result.scenario.bottleneck_link.rate_bps
    axes = Axes(span(result), capacity * 1.06)
    figures = []
    for key, half in halves(result).items():
        shapes = [plot.grid(axes, plot.ticks(axes.x_max), plot.ticks(capacity, 4))]
        shapes += stack(half, axes, result.decisions if key == "weir" else ())
        shapes.append(plot.level(axes, capacity, "capacity"))
        if key == "weir":
            shapes.append(plot.level(axes, result.scenario.calendar_bps, "share"))
        levels = "".join(
            plot.text(0, axes.y(at), f"{at / 1e6:g}", "tick left")
            for at in plot.ticks(capacity, 4)
            if at
        )
        figures.append(
            f"<figure><figcaption>{HALVES[key]}<span>Mbit/s</span></figcaption>"
            f'<div class="plot tall" data-half="{key}" data-kind="rates">'
            f"{plot.svg(shapes, f'rates of all transfers, {HALVES[key]}')}"
            f"{levels}{plot.time_axis(axes)}</div></figure>"
        )
    return f'<div class="pair">{"".join(figures)}</div>{_legend(result)}'


def _legend(result: Result) -> str:
    items = "".join(
        f'<li><i class="chip f{index % 8}"></i>{escape(delivery.id)}</li>'
        for index, delivery in enumerate(result.weir.deliveries)
    )
    shades = (
        '<li><i class="chip f0"></i><i class="chip f0 rest"></i>as promised, and beside it</li>'
    )
    return f'<ul class="legend">{items}{shades}</ul>'


def file_rows(result: Result) -> str:
    """One row per file: its rate against its deadline, in both halves."""
    peak = max(
        (
            max(series, default=0.0)
            for half in (result.weir, result.plain)
            for series in half.timeline.flows_bps.values()
        ),
        default=0.0,
    )
    peak = min(peak, result.scenario.bottleneck_link.rate_bps)
    axes = Axes(span(result), peak * 1.1 or 1.0)
    head = "".join(f"<span>{title}</span>" for title in HALVES.values())
    rows = [f'<div class="row head"><span></span>{head}</div>']
    for index, delivery in enumerate(result.weir.deliveries):
        allotted = {"weir": _allotted(result, delivery), "plain": []}
        cells = "".join(
            _row_plot(half, half.deliveries[index], index, axes, key, allotted[key], result)
            for key, half in halves(result).items()
        )
        rows.append(f'<div class="row">{_row_label(delivery, index)}{cells}</div>')
    foot = f'<div class="plot axis">{plot.time_axis(axes)}</div>' * 2
    rows.append(f'<div class="row foot"><span></span>{foot}</div>')
    return f'<div class="rows">{"".join(rows)}</div>'


def _row_label(delivery: Delivery, index: int) -> str:
    what = f"{escape(delivery.what)}<br>" if delivery.what else ""
    return (
        f'<div class="who"><b><i class="chip f{index % 8}"></i>{escape(delivery.id)}</b>'
        f"<small>{what}{escape(delivery.source)} → {escape(delivery.destination)}, "
        f"{size(delivery.bytes)} in {delivery.deadline_s:.1f} s</small></div>"
    )


def _steps(decisions: Iterable[Decision], delivery: Delivery) -> list[tuple[float, float]]:
    """When the calendar allotted a file which rate, until it arrived."""
    end = delivery.submitted_s + (delivery.finish_s or 0.0)
    return [
        (event.at_s, float(event.rate_bps))
        for event in decisions
        if event.id == delivery.id and event.rate_bps is not None and event.at_s <= end
    ]


def promised(
    half: Half, delivery: Delivery, decisions: Iterable[Decision]
) -> tuple[list[float], list[float]]:
    """A file's rate over time, and as much of it as was promised at each moment.

    Without a promise, as with plain TCP, all of it counts as promised.
    """
    series = half.timeline.flows_bps.get(delivery.id, [])
    steps = _steps(decisions, delivery)
    if not steps:
        return series, series
    times = [at_s for at_s, _ in steps]
    kept = []
    for index, rate_bps in enumerate(series):
        place = bisect_right(times, (index + 0.5) * half.timeline.step_s)
        kept.append(min(rate_bps, steps[max(place - 1, 0)][1]))
    return series, kept


def _allotted(result: Result, delivery: Delivery) -> list[tuple[float, float]]:
    """The corners of the rate that the calendar allotted over time, until the file arrived."""
    end = delivery.submitted_s + (delivery.finish_s or 0.0)
    steps = _steps(result.decisions, delivery)
    corners: list[tuple[float, float]] = []
    for at, rate in steps:
        corners += [(at, corners[-1][1])] if corners else []
        corners.append((at, rate))
    return [*corners, (end, corners[-1][1])] if corners else []


def _row_plot(
    half: Half,
    delivery: Delivery,
    index: int,
    axes: Axes,
    key: str,
    allotted: list[tuple[float, float]],
    result: Result,
) -> str:
    due = delivery.submitted_s + delivery.deadline_s
    step = half.timeline.step_s
    decisions = result.decisions if key == "weir" else ()
    series, kept = promised(half, delivery, decisions)
    cut = min(max(int(due / step - 0.5), 0), len(series))
    shapes = [
        plot.band(axes, step, [0.0] * len(series), kept, f"flow f{index % 8}"),
        plot.band(axes, step, kept, series, f"flow f{index % 8} rest"),
    ]
    if not delivery.on_time and cut < len(series):
        late = [0.0] * cut + list(series[cut:])
        shapes.append(plot.band(axes, step, [0.0] * len(late), late, "overdue"))
    shapes.append(_row_baseline(delivery, axes, index, due))
    if allotted:
        shapes.append(plot.trace(axes, allotted, "allotted"))
    if due <= axes.x_max:
        shapes.append(plot.upright(axes, due, "deadline"))
    return (
        f'<div class="cell">{_row_verdict(delivery, axes, due)}'
        f'<div class="plot slim" data-half="{key}" data-kind="flow" '
        f'data-id="{escape(delivery.id)}">'
        f"{plot.svg(shapes, f'{delivery.id}: {format.verdict(delivery)}')}</div></div>"
    )


def _row_baseline(delivery: Delivery, axes: Axes, index: int, due: float) -> str:
    start, end = delivery.submitted_s, delivery.submitted_s + (delivery.finish_s or 0.0)
    if delivery.finish_s is None:
        end = axes.x_max
    parts = [(start, min(end, due), f"span f{index % 8}"), (due, end, "span overdue")]
    return "".join(
        f'<line class="{css}" x1="{axes.x(a):g}" x2="{axes.x(b):g}" y1="100" y2="100"/>'
        for a, b, css in parts
        if b > a
    )


def _row_verdict(delivery: Delivery, axes: Axes, due: float) -> str:
    state, mark = ("hit", "✓") if delivery.on_time else ("miss", "✕")
    beyond = f"<small>due at {due:.0f} s →</small>" if due > axes.x_max else ""
    return f'<p class="verdict {state}">{mark} {format.verdict(delivery)}{beyond}</p>'


def share_of_time(result: Result) -> str:
    """One row per file: how much of the allowed time it took in either half."""
    used = [
        d.finish_s / d.deadline_s
        for half in (result.weir, result.plain)
        for d in half.deliveries
        if d.finish_s is not None
    ]
    axes = Axes(max([1.2, *used]) * 1.08, 1.0)
    marks = plot.ticks(axes.x_max, 5)
    rows = []
    for index, delivery in enumerate(result.weir.deliveries):
        dots = "".join(
            _dot(half.deliveries[index], axes, key) for key, half in halves(result).items()
        )
        shapes = [plot.grid(axes, marks, [0.5]), plot.upright(axes, 1.0, "deadline")]
        name = (
            f'<div class="who"><b><i class="chip f{index % 8}"></i>{escape(delivery.id)}</b></div>'
        )
        rows.append(
            f'<div class="row wide"><div class="who">{name}</div><div class="plot dotted">'
            f"{plot.svg(shapes, f'share of the allowed time, {delivery.id}')}{dots}</div></div>"
        )
    axis = "".join(plot.text(axes.x(at), 100, percent(at), "tick below") for at in marks)
    rows.append(
        f'<div class="row wide foot"><span></span><div class="plot axis">{axis}</div></div>'
    )
    key = (
        '<ul class="legend"><li><i class="dot by-weir"></i>With Weir</li>'
        '<li><i class="dot by-plain"></i>Plain TCP</li><li><i class="due"></i>deadline</li></ul>'
    )
    return f'<div class="rows">{"".join(rows)}</div>{key}'


def _dot(delivery: Delivery, axes: Axes, key: str) -> str:
    if delivery.finish_s is None:
        return plot.text(100, 50, "✕", "never")
    used = delivery.finish_s / delivery.deadline_s
    title = f"{HALVES[key]}: {percent(used)}, {format.verdict(delivery)}"
    return (
        f'<i class="dot by-{key}" style="left:{axes.x(used):g}%;top:50%" '
        f'title="{escape(title)}"></i>'
    )


def utilisation(result: Result) -> str:
    """The bottleneck's utilisation over time in both halves."""
    axes = Axes(span(result), 1.06)
    marks = [0.25, 0.5, 0.75, 1.0]
    shapes = [plot.grid(axes, plot.ticks(axes.x_max), marks)]
    for key, half in halves(result).items():
        series = half.timeline.links.get(result.scenario.bottleneck, [])
        shapes.append(plot.line(axes, half.timeline.step_s, series, f"use by-{key}"))
    labels = "".join(plot.text(0, axes.y(at), f"{at:.0%}", "tick left") for at in marks)
    key_list = "".join(
        f'<li><i class="stroke by-{key}"></i>{HALVES[key]}: '
        f"{percent(half.utilisation)} on average</li>"
        for key, half in halves(result).items()
    )
    return (
        f'<div class="plot tall" data-kind="use">{plot.svg(shapes, "utilisation over time")}'
        f'{labels}{plot.time_axis(axes)}</div><ul class="legend">{key_list}</ul>'
    )


def stack(half: Half, axes: Axes, decisions: Iterable[Decision] = ()) -> list[str]:
    """The transfers' rates on top of each other, in the order of the deliveries.

    Each has two shades: what was promised at the time, and what it got beside that.
    """
    flows, step = half.timeline.flows_bps, half.timeline.step_s
    length = max((len(series) for series in flows.values()), default=0)
    floor, shapes = [0.0] * length, []
    for index, delivery in enumerate(half.deliveries):
        both = promised(half, delivery, decisions)
        series, kept = ([*values, *[0.0] * length][:length] for values in both)
        middle = [low + value for low, value in zip(floor, kept, strict=True)]
        roof = [low + value for low, value in zip(floor, series, strict=True)]
        shapes.append(plot.band(axes, step, floor, middle, f"flow f{index % 8}"))
        if roof != middle:
            shapes.append(plot.band(axes, step, middle, roof, f"flow f{index % 8} rest"))
        floor = roof
    return shapes
