"""Work 001, tables 4.2 and 4.3 and figures 4.1a and 4.5 to 4.7, live: the kernel's CUBIC and BBR.

The dumbbell of `studies.works.w001.ch4_shared_network` in the lab: one CUBIC stream, and ten
seconds later another, sixteen, or one of BBR beside it; two or three of equal standing; or one that
meets a square wave. The same scenarios run in the simulator as well. No kernel has UDT.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any, cast

from studies.rig.beside_simulated import WORLDS, Result, beside_simulated, flaws
from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w001.ch4_shared_network import BUFFER_BYTES, RATES, RTT_NS
from studies.works.w001.ch4_shared_network_rows import LEAD_S, PUBLISHED, called
from weir.lab import parse
from weir.lab.scenario import Scenario
from weir.numbers import jain
from weir.runs.point import Json, Point

MOVERS = {"iPerf": ("cubic", 1), "GridFTP-16": ("cubic", 16), "BBR": ("bbr", 1)}
"""Control and streams."""
MIXES = {
    "2 CUBIC": ("cubic", "cubic"),
    "CUBIC and BBR": ("cubic", "bbr"),
    "2 BBR": ("bbr", "bbr"),
    "3 CUBIC": ("cubic", "cubic", "cubic"),
    "2 CUBIC and BBR": ("cubic", "cubic", "bbr"),
    "CUBIC and 2 BBR": ("cubic", "bbr", "bbr"),
    "3 BBR": ("bbr", "bbr", "bbr"),
}
"""Figure 4.7's cases: the controls of streams of equal standing; the last was there first."""
WAVES = ("cubic", "bbr")
"""Controls of the square waves of figures 4.1a and 4.5."""
_BURST_S, _PERIOD_S = 10, 20
_WAVE_LEAD_S = 5  # of the wave
_BOTTLENECK = f"""
[lab]
seed = {{seed}}
[hosts]
west = {{{{ segmentation_offload = true }}}}
east = {{{{}}}}
[[link]]
name = "bottleneck"
ends = ["west", "east"]
rate = "{{mbit_s}} Mbit/s"
delay = "{RTT_NS // 2_000_000} ms"
queue = {{{{ limit = "{BUFFER_BYTES} B" }}}}
"""
_STREAMS = """
[[traffic]]
name = "{name}"
kind = "iperf3"
from = "west"
to = "east"
congestion = "{congestion}"
streams = {count}
start = "{start_ms} ms"
stop = "{stop_ms} ms"
"""
_AT_ONCE = {1: 2, 2: 1}  # labs that two processors carry at these rates
_SECONDS, _QUICK_SECONDS = 120, 30


@dataclass(frozen=True, slots=True)
class Streams:
    """So many connections of a congestion control, and when."""

    name: str
    congestion: str
    count: int
    start_ms: int
    stop_ms: int


