"""What is to be migrated, as plain data, and its form for the engine."""

import json
from dataclasses import dataclass

from weir import Bytes, Rate, Time
from weir._core import MigrationProblem


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two nodes.

    Attributes:
        name: unique; the engine knows the directions as NAME.forward and NAME.backward.
        ends: forward leads from the first to the second.
        capacity: what migrations may use of it.
        duplex: "full", the capacity each way; "half", both ways share it; "forward", one way only.
    """

    name: str
    ends: tuple[str, str]
    capacity: Rate
    duplex: str = "full"


@dataclass(frozen=True, slots=True)
class Vm:
    """A machine to be migrated.

    Attributes:
        name: unique.
        source: the node it is on.
        destination: the node it is to be on.
        size: its memory.
        cost: degradation per step until it has arrived, for steps 1, 2, …; the last holds for ever.
        growth: memory that must be sent again, per step, in the same form.
        path: the links to take, in order; any shortest path when empty.
        address: the IP from which it is sent; "" where nobody is to carry the plan out.
    """

    name: str
    source: str
    destination: str
    size: Bytes
    cost: tuple[int, ...] = (1,)
    growth: tuple[Bytes, ...] = (Bytes.from_count(0),)
    path: tuple[str, ...] = ()
    address: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Machines, the network, and how time is cut.

    Attributes:
        nodes: hosts and switches.
        links: unique names.
        vms: unique names.
        step: how long a step is.
        horizon: how many steps a plan may have; None for no limit.
    """

    nodes: tuple[str, ...]
    links: tuple[Link, ...]
    vms: tuple[Vm, ...]
    step: Time
    horizon: int | None = None

    def engine(self) -> MigrationProblem:
        """The same problem, checked, with the routes of every machine.

        Raises:
            BadInput: it cannot be right; the message names the item.
        """
        links, pairs = [], []
        for link in self.links:
            names = [f"{link.name}.forward", f"{link.name}.backward"]
            ways = [link.ends, link.ends[::-1]]
            if link.duplex == "forward":
                names, ways = [link.name], ways[:1]
            for name, (source, target) in zip(names, ways, strict=True):
                ends = {"from": source, "to": target, "capacity_bps": link.capacity.bit_per_s}
                links.append({"name": name} | ends)
            if link.duplex == "half":
                pairs.append(names)
        network = {"nodes": self.nodes, "links": links}
        document = {
            "step_ns": self.step.ns,
            "half_duplex": pairs,
            "vms": [self._vm(vm) for vm in self.vms],
        }
        return MigrationProblem(json.dumps(network), json.dumps(document))

    def _vm(self, vm: Vm) -> dict[str, object]:
        return {
            "name": vm.name,
            "source": vm.source,
            "destination": vm.destination,
            "size_bytes": vm.size.count,
            "cost": vm.cost,
            "growth_bytes": [growth.count for growth in vm.growth],
            "path": self._directed(vm),
        }

    def _directed(self, vm: Vm) -> list[str]:
        """The names of the directed links of the machine's path, followed from its source."""
        links = {link.name: link for link in self.links}
        at, names = vm.source, []
        for name in vm.path:
            link = links.get(name)
            if link is None or link.duplex == "forward":
                names.append(name)  # one that is not there is refused by the engine
                at = link.ends[1] if link else at
            else:
                forward = link.ends[0] == at
                names.append(f"{name}.{'forward' if forward else 'backward'}")
                at = link.ends[1] if forward else link.ends[0]
        return names
