"""Work 001, chapter 4: movers of bulk data beside each other and beside bursts, packet by packet.

A dumbbell of 128 ms with a drop-tail queue of 6 MiB: Overlay-1 of 500 Mbit/s, Overlay-2 of
1 Gbit/s (001-spec sections 2 to 4). GridFTP is so many CUBIC connections, UDT its published rate
control, bursts of UDP are at the rate of the bottleneck (A-5). Beside what the work had stand
BBR v3, Prague and a bottleneck with DualPI2. Seeds move starts within a second.
"""

import csv
import itertools
import random
import re
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from studies.rig import dumbbell
from studies.rig.dumbbell import traffic
from studies.rig.statistics import margin
from weir import Time
from weir.lab.scenario import Queue, Scenario
from weir.numbers import jain
from weir.runs.point import Json, Point
from weir.sim.core import simulated
from weir.sim.traffic import Bulk, Generator, Rpc, SimulatedTraffic, Tcp, Udp, Udt

RTT_NS = 128_000_000
BUFFER_BYTES = 6 * 2**20
RATES = {1: 500_000_000, 2: 1_000_000_000}
"""By overlay."""
QUEUES = {"FIFO": None, "DualPI2": Queue("dual-pi2")}
"""What stands before the bottleneck in place of the drop-tail queue."""
MOVERS: dict[str, Generator] = {
    "iPerf": Bulk(Tcp("cubic"), 1),
    "GridFTP-8": Bulk(Tcp("cubic"), 8),
    "GridFTP-16": Bulk(Tcp("cubic"), 16),
    "UDT": Udt(),
    "BBR": Bulk(Tcp("bbr"), 1),
    "BBR-8": Bulk(Tcp("bbr"), 8),
    "BBR-16": Bulk(Tcp("bbr"), 16),
    "BBR v3": Bulk(Tcp("bbr3"), 1),
    "Prague": Bulk(Tcp("prague"), 1),
}
NFS = Rpc(Tcp(), concurrency=16, request_bytes=200, reply_bytes=2**20)
"""A client that copies: transfers of 1 MiB, so many under way that one alone fills the path."""
BURSTS = {f"UDP({on},{off})": (on, off) for on, off in [(10, 10), (1, 1), (1, 2), (1, 5), (1, 10)]}
"""Seconds at the bottleneck's rate, seconds of silence."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What is beside what, and where.

    Attributes:
        overlay: of `RATES`.
        queue: of `QUEUES`.
        foreground: of `MOVERS`; several, joined by " + ", are streams of equal standing.
        background: of `MOVERS`; one of them with seconds on and off for a square wave, such as
            "iPerf 10/10"; of `BURSTS`; "NFS(n)" with n clients; "RBUDP" or "none".
        lead_s: how long the foreground has the network for itself; negative if it comes later.
    """

    overlay: int
    queue: str
    foreground: str
    background: str
    lead_s: int = -5


def compete(
    overlay: int,
    queue: str,
    foreground: str,
    background: str,
    lead_s: int,
    skip_s: int,
    seconds: int,
    seed: int,
) -> Json:
    """What each side gets.

    Args:
        overlay: see `Cell`, as the next four.
        queue: of the bottleneck.
        foreground: in front.
        background: beside it.
        lead_s: of the foreground.
        skip_s: seconds at the beginning that are not measured.
        seconds: how long all takes.
        seed: of the run.

    Returns:
        `foreground` and `background`: Mbit/s of each traffic, while it ran and was measured;
        `series`: Mbit/s of the first connection of the foreground, second by second.
    """
    late = random.Random(f"starts {seed}")
    front = [
        traffic(f"foreground {number}", MOVERS[mover], max(0, -lead_s) + late.random())
        for number, mover in enumerate(foreground.split(" + "))
    ]
    start_s = max(0, lead_s) + late.random()
    back = list(_background(background, RATES[overlay], start_s, seconds))
    answer = simulated(
        scenario(overlay, queue, [*front, *back], seed),
        Time(f"{seconds} s"),
        warmup=Time(f"{skip_s} s"),
        sample=Time("1 s"),
        trace=True,
    )
    rates = [flow["goodput_bps"] / 1e6 for flow in answer["flows"]]
    return {
        "foreground": rates[: len(front)],
        "background": rates[len(front) :],
        "series": _series(answer["traces"]["connections"]),
    }


