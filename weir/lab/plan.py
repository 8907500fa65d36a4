"""From a scenario to addresses, device names and routes: decided before anything is created.

Every node has one address, on its loopback device, so that a host keeps its address whichever
link a packet comes in by. Links are unnumbered point-to-point devices named after the node they
lead to. Routes follow the least delay, then the fewest links.
"""

import heapq
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from weir.lab.scenario import Direction, Link, Scenario

_FIRST_ADDRESS = ipaddress.IPv4Address("10.77.0.1")
_DEVICE_MAX = 15  # IFNAMSIZ less the final zero byte
# What every new namespace may have by itself; the latter where tunnels are loaded.
_KERNEL_DEVICES = {"lo", "tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip6tnl0", "ip6gre0"}


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
        addresses: of every node, in the order of the scenario.
        ports: the two ends of every link, by link name; the first is the forward sender.
        next_hops: for every node, the port to each other node.
    """

    addresses: Mapping[str, str]
    ports: Mapping[str, tuple[Port, Port]]
    next_hops: Mapping[str, Mapping[str, Port]]

    def hosts_file(self) -> str:
        """The text of /etc/hosts inside the lab."""
        lines = [f"{address} {name}" for name, address in self.addresses.items()]
        return "\n".join(["127.0.0.1 localhost", *lines, ""])


def plan(scenario: Scenario) -> Plan:
    """Decides addresses, device names and routes; the same scenario gives the same plan."""
    addresses = {
        node.name: str(_FIRST_ADDRESS + index) for index, node in enumerate(scenario.nodes)
    }
    ports = _ports(scenario)
    return Plan(addresses, ports, _routes(scenario, ports))


def _ports(scenario: Scenario) -> dict[str, tuple[Port, Port]]:
    taken: dict[str, set[str]] = {node.name: set(_KERNEL_DEVICES) for node in scenario.nodes}

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


def _routes(
    scenario: Scenario, ports: Mapping[str, tuple[Port, Port]]
) -> dict[str, dict[str, Port]]:
    leaving: dict[str, list[tuple[Direction, Port]]] = {node.name: [] for node in scenario.nodes}
    for link in scenario.links:
        near, far = ports[link.name]
        leaving[near.node].append((link.forward, near))
        leaving[far.node].append((link.backward, far))
    forwards = {node.name for node in scenario.nodes if node.forwards}
    return {node.name: _shortest(node.name, leaving, forwards) for node in scenario.nodes}


def _shortest(
    start: str, leaving: Mapping[str, list[tuple[Direction, Port]]], forwards: set[str]
) -> dict[str, Port]:
    """Dijkstra from `start`; ties go to the link that stands first in the scenario."""
    first: dict[str, Port] = {}
    done: set[str] = set()
    order = 0
    heap: list[tuple[int, int, int, str, Port | None]] = [(0, 0, order, start, None)]
    while heap:
        delay, hops, _, here, via = heapq.heappop(heap)
        if here in done:
            continue
        done.add(here)
        if via:
            first[here] = via
        if here != start and here not in forwards:
            continue
        for direction, port in leaving[here]:
            order += 1
            beyond = (delay + direction.delay.ns, hops + 1, order, port.peer, via or port)
            heapq.heappush(heap, beyond)
    return first
