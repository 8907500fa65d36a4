"""What an application measured of its own, as quantities with their units."""

from collections.abc import Iterator, Mapping
from typing import Any


def quantities(application: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Each quantity that the core gives as `application` (docs/packet.md), with its value."""
    match application["measure"]:
        case "completion":
            yield "requests completed", application["completed"]
            yield from _times("completion", application["time"])
        case "page-load":
            yield "pages loaded", application["completed"]
            yield from _times("page load", application["time"])
        case "latency":
            yield "messages received", application["received"]
            yield from _times("message delay", application["time"])
        case "calls":
            yield "calls per s", application["per_s"]
            yield from _times("call", application["time"])
        case "video":
            yield "video rate, Mbit/s", application["rate_bps_mean"] / 1e6
            yield "level switches", application["switches"]
            yield "stalls", application["stalls"]
            yield "stalled, s", application["stalled_ns"] / 1e9
        case "panorama":
            yield "frames displayed", application["displayed"]
            yield from _times("frame age", application["age"])
            yield from _times("reaction", application["reaction"])


def _times(what: str, time: Mapping[str, int]) -> Iterator[tuple[str, float]]:
    if not time["max_ns"]:
        return  # nothing came to its end: that took no time of 0 ms, which would be the best of all
    for quantile in ("p50", "p90", "p99"):
        yield f"{what} {quantile}, ms", time[f"{quantile}_ns"] / 1e6


def words(application: Mapping[str, Any]) -> str:
    """The quantities in a line for a person: "pages loaded 13, page load p50 209.7 ms"."""
    return ", ".join(_told(*one) for one in _headline(application))


def _told(quantity: str, value: float) -> str:
    """A value stands before its unit, which a quantity has behind a comma."""
    what, _, unit = quantity.partition(", ")
    return f"{what} {value:.4g} {unit}".rstrip()


def _headline(application: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for quantity, value in quantities(application):
        if "p90" not in quantity:
            yield quantity, value
