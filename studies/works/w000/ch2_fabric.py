"""Work 000, chapter 2, on a fabric of its kind that is simulated packet by packet.

The cluster is the work's in small (`plan.SMALL`): three tiers, disks and visualisation beside it.
What its hosts send is what the work names: exchanges in step, checkpoints that all write to the
disks at once, copies from disk to disk, pictures. How long, how often and how fast the text does
not say: `CHOSEN` was made up, `drawn` has other numbers at random. Time runs a hundred times as
fast: an interval is 1 ms long and a round 100 ms, links and buffers are the work's. Every port is
asked in rounds as the work's collector asks one, so that nothing is left to the draw.
"""

import dataclasses
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from weir import Rate, Time
from weir.lab.scenario import Traffic
from weir.observe.infiniband import collect, plan, roles, simulated, statistics
from weir.observe.infiniband.asking import Answer, Names, Port, ports_of
from weir.observe.infiniband.dump import Fabric, Node
from weir.runs.point import Json
from weir.sim.traffic import UdpRates, between

SUBSYSTEMS = ("Glade", "DAV")
INTERVAL_NS, QUERIES = 1_000_000, 100
TOOK_NS = (150_000, 250_000)
"""What an answer takes, to the interval as the work's 18 to 25 ms to its 100."""
_WARM_UP_NS = 2_000_000
_LOOKS_NS = 100_000

LINE_BPS = 54_500_000_000
_SHIFTS = (1, 3, 4, 5, 8, 11)
"""Whom a host exchanges with, one after the other: that many hosts further on."""


@dataclass(frozen=True)
class Numbers:
    """What the text leaves open; as they stand, chosen after results were seen.

    Times are means, in ns of the simulated time, rates in bit/s.

    Attributes:
        host_bps: what a host takes: a bus of PCI Express 3.0 with eight lanes.
        disk_bps: what a disk's host takes.
        drawer_bps: what a host of the visualisation takes.
        part_ns: how long a host sends to one partner of an exchange.
        gap_ns: from one exchange to the next.
        busy_ns: a job's phase with exchanges.
        idle_ns: and that without.
        checkpoint_ns: how long a checkpoint is written.
        checkpoint_every_ns: from one to the next.
        checkpoint_bps: by each host.
        copy_ns: how long a copy takes.
        copy_every_ns: from one to the next, of each pair of disks.
        copy_bps: its rate.
        picture_ns: how long data go to a host that draws.
        picture_every_ns: from one time to the next.
        picture_bps: their rate; pictures go back at half of it.
    """

    host_bps: int = 50_000_000_000
    disk_bps: int = 20_000_000_000
    drawer_bps: int = 30_000_000_000
    part_ns: int = 40_000
    gap_ns: int = 500_000
    busy_ns: int = 12_000_000
    idle_ns: int = 4_000_000
    checkpoint_ns: int = 4_000_000
    checkpoint_every_ns: int = 400_000_000
    checkpoint_bps: int = 8_000_000_000
    copy_ns: int = 8_000_000
    copy_every_ns: int = 25_000_000
    copy_bps: int = 18_000_000_000
    picture_ns: int = 1_000_000
    picture_every_ns: int = 4_000_000
    picture_bps: int = 25_000_000_000


CHOSEN = Numbers()
RANGES: Mapping[str, tuple[float, float]] = {
    # A host's bus of its time, as fast as the link or a quarter slower; disks and what draws may be
    # as slow as a link of 10 Gbit/s.
    "host_bps": (40e9, 54e9),
    "disk_bps": (10e9, 50e9),
    "drawer_bps": (10e9, 50e9),
    # 34 to 680 kB to a partner; from a hundred exchanges in an interval of 100 ms, as the climate
    # code of 000-spec 2.7 may have them, to less than one.
    "part_ns": (5e3, 1e5),
    "gap_ns": (2e4, 2e6),
    # A round is 100 ms here: phases of 0.1 to 4 s for the work's 10 s.
    "busy_ns": (1e6, 4e7),
    "idle_ns": (1e6, 4e7),
    # One in some rounds, or several in each; together as much as disks take, or many times that.
    "checkpoint_ns": (1e6, 16e6),
    "checkpoint_every_ns": (5e7, 8e8),
    "checkpoint_bps": (1e9, 20e9),
    "copy_ns": (2e6, 30e6),
    "copy_every_ns": (1e7, 1e8),
    "copy_bps": (5e9, 40e9),
    "picture_ns": (3e5, 5e6),
    "picture_every_ns": (1e6, 2e7),
    "picture_bps": (5e9, 50e9),
}
"""Between which `drawn` draws, evenly on a logarithmic scale: fixed before any result of it."""


