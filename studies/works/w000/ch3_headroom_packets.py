"""Work 000, figure 3.5: what elephant flows do to best-effort traffic, packet by packet.

Elephants join bursty background traffic on one link of 1 Gbit/s, either in one queue with it (best
effort) or below it in strict priority with half the buffer (static headroom); 000-spec section
3.6.1. The background comes over an access link of 1 Gbit/s and so cannot overrun a queue alone.
"""

import hashlib
import itertools
import json
import random
import statistics
from collections.abc import Sequence
from typing import Any, cast

from studies.reproduction.row import Outcome, Row, Verdict
from studies.rig.statistics import words
from weir._core import Bursts, simulate_packets
from weir.lab import queues
from weir.lab.scenario import Queue
from weir.runs.point import Json, Point

_GBIT_PER_S = 10**9
BURSTS = [(1, 2000, 0.073), (50, 40, 0.298), (110, 18, 0.432), (200, 10, 0.572)]
"""Table 3.1: rate of a burst in Mbit/s, bursts per second, burstiness as reported."""
ARRIVALS_PER_S = 1 / 12
"""Arrival rate of elephant flows (000-spec section 3.6.1)."""
_SHAPE, _LEAST_BYTES = 4.0, 1_500_000_000
_BUFFER_PACKETS = 10_000
QUEUES = {
    "best effort": Queue("fifo", _BUFFER_PACKETS),
    "headroom": Queue("priority", _BUFFER_PACKETS),
}
_SCAVENGER = 8
_SEEDS = (1, 2, 3, 4, 5)


def background_loss(
    service: str, burst_mbit_s: int, bursts_per_s: int, elephants: int, seed: int
) -> Json:
    """The share of the background's packets that is lost.

    Args:
        service: a name of `QUEUES`.
        burst_mbit_s: what each burst adds.
        bursts_per_s: how many begin in a second.
        elephants: how many elephant flows arrive.
        seed: of the run.
    """
    draw = random.Random(f"elephants {seed}")
    flows, at_s = [], 0.0
    for number in range(elephants):
        size = round(_LEAST_BYTES * draw.paretovariate(_SHAPE))
        flows.append(_elephant(number, at_s, size))
        at_s += draw.expovariate(ARRIVALS_PER_S)
    # Until all are through: 60 % of the link are theirs.
    total = sum(flow["application"]["size_bytes"] for flow in flows)
    seconds = max(at_s, total * 8 / (0.6 * _GBIT_PER_S))
    line = {"rate_bps": _GBIT_PER_S, "delay_ns": 30_000_000}
    access = {"rate_bps": _GBIT_PER_S}
    hosts = ["users", "readers", *(flow[end] for flow in flows for end in ("from", "to"))]
    links = [
        {
            "name": "bottleneck",
            "ends": ["west", "east"],
            "forward": line | {"queue": queues.config(QUEUES[service])},
            "backward": line,
        }
    ]
    for host, router in zip(hosts, itertools.cycle(("west", "east")), strict=False):
        name, ends = f"to {host}", [host, router]
        links.append({"name": name, "ends": ends, "forward": access, "backward": access})
    document = {
        "seed": seed,
        "duration_ns": round(seconds * 1e9),
        "nodes": [{"name": host} for host in hosts]
        + [{"name": name, "forwards": True} for name in ("west", "east")],
        "links": links,
        "traffic": [_background(burst_mbit_s, bursts_per_s, seconds, seed), *flows],
    }
    answer = json.loads(simulate_packets(json.dumps(document)))
    background = answer["flows"][0]
    return float(background["lost_packets"] / background["sent_packets"])


def _elephant(number: int, at_s: float, size: int) -> dict[str, Any]:
    return {
        "name": f"elephant-{number}",
        "from": f"sender-{number}",
        "to": f"receiver-{number}",
        "start_ns": round(at_s * 1e9),
        "dscp": _SCAVENGER,
        "application": {"kind": "bulk", "tcp": {"congestion": "reno"}, "size_bytes": size},
    }


def _background(burst_mbit_s: int, per_s: int, seconds: float, seed: int) -> dict[str, Any]:
    source = Bursts(_key(f"bursts {seed}"), burst_mbit_s * 10**6, 1 / per_s, 0.2, 0.7)
    changes = itertools.takewhile(lambda change: change[0] < seconds * 1e9, source)
    return {
        "name": "background",
        "from": "users",
        "to": "readers",
        "application": {
            "kind": "udp-rates",
            "payload_bytes": 1470,
            "changes": [*changes],
        },
    }


def _key(text: str) -> Sequence[int]:
    """The words with which Python's generator is seeded by a text: the row keeps its bursts."""
    number = int.from_bytes(text.encode() + hashlib.sha512(text.encode()).digest())
    return [number >> shift & 0xFFFFFFFF for shift in range(0, number.bit_length(), 32)]


def _points(quick: bool) -> list[Point]:
    elephants, seeds = (5, _SEEDS[:1]) if quick else (30, _SEEDS)
    return [
        Point(
            background_loss,
            {
                "service": service,
                "burst_mbit_s": mbit_s,
                "bursts_per_s": per_s,
                "elephants": elephants,
                "seed": seed,
            },
        )
        for service in QUEUES
        for mbit_s, per_s, _ in BURSTS
        for seed in seeds
    ]


def _judge(results: Sequence[Json]) -> Outcome:
    losses = cast(Sequence[float], results)
    runs = len(losses) // (len(QUEUES) * len(BURSTS))
    means = [statistics.mean(losses[at : at + runs]) for at in range(0, len(losses), runs)]
    best_effort, headroom = means[: len(BURSTS)], means[len(BURSTS) :]
    # Neighbours are within the noise of few elephants: the calmer half against the burstier.
    grows = 0 < sum(best_effort[:2]) < sum(best_effort[2:])
    said = ", ".join(
        f"{loss:.2%} at {burstiness}"
        for loss, (_, _, burstiness) in zip(best_effort, BURSTS, strict=True)
    )
    ours = f"best effort: {said}; headroom: {max(headroom):.4%} at most"
    reason = (
        "RTT is not published: 60 ms. The paper's ns-3 had NewReno; here it is Reno with SACK, "
        "whose slow start without HyStart overruns the buffer once for each elephant"
    )
    if not grows or max(headroom) > 0:
        return Outcome(ours, Verdict.DIFFERS, reason)
    near = abs(best_effort[-1] - 0.008) < 0.002
    verdict = Verdict.MATCHES if near else Verdict.TREND_HOLDS
    burstiest = losses[runs * (len(BURSTS) - 1) : runs * len(BURSTS)]
    interval = ""
    if runs == len(_SEEDS):
        interval = f"at {BURSTS[-1][2]}: {words(burstiest, '.2%')}"
    return Outcome(ours, verdict, reason, interval)


ROWS = [
    Row(
        "000-fig-3.5",
        "Loss of best-effort traffic beside elephant flows, best effort against SH",
        "SH none; best effort 0.8 % at burstiness 0.572, 0.083/s; grows with burstiness",
        _points,
        _judge,
    )
]
