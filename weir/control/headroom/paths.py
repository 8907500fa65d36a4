"""The way of each elephant through the provider's switches (DH, 000-spec section 3.3.2).

What decides is the code of the studies (`crates/schedule/src/headroom`): it knows how many
elephants are on each link and gives a new one the path that meets fewest. The choice stands until
a link fails or is there again; then all are chosen anew, in the order in which they began.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from weir import Bytes, Rate
from weir._core import HeadroomProvider
from weir.control.elephant import Flow, Told
from weir.control.topology import Topology, View
from weir.errors import BadInput

# How long a path takes to be in place, which the merged service weighs: in labs a tenth of it.
_SETUP_NS = 500_000_000
_SEED = 1
# All of them on networks of ten switches (AMB-6); of forty there are too many to look at.
PATHS_MAX = 1_000
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Service:
    """How paths are chosen; see docs/headroom.md.

    Attributes:
        name: `dynamic`, or `merged` with static headroom.
        measure: what makes a path better: `flows`, `rate` or `weir`.
        hops_more: how many hops longer than the shortest a path may be; None for any.
        paths_max: how many paths there are to choose from, the shortest.
    """

    name: str = "dynamic"
    measure: str = "flows"
    hops_more: int | None = None
    paths_max: int = PATHS_MAX

    def options(self) -> str:
        """The same as the core reads it."""
        options: dict[str, object] = {"service": self.name, "measure": self.measure}
        if self.hops_more is not None:
            options["hop_limit"] = {"hops_more": self.hops_more}
        return json.dumps(options | {"paths_max": self.paths_max, "setup_ns": _SETUP_NS})


class Paths:
    """Which elephants are under way, and by which links.

    Raises `BadInput` for a service that there is not.
    """

    def __init__(self, topology: Topology, service: Service) -> None:
        self._topology = topology
        self._options = service.options()
        self._up: frozenset[str] = frozenset(topology.links)
        self._provider = self._made()
        self._numbers: dict[Flow, int] = {}
        self._chosen: dict[Flow, Path] = {}
        self._last = 0

    def choose(self, marked: Mapping[Flow, Told], view: View) -> dict[Flow, Path]:
        """The links of every elephant, in the order of `marked`; none: as everybody else."""
        up = frozenset(
            x for x, link in self._topology.links.items() if self._topology.is_up(link, view)
        )
        if up != self._up:
            self._up = up
            self._provider, self._numbers, self._chosen = self._made(), {}, {}
        for flow in self._chosen.keys() - marked.keys():
            del self._chosen[flow]
            if flow in self._numbers:
                self._provider.end(self._numbers.pop(flow))
        for flow, told in marked.items():
            if flow not in self._chosen:
                self._chosen[flow] = self._start(flow, told, view)
        return dict(self._chosen)

    def _start(self, flow: Flow, told: Told, view: View) -> Path:
        ends = self._ends(flow)
        if ends is None:
            return ()
        (enters, ingress), (leaves, egress) = ends
        self._last += 1
        rate_max = Rate(f"{told.rate_max_bps} bit/s") if told.rate_max_bps else None
        size = Bytes.from_count(told.size_bytes) if told.size_bytes else None
        try:
            between = self._provider.start(
                self._last, ingress, egress, rate_max=rate_max, size=size
            )
        except BadInput:
            return ()  # No path is up.
        self._numbers[flow] = self._last
        path = (enters, *between, leaves)
        return () if path == self._default(flow, view) else path

    def _ends(self, flow: Flow) -> tuple[tuple[str, str], tuple[str, str]] | None:
        """The links by which a flow enters and leaves, each with its switch; None if it is one."""
        links = [self._topology.links[name] for name in self._topology.links if name in self._up]
        source, target = self._topology.host(flow.source), self._topology.host(flow.target)
        enters = next((x for x in links if x.source == source), None)
        leaves = next((x for x in links if x.target == target), None)
        if enters is None or leaves is None or enters.target == leaves.source:
            return None
        return (enters.name, enters.target), (leaves.name, leaves.source)

    def _default(self, flow: Flow, view: View) -> Path:
        """The path that it takes anyway: then no rules are needed but the mark."""
        source, target = self._topology.host(flow.source), self._topology.host(flow.target)
        if source is None or target is None:
            return ()
        return tuple(link.name for link in self._topology.path(source, target, (), view))

    def _made(self) -> HeadroomProvider:
        switches = self._topology.switches
        between = [
            {"name": x.name, "from": x.source, "to": x.target, "capacity_bps": x.capacity_bps}
            for x in self._topology.links.values()
            if x.name in self._up and x.source in switches and x.target in switches
        ]
        document = json.dumps({"nodes": list(switches), "links": between})
        return HeadroomProvider(document, self._options, seed=_SEED)
