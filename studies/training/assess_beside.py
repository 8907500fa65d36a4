"""How well others are heard beside a stream of our own, on simulated paths.

Beside our stream another runs, which after a minute is one of another control (what is to be
heard, how late is it?), stays, or gets a second one of its kind for company (nothing is to be
heard). `weir ops assess-beside` prints the table: runs of each case on each path, with different
seeds; with `--begin` what is chosen for a stream that begins beside streams of CUBIC alone, on
paths most of which are unlike those that were learned; with `--several` whether BBR is heard beside
several streams of ours.
"""

import math
import statistics
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from studies.rig.dumbbell import bulk, traffic
from studies.training.host_noise import through_hosts
from studies.training.interaction import CONTROLS
from studies.training.simulated import along
from weir import Time
from weir.congestion.choice import Choice, Wanted, choose
from weir.congestion.choice.decide import Recognised
from weir.congestion.cycle.learning import Learning
from weir.congestion.cycle.monitor import Ear, Listener
from weir.congestion.cycle.sender import LOOK_S
from weir.congestion.recordings import NetworkPath
from weir.probe.sample import Sample
from weir.sim.core import simulated
from weir.sim.traffic import Echo

PATHS = (
    "100 Mbit/s, 30 ms, 1 BDP",
    "100 Mbit/s, 30 ms, 2 BDP",
    "50 Mbit/s, 25 ms, 1 BDP",
    "150 Mbit/s, 80 ms, 1.5 BDP",
    "500 Mbit/s, 65 ms, 6 MiB",
)
BEGIN_PATHS = (
    "100 Mbit/s, 30 ms, 1 BDP",
    "100 Mbit/s, 4 ms, 2 BDP",
    "50 Mbit/s, 2 ms, 4 BDP",
    "100 Mbit/s, 30 ms, 10 BDP",
)
CUBICS = (1, 16, 40)
OURS = (1, 2, 4, 8)
BESIDE_OURS = ((), ("cubic",), ("cubic",) * 4, ("bbr",), ("bbr", "cubic"), ("bbr", "bbr"))
"""Who is there beside so many of ours."""
_ASKED_S = 26
TURN_S = 60
_OTHER = dict(zip(CONTROLS, reversed(CONTROLS), strict=True))
_APART_S = 0.01  # one stream of ours begins so long after the other
_EPISODE_S = 5.0  # what is said again within it is the same


@dataclass(frozen=True, slots=True)
class Streams:
    """Who sends when: our streams from 2 s on, others beside them.

    Attributes:
        own: the congestion control of our streams.
        others: of each other stream, with its first and last second.
        ours: how many are ours.
    """

    own: str
    others: Sequence[tuple[str, int, int]]
    ours: int = 1

    @property
    def seconds(self) -> int:
        """Until the last of the others has ended."""
        return max((end for _, _, end in self.others), default=2 + _ASKED_S)


def turned(own: str) -> Streams:
    """The other is like ours first, then unlike it."""
    return Streams(own, [(own, 0, TURN_S), (_OTHER[own], TURN_S, 2 * TURN_S)])


def alike(own: str, *, joined: bool) -> Streams:
    """All are like ours; one, or from the turn on two."""
    second = [(own, TURN_S, 2 * TURN_S)] if joined else []
    return Streams(own, [(own, 0, 2 * TURN_S), *second])


@dataclass(frozen=True, slots=True)
class Run:
    """What our side sees of streams that run.

    Attributes:
        samples: of the prober.
        carried: what our streams' counters tell: a second, and bytes acknowledged by then.
    """

    samples: Sequence[Sample]
    carried: Sequence[tuple[float, int]]


