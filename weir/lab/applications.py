"""Applications over TCP in scenario files: which keys each kind has, in the field's own names.

A key is read into the key and the number of a base unit that `crates/application` takes, for the
packet simulator and for `weir.lab.player`, which runs the same application over real sockets.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weir import Bytes, Rate, Time
from weir.errors import BadInput
from weir.lab.scenario import ApplicationTraffic
from weir.source import Table, positive, whole

_SIZE_MAX = 64 * 2**20  # what a host's send buffer holds


@dataclass(frozen=True)
class Parameter:
    """One key of a kind.

    Attributes:
        core: the core's key.
        read: from the TOML value to the core's; raises `BadInput` saying what is allowed.
        default: as the core has it; None where the key must be there.
    """

    core: str
    read: Callable[[Any], Any]
    default: int | float | None = None


def _above_0(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise BadInput("a number above 0 is allowed")
    return float(value)


def _not_below_0(value: Any) -> float:
    return 0.0 if value == 0 and not isinstance(value, bool) else _above_0(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadInput("true or false are allowed")
    return value


def _time(value: Any) -> int:
    return positive(Time)(value).ns


def _size(value: Any) -> int:
    size = positive(Bytes)(value)
    if size.count > _SIZE_MAX:
        raise BadInput("a size of up to 64 MiB is allowed")
    return size.count


def _rate(value: Any) -> int:
    return positive(Rate)(value).bit_per_s


def _per_s(value: Any) -> float:
    return 1e9 / _time(value)


_OBJECTS = {
    "shape": Parameter("shape", _above_0, 0.9),
    "smallest": Parameter("least_bytes", _size, 1_000),
    "largest": Parameter("most_bytes", _size, 1_000_000),
}

KINDS: Mapping[str, Mapping[str, Parameter]] = {
    "web": {"interval": Parameter("requests_per_s", _per_s), **_OBJECTS},
    "pages": {
        "interval": Parameter("interval_ns", _time),
        "root": Parameter("root_bytes", _size, 50_000),
        "objects": Parameter("objects", whole(0, 10_000), 20),
        "connections": Parameter("connections", whole(1, 256), 6),
        **_OBJECTS,
    },
    "video": {
        "samples": Parameter("samples", whole(1, 1000), 10),
        "caution": Parameter("caution", _not_below_0, 1.0),
        "of_both": Parameter("of_both", _flag, False),
    },
    "messages": {
        "size": Parameter("size_bytes", _size),
        "interval": Parameter("interval_ns", _time),
        "from_end": Parameter("from_end", _flag, False),
    },
    "game": {
        "clients": Parameter("clients", whole(1, 10_000), 15),
        "think": Parameter("think_ns", _time, 5 * 10**9),
    },
    "piv": {
        "rate": Parameter("rate_bps", _rate, 8_000_000),
        "frames_per_s": Parameter("frames_per_s", whole(1, 1000), 25),
        "in_flight": Parameter("in_flight_max", whole(1, 1000), 3),
        "command_interval": Parameter("command_interval_ns", _time, 5 * 10**8),
    },
    "rpc": {
        "concurrency": Parameter("concurrency", whole(1, 65_536), 1),
        "request": Parameter("request_bytes", _size, 160),
        "reply": Parameter("reply_bytes", _size, 32_768),
        "service": Parameter("service_ns", lambda value: Time(value).ns, 0),
    },
}
"""Every kind with its keys (004-spec chapter 6; docs/lab.md)."""

_NO_DELAY = {"messages", "game", "piv", "rpc"}
"""Kinds whose programs turn Nagle's algorithm off."""


def read(table: Table, common: Mapping[str, Any], kind: str) -> ApplicationTraffic:
    """The traffic of a `[[traffic]]` of one of `KINDS`, but for what is common to all kinds."""
    parameters = {}
    for key, parameter in KINDS[kind].items():
        if parameter.default is None:
            parameters[parameter.core] = table.require(key, parameter.read)
        else:
            parameters[parameter.core] = table.take(key, parameter.read, parameter.default)
    if parameters.get("least_bytes", 0) > parameters.get("most_bytes", 0):
        raise table.error("largest", "smallest is more than largest")
    nagle = table.take("nagle", _flag, kind not in _NO_DELAY)
    return ApplicationTraffic(**common, kind=kind, nagle=nagle, parameters=parameters)


def config(traffic: ApplicationTraffic, congestion: str | None = None) -> dict[str, Any]:
    """The application as the core reads it.

    Args:
        traffic: what the scenario says of it.
        congestion: the control in the core's own terms; None where the kernel's is used.
    """
    tcp: dict[str, Any] = {"nagle": traffic.nagle}
    if congestion:
        tcp["congestion"] = congestion
    return {"kind": traffic.kind, "tcp": tcp, **traffic.parameters}


def opener(traffic: ApplicationTraffic) -> str:
    """The host that opens the connections: the client, which receives, or a sender of messages."""
    return traffic.source if traffic.kind == "messages" else traffic.destination


def acceptor(traffic: ApplicationTraffic) -> str:
    """The host that accepts the connections."""
    return traffic.destination if traffic.kind == "messages" else traffic.source
