"""Weir's own fabric: a plan of switches and hosts in the packet simulator, and its counters.

Every cable is a link with credits in both directions; behind each host's adapter, which has a
buffer as a switch's port has, comes the line to its memory, which may be slower than the fabric: a
disk, or a bus. What is found is the time that each port waited, at regular instants, so that the
collector can ask for it as it would ask a real port, and be compared with the truth.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from weir import Bytes, Rate, Time
from weir.lab.scenario import Credits, Direction, Link, Node, Queue, Scenario, Traffic
from weir.observe.infiniband.asking import Answer, Port, tick_ns
from weir.observe.infiniband.dump import FDR, SWITCH, Fabric
from weir.observe.infiniband.dump import Node as Device
from weir.sim.core import simulated

BUFFER = Bytes("64 KiB")
"""What each port has: 32 packets (000-spec 2.2)."""
MTU, PAYLOAD = 2048, 2020
_DELAY = Time.from_ns(100)
_BACKLOG = Bytes("1 GB")
"""What waits in a host that is faster than its line."""
_ADAPTER = "!adapter"

Series = npt.NDArray[np.int64]


def scenario(
    fabric: Fabric,
    traffic: Sequence[Traffic],
    drain: Callable[[Device], Rate] | None = None,
    seed: int = 1,
    medium: Credits | None = None,
) -> Scenario:
    """The fabric as a scenario of the simulator.

    Args:
        fabric: devices have names of their own, hosts one cable each.
        traffic: between hosts, by their names.
        drain: how fast a host takes what comes; None for as fast as its line.
        seed: of the traffic.
        medium: what cables are, with congestion control or not; None for not.
    """
    plain = Credits(BUFFER)
    nodes, links = [], []
    for device in fabric.values():
        if device.kind == SWITCH:
            nodes.append(Node(device.name, forwards=True))
            continue
        nodes += [Node(device.name), Node(device.name + _ADAPTER, forwards=True)]
        rate = Rate.from_bit_per_s(round(FDR.rate_bps))
        taken = drain(device) if drain else rate
        ends = (device.name + _ADAPTER, device.name)
        links.append(_link(device.name + _ADAPTER, ends, taken, rate, plain))
    for device in fabric.values():
        for port, far in device.cables.items():
            other = fabric[far.node]
            if (device.id, port) < (far.node, far.port):
                rate = Rate.from_bit_per_s(round((far.speed or FDR).rate_bps))
                ends = (_end(device), _end(other))
                name = f"{device.name}:{port}"
                links.append(_link(name, ends, rate, rate, medium or plain))
    return Scenario("fabric", seed, tuple(nodes), tuple(links), tuple(traffic))


def _end(device: Device) -> str:
    return device.name if device.kind == SWITCH else device.name + _ADAPTER


def _link(name: str, ends: tuple[str, str], forward: Rate, backward: Rate, medium: Credits) -> Link:
    queue = Queue("fifo", _BACKLOG)
    there = Direction(rate=forward, delay=_DELAY, queue=queue)
    back = Direction(rate=backward, delay=_DELAY, queue=queue)
    return Link(name, ends, there, back, mtu=MTU, medium=medium)


@dataclass(frozen=True, slots=True)
class Counted:
    """What a port had counted at each instant, in ns.

    Attributes:
        sent_bytes: not a time: what has come out at the far end.
        waited: with data and without credits.
        waited_at_congestion: the part in which an output beyond was congested.
        congested: with more than half of an input buffer waiting for it.
        congested_and_seen: the part in which a port that leads here waited.
        marked: not a time: packets that it marked.
    """

    sent_bytes: Series
    waited: Series
    waited_at_congestion: Series
    congested: Series
    congested_and_seen: Series
    marked: Series


@dataclass(frozen=True, slots=True)
class Run:
    """A simulation of a fabric.

    Attributes:
        times_ns: when was looked.
        ports: what each port of a switch had counted by then, by LID and number.
        taken_bytes: what each host had taken by then, by name.
        result: all else, as the simulator tells it.
    """

    times_ns: Series
    ports: Mapping[tuple[int, int], Counted]
    taken_bytes: Mapping[str, Series]
    result: Mapping[str, object] = field(default_factory=dict)


def run(fabric: Fabric, made: Scenario, duration: Time, sample: Time) -> Run:
    """Simulates, and looks at every port each `sample`."""
    result = simulated(made, duration, sample=sample, trace=True, spread=True)
    lines = result.pop("traces")["credits"].splitlines()[1:]
    by_place: dict[tuple[str, str], list[list[int]]] = {}
    times: dict[int, None] = {}
    for line in lines:
        time, link, way, *counts = line.split(",")
        times[int(time)] = None
        by_place.setdefault((link, way), []).append([int(one) for one in counts])
    ports, taken = {}, {}
    for device in fabric.values():
        if device.kind != SWITCH:
            looks = np.array(by_place[device.name + _ADAPTER, "forward"], np.int64)
            taken[device.name] = looks[:, 0]
            continue
        for port, far in device.cables.items():
            other = fabric[far.node]
            is_first = (device.id, port) < (far.node, far.port)
            name = f"{device.name}:{port}" if is_first else f"{other.name}:{far.port}"
            looks = np.array(by_place[name, "forward" if is_first else "backward"], np.int64)
            ports[device.lid, port] = Counted(*looks.T)
    return Run(np.array(list(times), np.int64), ports, taken, result)


class SimulatedFabric:
    """Ports of a run, as the collector asks them; its clock is the run's.

    Args:
        of: the run.
        begin_ns: what its clock says first.
        seed: of how long answers take, and when within that a counter is read.
        took_ns: the least and the most that an answer takes.
    """

    def __init__(
        self, of: Run, begin_ns: int = 0, seed: int = 1, took_ns: tuple[int, int] = (0, 0)
    ) -> None:
        self._run, self._now, self._took = of, begin_ns, took_ns
        self._random = random.Random(seed)
        self._zero: dict[tuple[int, int], float] = {}

    def now_ns(self) -> int:
        """The run's time."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Passes time."""
        self._now += round(seconds * 1e9)

    def ask(self, ports: Sequence[Port]) -> list[Answer]:
        """Asks one after the other."""
        return [self._ask(port) for port in ports]

    def reset(self, port: Port) -> bool:
        """Sets the port's counter to zero; it takes as long as an answer."""
        took = self._random.randint(*self._took)
        read_ns = self._now + self._random.random() * took
        self._zero[port.place] = self._waited_ns(port, read_ns)
        self._now += took
        return True

    def _ask(self, port: Port) -> Answer:
        asked, took = self._now, self._random.randint(*self._took)
        read_ns = asked + self._random.random() * took
        waited = self._waited_ns(port, read_ns) - self._zero.get(port.place, 0.0)
        tick = tick_ns(None, port.speed)
        self._now += took
        return Answer(asked, took, int(waited / tick), tick)

    def _waited_ns(self, port: Port, at_ns: float) -> float:
        """Between two looks it is taken to have waited evenly."""
        series = self._run.ports[port.place].waited
        return float(np.interp(at_ns, self._run.times_ns, series))
