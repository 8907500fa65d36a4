"""Queue disciplines in scenario files: which parameters each has, in the field's own names.

A parameter is read into the key and the whole number of a base unit that `crates/queue` takes;
whether its value can be right is decided there (`queue_refusal`).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weir import Bytes, Rate, Time
from weir._core import queue_limit, queue_refusal
from weir.errors import BadInput
from weir.lab.scenario import CODEPOINTS, Queue
from weir.source import flag, one_of

_CLASSES_MAX = 16


@dataclass(frozen=True)
class Parameter:
    """One parameter of a discipline.

    Attributes:
        suffix: what the core's key has behind the parameter's name: its unit.
        read: from the TOML value to the core's; raises `BadInput` saying what is allowed.
    """

    suffix: str
    read: Callable[[Any], Any]


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput("a number is allowed")
    return float(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise BadInput("a whole number from 0 is allowed")
    return value


def amount(value: Any) -> dict[str, int]:
    """Bytes, packets or a time at the link's rate, as the core has them."""
    words = value.split() if isinstance(value, str) else []
    if len(words) == 2 and words[0].isdecimal() and words[1] in ("packet", "packets"):
        return {"packets": int(words[0])}
    try:
        return {"bytes": Bytes(value).count}
    except BadInput:
        pass
    try:
        return {"ns": Time(value).ns}
    except BadInput:
        examples = '"6 MiB", "1000 packets", "50 ms"'
        raise BadInput(f"bytes, packets or time are allowed: {examples}") from None


def _one_of(*allowed: str) -> Parameter:
    return Parameter("", one_of(*allowed))


def _codepoint(value: Any) -> int:
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
    return [[_codepoint(dscp) for dscp in _some(dscps, "DSCPs")] for dscps in of_each]


def _weighted(value: Any) -> list[dict[str, Any]]:
    classes = []
    for one in _some(value, 'classes, such as { dscp = ["EF"], weight = 3 }'):
        if not isinstance(one, dict) or not {"weight"} <= set(one) <= {"weight", "dscp"}:
            raise BadInput("a class has a weight, and dscp unless it takes all others")
        dscps = [_codepoint(dscp) for dscp in _some(one.get("dscp", []), "DSCPs")]
        classes.append({"dscp": dscps, "weight": _count(one["weight"])})
    return classes


_TIME = Parameter("_ns", lambda value: Time(value).ns)
_SIZE = Parameter("_bytes", lambda value: Bytes(value).count)
_RATE = Parameter("_bps", lambda value: Rate(value).bit_per_s)
_GAIN = Parameter("_per_s", _number)
_NUMBER = Parameter("", _number)
_COUNT = Parameter("", _count)
_FLAG = Parameter("", flag)
_AMOUNT = Parameter("", amount)
_WEIGHTED = {"classes": Parameter("", _weighted)}
_CODEL = {"target": _TIME, "interval": _TIME, "ecn": _FLAG, "ce_threshold": _TIME}
_BUCKET = {"rate": _RATE, "burst": _SIZE}
_PEAK = {"peak_rate": _RATE, "peak_burst": _SIZE}
_CURVE = {
    "range": _TIME,
    "min_threshold": _TIME,
    "smoothing": _COUNT,
    "curviness": _COUNT,
    "coupling_factor": _NUMBER,
    "classifier": _one_of("l4s", "any-ect"),
}
_SCHEDULER = {
    "scheduler": _one_of("strict", "time-shifted-fifo", "weighted"),
    "time_shift": _TIME,
    "classic_weight": _NUMBER,
}

