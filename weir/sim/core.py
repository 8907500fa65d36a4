"""The one call of the core's packet simulator: a scenario in, what was found out."""

import json
from collections.abc import Sequence
from typing import Any

from weir import Time
from weir._core import simulate_packets
from weir.lab.scenario import Scenario
from weir.sim.config import simulation_config


def simulated(
    scenario: Scenario,
    duration: Time,
    *,
    warmup: Time | None = None,
    sample: Time | None = None,
    trace: bool = False,
    spread: bool = False,
    captures: Sequence[tuple[str, str]] = (),
    traces: str | None = None,
) -> dict[str, Any]:
    """What the simulator finds, as it says it (docs/packet.md).

    Args:
        scenario: nodes, links, traffic.
        duration: how long it runs.
        warmup: what happens before this is not measured.
        sample: how often queues and windows are looked at; None for every 10 ms.
        trace: whether these samples and the requests are kept in the result.
        spread: whether destinations are spread over equally short ways, as InfiniBand's subnet
            managers do; otherwise, as in a lab, the first one is everybody's.
        captures: nodes, each with the file for its packets as pcapng.
        traces: a directory for the samples as Parquet.

    Raises:
        BadInput: the simulator cannot do what is asked for, or a file cannot be written.
    """
    config = simulation_config(scenario, duration)
    if warmup:
        config["warmup_ns"] = warmup.ns
    if sample:
        config["sample_ns"] = sample.ns
    if trace:
        config["trace"] = True
    if spread:
        config["spread"] = True
    result: dict[str, Any] = json.loads(simulate_packets(json.dumps(config), captures, traces))
    return result
