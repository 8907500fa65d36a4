"""From a scenario to addresses, device names and routes: decided before anything is created.

Every node but a switch has one address, on its loopback device, and one of IPv6 where the scenario
wants that, so that a host keeps its address
whichever link a packet comes in by. Links are unnumbered point-to-point devices named after the
node they lead to. Routes are those of the packet simulator: the least delay, then the fewest links.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from weir._core import NextHops
from weir.lab.scenario import Link, Scenario

_FIRST_ADDRESS = ipaddress.IPv4Address("10.77.0.1")
_FIRST_ADDRESS6 = ipaddress.IPv6Address("fd77::1")
_DEVICE_MAX = 15  # IFNAMSIZ less the final zero byte
# What every new namespace may have by itself; the latter where tunnels are loaded.
_KERNEL_DEVICES = {"lo", "tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip6tnl0", "ip6gre0"}
_SWITCH_DEVICES = {"ovs-netdev"}  # what Open vSwitch makes beside a bridge's own


@dataclass(frozen=True)
class Port:
    """One end of a link: the device on `node` that leads to `peer`."""

    node: str
    peer: str
    link: str
    device: str


@dataclass(frozen=True)
class Plan:
    """What the supervisor creates.

    Attributes:
        nodes: the names of all, in the order of the scenario.
        addresses: of every node but switches, in that order.
        ports: the two ends of every link, by link name and in the order of the scenario; the
            first is the forward sender.
        routes: between nodes, by their numbers in that order; edges are numbered as ports are.
        addresses6: IPv6 addresses of the same nodes; none where the scenario has no IPv6.
    """

    nodes: Sequence[str]
    addresses: Mapping[str, str]
    ports: Mapping[str, tuple[Port, Port]]
    routes: NextHops
    addresses6: Mapping[str, str] = field(default_factory=dict)

    def way(self, source: str, destination: str) -> list[Port] | None:
        """The ports by which packets leave node after node; None where no path leads there."""
        edges = self.routes.path(self._numbers[source], self._numbers[destination])
        return None if edges is None else [self._senders[edge] for edge in edges]

    @cached_property
    def next_hops(self) -> Mapping[str, Mapping[str, Port]]:
        """For every node, the port to each other node with an address that can be reached."""
        return {
            node: {other: way[0] for other in self.addresses if (way := self.way(node, other))}
            for node in self.nodes
        }

    @cached_property
    def numbered(self) -> Mapping[str, Mapping[int, Port]]:
        """For every node, its ports by number, from 1, in the order of the scenario's links."""
        of: dict[str, dict[int, Port]] = {node: {} for node in self.nodes}
        for port in self._senders:
            of[port.node][len(of[port.node]) + 1] = port
        return of

    def hosts_file(self) -> str:
        """The text of /etc/hosts inside the lab."""
        lines = [f"{address} {name}" for name, address in self.addresses.items()]
        return "\n".join(["127.0.0.1 localhost", *lines, ""])

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(self.nodes)}

    @cached_property
    def _senders(self) -> list[Port]:
        return [port for pair in self.ports.values() for port in pair]


def plan(scenario: Scenario) -> Plan:
    """Decides addresses, device names and routes; the same scenario gives the same plan."""
    addresses = {
        node.name: str(_FIRST_ADDRESS + index)
        for index, node in enumerate(scenario.nodes)
        if not node.switch
    }
    names = [node.name for node in scenario.nodes]
    addresses6 = {
        name: str(_FIRST_ADDRESS6 + names.index(name)) for name in addresses if scenario.ipv6
    }
    return Plan(names, addresses, _ports(scenario), _next_hops(scenario), addresses6)


def bridge(switch: str) -> str:
    """The device by which a switch's own kernel would use its bridge, and the bridge's name."""
    return switch[:_DEVICE_MAX]


def _ports(scenario: Scenario) -> dict[str, tuple[Port, Port]]:
    taken: dict[str, set[str]] = {node.name: set(_KERNEL_DEVICES) for node in scenario.nodes}
    for node in scenario.nodes:
        if node.switch:
            taken[node.name] |= _SWITCH_DEVICES | {bridge(node.name)}

    def port(node: str, peer: str, link: Link) -> Port:
        device, number = peer[:_DEVICE_MAX], 1
        while device in taken[node]:
            number += 1
            suffix = f"-{number}"
            device = peer[: _DEVICE_MAX - len(suffix)] + suffix
        taken[node].add(device)
        return Port(node, peer, link.name, device)

    return {
        link.name: (port(link.ends[0], link.ends[1], link), port(link.ends[1], link.ends[0], link))
        for link in scenario.links
    }


def _next_hops(scenario: Scenario) -> NextHops:
    """The two edges of every link stand in the order of its two ports."""
    numbers = {node.name: number for number, node in enumerate(scenario.nodes)}
    edges = []
    for link in scenario.links:
        near, far = (numbers[end] for end in link.ends)
        edges += [(near, far, link.forward.delay), (far, near, link.backward.delay)]
    return NextHops([node.forwards for node in scenario.nodes], edges)
