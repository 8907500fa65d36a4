"""What live rows of packets share: a scenario in a lab and, beside it, in the simulator."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast

from studies.rig import threads
from studies.rig.access_line import read
from weir import Time
from weir.lab import Lab
from weir.lab.queues import with_limit
from weir.lab.scenario import ApplicationTraffic, Direction, Queue, Scenario
from weir.runs.point import Json, Point
from weir.sim.core import simulated

Result = dict[str, Any]
"""What `weir lab run --json` or `weir sim --json` prints.

To either is added `requests`: of each traffic that is web load the size of each object in bytes and
how long it took in ns.
"""
WORLDS = ("live", "simulated")
_STALLED_S = 0.1
_with_labs = ContextVar("with_labs", default=True)


def beside_simulated(
    scenarios: Mapping[str, Scenario], facts: Callable[[Result], Json], *, at_once: int
) -> dict[str, Json]:
    """Runs scenarios in both worlds, each in a lab of its own.

    Args:
        scenarios: by name; all of their traffic has a stop.
        facts: what is to be known of a result.
        at_once: so many labs at a time as the machine carries without being late.

    Returns:
        By name: `live`, `simulated`: the facts; `flaws`: why the lab's should not be believed.
    """
    if not _with_labs.get():
        return {name: {"simulated": facts(_simulated(one))} for name, one in scenarios.items()}

    def one(place: int, scenario: Scenario) -> dict[str, Json]:
        with Lab.up(scenario, name=f"beside-{place}") as lab:
            status = lab.finish()
            status["requests"] = {
                web: [(size, took) for _, size, took in lab.requests(web)] for web in _web(scenario)
            }
        again = facts(_simulated(scenario))
        return {"live": facts(status), "simulated": again, "flaws": [*_flaws(status)]}

    with threads.at_once(at_once) as pool:
        both = pool.map(one, range(len(scenarios)), scenarios.values())
        return dict(zip(scenarios, both, strict=True))


def has_labs() -> bool:
    """Whether runs are to set up labs; otherwise only the simulated half is wanted."""
    return _with_labs.get()


def through(queue: Queue, scenario: Scenario, link: str = "line") -> Scenario:
    """The scenario with this queue before a link, both ways, as if its text had named it."""

    def filled(way: Direction, mtu: int) -> Direction:
        assert way.rate, "a queue has a rate to wait for"
        return replace(way, queue=with_limit(queue, way.rate, mtu))

    links = [
        replace(one, forward=filled(one.forward, one.mtu), backward=filled(one.backward, one.mtu))
        if one.name == link
        else one
        for one in scenario.links
    ]
    return replace(scenario, links=tuple(links))


def simulated_again(point: Point, kept: Json) -> Json:
    """A kept result of `point` with what the present simulator makes of it; no lab is set up.

    What has no simulated half is given back as it is.
    """
    if (
        not isinstance(kept, Mapping)
        or not kept
        or not all(isinstance(each, Mapping) and each.keys() >= {*WORLDS} for each in kept.values())
    ):
        return kept
    before = _with_labs.set(False)
    try:
        made = cast(Mapping[str, Mapping[str, Json]], point.run(**point.arguments))
    finally:
        _with_labs.reset(before)
    return {name: {**cast(Mapping[str, Json], kept[name]), **made[name]} for name in made}


def _flaws(status: Result) -> Iterator[str]:
    """Why a lab should not be believed."""
    if status["headroom"]["bottleneck"]:
        yield "the emulator was late"
    for flow in status["traffic"]:
        if flow["state"] == "failed":
            yield f"{flow['name']} failed"
        if flow.get("stalled_s", 0) > _STALLED_S:
            yield f"{flow['name']} was held up for {flow['stalled_s']:.1f} s"


def _web(scenario: Scenario) -> list[str]:
    return [
        traffic.name
        for traffic in scenario.traffic
        if isinstance(traffic, ApplicationTraffic) and traffic.kind == "web"
    ]


def _simulated(scenario: Scenario) -> Result:
    duration = Time.from_ns(max(traffic.stop.ns for traffic in scenario.traffic if traffic.stop))
    result = simulated(scenario, duration, sample=Time("1 s"), trace=True)
    result["requests"] = {web: [] for web in _web(scenario)}
    for _, web, size, took in read(result, "requests"):
        result["requests"][web].append((int(size), int(took)))
    return result


def flaws(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """The flaws of all runs, in the order of the scenarios' names, each once."""
    return sorted(
        {f"{name}: {flaw}" for run in runs for name in run for flaw in run[name]["flaws"]}
    )
