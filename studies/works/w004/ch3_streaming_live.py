"""Work 004, chapter 3, live: adaptive video by the kernel's Reno and DCTCP among its long flows.

Testbed T2 of `studies.works.w004.ch3_streaming` in the lab, and the same scenario in the simulator
beside it. The player is the same program in both. No kernel has the work's CTCP, nor a DCTCP that
takes losses as that of Windows: here the video of H1, H3, H5 and H6 comes by Reno, that of H2 and
H8 by DCTCP which halves on a loss (RFC 8257).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from studies.rig.beside_simulated import Result, beside_simulated, flaws, through
from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w004 import ch3_streaming
from studies.works.w004.ch3_streaming import CAUTION, LEVELS, SAMPLES
from weir.lab import parse
from weir.lab.scenario import Queue
from weir.runs.point import Json, Point


@dataclass(frozen=True, slots=True)
class Experiment:
    """Whose video through which queue among how many long flows of each control."""

    aqm: str
    queue: Queue
    player: str
    flows: Mapping[str, int]


def _of(name: str, player: str, flows: Mapping[str, int]) -> Experiment:
    """The simulated row's experiment with the kernel's senders for its video and its flows."""
    simulated = ch3_streaming.EXPERIMENTS[name]
    return Experiment(simulated.aqm, simulated.queue, player, flows)


_RENO = {"reno": 10}
EXPERIMENTS = {
    "H1": _of("H1", "reno", _RENO),
    "H2": _of("H2", "dctcp", {"dctcp": 10}),
    "H3": _of("H3", "reno", _RENO),
    "H5": _of("H5", "reno", _RENO),
    "H6": _of("H6", "reno", _RENO),
    "H8": _of("H8", "dctcp", {"dctcp": 5, "reno": 5}),
}
"""The experiments of 004-spec section 8.2 whose senders the kernel has, or has the like of."""
STATED = {"H1": 1427, "H2": 2056, "H3": 1427, "H5": 1427, "H6": 1427, "H8": 2056}
"""The level that is on for longest (004-spec section 14.2), in kbit/s."""
_SAME_CAUSE = ("H1", "H3", "H5")
"""Where it follows from a fair share and the queue, not from how the work's player decides."""
_SCENARIO = """
[lab]
seed = {seed}
[hosts]
dctcp = {{ congestion = "dctcp" }}
reno = {{ congestion = "reno" }}
client = {{}}
[routers.router]
[[link]]
ends = ["dctcp", "router"]
[[link]]
ends = ["reno", "router"]
[[link]]
name = "line"
ends = ["router", "client"]
rate = "20 Mbit/s"
delay = "10 ms"
[[traffic]]
name = "player"
kind = "video"
from = "{player}"
to = "client"
samples = {samples}
caution = {caution}
of_both = true
start = "{player_ms} ms"
stop = "{seconds} s"
"""
_FLOWS = """
[[traffic]]
name = "{control}-flows"
kind = "iperf3"
from = "{control}"
to = "client"
streams = {streams}
stop = "{seconds} s"
"""
_AT_ONCE = 3
_SECONDS, _QUICK_SECONDS = 300, 40


def stream(*, seconds: int, seed: int) -> Json:
    """What the player had and what the others had, in each experiment, live and simulated.

    Returns:
        By experiment, and then `live` and `simulated`: for which share of the time the player had
        each level, and how often it stalled.
    """
    scenarios = {}
    for name, experiment in EXPERIMENTS.items():
        text = _SCENARIO.format(
            player=experiment.player,
            samples=SAMPLES,
            caution=CAUTION,
            player_ms=200 * seed,
            seconds=seconds,
            seed=seed,
        )
        for control, streams in experiment.flows.items():
            text += _FLOWS.format(control=control, streams=streams, seconds=seconds)
        scenarios[name] = through(experiment.queue, parse(text, name))
    return beside_simulated(scenarios, _facts, at_once=_AT_ONCE)


def _facts(result: Result) -> Json:
    flows = {flow["name"]: flow for flow in result.get("traffic") or result["flows"]}
    told = flows["player"]["application"]
    return {
        "levels": [span / max(sum(told["level_ns"]), 1) for span in told["level_ns"]],
        "stalls": told["stalls"],
    }


def _points(quick: bool) -> list[Point]:
    seconds, seeds = (_QUICK_SECONDS, (1,)) if quick else (_SECONDS, (1, 2, 3, 4, 5))
    return [Point(stream, {"seconds": seconds, "seed": seed}) for seed in seeds]


def _quality(shares: Sequence[float]) -> float:
    """The mean level in kbit/s."""
    return sum(share * rate for share, rate in zip(shares, LEVELS, strict=True))


def _judge(results: Sequence[Json]) -> Outcome:
    """The levels of 004-spec section 14.2, of the kernel's players."""
    runs = cast(Sequence[dict[str, Any]], results)

    def shares(name: str, world: str) -> list[float]:
        of_runs = [run[name][world]["levels"] for run in runs]
        return [mean(share) for share in zip(*of_runs, strict=True)]

    def modal(name: str, world: str) -> int:
        found = shares(name, world)
        return LEVELS[found.index(max(found))]

    said = [
        f"{name} ({experiment.aqm}, {experiment.player}) {modal(name, 'live')}, in the mean "
        f"{_quality(shares(name, 'live')):.0f} (simulated {modal(name, 'simulated')}, "
        f"{_quality(shares(name, 'simulated')):.0f})"
        for name, experiment in EXPERIMENTS.items()
    ]
    right = {name: modal(name, "live") == level for name, level in STATED.items()}
    verdict = Verdict.DIFFERS
    if all(right[name] for name in _SAME_CAUSE):
        verdict = Verdict.MATCHES if all(right.values()) else Verdict.TREND_HOLDS
    ours = f"the level that is on for longest, kbit/s: {'; '.join(said)}"
    interval = "; ".join(
        f"{name}: {words([_quality(run[name]['live']['levels']) for run in runs], '.0f')} kbit/s"
        for name in EXPERIMENTS
    )
    reason = "; ".join(["no kernel has the work's CTCP or Windows' DCTCP", *flaws(runs)])
    return Outcome(ours, verdict, reason, interval)


ROWS = [
    Row(
        "004-own-3.6-live",
        "Figures 3.6 to 3.22 with the kernel's own Reno and DCTCP, in the lab and simulated",
        "levels in kbit/s: H1 1427, H2 2056, H3 1427, H5 1427 and 2056, H6 1427 and 991, H8 2056",
        _points,
        _judge,
        live=1,
    )
]
