"""Two results side by side: of the simulator, of a lab, or of one of each."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir import files
from weir.chart import svg
from weir.errors import BadInput
from weir.lab import measures

_BAR = 24
_WAYS = ("forward", "backward")
_COLOURS = ("#1f6f8b", "#c8553d")


@dataclass(frozen=True)
class Figure:
    """One quantity of both results.

    Attributes:
        subject: a traffic, or a direction of a link and a class of its queue.
        quantity: with its unit.
        values: of the first result and of the second; None where one does not have it.
    """

    subject: str
    quantity: str
    values: tuple[float | None, float | None]

    @property
    def ratio(self) -> float | None:
        """The second over the first; None where that says nothing."""
        first, second = self.values
        return second / first if first and second is not None else None


def read(path: str | Path) -> dict[str, Any]:
    """A result of `weir sim --json` (or its `result.json`) or of `weir lab run --json`.

    Raises:
        BadInput: the file cannot be read, or does not hold such a result.
    """
    try:
        result = json.loads(files.text(Path(path)))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not JSON: {error}") from None
    is_result = isinstance(result, dict) and "links" in result
    if not is_result or not ("flows" in result or "traffic" in result):
        raise BadInput(f"{path}: not a result of weir sim or weir lab run")
    if not _is_whole(result):
        raise BadInput(f"{path}: not a whole result of weir sim or weir lab run")
    return dict(result)


def _is_whole(result: Mapping[str, Any]) -> bool:
    """Whether every quantity of a result is there and a number."""
    try:
        return all(
            isinstance(subject, str) and isinstance(value, int | float) and math.isfinite(value)
            for (subject, _), value in quantities(result)
        )
    except (LookupError, TypeError, AttributeError, ArithmeticError):
        return False


def compare(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Figure]:
    """Every quantity that either result has, in the order of the first."""
    a, b = dict(quantities(first)), dict(quantities(second))
    keys = [*a, *(key for key in b if key not in a)]
    return [Figure(*key, (a.get(key), b.get(key))) for key in keys]


def quantities(result: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], float]]:
    """Every subject and quantity of one result with its value."""
    for flow in result.get("flows", []):
        yield (flow["name"], "goodput, Mbit/s"), flow["goodput_bps"] / 1e6
        if flow.get("streams"):
            again = sum(stream["retransmissions"] for stream in flow["streams"])
            yield (flow["name"], "retransmissions"), again
        yield from _of_application(flow)
    for flow in result.get("traffic", []):
        if "received_rate_bps" in flow:
            yield (flow["name"], "goodput, Mbit/s"), flow["received_rate_bps"] / 1e6
        if flow.get("retransmits") is not None:
            yield (flow["name"], "retransmissions"), flow["retransmits"]
        yield from _of_application(flow)
    at_ports = _dropped_at_ports(result)
    for link in result["links"]:
        for way in _WAYS:
            dropped = at_ports.get((link["name"], link[way].get("from")), 0)
            yield from _direction(link["name"], way, link[way], dropped)


def _dropped_at_ports(result: Mapping[str, Any]) -> dict[tuple[str, str | None], int]:
    """By link and switch, what the classes of the switch's port dropped before the link.

    In a lab these are the link's queue; in a simulation that is the link's own.
    """
    return {
        (port["link"], switch["name"]): sum(one["dropped"] for one in port["classes"])
        for switch in result.get("switches", [])
        for port in switch["ports"]
    }


def _of_application(flow: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], float]]:
    for quantity, value in measures.quantities(flow.get("application") or {"measure": None}):
        yield (flow["name"], quantity), value


def _direction(
    name: str, way: str, direction: Mapping[str, Any], at_port: int
) -> Iterator[tuple[tuple[str, str], float]]:
    packets = direction["packets_in"] + at_port
    if not packets:
        return
    place = f"{name} {way}"
    dropped = direction["dropped_queue"] + at_port
    yield (place, "dropped by the queue, %"), 100 * dropped / packets
    if wlan := direction.get("wlan"):
        yield (place, "airtime, %"), 100 * wlan["airtime_share"]
    if credits := direction.get("credits"):
        yield (place, "stalled, %"), 100 * credits["stalled_share"]
    for entry in direction["classes"]:
        if entry["packets_out"]:
            subject = f"{place}, {entry['name']}"
            yield (subject, "wait p50, ms"), entry["sojourn"]["p50_ns"] / 1e6
            yield (subject, "wait p99, ms"), entry["sojourn"]["p99_ns"] / 1e6
            yield (subject, "marked, %"), 100 * entry["marked"] / entry["packets_out"]


def bars(figure: Figure) -> tuple[str, str]:
    """Both values as bars of text, the larger one full."""
    largest = max((value for value in figure.values if value is not None), default=0.0)
    first, second = (
        "█" * round(_BAR * value / largest) if value and largest else "" for value in figure.values
    )
    return first, second


def plot(figures: list[Figure], names: tuple[str, str]) -> str:
    """The comparison as an SVG image: two bars for each quantity, the larger of them full."""
    row, left, width = 34, 420, 860
    shapes = [
        svg.text(left + 220 * index, 18, name, more=f'fill="{_COLOURS[index]}"')
        for index, name in enumerate(names)
    ]
    for number, figure in enumerate(figures):
        top = 32 + row * number
        title = f"{figure.subject}: {figure.quantity}"
        shapes.append(svg.text(left - 8, top + 16, title, "end"))
        largest = max((value for value in figure.values if value is not None), default=0.0) or 1
        for index, value in enumerate(figure.values):
            length = 340 * (value or 0) / largest
            y = top + 3 + 12 * index
            shapes.append(
                f'<rect x="{left}" y="{y}" width="{length:.1f}" height="10" '
                f'fill="{_COLOURS[index]}"/>'
            )
            shown = "" if value is None else f"{value:.4g}"
            shapes.append(svg.text(left + length + 4, y + 9, shown, more='font-size="10"'))
    return svg.image(width, row * len(figures) + 40, shapes)