def _series(connections: str) -> list[float]:
    delivered = [
        int(look["delivered_bytes"])
        for look in csv.DictReader(connections.splitlines())
        if look["traffic"] == "foreground 0" and look["stream"] == "0"
    ]
    return [(now - before) * 8 / 1e6 for before, now in itertools.pairwise(delivered)]


def _background(
    name: str, rate_bps: int, start_s: float, seconds: int
) -> Iterator[SimulatedTraffic]:
    """The traffic of a background of 001-spec section 3.2."""
    if name == "none":
        return
    if name in MOVERS:
        yield traffic("background", MOVERS[name], start_s)
        return
    if (wave := re.fullmatch(r"(.+) (\d+)/(\d+)", name)) is not None:
        mover, on_s, off_s = MOVERS[wave[1]], int(wave[2]), int(wave[3])
        # Every burst is a connection of its own.
        for number in itertools.count():
            begin_s = start_s + (on_s + off_s) * number
            if begin_s >= seconds:
                return
            yield traffic(f"background {number}", mover, begin_s, begin_s + on_s)
    if (clients := re.fullmatch(r"NFS\((\d+)\)", name)) is not None:
        for number in range(int(clients[1])):
            yield traffic(f"background {number}", NFS, start_s + number / 10)
        return
    # A burst of RBUDP is 1 GB, which takes the longer the slower the bottleneck.
    burst_s, gap_s = BURSTS.get(name, (8e9 / rate_bps, 10))
    bursts = Udp(rate_bps, 1472, on_ns=round(burst_s * 1e9), off_ns=gap_s * 10**9)
    yield traffic("background", bursts, start_s)


def scenario(overlay: int, queue: str, flows: Sequence[SimulatedTraffic], seed: int) -> Scenario:
    """The dumbbell of an overlay behind such a queue."""
    line = dumbbell.line(RATES[overlay], RTT_NS, BUFFER_BYTES)
    return dumbbell.dumbbell(line, flows, seed, queue=QUEUES[queue])


@dataclass(frozen=True, slots=True)
class Size:
    """How long cells run and how often."""

    seconds: int
    seeds: Sequence[int]
    skip_s: int = 0


def points(cells: Mapping[Cell, Size]) -> list[Point]:
    """The runs of all cells, those of one cell next to each other."""
    return [
        Point(
            compete,
            {
                "overlay": cell.overlay,
                "queue": cell.queue,
                "foreground": cell.foreground,
                "background": cell.background,
                "lead_s": cell.lead_s,
                "skip_s": size.skip_s,
                "seconds": size.seconds,
                "seed": seed,
            },
        )
        for cell, size in cells.items()
        for seed in size.seeds
    ]


@dataclass(frozen=True, slots=True)
class Found:
    """What the runs of a cell gave; rates in Mbit/s, each a mean over the seeds.

    Attributes:
        foreground: all of the foreground together.
        streams: each mover of it.
        background: all of the background together, while it was on.
        jain: Jain's index of foreground and background, in the mean.
        spread: half the 95 % interval of that, 0 for one run.
        series: the first connection of the foreground, second by second.
    """

    foreground: float
    streams: Sequence[float]
    background: float
    jain: float
    spread: float
    series: Sequence[float]


def found(cells: Collection[Cell], results: Sequence[Json]) -> dict[Cell, Found]:
    """The results of `points`, cell by cell."""
    runs = len(results) // len(cells)
    answer = {}
    for number, cell in enumerate(cells):
        mine = cast(list[dict[str, list[float]]], results[number * runs : (number + 1) * runs])
        indices = [jain([sum(run["foreground"]), _mean(run["background"])]) for run in mine]
        answer[cell] = Found(
            statistics.mean(sum(run["foreground"]) for run in mine),
            _means(run["foreground"] for run in mine),
            statistics.mean(_mean(run["background"]) for run in mine),
            statistics.mean(indices),
            margin(indices),
            _means(run["series"] for run in mine),
        )
    return answer


def _means(runs: Iterable[Sequence[float]]) -> list[float]:
    """The means over the runs; those may differ by a last value."""
    return [statistics.mean(values) for values in zip(*runs, strict=False)]


def _mean(rates: Sequence[float]) -> float:
    """The mean rate of a background's bursts, or of its one traffic; 0 without a background."""
    return statistics.mean(rates) if rates else 0.0
