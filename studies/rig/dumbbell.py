"""One bottleneck between two hosts in the packet simulator, and traffic along it.

Nothing waits on the links of the hosts, which are faster and left out. `studies.rig.bottleneck` has
the same for labs.
"""

from collections.abc import Sequence
from dataclasses import replace

from weir import Bytes, Rate, Time
from weir.lab.scenario import Direction, Link, Node, Queue, Scenario, Traffic
from weir.sim.traffic import Bulk, Generator, SimulatedTraffic, Tcp, between

_ENDS = ("west", "east")


def dumbbell(
    direction: Direction, traffic: Sequence[Traffic], seed: int, *, queue: Queue | None = None
) -> Scenario:
    """The bottleneck, alike both ways but for a `queue` before its way to the east."""
    forward = replace(direction, queue=queue) if queue else direction
    link = Link("bottleneck", _ENDS, forward, direction)
    nodes = tuple(Node(name) for name in _ENDS)
    return Scenario("dumbbell", seed, nodes, (link,), tuple(traffic))


def line(rate_bps: int, rtt_ns: int, buffer_bytes: int, discipline: str = "fifo") -> Direction:
    """A direction of the bottleneck: half of a round trip behind a queue of so many bytes."""
    return Direction(
        rate=Rate.from_bit_per_s(rate_bps),
        delay=Time.from_ns(rtt_ns // 2),
        queue=Queue(discipline, Bytes.from_count(buffer_bytes)),
    )


def traffic(
    name: str, generator: Generator, start_s: float, stop_s: float | None = None
) -> SimulatedTraffic:
    """Traffic along the bottleneck, to the east."""
    stop_ns = None if stop_s is None else round(stop_s * 1e9)
    return between(_ENDS, name, generator, round(start_s * 1e9), stop_ns)


def bulk(name: str, control: str, start_s: float, stop_s: float | None = None) -> SimulatedTraffic:
    """One greedy stream along the bottleneck."""
    return traffic(name, Bulk(Tcp(control)), start_s, stop_s)
