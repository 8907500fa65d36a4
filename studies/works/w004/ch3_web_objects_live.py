"""Work 004, figure 3.23, live: web objects by the kernel's DCTCP and Reno through DualQ.

Testbed T2 of `studies.works.w004.ch3_web_objects` in the lab, and the same scenario in the
simulator beside it; through DualPI2 the classic objects are Cubic's. The kernel's DCTCP halves on a
loss (RFC 8257).
"""

from collections.abc import Sequence
from typing import Any, cast

from studies.rig.access_line import dual_pi2
from studies.rig.beside_simulated import WORLDS, Result, beside_simulated, flaws, through
from studies.rig.statistics import words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w004.ch3_streaming import DUALQ
from studies.works.w004.ch3_web_objects import (
    SMALLER_SHAPE,
    Run,
    cluster_ms,
    described,
    of_objects,
    of_web,
)
from weir.lab import parse
from weir.lab.scenario import Scenario
from weir.runs.point import Json, Point

LOADS = {
    "DualQ": (DUALQ, "reno", 0.9),
    "DualQ, smaller": (DUALQ, "reno", SMALLER_SHAPE),
    "DualPI2": (dual_pi2(), "cubic", 0.9),
}
"""Queue, control of the classic objects, shape of the sizes."""
_SCENARIO = """
[lab]
seed = {seed}
[hosts]
scalable = {{ congestion = "dctcp" }}
classic = {{ congestion = "{classic}" }}
client = {{}}
[routers.router]
[[link]]
ends = ["scalable", "router"]
[[link]]
ends = ["classic", "router"]
[[link]]
name = "line"
ends = ["router", "client"]
rate = "20 Mbit/s"
delay = "10 ms"
[[traffic]]
name = "dctcp"
kind = "web"
from = "scalable"
to = "client"
interval = "10 ms"
shape = {shape}
stop = "{seconds} s"
[[traffic]]
name = "{classic}"
kind = "web"
from = "classic"
to = "client"
interval = "10 ms"
shape = {shape}
stop = "{seconds} s"
"""
_AT_ONCE = 3
_SECONDS, _QUICK_SECONDS = 120, 30


def scenario(load: str, *, seconds: int, seed: int) -> Scenario:
    """The scenario of one of `LOADS`."""
    queue, classic, shape = LOADS[load]
    text = _SCENARIO.format(classic=classic, shape=shape, seconds=seconds, seed=seed)
    return through(queue, parse(text, load))


def objects(*, seconds: int, seed: int) -> Json:
    """How long the objects of each kind took, through each queue, live and simulated."""
    scenarios = {load: scenario(load, seconds=seconds, seed=seed) for load in LOADS}
    return beside_simulated(scenarios, _facts, at_once=_AT_ONCE)


def _facts(result: Result) -> Json:
    return {
        "web": {
            kind: of_objects([(size, took_ns / 1e6) for size, took_ns in taken])
            for kind, taken in result["requests"].items()
        }
    }


def _points(quick: bool) -> list[Point]:
    seconds, seeds = (_QUICK_SECONDS, (1,)) if quick else (_SECONDS, (1, 2, 3, 4, 5))
    return [Point(objects, {"seconds": seconds, "seed": seed}) for seed in seeds]


def _judge(results: Sequence[Json]) -> Outcome:
    """W1 of 004-spec section 14.2, of the kernel's objects."""
    runs = cast(Sequence[dict[str, Any]], results)
    of: dict[tuple[str, str], Sequence[Run]] = {
        (load, world): [run[load][world] for run in runs] for load in LOADS for world in WORLDS
    }
    said = [
        f"{load}: {described(of[load, 'live'], kind)} (simulated "
        f"{described(of[load, 'simulated'], kind)})"
        for load, (_, classic, _) in LOADS.items()
        for kind in ("dctcp", classic)
    ]
    alone = of["DualQ", "live"]
    holds = (
        of_web(alone, "dctcp", "ratio", 0) < 1.5
        and of_web(alone, "reno", "ms", 1) > 200
        and 200 <= (cluster_ms(alone, "reno") or 0) < 400
    )
    interval = "; ".join(
        f"{load}, DCTCP's median: "
        + words([run[load]["live"]["web"]["dctcp"]["ratio"][0] for run in runs])
        for load in LOADS
    )
    ours = f"time over the least for its size, median / 95th percentile: {'; '.join(said)}"
    reason = "; ".join(["as in 004-fig-3.23; today's DCTCP halves on a loss", *flaws(runs)])
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason, interval)


ROWS = [
    Row(
        "004-own-3.23-live",
        "Figure 3.23 on the kernel's own DCTCP and Reno, in the lab and simulated",
        "DCTCP near the minimum; Reno far above, with a cluster at 200 ms",
        _points,
        _judge,
        live=1,
    )
]