DISCIPLINES: Mapping[str, Mapping[str, Parameter]] = {
    "fifo": {},
    "priority": {"classes": Parameter("", _classes)},
    "wrr": _WEIGHTED,
    "drr": _WEIGHTED | {"quantum": _SIZE},
    "wfq": _WEIGHTED,
    "red": {
        "min_threshold": _AMOUNT,
        "max_threshold": _AMOUNT,
        "max_probability": _NUMBER,
        "weight": _NUMBER,
        "gentle": _FLAG,
        "ecn": _FLAG,
        "hard_drop": _FLAG,
        "byte_mode": _FLAG,
        "mean_packet": _SIZE,
    },
    "ared": {"target": _TIME, "interval": _TIME, "ecn": _FLAG, "mean_packet": _SIZE},
    "pie": {
        "target": _TIME,
        "update_interval": _TIME,
        "alpha": _GAIN,
        "beta": _GAIN,
        "max_burst": _TIME,
        "ecn": _FLAG,
        "max_mark_probability": _NUMBER,
        "byte_mode": _FLAG,
        "derandomize": _FLAG,
        "activity_gate": _FLAG,
        "delay_estimate": _one_of("timestamp", "departure-rate"),
        "variant": _one_of("rfc8033", "linux", "linux-3.18"),
    },
    "codel": _CODEL,
    "fq-codel": _CODEL | {"flows": _COUNT, "quantum": _SIZE, "perturbation": _COUNT},
    "curvy-red": _CURVE,
    "dual-pi2": _SCHEDULER
    | {
        "target": _TIME,
        "rtt_max": _TIME,
        "update_interval": _TIME,
        "alpha": _GAIN,
        "beta": _GAIN,
        "coupling_factor": _NUMBER,
        "min_threshold": _TIME,
        "ramp": _TIME,
        "min_backlog_packets": _COUNT,
        "classifier": _one_of("l4s", "any-ect"),
        "derandomize": _FLAG,
        "drop_on_overload": _FLAG,
    },
    "dual-curvy-red": _SCHEDULER
    | _CURVE
    | {"threshold": _AMOUNT, "coupling_input": _one_of("max", "average", "head")},
    "token-bucket": _BUCKET | _PEAK,
    "policer": _BUCKET | _PEAK,
    "phantom": {"drain_fraction": _NUMBER, "threshold": _AMOUNT},
}
"""Every discipline and its parameters beside `limit`, which all have."""

_REQUIRED = {"token-bucket": _BUCKET, "policer": _BUCKET}
_WITHOUT_LIMIT = {"fifo", "priority", "wrr", "drr", "wfq", "token-bucket", "policer", "phantom"}
_DEFAULT_LIMIT = Time("100 ms")  # of disciplines that have none of their own
_PACKETS_LEAST = 5  # of each class, on links so slow that the default holds less
_RED_PACKETS = {"min_threshold": 2, "max_threshold": 5}  # on such links


def missing(discipline: str, given: Mapping[str, Any]) -> str | None:
    """A parameter that the discipline cannot do without and that is not given."""
    return next((key for key in _REQUIRED.get(discipline, ()) if key not in given), None)


def config(queue: Queue) -> dict[str, Any]:
    """What the core takes as the "queue" of one direction of a link."""
    parameters = {
        key + DISCIPLINES[queue.discipline][key].suffix: value
        for key, value in queue.parameters.items()
    }
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
    on a slow link the time is less than that of one packet.
    """
    if queue.limit is not None:
        return queue
    if queue.discipline in _WITHOUT_LIMIT:
        queue = replace(queue, limit=_DEFAULT_LIMIT)
    size, _, classes = queue_limit(json.dumps(config(queue)), rate.bit_per_s)
    if size is None or size >= _PACKETS_LEAST * mtu:
        return queue
    parameters = dict(queue.parameters)
    if queue.discipline == "red" and not set(_RED_PACKETS) & set(parameters):
        parameters |= {name: {"bytes": packets * mtu} for name, packets in _RED_PACKETS.items()}
    limit = Bytes.from_count(_PACKETS_LEAST * mtu * classes)
    return replace(queue, limit=limit, parameters=parameters)


def _short_burst(queue: Queue, mtu: int) -> tuple[str, str] | None:
    """The burst of a token bucket that lets no full packet pass, and why, or None."""
    if queue.discipline in _REQUIRED:
        for key in ("burst", "peak_burst"):
            if queue.parameters.get(key, mtu) < mtu:
                return key, f"no packet of {mtu} bytes would ever pass"
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
    named = next((name for name in known if key in (name, name + known[name].suffix)), None)
    # "classes.weight" is a value within classes.
    return named or key.partition(".")[0], reason
