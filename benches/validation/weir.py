"""One case of the validation in Weir's packet simulator.

The lab's links are late by some 0.03 ms, and by 0.1 ms in one packet of a hundred, as each run of
the kernel tells of itself. Here each link has a jitter of that size: without any noise one flow
repeats one phase in every sawtooth, and BBR never takes a sample that is too high.
"""

import json
from typing import Any

from benches.validation.case import Case, Result
from weir._core import simulate_packets
from weir.lab import parse, queues

_JITTER_NS = 50_000


def run(case: Case, seed: int, *, offload: bool = False) -> Result:
    """Runs one case; with `offload` its host sends trains, as one with segmentation offload."""
    outcome = json.loads(simulate_packets(json.dumps(_document(case, seed, offload))))
    (bottleneck,) = (link for link in outcome["links"] if link["name"] == "bottleneck")
    forward = bottleneck["forward"]
    offered = forward["packets_out"] + forward["dropped_queue"]
    return Result(
        [flow["goodput_bps"] for flow in outcome["flows"]],
        forward["dropped_queue"] / offered,
        forward["queue_bytes_mean"] * 8 / case.rate_bps,
        forward["marked"] / forward["packets_out"],
    )


def _document(case: Case, seed: int, offload: bool) -> dict[str, Any]:
    # A jitter is around the delay: what the hosts' links take for it, the bottleneck gives.
    jitter = {"jitter_ns": _JITTER_NS}
    delay_ns = case.rtt_ms * 500_000 - 2 * _JITTER_NS
    direction = {"rate_bps": case.rate_bps, "delay_ns": delay_ns} | jitter
    (link,) = (link for link in parse(case.scenario()).links if link.name == "bottleneck")
    queue = queues.config(link.forward.queue)
    free: dict[str, Any] = {"delay_ns": _JITTER_NS} | jitter
    links = [
        {"name": "sender", "ends": ["s", "r1"], "forward": free, "backward": free},
        {
            "name": "bottleneck",
            "ends": ["r1", "r2"],
            "forward": direction | {"queue": queue},
            "backward": direction | {"queue": queue},
        },
        {"name": "receiver", "ends": ["r2", "d"], "forward": free, "backward": free},
    ]
    traffic = [
        {
            "name": f"flow-{number}",
            "from": "s",
            "to": "d",
            "start_ns": round(number * case.stagger_s * 1e9),
            "application": {
                "kind": "bulk",
                "tcp": {
                    "congestion": _control(control, case.ecn),
                    "segmentation_offload": offload,
                },
            },
        }
        for number, control in enumerate(case.flows)
    ]
    return {
        "seed": seed,
        "duration_ns": case.seconds * 10**9,
        "warmup_ns": case.from_s * 10**9,
        "nodes": [
            {"name": "s"},
            {"name": "d"},
            {"name": "r1", "forwards": True},
            {"name": "r2", "forwards": True},
        ],
        "links": links,
        "traffic": traffic,
    }


def _control(name: str, ecn: bool) -> str:
    if name == "dctcp":
        return f"{name}:growth-in-cwr=off,whole-segments=on"  # as Linux
    return f"{name}:ecn=on" if ecn else name
