"""One simulation: a scenario, how long, what to keep of it."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weir import Time, __version__
from weir._core import simulate_packets
from weir.errors import BadInput
from weir.lab.scenario import Scenario
from weir.sim.check import idle_queues
from weir.sim.config import simulation_config

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
        BadInput: no traffic, a duration that leaves nothing, a file that cannot be written.
    """
    scenario = order.scenario
    if not scenario.traffic:
        raise BadInput(f"{scenario.name}: it has no [[traffic]], so nothing would happen")
    if order.seed is not None:
        scenario = replace(scenario, seed=order.seed)
    duration = order.duration or _duration(scenario)
    config = simulation_config(scenario, duration)
    config["warmup_ns"] = order.warmup.ns if order.warmup else 0
    captures = _captures(order)
    traces = str(order.out) if order.out else None
    result: dict[str, Any] = json.loads(simulate_packets(json.dumps(config), captures, traces))
    head = {"name": scenario.name, "version": __version__, "duration_ns": duration.ns}
    result = {**head, "warnings": idle_queues(scenario), **result}
    if order.out:
        (order.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    return result


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
