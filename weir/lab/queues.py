"""Queue disciplines in scenario files, with the parameters that `crates/queue` says they have.

A parameter is read into the key and the whole number of a base unit that `crates/queue` takes;
whether its value can be right is decided there (`queue_refusal`).
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weir import Bytes, Rate, Time
from weir._core import queue_limit, queue_parameters, queue_refusal
from weir.errors import BadInput
from weir.lab.scenario import CODEPOINTS, Queue
from weir.source import flag, one_of

PACKETS = re.compile(r"([0-9]{1,9})\s+packets?")
"""A number of packets, as people write it: no queue holds a thousand millions."""
_CLASSES_MAX = 16


@dataclass(frozen=True)
class Parameter:
    """One parameter of a discipline.

    Attributes:
        key: what the core calls it: the parameter's name with its unit.
        read: from the TOML value to the core's; raises `BadInput` saying what is allowed.
        required: whether the discipline cannot do without it.
    """

    key: str
    read: Callable[[Any], Any]
    required: bool


def _number(value: Any) -> float:
    # Neither TOML's nan and inf, nor a whole number that no float can be.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise BadInput("a number is allowed")
    return float(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise BadInput("a whole number from 0 is allowed")
    return value


def amount(value: Any) -> dict[str, int]:
    """Bytes, packets or a time at the link's rate, as the core has them."""
    if isinstance(value, str) and (packets := PACKETS.fullmatch(value.strip())):
        return {"packets": int(packets[1])}
    try:
        return {"bytes": Bytes(value).count}
    except BadInput:
        pass
    try:
        return {"ns": Time(value).ns}
    except BadInput:
        examples = '"6 MiB", "1000 packets", "50 ms"'
        raise BadInput(f"bytes, packets or time are allowed: {examples}") from None


def codepoint(value: Any) -> int:
    """A DSCP by its name or number."""
    if isinstance(value, str) and value in CODEPOINTS:
        return CODEPOINTS[value]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 64:
        raise BadInput(f"a DSCP is 0 to 63, or {', '.join(CODEPOINTS)}")
    return value


def _some(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadInput(f"a list of {what} is allowed")
    return value


def _classes(value: Any) -> list[list[int]]:
    of_each = _some(value, 'lists of DSCPs, such as [["EF"], [], ["CS1"]]')
    return [[codepoint(dscp) for dscp in _some(dscps, "DSCPs")] for dscps in of_each]


def _weighted(value: Any) -> list[dict[str, Any]]:
    classes = []
    for one in _some(value, 'classes, such as { dscp = ["EF"], weight = 3 }'):
        if not isinstance(one, dict) or not {"weight"} <= set(one) <= {"weight", "dscp"}:
            raise BadInput("a class has a weight, and dscp unless it takes all others")
        dscps = [codepoint(dscp) for dscp in _some(one.get("dscp", []), "DSCPs")]
        classes.append({"dscp": dscps, "weight": _count(one["weight"])})
    return classes


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "time": lambda value: Time(value).ns,
    "size": lambda value: Bytes(value).count,
    "rate": lambda value: Rate(value).bit_per_s,
    "per-second": _number,
    "number": _number,
    "count": _count,
    "flag": flag,
    "amount": amount,
    "classes": _classes,
    "weighted-classes": _weighted,
}
"""How a value of each kind of the core's is read."""


def _parameter(told: Mapping[str, Any]) -> Parameter:
    read = one_of(*told["choices"]) if told["choices"] else _READERS[told["kind"]]
    return Parameter(told["key"], read, told["required"])


_TOLD = json.loads(queue_parameters())

DISCIPLINES: Mapping[str, Mapping[str, Parameter]] = {
    told["discipline"]: {one["name"]: _parameter(one) for one in told["parameters"]}
    for told in _TOLD
}
"""Every discipline and its parameters beside `limit`, which all have."""

