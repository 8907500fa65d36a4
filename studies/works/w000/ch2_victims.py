"""Work 000, section 2.5: a manager that has switches mark, and what a victim has of it.

The work quotes an experiment with DCMS: a flow that did not use a congested port fell from 8 to
2.67 Gbit/s, and came back to 8 once the switch marked more. The network is that of its figure 2.1,
in which the link that both share carries twice what a host sends: only then does fairness leave the
victim its 8 Gbit/s. Time is in five phases: the victim alone, congestion, the manager's first look
and a phase after it, the rest of what the others send, the victim alone.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from studies.works.row import Outcome, Row, Verdict
from weir import Bytes, Rate, Time
from weir.chart import charts
from weir.lab.scenario import Credits, Direction, Link, Node, Queue, Scenario
from weir.runs.point import Json, Point
from weir.sim.core import simulated
from weir.sim.traffic import UdpRates, between

HOST_BPS = 8_000_000_000
PHASE_NS, LOOK_NS = 20_000_000, 500_000
_PAYLOAD, _MTU = 2020, 2048
_VICTIM = "bystander"
_ENDS = (
    ("r", "s"), ("reader", "r"), (_VICTIM, "r"), ("writer1", "s"), ("writer2", "s"),
    ("s", "disk"), ("s", "peer"),
)  # fmt: skip
_WRITERS = ("reader", "writer1", "writer2")


def scenario(
    shared_bps: int,
    phases: int,
    busy: tuple[int, int],
    medium: Credits | None,
    host_bps: int = HOST_BPS,
    seed: int = 1,
) -> Scenario:
    """Figure 2.1 of the work: three hosts send to one port, one of them beside the victim.

    Args:
        shared_bps: what the link carries that the victim shares with one of the three.
        phases: how many of 20 ms the victim sends.
        busy: in which the three do, from the first to before the second.
        medium: of every link; None for queues that drop what they have no room for.
        host_bps: what a host sends, and its link carries.
        seed: of the scenario.
    """
    nodes = [Node(name) for name in (*_WRITERS, _VICTIM, "disk", "peer")]
    nodes += [Node(name, forwards=True) for name in ("r", "s")]
    links = []
    for ends in _ENDS:
        rate = Rate.from_bit_per_s(shared_bps if ends == ("r", "s") else host_bps)
        way = Direction(rate=rate, delay=Time.from_ns(100), queue=Queue("fifo", Bytes("64 KiB")))
        links.append(Link("-".join(ends), ends, way, way, _MTU, medium))
    burst = [(busy[0] * PHASE_NS, host_bps), (busy[1] * PHASE_NS, 0)]
    pairs = {(_VICTIM, "peer"): [(0, host_bps)]} | {(one, "disk"): burst for one in _WRITERS}
    end_ns = phases * PHASE_NS
    traffic = [
        between(pair, pair[0], UdpRates(changes, _PAYLOAD), 0, end_ns)
        for pair, changes in pairs.items()
    ]
    return Scenario("victim", seed, tuple(nodes), tuple(links), tuple(traffic))


def fair(shared_bps: float, host_bps: float = HOST_BPS) -> tuple[float, float]:
    """Max-min fair shares of the victim and of the host beside it.

    All three that want the port have a third of it, if the shared link leaves that; the victim has
    the rest of that link, up to its own.
    """
    other = min(host_bps / 3, shared_bps / 2)
    return min(host_bps, shared_bps - other), other


def managed(*, shared_bps: int, host_bps: int, manager_ns: int, marking: int) -> Json:
    """A run: rates look by look, what the shared link waited, packets marked.

    Args:
        shared_bps: of the link that the victim shares.
        host_bps: of every other.
        manager_ns: how often the manager looks; 0 for no manager.
        marking: packets between two that are marked without the manager; -1 for no marks.
    """
    medium = Credits(
        Bytes("64 KiB"),
        marking=None if marking < 0 else marking,
        manager=Time.from_ns(manager_ns) if manager_ns else None,
    )
    made = scenario(shared_bps, 5, (1, 4), medium, host_bps)
    length = Time.from_ns(5 * PHASE_NS)
    result = simulated(made, length, sample=Time.from_ns(LOOK_NS), trace=True)
    lines = [line.split(",") for line in result["traces"]["credits"].splitlines()[1:]]

    def column(link: str, place: int) -> list[int]:
        return [int(one[place]) for one in lines if one[1:3] == [link, "forward"]]

    def rates(link: str) -> list[float]:
        return [(b - a) * 8e9 / LOOK_NS for a, b in itertools.pairwise(column(link, 3))]

    waits = column("r-s", 4)
    return {
        "victim_bps": rates("s-peer"),
        "disk_bps": rates("s-disk"),
        "reader_bps": rates("reader-r"),
        "waited": [(b - a) / LOOK_NS for a, b in itertools.pairwise(waits)],
        "marked": column("s-disk", 8)[-1],
        "marked_elsewhere": sum(int(one[8]) for one in lines[-2 * len(_ENDS) :])
        - column("s-disk", 8)[-1],
    }


_SETTINGS = (
    # The work's; the same where the shared link is no faster; another speed and another look.
    {"shared_bps": 16_000_000_000, "host_bps": HOST_BPS, "manager_ns": PHASE_NS, "marking": -1},
    {"shared_bps": HOST_BPS, "host_bps": HOST_BPS, "manager_ns": PHASE_NS, "marking": -1},
    {"shared_bps": 109_090_909_090, "host_bps": 54_545_454_545, "manager_ns": 5_000_000,
     "marking": -1},
    {"shared_bps": 16_000_000_000, "host_bps": HOST_BPS, "manager_ns": 0, "marking": 0},
    {"shared_bps": 16_000_000_000, "host_bps": HOST_BPS, "manager_ns": 0, "marking": -1},
)  # fmt: skip


def phases(values: Sequence[float]) -> list[float]:
    """The mean of each phase, but for its first quarter."""
    count = len(values) // 5
    edges = range(0, 5 * count, count)
    return [float(np.mean(values[at + count // 4 : at + count])) for at in edges]


def _judge(results: Sequence[Json]) -> Outcome:
    runs = cast(Sequence[dict[str, Any]], results)
    victims = [phases(run["victim_bps"]) for run in runs]
    first, second, third, static, off = victims
    expected = [HOST_BPS, HOST_BPS / 3, HOST_BPS]
    near = all(abs(a / b - 1) < 0.03 for a, b in zip(first[:3], expected, strict=True))
    shares = [fair(one["shared_bps"], one["host_bps"])[0] for one in _SETTINGS]
    used = phases(runs[0]["disk_bps"])[2] / HOST_BPS
    return Outcome(
        f"{first[0] / 1e9:.2f} → {first[1] / 1e9:.2f} → {first[2] / 1e9:.2f} Gbit/s, "
        f"and {first[4] / 1e9:.2f} when the others have ended",
        Verdict.MATCHES if near else Verdict.DIFFERS,
        "max-min fair is 8 only where the shared link carries twice what a host sends; where it "
        f"carries the same, {shares[1] / 1e9:.2f}, and the victim has {second[2] / 1e9:.2f}; "
        f"at FDR, looked at every 5 ms, {third[2] / shares[2]:.2f} of the fair share. "
        f"The port that marks is used {used:.0%} meanwhile. With marks always and no manager "
        f"the victim keeps {static[1] / 1e9:.2f}, with neither it stays at {off[2] / 1e9:.2f}. "
        "How sources slow down was chosen on these two networks at 8 Gbit/s",
    )


def _points(quick: bool) -> list[Point]:
    return [Point(managed, dict(one)) for one in _SETTINGS]


def _draw(results: Sequence[Json], path: Path) -> None:
    run = cast(dict[str, Any], results[0])

    def curve(name: str, key: str) -> charts.Series:
        values = run[key]
        return charts.Series(
            name, [((n + 1) * LOOK_NS / 1e6, one / 1e9, 0.0) for n, one in enumerate(values)]
        )

    drawn = [curve("victim", "victim_bps"), curve("congested port", "disk_bps")]
    drawn.append(curve("host beside the victim", "reader_bps"))
    charts.lines(path, "A manager that has a switch mark", "ms", "Gbit/s", drawn)


ROWS = [
    Row(
        "000-sec-2.5",
        "A victim of congestion, and a manager of marking (DCMS)",
        "8 Gbit/s fall to 2.67 and return to 8 once the switch marks more",
        _points,
        _judge,
        _draw,
    ),
]
