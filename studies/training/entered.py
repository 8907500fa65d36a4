"""What becomes of a stream that enters among streams of CUBIC, on simulated paths, step by step.

The simulator takes no orders while it runs, but says the same each time: it runs up to the step
that an entry takes by what its connection has shown, and again with that step. What a prober hears
is left out: that others are like our own is given, which is what it can tell of them.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

from studies.rig.dumbbell import bulk, traffic
from studies.training.simulated import along
from weir import Time
from weir.congestion.cycle.entering import UNDER, Entry
from weir.congestion.recordings import NetworkPath
from weir.lab.scenario import Bernoulli
from weir.numbers import jain
from weir.probe.tcp_info import TcpInfo
from weir.sim.core import simulated
from weir.sim.traffic import Bulk, Tcp

HEARS_S = 6.1
"""So long after its beginning it knows that others are like our own."""
_BEGINS_S = 12  # the others have been there for so long
_LOOK_S = 0.05
_MSS = 1448
_CUBIC = "cubic:cwv=none"  # a mover's socket is never without data
_MOST_S = {"running": 5.0, "holding": 16.0, "settling": 50.0}
_FALLS = 0.72  # a window that falls to so much has lost
_PACE_STEP = 1.1

Step = tuple[float, str, float | None]
"""From when on, under which control, at how many bit/s at most."""


@dataclass(frozen=True, slots=True)
class World:
    """A path with so many streams of CUBIC, beside which ours begins.

    Attributes:
        path: "60 Mbit/s, 35 ms, 1.2 BDP".
        others: streams of CUBIC.
        seed: of when they start.
        loss: of packets, at random.
    """

    path: str
    others: int
    seed: int = 1
    loss: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it.

    Attributes:
        of_fair: our goodput as a multiple of an equal share.
        jain: Jain's index of all streams' goodput.
    """

    of_fair: float
    jain: float


@dataclass(frozen=True, slots=True)
class _Run:
    own: Sequence[tuple[float, int, int, int]]  # second, window, smoothed round trip, delivered
    others: Sequence[Sequence[tuple[float, int]]]  # of each second, delivered


def enters(world: World, seconds: float) -> tuple[Outcome, Entry]:
    """What a stream gets in its first so many seconds that enters."""
    at_s = HEARS_S
    run = _simulated(world, [], at_s)
    entry = Entry(_goodput([(one[0], one[-1]) for one in run.own], at_s - 1, at_s))
    steps: list[Step] = [(at_s, UNDER, None)]
    while entry.phase != "over":
        phase = entry.phase
        run = _simulated(world, steps, steps[-1][0] + _MOST_S[phase])
        at_s = _next_step(entry, run, steps)
        control = UNDER if entry.phase in ("running", "holding") else _CUBIC
        steps.append((at_s, control, entry.pace_bps))
    return _outcome(_simulated(world, steps, seconds), seconds), entry


def stays(world: World, seconds: float) -> Outcome:
    """What it gets under CUBIC throughout."""
    return _outcome(_simulated(world, [], seconds), seconds)


def _next_step(entry: Entry, run: _Run, steps: Sequence[Step]) -> float:
    """When an entry wants something else than by the last step."""
    since_s, _, pace_bps = steps[-1]
    phase, at_s = entry.phase, since_s
    for at_s, connection in _looks(run, since_s, is_bbr=phase != "settling"):
        if entry.sees(at_s, [connection]) != phase:
            return at_s
        if pace_bps and entry.pace_bps and entry.pace_bps > _PACE_STEP * pace_bps:
            return at_s
    raise AssertionError(f"{phase} does not end")


def _looks(run: _Run, since_s: float, *, is_bbr: bool) -> Iterator[tuple[float, TcpInfo]]:
    """The connection as the kernel would tell of it."""
    lost_s: float | None = None
    recent: list[tuple[float, int]] = []
    for at_s, window, srtt_ns, delivered in run.own:
        if at_s <= since_s + _LOOK_S:
            continue
        round_s = srtt_ns / 1e9
        recent = [one for one in recent if one[0] > at_s - 2.5 * round_s] + [(at_s, window)]
        if window <= _FALLS * max(most for _, most in recent):
            lost_s = at_s
        is_starting = is_bbr or lost_s is None
        told = SimpleNamespace(
            srtt_ns=srtt_ns,
            cwnd_packets=window // _MSS,
            threshold_packets=None if is_starting else 0,
            mss_bytes=_MSS,
            delivered_packets=delivered // _MSS,
            starting=is_starting,
            recovering=lost_s is not None and at_s < lost_s + 3 * round_s,
        )
        yield at_s, cast(TcpInfo, told)


def _simulated(world: World, steps: Sequence[Step], seconds: float) -> _Run:
    """Seconds are since our stream begins."""
    path = NetworkPath.parse(world.path)
    draw = random.Random(f"shared {world.seed}")
    turns = [
        (round(at_s * 1e9), control, None if pace_bps is None else round(pace_bps))
        for at_s, control, pace_bps in steps
    ]
    flows = [bulk(str(number), "cubic", draw.uniform(0, 1)) for number in range(world.others)]
    own = traffic("own", Bulk(Tcp(_CUBIC, turns=turns)), _BEGINS_S)
    scenario = along(path, [*flows, own], world.seed)
    if world.loss:
        (link,) = scenario.links
        lossy = replace(link.forward, loss=Bernoulli(world.loss))
        scenario = replace(scenario, links=(replace(link, forward=lossy),))
    end = Time.from_ns(round((_BEGINS_S + seconds) * 1e9))
    found = simulated(scenario, end, sample=Time(f"{_LOOK_S} s"), trace=True)
    return _read(found, world.others)


def _read(found: dict[str, Any], others: int) -> _Run:
    own, rest = [], [[] for _ in range(others)]  # type: ignore[var-annotated]
    for line in found["traces"]["connections"].splitlines()[1:]:
        time_ns, name, _, window, _, srtt_ns, delivered = line.split(",")
        at_s = int(time_ns) / 1e9 - _BEGINS_S
        if name == "own":
            own.append((at_s, int(window), int(srtt_ns), int(delivered)))
        else:
            rest[int(name)].append((at_s, int(delivered)))
    return _Run(own, rest)


def _goodput(delivered: Sequence[tuple[float, int]], begin_s: float, end_s: float) -> float:
    inside = [one for one in delivered if begin_s <= one[0] <= end_s]
    (first_s, first), (last_s, last) = inside[0], inside[-1]
    return 8 * (last - first) / (last_s - first_s)


def _outcome(run: _Run, seconds: float) -> Outcome:
    own = _goodput([(one[0], one[-1]) for one in run.own], 0, seconds)
    all_bps = [own, *(_goodput(one, 0, seconds) for one in run.others)]
    return Outcome(own * len(all_bps) / sum(all_bps), jain(all_bps))
