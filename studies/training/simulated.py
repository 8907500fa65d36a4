"""What a prober would see beside background traffic, from the packet simulator.

The path has one bottleneck; the hosts' own links are faster and left out. Active probing sends
bursts along the same path at the same time; each is a connection of its own, as with the work's
iperf3, and ends with its segment: what is still unsent is not drained (001-spec 8.5).

`rtt_series` is the work's prober on the work's path from chapter 5 on: 500 Mbit/s, 65 ms, a
drop-tail queue of 6 MiB; each second ten echo requests leave a millisecond apart, and a sample is
the mean of their round-trip times (001-spec 5.3). The simulator's hosts answer in no time. What
real ones add is drawn: an exponential time of 0.1 ms in the mean for each reply.

`seen` is any prober on any path, without what hosts add.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from studies.rig.dumbbell import bulk, dumbbell, line, traffic
from weir import Time
from weir.congestion.classify.classes import CLASSES, SIX_LABELS
from weir.congestion.recordings import NetworkPath, Recording
from weir.lab.scenario import Scenario
from weir.probe.pattern import Pattern
from weir.sim.core import simulated
from weir.sim.traffic import Echo, SimulatedTraffic

WORKS_PATH = NetworkPath(
    rate_bps=500_000_000, rtt_ns=65_000_000, buffer_bytes=6 * 2**20, discipline="fifo"
)
HOST_MS = 0.1

P1 = "C5-B5-C5-S5"
"""The work's probing pattern."""
NO_BURSTS = None
"""The pattern of passive probing."""


@dataclass(frozen=True, slots=True)
class Probing:
    """How a path is asked: `requests` that leave `spacing_ns` apart, `rate_hz` times a second."""

    rate_hz: int
    requests: int = 1
    spacing_ns: int = 1_000_000


WORKS_PROBING = Probing(rate_hz=1, requests=10)


@dataclass(frozen=True, slots=True)
class Span:
    """A background runs for `warmup_s` before it is probed for `seconds`."""

    warmup_s: int
    seconds: int

    @property
    def end_s(self) -> int:
        """When probing ends."""
        return self.warmup_s + self.seconds


def rtt_series(
    label: str, pattern: str | None, warmup_s: int, seconds: int, seed: int
) -> list[float]:
    """Round-trip times in ms, one a second, on the work's path.

    Args:
        label: of the background, which runs all the time.
        pattern: bursts that are repeated while it is probed, from the first sample on.
        warmup_s: how long the background has been there before that.
        seconds: as many samples.
        seed: of when the streams of the background start within the first second, of every random
            choice of their controls, and of the hosts' delays.

    Returns:
        The samples; one without a reply repeats the one before it (A-12), in the beginning the
        empty path's.
    """
    mixture = CLASSES[SIX_LABELS.index(label)]
    late = random.Random(f"starts {label} {seed}")
    background = [
        bulk(f"background {number}", control, late.random())
        for number, control in enumerate(mixture.controls)
    ]
    span = Span(warmup_s, seconds)
    traffic = [*background, *_bursts(pattern, span)]
    on = partial(along, WORKS_PATH, seed=seed)
    (echoes,) = _echoes(traffic, WORKS_PATH, [WORKS_PROBING], span, on)
    return _samples(echoes, random.Random(f"host {label} {seed}"))


def seen(
    label: str,
    background: Sequence[SimulatedTraffic],
    path: NetworkPath,
    probings: Sequence[Probing],
    span: Span,
    seed: int,
) -> list[Recording]:
    """What each of several probers sees at the same time; hosts add nothing.

    Args:
        label: what the background is called.
        background: its traffic, as `studies.rig.dumbbell` makes it.
        path: on which it runs.
        probings: by whom it is asked.
        span: how long it has run before that, and how long it is probed.
        seed: of every random choice in the simulation.

    Raises:
        BadInput: the simulator refuses the path or the traffic.
    """
    return recorded(label, background, path, probings, span, seed, partial(along, path, seed=seed))


def recorded(
    label: str,
    background: Sequence[SimulatedTraffic],
    path: NetworkPath,
    probings: Sequence[Probing],
    span: Span,
    seed: int,
    on: Callable[[Sequence[SimulatedTraffic]], Scenario],
) -> list[Recording]:
    """As `seen`, on a path that may have more than a `NetworkPath` says: `on` puts traffic on it.

    Raises:
        BadInput: as `seen`.
    """
    return [
        Recording(
            label=label,
            source="simulator",
            path=path,
            pattern=NO_BURSTS,
            seed=seed,
            rate_hz=probing.rate_hz,
            requests=probing.requests,
            rtt_ms=np.array([e["rtt_ns"] / 1e6 if e["replies"] else math.nan for e in echoes]),
            lost=np.array([probing.requests - e["replies"] for e in echoes]),
        )
        for probing, echoes in zip(
            probings, _echoes(background, path, probings, span, on), strict=True
        )
    ]


def _bursts(pattern: str | None, span: Span) -> Iterator[SimulatedTraffic]:
    """The pattern's connections, again and again."""
    if pattern is None:
        return
    for turn in Pattern.parse(pattern).turns(span.seconds * 10**9):
        if (control := turn.segment.congestion) is not None:
            begin, end = (span.warmup_s + at_ns / 1e9 for at_ns in (turn.begin_ns, turn.end_ns))
            yield bulk(f"burst {turn.number}", control, begin, end)


def _echoes(
    background: Sequence[SimulatedTraffic],
    path: NetworkPath,
    probings: Sequence[Probing],
    span: Span,
    on: Callable[[Sequence[SimulatedTraffic]], Scenario],
) -> list[list[dict[str, Any]]]:
    """The simulator's samples for each prober."""
    probes = [
        traffic(
            # The work's one prober keeps its name, by which the simulator seeds.
            "probe" if number == 0 else f"probe {number}",
            Echo(10**9 // probing.rate_hz, probing.requests, probing.spacing_ns),
            span.warmup_s,
            span.end_s,
        )
        for number, probing in enumerate(probings)
    ]
    # Time in which the last replies come, through a full queue.
    full_s = (path.rtt_ns / 1e9) + 2 * path.buffer_bytes * 8 / path.rate_bps
    asked = on([*background, *probes])
    end = Time(f"{span.end_s + math.ceil(full_s)} s")
    flows = simulated(asked, end, sample=Time("1 s"))["flows"]
    return [flow["echoes"] for flow in flows[-len(probes) :]]


def along(path: NetworkPath, traffic: Sequence[SimulatedTraffic], seed: int) -> Scenario:
    """Traffic along a path."""
    bottleneck = line(path.rate_bps, path.rtt_ns, path.buffer_bytes, path.discipline)
    return dumbbell(bottleneck, traffic, seed)


def _samples(echoes: Sequence[dict[str, Any]], host: random.Random) -> list[float]:
    series, last = [], WORKS_PATH.rtt_ns / 1e6
    for sample in echoes:
        if replies := sample["replies"]:
            # The mean of so many exponential times.
            delay = host.gammavariate(replies, HOST_MS / replies)
            last = round(sample["rtt_ns"] / 1e6 + delay, 3)
        series.append(last)
    return series
