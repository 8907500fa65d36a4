"""Applications over TCP in scenario files: which keys each kind has, in the field's own names.

Which there are, with their bounds and defaults, `crates/application` tells. A key is read into the
key and the number of a base unit that it takes, for the packet simulator and for `weir.lab.player`,
which runs the same application over real sockets.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weir import Bytes, Rate, Time
from weir._core import application_parameters
from weir.errors import BadInput
from weir.lab.scenario import ApplicationTraffic
from weir.source import Table, positive, whole


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


@dataclass(frozen=True)
class Kind:
    """An application.

    Attributes:
        parameters: by their names in scenarios.
        nagle: whether its programs leave Nagle's algorithm on.
        client_opens: the client opens the connections, which receives; else the sender does.
    """

    parameters: Mapping[str, Parameter]
    nagle: bool
    client_opens: bool


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


def _pause(value: Any) -> int:
    return Time(value).ns


def _rate(value: Any) -> int:
    return positive(Rate)(value).bit_per_s


def _per_s(value: Any) -> float:
    return 1e9 / _time(value)


def _size(most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        size = positive(Bytes)(value)
        if size.count > most:
            raise BadInput(f"a size of up to {most // 2**20} MiB is allowed")
        return size.count

    return read


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "time": _time,
    "pause": _pause,
    "rate": _rate,
    "per-second": _per_s,
    "positive": _above_0,
    "number": _not_below_0,
    "flag": _flag,
}


def _reader(told: Mapping[str, Any]) -> Callable[[Any], Any]:
    match told["kind"]:
        case "size":
            return _size(told["most"])
        case "count":
            return whole(told["least"], told["most"])
    return _READERS[told["kind"]]


def _kind(told: Mapping[str, Any]) -> Kind:
    parameters = {
        one["name"]: Parameter(one["key"], _reader(one), one["default"])
        for one in told["parameters"]
    }
    return Kind(parameters, told["nagle"], told["opener"] == "client")


KINDS: Mapping[str, Kind] = {
    told["kind"]: _kind(told) for told in json.loads(application_parameters())
}
"""Every kind with its keys (004-spec chapter 6; docs/lab.md)."""


def read(table: Table, common: Mapping[str, Any], kind: str) -> ApplicationTraffic:
    """The traffic of a `[[traffic]]` of one of `KINDS`, but for what is common to all kinds."""
    parameters = {}
    for key, parameter in KINDS[kind].parameters.items():
        if parameter.default is None:
            parameters[parameter.core] = table.require(key, parameter.read)
        else:
            parameters[parameter.core] = table.take(key, parameter.read, parameter.default)
    if parameters.get("least_bytes", 0) > parameters.get("most_bytes", 0):
        raise table.error("largest", "smallest is more than largest")
    nagle = table.take("nagle", _flag, KINDS[kind].nagle)
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
    return traffic.destination if KINDS[traffic.kind].client_opens else traffic.source


def acceptor(traffic: ApplicationTraffic) -> str:
    """The host that accepts the connections."""
    return traffic.source if KINDS[traffic.kind].client_opens else traffic.destination