def scenario(overlay: int, seed: int, traffic: Sequence[Streams]) -> Scenario:
    """The dumbbell of an overlay with such traffic."""
    head = _BOTTLENECK.format(seed=seed, mbit_s=RATES[overlay] // 10**6)
    text = head + "".join(_STREAMS.format(**asdict(one)) for one in traffic)
    return parse(text, f"overlay {overlay}")


def compete(*, overlay: int, seconds: int, seed: int) -> Json:
    """What a CUBIC stream and what comes beside it get, by `MOVERS`, live and simulated.

    Args:
        overlay: of `RATES`.
        seconds: that both are there, about.
        seed: moves their starts within a second.

    Returns:
        For each world the Mbit/s of the background and of the foreground, each while it ran.
    """
    late = random.Random(f"starts {seed}")
    front_ms = round(1e3 * late.random())
    back_ms = round(1e3 * (LEAD_S + late.random()))
    front = Streams("foreground", "cubic", 1, front_ms, front_ms + 1000 * (LEAD_S + seconds))
    scenarios = {
        mover: scenario(
            overlay,
            seed,
            [front, Streams("background", congestion, count, back_ms, back_ms + 1000 * seconds)],
        )
        for mover, (congestion, count) in MOVERS.items()
    }
    return beside_simulated(scenarios, _rates, at_once=_AT_ONCE[overlay])


def mix(*, seconds: int, seed: int) -> Json:
    """What each stream of a mixture gets at 500 Mbit/s, by `MIXES`, live and simulated.

    Args:
        seconds: that all are there, about.
        seed: moves their starts within a second.

    Returns:
        For each world the Mbit/s of each stream while it ran.
    """
    late = random.Random(f"mix {seed}")
    scenarios = {}
    for name, controls in MIXES.items():
        *others, first = controls
        starts_ms = [round(1e3 * (LEAD_S + late.random())) for _ in others]
        streams = [
            Streams(f"stream-{number}", control, 1, start_ms, start_ms + 1000 * seconds)
            for number, (control, start_ms) in enumerate(zip(others, starts_ms, strict=True))
        ]
        there = Streams("first", first, 1, 0, 1000 * (LEAD_S + seconds))
        scenarios[name] = scenario(1, seed, [*streams, there])
    return beside_simulated(scenarios, _flow_rates, at_once=_AT_ONCE[1])


def meet_waves(*, seconds: int, seed: int) -> Json:
    """What each of `MOVERS` keeps at 500 Mbit/s beside bursts of one stream, live and simulated.

    Args:
        seconds: that it sends.
        seed: moves the starts within a second.

    Returns:
        For each mover and control of the wave, "CUBIC-16 beside BBR" and the like, and each world:
        the Mbit/s of the bursts, in the mean of those while they were on, and of the mover.
    """
    late = random.Random(f"waves {seed}")
    first_ms = round(1e3 * late.random())
    start_ms = round(1e3 * (_WAVE_LEAD_S + late.random()))
    stop_ms = start_ms + 1000 * seconds
    scenarios = {}
    for mover, (congestion, count) in MOVERS.items():
        front = Streams("foreground", congestion, count, start_ms, stop_ms)
        for control in WAVES:
            # Whole bursts.
            begins_ms = range(first_ms, stop_ms - 1000 * _BURST_S, 1000 * _PERIOD_S)
            bursts = [
                Streams(f"burst-{number}", control, 1, begin_ms, begin_ms + 1000 * _BURST_S)
                for number, begin_ms in enumerate(begins_ms)
            ]
            scenarios[_meeting(mover, control)] = scenario(1, seed, [*bursts, front])
    return beside_simulated(scenarios, _burst_rates, at_once=_AT_ONCE[1])


def _meeting(mover: str, control: str) -> str:
    return f"{called(mover)} beside {control.upper()}"


def _burst_rates(result: Result) -> Json:
    *bursts, front = _flow_rates(result)
    return [mean(bursts), front]


def _flow_rates(result: Result) -> list[float]:
    """Mbit/s of each traffic, in the order of the scenario."""
    return [_mbit_s(flow) for flow in result.get("traffic") or result["flows"]]


def _mbit_s(flow: Mapping[str, Any]) -> float:
    return float(flow.get("received_rate_bps", flow.get("goodput_bps", 0)) / 1e6)


def _rates(result: Result) -> Json:
    flows = {flow["name"]: flow for flow in result.get("traffic") or result["flows"]}
    return [_mbit_s(flows[name]) for name in ("background", "foreground")]


def _points(overlay: int, quick: bool) -> list[Point]:
    seconds, seeds = (_QUICK_SECONDS, (1,)) if quick else (_SECONDS, (1, 2, 3, 4, 5))
    return [
        Point(compete, {"overlay": overlay, "seconds": seconds, "seed": seed}) for seed in seeds
    ]


def _judge(overlay: int, results: Sequence[Json]) -> Outcome:
    """Who is greedy, of the kernel's flows: sixteen streams and BBR are, another stream is not."""
    runs = cast(Sequence[dict[str, dict[str, Any]]], results)
    indices = {
        (mover, world): [jain(run[mover][world]) for run in runs]
        for mover in MOVERS
        for world in WORLDS
    }

    def told(mover: str, world: str) -> str:
        back, front = (mean([run[mover][world][i] for run in runs]) for i in (0, 1))
        return f"{back:.0f}/{front:.0f} ({mean(indices[mover, world]):.2f})"

    said = [
        f"{mover} {told(mover, 'live')}, simulated {told(mover, 'simulated')}" for mover in MOVERS
    ]
    shares = {
        mover: mean([run[mover]["live"][0] / max(1, sum(run[mover]["live"])) for run in runs])
        for mover in MOVERS
    }
    greedy = min(shares["GridFTP-16"], shares["BBR"]) > 0.5 > shares["iPerf"]
    near = all(
        abs(mean(indices[mover, "live"]) - PUBLISHED[overlay][mover][2]) < 0.05
        for mover in ("iPerf", "GridFTP-16")
    )
    verdict = Verdict.TREND_HOLDS if greedy else Verdict.DIFFERS
    seconds = _SECONDS if len(runs) > 1 else _QUICK_SECONDS
    reason = "; ".join(
        [
            f"{seconds} s, in which streams over 128 ms are still on the way to their shares; "
            "UDT is not the kernel's",
            *flaws(runs),
        ]
    )
    return Outcome(
        f"beside one CUBIC stream, in Mbit/s with what that has left and Jain's index: "
        f"{'; '.join(said)}",
        Verdict.MATCHES if greedy and near else verdict,
        reason,
        "; ".join(f"{mover}, Jain's index: {words(indices[mover, 'live'])}" for mover in MOVERS),
    )


def _mix_points(quick: bool) -> list[Point]:
    seconds, seeds = (_QUICK_SECONDS, (1,)) if quick else (_SECONDS, (1, 2, 3, 4, 5))
    return [Point(mix, {"seconds": seconds, "seed": seed}) for seed in seeds]


def _judge_mixes(results: Sequence[Json]) -> Outcome:
    """Whether BBR depresses CUBIC wherever they meet, of the kernel's flows."""
    runs = cast(Sequence[dict[str, dict[str, Any]]], results)
    said, holds = [], True
    for name, controls in MIXES.items():
        worlds = {
            world: [mean([run[name][world][i] for run in runs]) for i in range(len(controls))]
            for world in WORLDS
        }
        told = {world: "/".join(f"{rate:.0f}" for rate in of) for world, of in worlds.items()}
        said.append(f"{name} {told['live']}, simulated {told['simulated']}")
        live = list(zip(controls, worlds["live"], strict=True))
        cubic, bbr = ([rate for control, rate in live if control == c] for c in ("cubic", "bbr"))
        holds &= not (cubic and bbr) or mean(cubic) < mean(bbr)
    seconds = _SECONDS if len(runs) > 1 else _QUICK_SECONDS
    return Outcome(
        f"Mbit/s, in the order of the names, of which the last was there first: {'; '.join(said)}",
        Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
        "; ".join([f"{seconds} s, in which shares over 128 ms are not settled", *flaws(runs)]),
    )


def _wave_points(quick: bool) -> list[Point]:
    seconds, seeds = (_QUICK_SECONDS, (1,)) if quick else (_SECONDS, (1, 2, 3, 4, 5))
    return [Point(meet_waves, {"seconds": seconds, "seed": seed}) for seed in seeds]


def _judge_waves(results: Sequence[Json]) -> Outcome:
    """Whether waves of BBR depress CUBIC, and BBR waves of CUBIC, of the kernel's flows."""
    runs = cast(Sequence[dict[str, dict[str, Any]]], results)

    def rates(mover: str, control: str, world: str) -> tuple[float, float]:
        of = [run[_meeting(mover, control)][world] for run in runs]
        return mean([burst for burst, _ in of]), mean([front for _, front in of])

    said = []
    for mover in MOVERS:
        for control in WAVES:
            told = {
                world: "/".join(f"{rate:.0f}" for rate in reversed(rates(mover, control, world)))
                for world in WORLDS
            }
            meeting = _meeting(mover, control)
            said.append(f"{meeting} {told['live']}, simulated {told['simulated']}")
    live = {meeting: rates(*meeting, "live") for meeting in product(MOVERS, WAVES)}
    bursts = {meeting: burst for meeting, (burst, _) in live.items()}
    front = {meeting: rate for meeting, (_, rate) in live.items()}
    depressed = front["iPerf", "bbr"] < min(front["iPerf", "cubic"], front["BBR", "bbr"])
    depresses = bursts["BBR", "cubic"] < min(bursts["iPerf", "cubic"], bursts["BBR", "bbr"])
    seconds = _SECONDS if len(runs) > 1 else _QUICK_SECONDS
    return Outcome(
        f"in front/of each burst while it was on, Mbit/s: {'; '.join(said)}",
        Verdict.TREND_HOLDS if depressed and depresses else Verdict.DIFFERS,
        "; ".join(
            [f"{seconds} s; neither the wave's rate nor who begins is published", *flaws(runs)]
        ),
    )


def _row(id_: str, title: str, published: str, overlay: int) -> Row:
    return Row(id_, title, published, partial(_points, overlay), partial(_judge, overlay), live=1)


ROWS = [
    _row(
        "001-own-4.2-live",
        "Table 4.2 and figure 4.5 (500 Mbit/s) on the kernel's own CUBIC and BBR, and simulated",
        "iPerf 238/253 Mbit/s, Jain 1; GridFTP-16 415/75.6, 0.68; BBR leaves CUBIC below 10 %",
        1,
    ),
    _row(
        "001-own-4.3-live",
        "Table 4.3 and figure 4.6 (1 Gbit/s) on the kernel's own CUBIC and BBR, and simulated",
        "iPerf 412/485 Mbit/s, Jain 0.99; GridFTP-16 738/109, 0.64; BBR depresses CUBIC",
        2,
    ),
    Row(
        "001-own-4.5-live",
        "Figures 4.1a and 4.5 (square waves) on the kernel's own CUBIC and BBR, and simulated",
        "BBR depresses CUBIC, whichever of them is the wave; GridFTP keeps its rate (bars only)",
        _wave_points,
        _judge_waves,
        live=1,
    ),
    Row(
        "001-own-4.7-live",
        "Figure 4.7 (two and three streams) on the kernel's own CUBIC and BBR, and simulated",
        "BBR depresses CUBIC in all mixtures (bars only)",
        _mix_points,
        _judge_mixes,
        live=1,
    ),
]