def run(streams: Streams, path: str, rate_hz: int, seed: int) -> Run:
    """What a prober sees of it, and what our streams carry."""
    on = NetworkPath.parse(path)
    names = ["own", *(f"own {number}" for number in range(1, streams.ours))]
    flows = [
        *(bulk(name, streams.own, 2.0 + _APART_S * number) for number, name in enumerate(names)),
        *(
            bulk(str(number), control, begin, end)
            for number, (control, begin, end) in enumerate(streams.others)
        ),
        traffic("probe", Echo(10**9 // rate_hz, 1, 1_000_000), 0, streams.seconds),
    ]
    full_s = on.rtt_ns / 1e9 + 2 * on.buffer_bytes * 8 / on.rate_bps
    end = Time(f"{streams.seconds + math.ceil(full_s)} s")
    found = simulated(along(on, flows, seed), end, sample=Time(f"{LOOK_S} s"), trace=True)
    echoes = found["flows"][-1]["echoes"]
    rtts_ms = np.array([one["rtt_ns"] / 1e6 if one["replies"] else math.nan for one in echoes])
    samples = [
        Sample(number, number * 10**9 // rate_hz, 0, () if np.isnan(rtt) else (round(rtt * 1e6),))
        for number, rtt in enumerate(through_hosts(rtts_ms, on, np.random.default_rng(seed)))
    ]
    rows = (line.split(",") for line in found["traces"]["connections"].splitlines()[1:])
    acked: dict[float, int] = defaultdict(int)
    for row in rows:
        if row[1] in names:
            acked[int(row[0]) / 1e9] += int(row[-1])
    return Run(samples, sorted(acked.items()))


def heard_at_s(ear: Ear, own: str, seen: Run) -> list[float]:
    """When another control would have been taken, if nobody heeds it."""
    listener, carried = Listener(ear, own), deque(seen.carried)
    at_s: list[float] = []
    for number, sample in enumerate(seen.samples):
        now_s = number / ear.rate_hz
        while carried and carried[0][0] <= now_s:
            listener.carries(*carried.popleft())
        if listener.hears(sample) and not (at_s and now_s < at_s[-1] + _EPISODE_S):
            at_s.append(now_s)
    return at_s


def begun(ear: Ear, path: str, cubics: int, seed: int) -> tuple[Recognised, Choice]:
    """Who is heard, and what is chosen, by a CUBIC stream that begins beside so many of CUBIC."""
    beside = Streams("cubic", [("cubic", 0, 16)] * cubics)
    learning, begin = Learning(ear, "cubic"), round(2 * ear.rate_hz)
    seen_then = run(beside, path, round(ear.rate_hz), seed).samples[begin:]
    found = next(filter(None, (learning.hears(one, None) for one in seen_then)))
    return found, choose(found, CONTROLS, "cubic", Wanted())


def begun_table(ear: Ear, runs: int) -> Iterator[str]:
    """Lines of Markdown."""
    yield "| path | streams of CUBIC | BBR is chosen | unknown |"
    yield "|---|---|---|---|"
    for path in BEGIN_PATHS:
        for cubics in CUBICS:
            found = [begun(ear, path, cubics, 1000 + number) for number in range(runs)]
            wrong = sum(choice.control == "bbr" for _, choice in found)
            unknown = sum(not one.known for one, _ in found)
            yield f"| {path} | {cubics} | {wrong} of {runs} | {unknown} |"


def several_table(ear: Ear, runs: int) -> Iterator[str]:
    """Lines of Markdown: whether BBR is there, beside so many streams of ours, of CUBIC."""
    yield "| path | ours | right | unknown | BBR is said and not there |"
    yield "|---|---|---|---|---|"
    for path in PATHS:
        for ours in OURS:
            found = [
                ("bbr" in others, heard)
                for number in range(runs)
                for others in BESIDE_OURS
                if (heard := _asked(ear, path, others, ours, 1000 + number)) is not None
            ]
            right = sum((heard.bbr > 0.5) == has_bbr for has_bbr, heard in found)
            unknown = sum(not heard.known for _, heard in found)
            wrong = sum(heard.known and heard.bbr > 0.5 > has_bbr for has_bbr, heard in found)
            yield f"| {path} | {ours} | {right} of {len(found)} | {unknown} | {wrong} |"


def _asked(ear: Ear, path: str, others: Sequence[str], ours: int, seed: int) -> Recognised | None:
    """What is heard once ours have been there for `_ASKED_S`, and the others for longer."""
    beside = Streams("cubic", [(control, 0, 2 + _ASKED_S) for control in others], ours)
    return ear.beside(run(beside, path, round(ear.rate_hz), seed).samples, "cubic", ours)


def table(ear: Ear, runs: int) -> Iterator[str]:
    """Lines of Markdown."""
    yield (
        "| path | own | heard | after, s: median, worst | mistaken, an hour | when one joins, of |"
    )
    yield "|---|---|---|---|---|---|"
    for path in PATHS:
        for own in CONTROLS:
            yield _line(ear, path, own, runs)


def _line(ear: Ear, path: str, own: str, runs: int) -> str:
    def heard(streams: Streams) -> list[list[float]]:
        return [
            heard_at_s(ear, own, run(streams, path, round(ear.rate_hz), 1000 + number))
            for number in range(runs)
        ]

    turns = heard(turned(own))
    late = [later[0] - TURN_S for at_s in turns if (later := [at for at in at_s if at > TURN_S])]
    steady = heard(alike(own, joined=False))
    joined = heard(alike(own, joined=True))
    hours = runs * 3 * TURN_S / 3600
    mistaken = sum(map(len, steady)) + sum(at < TURN_S for at_s in turns for at in at_s)
    delay = f"{statistics.median(late):.0f}, {max(late):.0f}" if late else ""
    return (
        f"| {path} | {own} | {len(late)} of {runs} | {delay} | {mistaken / hours:.0f} "
        f"| {sum(any(at > TURN_S for at in at_s) for at_s in joined)} of {runs} |"
    )
