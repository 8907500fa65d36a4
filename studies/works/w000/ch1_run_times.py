"""Work 000, figure 1.2: run times of one program on a shared fabric, tied to FITF.

The figure shows how the run time of a climate model varies on an InfiniBand cluster; the work
leaves open how far waiting for credits explains it (000-spec 2.10). Here a program of half the
hosts of each switch computes and exchanges in step, again and again, on the fabric of chapter 2 in
small; the rest of the cluster does what it does there, more or less of it. One simulation gives
both what a run takes and, by the collector, how long ports waited meanwhile.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from studies.works.row import Outcome, Row, Verdict
from studies.works.w000.ch2_fabric import LINE_BPS, SUBSYSTEMS, Mix, drain
from weir import Time
from weir.chart import charts
from weir.format import percent
from weir.lab.scenario import Traffic
from weir.observe.infiniband import collect, plan, report, roles, simulated
from weir.observe.infiniband.asking import Names, ports_of
from weir.observe.infiniband.dump import Fabric
from weir.runs.point import Json, Point
from weir.sim.traffic import UdpRates, between

_SHIFTS = (1, 3, 5)
"""Whom a host exchanges with, one after the other: that many hosts of the program further on."""
_PART_NS, _COMPUTE_NS, _STEP_NS = 60_000, 250_000, 1_000_000
_LOOK_NS = 20_000
_KINDS = {"ToR", "Leaf", "Spine"}
_LOADS = (0.25, 0.5, 1.0, 2.0, 4.0)
_SEEDS = (1, 2, 3, 4)
STEPS = 30


def program(hosts: Sequence[str], steps: int) -> list[Traffic]:
    """What the program sends: in each step to some others in turn, at the speed of the line."""
    sent: list[Traffic] = []
    for index, source in enumerate(hosts):
        for number, shift in enumerate(_SHIFTS):
            to = hosts[(index + shift) % len(hosts)]
            changes = []
            for step in range(steps):
                begin = step * _STEP_NS + number * _PART_NS
                changes += [(begin, LINE_BPS), (begin + _PART_NS, 0)]
            generator = UdpRates(changes, simulated.PAYLOAD)
            sent.append(between((source, to), f"program {source}>{to}", generator))
    return sent


def run_time_ns(times: np.ndarray, taken: Sequence[np.ndarray], steps: int) -> float:
    """What computing and exchanging take together.

    An exchange begins as planned, or when the one before it has ended if that is later; it ends
    when the last host has all of its part. Computing is as long in every step.

    Args:
        times: of the looks, in ns.
        taken: what each host had got by then, in bytes, all of it by the end.
        steps: how many there were.
    """
    total, before = 0.0, 0.0
    for step in range(1, steps + 1):
        # A packet less from each, for steps may differ by so much.
        less = simulated.MTU * len(_SHIFTS)
        shares = [one[-1] * step / steps - less for one in taken]
        ends = [np.interp(share, one, times) for share, one in zip(shares, taken, strict=True)]
        end = float(max(ends))
        total += _COMPUTE_NS + end - max((step - 1) * _STEP_NS, before)
        before = end
    return total


def shared(*, load: float, seed: int, steps: int) -> Json:
    """One run of the program.

    Args:
        load: of the rest of the cluster, 1 for that of chapter 2; 0 for none.
        seed: of what the rest does.
        steps: of the program.
    """
    fabric = plan.cluster(plan.SMALL)
    nodes = [one.name for one in fabric.values() if one.name.startswith("node-")]
    hosts = nodes[::2]
    # Time for the last step to end.
    length = (steps + 4) * _STEP_NS
    traffic = program(hosts, steps)
    if load:
        traffic += Mix(fabric, length, seed, load, jobs=(1,)).traffic()
    made = simulated.scenario(fabric, traffic, drain, seed)
    found = simulated.run(fabric, made, Time.from_ns(length), Time.from_ns(_LOOK_NS))
    taken = [found.taken_bytes[host] for host in hosts]
    return {
        "run_ns": run_time_ns(found.times_ns, taken, steps),
        "fitf": _fitf(fabric, found),
        "unfinished": sum(bool(one[-1] > one[-1 - _STEP_NS // _LOOK_NS]) for one in taken),
    }


def _fitf(fabric: Fabric, found: simulated.Run) -> float:
    """The mean FITF of the ports of compute switches, from a sweep before and one after."""
    names = Names(fabric, roles.classified(fabric, SUBSYSTEMS))
    ports = [port for port in ports_of(fabric) if port.is_up]
    backend = simulated.SimulatedFabric(found)
    whole_s = float(found.times_ns[-1]) / 1e9
    swept = list(collect.sweeps(backend, ports, 2, whole_s, names))
    of = [one.fitf for one in report.waited(swept, ports) if one.kind in _KINDS]
    return float(np.mean(of))


def _judge(results: Sequence[Json]) -> Outcome:
    # Only here: the list of rows is there without what few of them need.
    from scipy import stats

    alone, *others = cast(Sequence[dict[str, Any]], results)
    kept = [one for one in others if not one["unfinished"]]
    slower = np.array([one["run_ns"] / alone["run_ns"] for one in kept])
    fitf = np.array([one["fitf"] for one in kept])
    ranks = stats.spearmanr(fitf, slower).statistic
    # Fitted on every other run, tried on the rest.
    fit = stats.linregress(fitf[::2], slower[::2])
    off = np.abs(fit.intercept + fit.slope * fitf[1::2] - slower[1::2])
    spread = slower.max() / slower.min()
    left_out = f"; {len(others) - len(kept)} not finished" if len(kept) < len(others) else ""
    quartiles = np.percentile(slower, [25, 50, 75])
    return Outcome(
        f"run times {slower.min():.2f} to {slower.max():.2f} of that alone, "
        f"quartiles {', '.join(f'{one:.2f}' for one in quartiles)} ({len(kept)} runs{left_out})",
        Verdict.TREND_HOLDS if spread > 1.1 else Verdict.DIFFERS,
        f"another program, in small, and time a hundredth: how wide is not compared. FITF of the "
        f"compute switches' ports goes with the slowdown: rank correlation {ranks:.2f}; each per "
        f"cent of FITF costs {fit.slope:.1f} % of run time, by every other run, which tells the "
        f"rest to {percent(float(off.mean()))} of a run alone, of which FITF is "
        f"{percent(alone['fitf'])}",
    )


def _points(quick: bool) -> list[Point]:
    seeds, steps = (_SEEDS[:1], 10) if quick else (_SEEDS, STEPS)
    settings = [(0.0, 0)] + [(load, seed) for seed in seeds for load in _LOADS]
    return [Point(shared, {"load": load, "seed": n, "steps": steps}) for load, n in settings]


def _draw(results: Sequence[Json], path: Path) -> None:
    alone, *others = cast(Sequence[dict[str, Any]], results)
    series = []
    for number, load in enumerate(_LOADS):
        places = sorted(
            (100 * one["fitf"], one["run_ns"] / alone["run_ns"], 0.0)
            for one in others[number :: len(_LOADS)]
        )
        series.append(charts.Series(f"load {load:g}", places))
    charts.lines(path, "Run time and FITF", "mean FITF, %", "run time over that alone", series)


ROWS = [
    Row(
        "000-fig-1.2",
        "Run times of a program that exchanges in step, on a shared fabric",
        "run times of an Earth system model spread widely (values are in the figure only)",
        _points,
        _judge,
        _draw,
    ),
]
