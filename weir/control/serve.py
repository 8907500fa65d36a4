"""The running controller: switches on one side, the calendar on the other."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.calendar.agents.assignments import AssignmentStream
from weir.calendar.agents.edge import EdgeAgent
from weir.calendar.network import Network
from weir.control.bookings import Bookings
from weir.control.core import Core
from weir.control.enforcer import SwitchEnforcer
from weir.control.headroom import listener
from weir.control.headroom.book import Book
from weir.control.headroom.detector import THRESHOLD, Detector, Threshold
from weir.control.headroom.marker import Marker
from weir.control.headroom.paths import Paths, Service
from weir.control.join.aggregates import load_aggregates
from weir.control.join.core import Joining
from weir.control.join.relays import Relays
from weir.control.join.steering import beginnings
from weir.control.listening import Identity
from weir.control.openflow import Switches
from weir.control.topology import Topology
from weir.errors import WeirError

# How often it is looked at what switches have counted of elephants.
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Headroom:
    """What becomes of elephants.

    Attributes:
        samples: where switches send what they sample, by sFlow; None where nobody looks.
        threshold: from when on a flow in these samples is an elephant.
        service: how their paths are chosen; None: they go as everything else.
    """

    samples: str | None = None
    threshold: Threshold = THRESHOLD
    service: Service | None = None


async def serve(
    network: Network,
    listen: str,
    calendar: AssignmentStream | None,
    tell: Callable[[str], None],
    identity: Identity | None = None,
    headroom: Headroom = Headroom(),
    aggregates: Path | None = None,
) -> None:
    """Keeps the switches of a network at what a calendar allots, until cancelled.

    When it ends, switches go on by the rules that they have.

    Args:
        network: its switches, hosts and links.
        listen: where switches connect, `HOST:PORT`, `ssl:HOST:PORT` or `unix:PATH`.
        calendar: the stream of all assignments; without one nobody is promised anything.
        tell: is given what operators should know, a line at a time.
        identity: with `ssl:`, the controller's certificate and the switches' authority.
        headroom: what becomes of elephants.
        aggregates: a file of servers whose clients are joined; without one nobody is.

    Raises:
        BadInput: the network has no switches, nobody can listen there, there is TLS without
            certificates, or the calendar turns the controller away.
    """
    core, relays = _cores(network, aggregates)
    agents: list[EdgeAgent] = []

    def on_news() -> None:
        for agent in agents:
            agent.report()

    switches = Switches(core, tell, on_news, relays)
    server = await switches.listen(listen, identity)
    tell(f"listening for {len(core.topology.switches)} switches at {_where(server, listen)}")
    bookings = Bookings()
    marker = _marker(core, tell, headroom)

    def says(assignments: Iterable[dict[str, Any]]) -> dict[str, Any]:
        kept = bookings.reports(assignments, core.kept())
        return {"edge": True, "kept": kept, "elephants": marker.reports()}

    # What is told and found is sent with the next tick: a plan for thousands takes its time.
    def sampled(datagram: bytes, sender: str) -> None:
        marker.sampled(datagram, sender, time.monotonic())

    sampling = None
    try:
        if headroom.samples is not None:
            sampling = await listener.listen(headroom.samples, sampled)
        async with asyncio.TaskGroup() as group:
            group.create_task(switches.run())
            group.create_task(_look_forever(marker))
            if calendar is None:
                core.allot({})
            else:
                enforcer = SwitchEnforcer(core, switches.pump)
                agent = EdgeAgent(calendar, enforcer, stays=True, says=says, hears=marker.hear)
                agents.append(agent)
                group.create_task(agent.run())
    except* WeirError as errors:
        raise errors.exceptions[0] from None
    finally:
        if sampling is not None:
            sampling.close()
        server.close()
        await switches.close()


def _cores(network: Network, aggregates: Path | None) -> tuple[Core, Relays | None]:
    """What decides about switches, and if there is a file of them about joined flows."""
    if aggregates is None:
        return Core(network), None
    topology = Topology(network)
    joined = load_aggregates(aggregates, topology)
    core = Core(network, lambda view: beginnings(topology, view, joined))
    return core, Relays(Joining(topology, joined, random.randint))


def _marker(core: Core, tell: Callable[[str], None], headroom: Headroom) -> Marker:
    paths = Paths(core.topology, headroom.service) if headroom.service else None
    if headroom.samples is None:
        return Marker(core, Book(), tell, paths=paths)
    book = Book(headroom.threshold.rate_bps)
    return Marker(core, book, tell, Detector(headroom.threshold), paths)


async def _look_forever(marker: Marker) -> None:
    while True:
        await asyncio.sleep(LOOK_S)
        marker.look()


def _where(server: asyncio.Server, listen: str) -> str:
    """The address, with the port that was chosen where none was asked for."""
    name = server.sockets[0].getsockname()
    if not isinstance(name, tuple):
        return listen
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"{'ssl:' if listen.startswith('ssl:') else ''}{host}:{name[1]}"
