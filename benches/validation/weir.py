"""One case of the validation in Weir's packet simulator.

The lab's links are late by some 0.03 ms, and by 0.1 ms in one packet of a hundred, as each run of
the kernel tells of itself. Here each link has a jitter of that size: without any noise one flow
repeats one phase in every sawtooth, and BBR never takes a sample that is too high.
"""

from dataclasses import replace

from benches.validation.case import Case, Result
from weir import Time
from weir.lab import parse
from weir.lab.scenario import Direction, Node, Scenario
from weir.sim.core import simulated
from weir.sim.traffic import Bulk, Tcp, between

_JITTER_NS = 50_000


def run(case: Case, seed: int, *, offload: bool = False) -> Result:
    """Runs one case; with `offload` its host sends trains, as one with segmentation offload."""
    scenario = _scenario(case, seed, offload)
    outcome = simulated(scenario, Time(f"{case.seconds} s"), warmup=Time(f"{case.from_s} s"))
    (bottleneck,) = (link for link in outcome["links"] if link["name"] == "bottleneck")
    forward = bottleneck["forward"]
    offered = forward["packets_out"] + forward["dropped_queue"]
    return Result(
        [flow["goodput_bps"] for flow in outcome["flows"]],
        forward["dropped_queue"] / offered,
        forward["queue_bytes_mean"] * 8 / case.rate_bps,
        forward["marked"] / forward["packets_out"],
    )


def _scenario(case: Case, seed: int, offload: bool) -> Scenario:
    # A jitter is around the delay: what the hosts' links take for it, the bottleneck gives.
    jitter = Time.from_ns(_JITTER_NS)
    free = Direction(delay=jitter, jitter=jitter)
    delay = Time.from_ns(case.rtt_ms * 500_000 - 2 * _JITTER_NS)
    sender, bottleneck, receiver = parse(case.scenario()).links
    way = replace(bottleneck.forward, delay=delay, jitter=jitter)
    links = (
        # Their jitter is drawn by these names.
        replace(sender, name="sender", forward=free, backward=free),
        replace(bottleneck, forward=way, backward=way),
        replace(receiver, name="receiver", forward=free, backward=free),
    )
    nodes = (Node("s"), Node("d"), Node("r1", True), Node("r2", True))
    traffic = [
        between(
            ("s", "d"),
            f"flow-{number}",
            Bulk(Tcp(_control(control, case.ecn), segmentation_offload=offload)),
            round(number * case.stagger_s * 1e9),
        )
        for number, control in enumerate(case.flows)
    ]
    return Scenario("validation", seed, nodes, links, tuple(traffic))


def _control(name: str, ecn: bool) -> str:
    if name == "dctcp":
        return f"{name}:growth-in-cwr=off,whole-segments=on"  # as Linux
    return f"{name}:ecn=on" if ecn else name