def drawn(number: int) -> Numbers:
    """The numbers of a mix that nobody has chosen."""
    draw = random.Random(f"mix {number}")
    return Numbers(
        **{
            name: round(math.exp(draw.uniform(math.log(least), math.log(most))))
            for name, (least, most) in RANGES.items()
        }
    )


def drain(device: Node, numbers: Numbers = CHOSEN) -> Rate:
    """How fast a host takes what comes."""
    kind = device.name.partition("-")[0]
    known = {"node": numbers.host_bps, "nsd": numbers.disk_bps}
    return Rate.from_bit_per_s(known.get(kind, numbers.drawer_bps))


class Mix:
    """What the hosts send, as instants and rates between pairs of them.

    Args:
        fabric: whose hosts.
        length_ns: for how long.
        seed: of the draws.
        load: of exchanges: how many times as many as otherwise.
        jobs: which of the two that share the nodes run.
        numbers: how long, how often and how fast.
    """

    def __init__(
        self,
        fabric: Fabric,
        length_ns: int,
        seed: int,
        load: float = 1.0,
        jobs: Sequence[int] = (0, 1),
        numbers: Numbers = CHOSEN,
    ) -> None:
        names = [node.name for node in fabric.values() if node.kind != "switch"]
        self._nodes = [one for one in names if one.startswith("node-")]
        self._disks = [one for one in names if one.startswith("nsd-")]
        self._drawers = [one for one in names if one.startswith("dav-")]
        self._length, self._load, self._seed = length_ns, load, seed
        self._jobs, self._numbers = jobs, numbers
        self._random = random.Random(seed)
        self._bursts: dict[tuple[str, str], list[tuple[int, int, int]]] = {}

    def traffic(self) -> list[Traffic]:
        """All of it."""
        self._exchanges()
        self._checkpoints()
        self._copies()
        self._pictures()
        return list(self._sources())

    def _add(self, source: str, to: str, begin: int, length: int, rate: int) -> None:
        self._bursts.setdefault((source, to), []).append((begin, begin + length, rate))

    def _exchanges(self) -> None:
        """Two jobs, each of half the hosts of every switch, exchange while in that phase."""
        part_ns = self._numbers.part_ns
        for job in (self._nodes[number::2] for number in self._jobs):
            now = 0
            while now < self._length:
                end = now + self._drawn(self._numbers.busy_ns)
                while now < min(end, self._length):
                    for number, shift in enumerate(_SHIFTS):
                        for index, source in enumerate(job):
                            to = job[(index + shift) % len(job)]
                            if to != source:
                                begin = now + number * part_ns
                                self._add(source, to, begin, part_ns, LINE_BPS)
                    now += len(_SHIFTS) * part_ns + self._drawn(self._numbers.gap_ns / self._load)
                now = end + self._drawn(self._numbers.idle_ns)

    def _checkpoints(self) -> None:
        """Every host writes to one disk, all at once, at the same distance each time.

        Runs are parts of one time that follow one another, by their seeds.
        """
        numbers = self._numbers
        first = -self._seed * self._length % numbers.checkpoint_every_ns
        for begin in range(first, self._length, numbers.checkpoint_every_ns):
            for index, source in enumerate(self._nodes):
                if index % 2 not in self._jobs:
                    continue
                disk = self._disks[index % len(self._disks)]
                self._add(source, disk, begin, numbers.checkpoint_ns, numbers.checkpoint_bps)

    def _copies(self) -> None:
        """From a disk of one leaf to one of the other: over the disks' spines."""
        half, numbers = len(self._disks) // 2, self._numbers
        for a, b in zip(self._disks[:half], self._disks[half:], strict=True):
            for begin in self._instants(numbers.copy_every_ns):
                self._add(a, b, begin, self._drawn(numbers.copy_ns), numbers.copy_bps)

    def _pictures(self) -> None:
        """Data from disks to be drawn, and pictures back."""
        numbers = self._numbers
        for index, drawer in enumerate(self._drawers):
            disk = self._disks[index % len(self._disks)]
            for begin in self._instants(numbers.picture_every_ns):
                there = self._drawn(numbers.picture_ns)
                self._add(disk, drawer, begin, there, numbers.picture_bps)
                self._add(drawer, disk, begin + there, there // 2, numbers.picture_bps // 2)

    def _drawn(self, mean_ns: float) -> int:
        return max(1, round(self._random.expovariate(1 / mean_ns)))

    def _instants(self, every_ns: float) -> Iterator[int]:
        now = self._drawn(every_ns)
        while now < self._length:
            yield now
            now += self._drawn(every_ns)

    def _sources(self) -> Iterator[Traffic]:
        """A source a pair; where bursts meet, its rate is the greater of both."""
        for (source, to), bursts in self._bursts.items():
            changes: list[tuple[int, int]] = []
            edges = sorted({at for begin, end, _ in bursts for at in (begin, end)})
            bursts.sort()
            first = 0
            for at in edges:
                while first < len(bursts) and bursts[first][1] <= at:
                    first += 1
                now = [rate for begin, end, rate in bursts[first : first + 8] if begin <= at < end]
                rate = max(now, default=0)
                if not changes or changes[-1][1] != rate:
                    changes.append((at, rate))
            generator = UdpRates(changes, simulated.PAYLOAD)
            yield between((source, to), f"{source}>{to}", generator, 0, self._length)


@dataclass
class Truth:
    """What the simulator knows of all ports of switches together, in ns.

    Attributes:
        waited: with data and without credits.
        explained: the part in which an output beyond was congested.
        congested: with more than half of an input buffer waiting.
        seen: the part in which a port that leads there waited.
    """

    waited: float = 0.0
    explained: float = 0.0
    congested: float = 0.0
    seen: float = 0.0


@dataclass
class Measured:
    """One run, asked by the collector.

    Attributes:
        tallies: by kind of switch and direction.
        truth: beside them.
        examples: of two rounds what figure 2.4 shows: instants in ns, counters.
        lost_error: the largest difference of what a port's counters say that it lost and the truth,
            as a share of the latter, of ports that waited a thousandth of the time.
    """

    tallies: Mapping[tuple[str, str], statistics.Tally]
    truth: Truth = field(default_factory=Truth)
    examples: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    lost_error: float = math.nan


def measure(
    rounds: int,
    seed: int,
    queries: int = QUERIES,
    shape: plan.Shape = plan.SMALL,
    numbers: Numbers = CHOSEN,
) -> Measured:
    """Simulates so many rounds, and asks every port that is up in each."""
    fabric = plan.cluster(shape)
    length = _WARM_UP_NS + rounds * _round_ns(queries) + INTERVAL_NS
    traffic = Mix(fabric, length, seed, numbers=numbers).traffic()
    made = simulated.scenario(fabric, traffic, lambda host: drain(host, numbers), seed)
    run = simulated.run(fabric, made, Time.from_ns(length), Time.from_ns(_LOOKS_NS))
    names = Names(fabric, roles.classified(fabric, SUBSYSTEMS))
    ports = [port for port in ports_of(fabric) if port.is_up]
    asked = list(_asked(run, ports, names, rounds, seed, queries))
    return Measured(
        statistics.tallied(asked),
        _truth(run),
        _examples(asked),
        _lost_error(run, ports),
    )


def _round_ns(queries: int) -> int:
    """How long a round takes, its reset included."""
    return queries * (INTERVAL_NS + sum(TOOK_NS) // 2) + TOOK_NS[1]


def _asked(
    run: simulated.Run, ports: Sequence[Port], names: Names, rounds: int, seed: int, queries: int
) -> Iterator[Any]:
    how = collect.Rounds(queries, INTERVAL_NS / 1e9, 1e-9)
    for number in range(rounds):
        begin = _WARM_UP_NS + number * _round_ns(queries)
        for index, port in enumerate(ports):
            one = seed * 1_000_000 + number * 10_000 + index
            backend = simulated.SimulatedFabric(run, begin, one, TOOK_NS)
            yield from collect.random_rounds(backend, [port], one, how, names)


def _truth(run: simulated.Run) -> Truth:
    truth = Truth()
    for port in run.ports.values():
        truth.waited += float(port.waited[-1])
        truth.explained += float(port.waited_at_congestion[-1])
        truth.congested += float(port.congested[-1])
        truth.seen += float(port.congested_and_seen[-1])
    return truth


def _lost_error(run: simulated.Run, ports: Sequence[Port]) -> float:
    """From two sweeps, at the begin and at the end, against the time that the simulator counted."""
    length = int(run.times_ns[-1])
    backend = simulated.SimulatedFabric(run)
    before = backend.ask(ports)
    backend.sleep(length / 1e9)
    after = backend.ask(ports)
    errors = [0.0]
    for port, one, other in zip(ports, before, after, strict=True):
        waited = float(run.ports[port.lid, port.number].waited[-1])
        if waited > length / 1000:
            told = (other.wait_ticks - one.wait_ticks) * other.tick_ns
            errors.append(abs(told / waited - 1))
    return max(errors)


def _examples(asked: Sequence[Any]) -> dict[str, list[tuple[int, int]]]:
    """A port that waited in few intervals, and the one that did in most."""

    def grew(rows: Any) -> int:
        return int((rows["wait_ticks"][1:] > rows["wait_ticks"][:-1]).sum())

    counts = [grew(rows) for rows in asked]
    most = max(range(len(asked)), key=counts.__getitem__)
    some = (one for one in range(len(asked)) if counts[one] >= 2)
    few = min(some, key=counts.__getitem__, default=most)
    return {
        name: list(
            zip(
                (asked[number]["asked_ns"] - asked[number]["asked_ns"][0]).tolist(),
                asked[number]["wait_ticks"].tolist(),
                strict=True,
            )
        )
        for name, number in (("few", few), ("most", most))
    }


WIDER = dataclasses.replace(plan.SMALL, groups=3, tors=3)
"""More than twice as many hosts: nothing was chosen by it."""


def simulated_rounds(
    *, rounds: int, seed: int, wider: bool = False, mix: int | None = None
) -> Json:
    """A run as a point: by "kind way" what its rounds were; of a mix that is drawn, its number."""
    numbers = CHOSEN if mix is None else drawn(mix)
    found = measure(rounds, seed, shape=WIDER if wider else plan.SMALL, numbers=numbers)
    tallies: dict[str, Json] = {
        f"{kind} {way}": {
            "rounds": tally.rounds,
            "zero": tally.zero,
            "waiting": tally.waiting,
            "whole": tally.whole,
            "maxima": [round(one, 6) for one in tally.maxima],
            "means": [round(one, 6) for one in tally.means],
        }
        for (kind, way), tally in found.tallies.items()
    }
    truth = found.truth
    return {
        "tallies": tallies,
        "truth": [truth.waited, truth.explained, truth.congested, truth.seen],
        "examples": {name: [list(one) for one in line] for name, line in found.examples.items()},
        "lost_error": found.lost_error,
    }


def merged(results: Sequence[Json]) -> dict[tuple[str, str], statistics.Tally]:
    """The tallies of several runs as one."""
    found: dict[tuple[str, str], statistics.Tally] = {}
    for result in cast(Sequence[dict[str, Any]], results):
        for name, facts in result["tallies"].items():
            kind, way = name.split()
            tally = found.setdefault((kind, way), statistics.Tally())
            tally.rounds += facts["rounds"]
            tally.zero += facts["zero"]
            tally.waiting += facts["waiting"]
            tally.whole += facts["whole"]
            tally.maxima += facts["maxima"]
            tally.means += facts["means"]
    return found


class _Silent:
    """A fabric whose counters stand still: only who is asked counts, and when."""

    def __init__(self, took_ns: int) -> None:
        self._now, self._took = 0, took_ns

    def now_ns(self) -> int:
        """Its clock."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Passes time."""
        self._now += round(seconds * 1e9)

    def ask(self, ports: Sequence[Port]) -> list[Answer]:
        """Nothing waited."""
        self._now += self._took * len(ports)
        return [Answer(self._now, self._took, 0, 22.0)] * len(ports)

    def reset(self, port: Port) -> bool:
        """As quick as an answer."""
        self._now += self._took
        return True


def campaign(*, days: int, seed: int) -> Json:
    """Rounds of the work's campaign by "kind way".

    A day has 24 windows, six instances run in each, an answer takes 25 ms. Two queries a round
    stand for a hundred, the pause between them for the rest of the time.
    """
    fabric = plan.cluster()
    names = Names(fabric, roles.classified(fabric, SUBSYSTEMS))
    queries, took_s = collect.QUERIES, 0.025
    pause = (queries * (collect.GAP_S + took_s) - 2 * took_s) / 2
    how = collect.Rounds(2, pause, collect.WINDOW_S)
    counts: Counter[str] = Counter()
    for instance, lids in enumerate(collect.disjoint(range(1, 694))):
        ports = ports_of(fabric, lids)
        for window in range(24 * days):
            draw = (seed * 1000 + window) * 10 + instance
            backend = _Silent(round(took_s * 1e9))
            for rows in collect.random_rounds(backend, ports, draw, how, names):
                counts[f"{rows['kind'][0]} {rows['way'][0]}"] += 1
    return dict(counts)
