"""Work 004, figures 4.8 and 4.9: long DCTCP and Cubic flows through RED, PIE, FQ-CoDel and DualQ.

The testbed for interactive video (004-spec sections 7.3 and 8.3.1): 40 Mbit/s, 7 ms, up to ten
flows of each kind, here in the packet simulator. DCTCP is that of Linux 3.18, which does not fall
back on a loss; every ECN-capable packet is L4S, as in 2015.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, cast

from weir._core import simulate_packets
from weir.reproduce.row import Json, Outcome, Point, Row, Verdict

_RATE_BPS = 40_000_000
_DELAY_NS = 3_500_000
_WARMUP_S = 20

_QUEUES: dict[str, dict[str, Any]] = {
    "RED": {
        "discipline": "red",
        "min_threshold": {"ns": 20_000_000},
        "max_threshold": {"ns": 70_000_000},
        "max_probability": 0.006,
        "weight": 1 / 512,
        "gentle": False,
        "ecn": True,
    },
    "PIE": {
        "discipline": "pie",
        "variant": "linux-3.18",
        "target_ns": 20_000_000,
        "update_interval_ns": 30_000_000,
        "max_burst_ns": 100_000_000,
        "ecn": True,
        "max_mark_probability": 0.1,
        "derandomize": False,
        "activity_gate": False,
    },
    "FQ-CoDel": {"discipline": "fq-codel", "flows": 1024, "ecn": True},
    "DualQ": {
        "discipline": "dual-curvy-red",
        "range_ns": 250_000_000,
        "coupling_factor": 8.0,
        "smoothing": 5,
        "threshold": {"packets": 5},
        "coupling_input": "max",
        "scheduler": "strict",
        "classifier": "any-ect",
    },
    "DualPI2": {"discipline": "dual-pi2", "classifier": "any-ect"},
}
"""004-spec sections 5.2, 5.5 to 5.7 and 15; DualPI2 as in RFC 9332, for comparison."""


def run(queue: str, dctcp: int, cubic: int, seconds: int, seed: int) -> Json:
    """One run: Mbit/s per flow of each kind, and what the queue did to each class."""
    answer = json.loads(simulate_packets(json.dumps(_document(queue, dctcp, cubic, seconds, seed))))
    rates: dict[str, list[float]] = {"dctcp": [], "cubic": []}
    for flow in answer["flows"]:
        rates[flow["name"].split("-")[0]].append(flow["goodput_bps"] / 1e6)
    (link,) = (link for link in answer["links"] if link["name"] == "bottleneck")
    forward = link["forward"]
    classes = {
        one["name"]: {
            "p99_ms": one["sojourn"]["p99_ns"] / 1e6,
            "marked": one["marked"] / max(1, one["packets_out"]),
            "dropped": one["dropped"] / max(1, one["packets_in"]),
        }
        for one in forward["classes"]
    }
    mean_ms = forward["queue_bytes_mean"] * 8e3 / _RATE_BPS
    return {"rates": cast(Json, rates), "classes": cast(Json, classes), "queue_ms": mean_ms}


def _document(queue: str, dctcp: int, cubic: int, seconds: int, seed: int) -> dict[str, Any]:
    kinds = [("dctcp", "dctcp:on-loss=linux-3.18")] * dctcp + [("cubic", "cubic")] * cubic
    line = {"rate_bps": _RATE_BPS, "delay_ns": _DELAY_NS}
    free: dict[str, Any] = {}
    traffic = [
        {
            "name": f"{kind}-{number}",
            "from": f"{kind}-server",
            "to": f"{kind}-client",
            "start_ns": number * 97_000_000,
            "application": {"kind": "bulk", "tcp": {"congestion": control}},
        }
        for number, (kind, control) in enumerate(kinds)
    ]
    links = [
        {
            "name": "bottleneck",
            "ends": ["aqm", "home"],
            "forward": line | {"queue": _QUEUES[queue]},
            "backward": {"delay_ns": _DELAY_NS},
        }
    ]
    for kind in ("dctcp", "cubic"):
        ends = ((f"{kind}-server", "aqm"), ("home", f"{kind}-client"))
        links += [{"name": "-".join(e), "ends": e, "forward": free, "backward": free} for e in ends]
    hosts = [f"{kind}-{side}" for kind in ("dctcp", "cubic") for side in ("server", "client")]
    return {
        "seed": seed,
        "duration_ns": seconds * 10**9,
        "warmup_ns": _WARMUP_S * 10**9,
        "nodes": [
            *({"name": host} for host in hosts),
            {"name": "aqm", "forwards": True},
            {"name": "home", "forwards": True},
        ],
        "links": links,
        "traffic": traffic,
    }


_PAIRS = [(1, 1), (2, 2), (5, 5), (10, 10)]


def _points(queues: Sequence[str], quick: bool) -> list[Point]:
    seconds, seeds = (80, (1, 2)) if quick else (250, (1, 2, 3, 4, 5))
    return [
        Point(
            run,
            {"queue": queue, "dctcp": n, "cubic": m, "seconds": seconds, "seed": seed},
        )
        for queue in queues
        for n, m in _PAIRS
        for seed in seeds
    ]


Runs = dict[tuple[str, int], list[dict[str, Any]]]


def _by_setting(queues: Sequence[str], results: Sequence[Json]) -> Runs:
    """The runs of each queue with so many flows of each kind."""
    settings = [(queue, n) for queue in queues for n, _ in _PAIRS]
    seeds = len(results) // len(settings)
    runs = cast(list[dict[str, Any]], list(results))
    return {at: runs[i * seeds : (i + 1) * seeds] for i, at in enumerate(settings)}


def _share(runs: Sequence[Mapping[str, Any]]) -> float:
    """Cubic's mean rate over DCTCP's."""
    means = [
        statistics.mean(run["rates"]["cubic"]) / statistics.mean(run["rates"]["dctcp"])
        for run in runs
    ]
    return float(statistics.mean(means))


def _of_class(runs: Sequence[Mapping[str, Any]], name: str, what: str) -> float:
    return float(statistics.mean(run["classes"][name][what] for run in runs))


def _judge_single(results: Sequence[Json]) -> Outcome:
    """S1, S3 and S5 of 004-spec section 14.2."""
    runs = _by_setting(_SINGLE, results)
    shares = {queue: [_share(runs[queue, n]) for n, _ in _PAIRS] for queue in _SINGLE}
    starved = all(share < 0.25 for queue in ("RED", "PIE") for share in shares[queue][1:])
    equal = all(abs(share - 1) < 0.1 for share in shares["FQ-CoDel"])
    pie_ms = statistics.mean(run["queue_ms"] for n, _ in _PAIRS for run in runs["PIE", n])
    many = runs["PIE", 10]
    drops, marks = _of_class(many, "all", "dropped"), _of_class(many, "all", "marked")
    holds = starved and equal and 18 <= pie_ms <= 22 and drops > 0.1 and marks < 0.01
    said = "; ".join(
        f"{queue}: Cubic has {', '.join(f'{share:.0%}' for share in shares[queue])} of DCTCP's rate"
        for queue in _SINGLE
    )
    ours = (
        f"with 1, 2, 5 and 10 flows of each, {said}. PIE's mean queue is {pie_ms:.1f} ms; with "
        f"10 flows of each it drops {drops:.0%} and marks {marks:.1%}"
    )
    reason = "equal numbers of both kinds, of the 120 combinations"
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason)


def _judge_dual(results: Sequence[Json]) -> Outcome:
    """S6 and S7 of 004-spec section 14.2."""
    runs = _by_setting(_DUAL, results)
    shares = {queue: [_share(runs[queue, n]) for n, _ in _PAIRS] for queue in _DUAL}
    few = shares["DualQ"][:3]
    delays = [_of_class(runs["DualQ", n], "l4s", "p99_ms") for n in (1, 2, 5)]
    marks = _of_class(runs["DualQ", 10], "l4s", "marked")
    monotone = few == sorted(few, reverse=True)
    holds = all(0.4 <= share <= 2.5 for share in few) and monotone
    holds = holds and max(delays) < 2 and marks > 0.9
    said = "; ".join(
        f"{queue}: Cubic has {', '.join(f'{share:.0%}' for share in shares[queue])} of DCTCP's rate"
        for queue in _DUAL
    )
    ours = (
        f"with 1, 2, 5 and 10 flows of each, {said}. DualQ: 99 % of L4S packets wait less than "
        f"{max(delays):.1f} ms with up to 5 of each; with 10, {marks:.1%} are marked"
    )
    reason = (
        "slope and coupling are not published: 1/4 s and 8 as 004-spec section 5.2 derives; with "
        "10 of each, DCTCP's two segments fill the link and Cubic starves. DualPI2 couples for "
        "equal rates at 25 ms, not at 7 ms"
    )
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason)


_SINGLE = ["RED", "PIE", "FQ-CoDel"]
_DUAL = ["DualQ", "DualPI2"]

ROWS = [
    Row(
        "004-fig-4.8",
        "AQMs under long flows: RED, PIE, FQ-CoDel (40 Mbit/s, 7 ms)",
        "RED, PIE: DCTCP starves Cubic, PIE holds 20 ms; FQ-CoDel equal but for collisions",
        lambda quick: _points(_SINGLE, quick),
        _judge_single,
    ),
    Row(
        "004-fig-4.9",
        "AQMs under long flows: DualQ, and DualPI2 beside it",
        "DCTCP and Cubic equal; L4S without a queue; marking near 100 % with ten flows of each",
        lambda quick: _points(_DUAL, quick),
        _judge_dual,
    ),
]