_WITHOUT_LIMIT = {told["discipline"] for told in _TOLD if not told["limits_itself"]}
_DEFAULT_LIMIT = Time("100 ms")  # of disciplines that have none of their own
_PACKETS_LEAST = 5  # of each class, on links so slow that the default holds less
_RED_PACKETS = {"min_threshold": 2, "max_threshold": 5}  # on such links


def missing(discipline: str, given: Mapping[str, Any]) -> str | None:
    """A parameter that the discipline cannot do without and that is not given."""
    known = DISCIPLINES[discipline].items()
    return next((name for name, one in known if one.required and name not in given), None)


def config(queue: Queue) -> dict[str, Any]:
    """What the core takes as the "queue" of one direction of a link."""
    known = DISCIPLINES[queue.discipline]
    parameters = {known[name].key: value for name, value in queue.parameters.items()}
    made = {"discipline": queue.discipline, **parameters}
    limit = queue.limit
    if isinstance(limit, Bytes):
        made["limit"] = {"bytes": limit.count}
    elif isinstance(limit, Time):
        made["limit"] = {"ns": limit.ns}
    elif limit is not None:
        made["limit"] = {"packets": limit}
    return made


def with_limit(queue: Queue, rate: Rate, mtu: int) -> Queue:
    """A queue with the limit that it has by default on such a link, if it was given none.

    That is what the link sends in a time, and at least some packets of `mtu` bytes for each class:
    on a slow link the time is less than that of one packet. RED's thresholds are times, too, and
    are some packets there, whatever its limit is.
    """
    given = queue.limit
    if given is not None and queue.discipline != "red":
        return queue
    usual = replace(queue, limit=_DEFAULT_LIMIT if queue.discipline in _WITHOUT_LIMIT else None)
    size, _, classes = queue_limit(json.dumps(config(usual)), rate.bit_per_s)
    if size is None or size >= _PACKETS_LEAST * mtu:
        return queue if given is not None else usual
    parameters = dict(queue.parameters)
    if queue.discipline == "red" and not set(_RED_PACKETS) & set(parameters):
        parameters |= {name: {"bytes": packets * mtu} for name, packets in _RED_PACKETS.items()}
    limit = given if given is not None else Bytes.from_count(_PACKETS_LEAST * mtu * classes)
    return replace(queue, limit=limit, parameters=parameters)


def holds_bytes(queue: Queue, rate: Rate, mtu: int) -> int:
    """What a queue with a limit holds at most on such a link, if all packets are of `mtu` bytes."""
    size, packets, classes = queue_limit(json.dumps(config(queue)), rate.bit_per_s)
    return ((packets or 0) * mtu if size is None else size) * classes


def _short_burst(queue: Queue, mtu: int) -> tuple[str, str] | None:
    """The burst of a token bucket that lets no full packet pass, and why, or None."""
    for name in ("burst", "peak_burst"):
        if queue.parameters.get(name, mtu) < mtu:
            return name, f"no packet of {mtu} bytes would ever pass"
    return None


def _too_small(queue: Queue, rate: Rate, mtu: int) -> str | None:
    """Why nothing could wait in a queue whose limit was given, or None."""
    if queue.limit is None:
        return None
    size, packets, classes = queue_limit(json.dumps(config(queue)), rate.bit_per_s)
    each = f" in each of the {classes} classes" if classes > 1 else ""
    if packets == 0:
        return f"it has no room for one packet{each}"
    if size is not None and size < mtu:
        return f"{size} bytes{each} do not hold one packet of {mtu} bytes"
    return None


def refusal(queue: Queue, rate: Rate, mtu: int = 1500) -> tuple[str, str] | None:
    """The parameter whose value cannot be right on a link of `rate` and why, or None."""
    refused = queue_refusal(json.dumps(config(queue)), rate.bit_per_s)
    if refused is None:
        reason = _too_small(queue, rate, mtu)
        return ("limit", reason) if reason else _short_burst(queue, mtu)
    key, reason = refused
    known = DISCIPLINES[queue.discipline]
    named = next((name for name in known if key in (name, known[name].key)), None)
    # "classes.weight" is a value within classes.
    return named or key.partition(".")[0], reason
