"""The provider's controller of work 000 over a lab's switches (000-spec sections 3.3.2 and 3.6.2).

The switch at which an elephant enters marks it, and its path is the one that the provider decides
on: the very code of the studies (`crates/schedule/src/headroom`), put into force by `weir.control`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from weir import Bytes, Rate, Time
from weir._core import HeadroomProvider
from weir.calendar.agents.enforcer import Allotment, Pair, TrafficClass
from weir.calendar.network import Network
from weir.lab import Scenario, load
from weir.lab.scenario import Direction, Link
from weir.runs.point import Json
from weir.shipped import scenario

FIRST_PORT = 7001
RATE_BPS = 10**9
"""An elephant is held to no rate: this is more than any link has."""
QUEUE = Time("400 ms")
"""A link's queue holds as much at least, all classes together."""


@dataclass(frozen=True)
class Service:
    """A way to treat elephants.

    Attributes:
        name: in words.
        decides: the provider's service; None for elephants that are best effort as all else.
        options: its other options, as docs/headroom.md has them.
    """

    name: str
    decides: str | None
    options: Mapping[str, Json] = field(default_factory=dict)


PLAIN = Service("best effort", None)
STATIC = Service("SH", "static")
DYNAMIC = Service("DH", "dynamic")


@dataclass(frozen=True)
class Elephant:
    """A flow, from a host at its ingress to one at its egress; what it announces may be left out.

    Attributes:
        source: the host that sends.
        target: the host that it sends to.
        port: of the target.
        size_bytes: of the flow.
        limit_bps: what its ends can do.
    """

    source: str
    target: str
    port: int
    size_bytes: int | None = None
    limit_bps: int | None = None


class Provider:
    """The provider's controller: decides on elephants' paths and keeps what it has decided.

    Args:
        service: of the elephants.
        joined: all nodes and links.
        seed: of ties.
    """

    def __init__(self, service: Service, joined: Network, seed: int) -> None:
        self._joined = joined
        between = [
            {"name": x.name, "from": x.source, "to": x.target, "capacity_bps": x.capacity_bps}
            for x in joined.links.values()
            if {x.source, x.target} <= joined.datapaths.keys()
        ]
        document = json.dumps({"nodes": list(joined.datapaths), "links": between})
        options = json.dumps({"service": service.decides or "static", **service.options})
        self._decides = HeadroomProvider(document, options, seed=seed)
        self._defaults = HeadroomProvider(document, json.dumps({"service": "static"}))
        self._setup_s = float(cast(int, service.options.get("setup_ns", 0))) / 1e9
        self._is_plain = service.decides is None
        self.pairs: dict[int, Pair] = {}
        self.allotted: dict[Pair, Allotment] = {}

    def announce(self, number: int, elephant: Elephant) -> list[str]:
        """Decides on an elephant that starts now; the links between switches that it takes."""
        enters = self._leaving(elephant.source)
        leaves = self._entering(elephant.target)
        path = self._decides.start(
            number,
            *self._ends(elephant),
            rate_max=Rate.from_bit_per_s(elephant.limit_bps) if elephant.limit_bps else None,
            size=Bytes.from_count(elephant.size_bytes) if elephant.size_bytes else None,
        )
        if not self._is_plain:
            addresses = self._joined.nodes[elephant.source], self._joined.nodes[elephant.target]
            pair = Pair(str(addresses[0]), str(addresses[1]), elephant.port)
            whole = (enters, *path, leaves)
            self.allotted[pair] = Allotment(RATE_BPS, whole, TrafficClass.ELEPHANT)
            self.pairs[number] = pair
        return path

    def setup_s(self, elephant: Elephant, path: list[str]) -> float:
        """How long an elephant waits for this path to be set up; not at all for the default one."""
        ends = self._ends(elephant)
        default = self._defaults.start(0, *ends)
        self._defaults.end(0)
        return 0.0 if path == default else self._setup_s

    def over(self, number: int) -> None:
        """An elephant has ended."""
        self._decides.end(number)
        pair = self.pairs.pop(number, None)
        if pair is not None:
            del self.allotted[pair]

    def _ends(self, elephant: Elephant) -> tuple[str, str]:
        """The switches at which an elephant enters and leaves."""
        enters, leaves = self._leaving(elephant.source), self._entering(elephant.target)
        return self._joined.links[enters].target, self._joined.links[leaves].source

    def _leaving(self, host: str) -> str:
        return next(x.name for x in self._joined.links.values() if x.source == host)

    def _entering(self, host: str) -> str:
        return next(x.name for x in self._joined.links.values() if x.target == host)


def six_switches(service: Service, queue: Time = QUEUE) -> Scenario:
    """The scenario `headroom` for a service, with nothing sent by itself.

    Plain best effort has no classes, so that all wait in one queue (000-spec section 3.6.1).
    """
    whole = load(scenario("headroom"))
    classes = whole.switching.classes if service.decides else ()
    switching = replace(whole.switching, classes=classes)
    links = tuple(_deeper(link, queue) for link in whole.links)
    return replace(whole, traffic=(), links=links, switching=switching)


def _deeper(link: Link, queue: Time) -> Link:
    """With queues that a machine which is busy for a moment does not fill."""
    return replace(link, forward=_deep(link.forward, queue), backward=_deep(link.backward, queue))


def _deep(way: Direction, queue: Time) -> Direction:
    limit = way.queue.limit if way.queue else None
    if way.queue is None or not isinstance(limit, Time) or limit > Time("1 s"):
        return way
    return replace(way, queue=replace(way.queue, limit=queue))
