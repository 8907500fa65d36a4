"""One simulation: a scenario, how long, what to keep of it."""

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
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

_RESULT = "result.json"
_TRACES = ("queues.parquet", "connections.parquet")


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
    with _placed(order) as stage:
        result = simulated(
            ordered,
            duration,
            warmup=warmup,
            captures=_captures(order, stage) if stage else (),
            traces=str(stage) if stage else None,
        )
        result = _told(scenario, duration, warmup, result)
        if stage:
            (stage / _RESULT).write_text(json.dumps(result, indent=2) + "\n")
    return result


def _told(
    scenario: Scenario, duration: Time, warmup: Time, result: dict[str, Any]
) -> dict[str, Any]:
    """A result as it is kept and returned: traffic in the file's order, and what to doubt."""
    found = {flow["name"]: flow for flow in result["flows"]}
    result["flows"] = [found[traffic.name] for traffic in scenario.traffic]
    head = {"name": scenario.name, "version": __version__, "duration_ns": duration.ns}
    warnings = [*unmeasured(scenario, duration, warmup), *idle_queues(scenario)]
    return {**head, "warnings": warnings, **result}


def _captures(order: Run, stage: Path) -> list[tuple[str, str]]:
    return [(node, str(stage / _packets_of(node))) for node in dict.fromkeys(order.captures)]


def _packets_of(node: str) -> str:
    return f"{node}.pcapng"


@contextlib.contextmanager
def _placed(order: Run) -> Iterator[Path | None]:
    """Where files are written, which are in the order's folder once all of them are whole.

    Until then, and if the run fails or is interrupted, those of a run before stay: a result never
    stands beside another one's traces.
    """
    if order.out is None:
        if order.captures:
            raise BadInput("a capture needs a directory to be written to: --out DIR")
        yield None
        return
    known = [node.name for node in order.scenario.nodes]
    if strange := [node for node in order.captures if node not in known]:
        raise BadInput(f'capture: there is no node "{strange[0]}"; there are {", ".join(known)}')
    out = order.out
    names = [*_TRACES, *map(_packets_of, dict.fromkeys(order.captures)), _RESULT]
    if taken := [name for name in names if (out / name).is_dir()]:
        raise BadInput(f"{out / taken[0]}: cannot be written: {os.strerror(errno.EISDIR)}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=".weir-sim-", dir=out))
    except OSError as error:
        raise BadInput(f"{out}: cannot be made: {error.strerror}") from None
    try:
        yield stage
        for name in names:
            (stage / name).replace(out / name)
    except OSError as error:
        raise BadInput(f"{out}: cannot be written: {error.strerror}") from None
    except BadInput as error:
        raise BadInput(str(error).replace(f"{stage}{os.sep}", f"{out}{os.sep}")) from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _duration(scenario: Scenario) -> Time:
    stops = [traffic.stop for traffic in scenario.traffic]
    known = [stop for stop in stops if stop is not None]
    return max(known) if known and len(known) == len(stops) else DURATION
