"""One simulation: a scenario, how long, what to keep of it."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weir import Time, __version__
from weir.errors import BadInput
from weir.lab.canonical import in_order
from weir.lab.scenario import Scenario
from weir.sim.check import idle_queues, unmeasured
from weir.sim.core import simulated
from weir.sim.effort import bounded

DURATION = Time("30 s")
"""How long a scenario runs whose traffic has no end."""


@dataclass(frozen=True)
class Run:
    """What to simulate.

    Attributes:
        scenario: nodes, links, traffic.
        duration: None to run until the last traffic stops, or for 30 s if one has no end.
        warmup: what happens before this is not measured.
        seed: instead of the scenario's.
        out: a directory for the result, the traces and the captures; None to keep nothing.
        captures: nodes whose packets are written to `out` as pcapng.
    """

    scenario: Scenario
    duration: Time | None = None
    warmup: Time | None = None
    seed: int | None = None
    out: Path | None = None
    captures: tuple[str, ...] = ()


def simulate(scenario: Scenario) -> dict[str, Any]:
    """Simulates a scenario for as long as its traffic lasts; see `docs/packet.md` for the result.

    Raises:
        BadInput: the scenario has no traffic, or the simulator cannot do what it asks for.
    """
    return run(Run(scenario))


def run(order: Run) -> dict[str, Any]:
    """Simulates.

    Raises:
        BadInput: no traffic, a duration that leaves nothing, more than can be simulated in time
            and memory (`weir.sim.effort`), a file that cannot be written.
    """
    scenario = order.scenario
    if not scenario.traffic:
        raise BadInput(f"{scenario.name}: it has no [[traffic]], so nothing would happen")
    if order.seed is not None:
        if not 0 <= order.seed < 2**64:
            raise BadInput(f"seed {order.seed}: 0 to 2^64 - 1 are allowed")
        scenario = replace(scenario, seed=order.seed)
    duration = _duration(scenario) if order.duration is None else order.duration
    if not duration:
        raise BadInput(f"a duration of {duration} is nothing to simulate")
    warmup = order.warmup or Time.from_ns(0)
    if warmup >= duration:
        raise BadInput(f"a warm-up of {warmup} leaves nothing of {duration} to be measured")
    bounded(scenario, duration)
    ordered = replace(scenario, traffic=tuple(in_order(scenario.traffic, scenario.nodes)))
    captures = _captures(order)
    traces = str(order.out) if order.out else None
    result = simulated(ordered, duration, warmup=warmup, captures=captures, traces=traces)
    found = {flow["name"]: flow for flow in result["flows"]}
    result["flows"] = [found[traffic.name] for traffic in scenario.traffic]
    head = {"name": scenario.name, "version": __version__, "duration_ns": duration.ns}
    warnings = [*unmeasured(scenario, duration, warmup), *idle_queues(scenario)]
    result = {**head, "warnings": warnings, **result}
    if order.out:
        _keep(result, order.out / "result.json")
    return result


def _keep(result: dict[str, Any], path: Path) -> None:
    try:
        path.write_text(json.dumps(result, indent=2) + "\n")
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from None


def _captures(order: Run) -> list[tuple[str, str]]:
    if order.out is None:
        if order.captures:
            raise BadInput("a capture needs a directory to be written to: --out DIR")
        return []
    try:
        order.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{order.out}: cannot be made: {error.strerror}") from None
    return [(node, str(order.out / f"{node}.pcapng")) for node in order.captures]


def _duration(scenario: Scenario) -> Time:
    stops = [traffic.stop for traffic in scenario.traffic]
    known = [stop for stop in stops if stop is not None]
    return max(known) if known and len(known) == len(stops) else DURATION
