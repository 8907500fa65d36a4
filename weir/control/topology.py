"""Which switch is joined to what, by which port, and the paths that this leaves.

Every node of a network file that has a datapath id is a switch; every other is a host, and no path
leads through one.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weir.calendar.network import Link, Network
from weir.control.elephant import Flow
from weir.errors import BadInput


@dataclass(frozen=True, slots=True)
class View:
    """What is there at the moment.

    Attributes:
        ports: of every switch that has told them, those that are up, as numbers by name.
        cut: links known not to carry anything, whatever their ports say.
    """

    ports: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cut: frozenset[str] = frozenset()


class Topology:
    """The network of one file; what is up comes with every question, as a `View`."""

    def __init__(self, network: Network) -> None:
        """Raises `BadInput` for a network that has no switches, or a host without an address."""
        self.switches = dict(network.datapaths)
        if not self.switches:
            raise BadInput("no node has a datapath id, so there is no switch to control")
        self.hosts: dict[str, str] = {}
        for name, address in network.nodes.items():
            if name in self.switches:
                continue
            if address is None:
                raise BadInput(f"nodes.{name}: a host behind switches needs its address")
            self.hosts[name] = address
        self.addresses6 = dict(network.addresses6)
        self.links = dict(network.links)
        self.committed_bps = dict(network.committed_bps)
        self.certificates = dict(network.certificates)
        self._out: dict[str, list[Link]] = {name: [] for name in network.nodes}
        for link in self.links.values():
            self._out[link.source].append(link)
        every = (*self.hosts.items(), *self.addresses6.items())
        self._by_address: dict[str, str] = {}
        for name, address in every:
            other = self._by_address.setdefault(address, name)
            if other != name:
                raise BadInput(f"nodes.{name}: the address {address} is another host's")
        self.has_ipv6 = any(":" in address for _, address in every)
        self._by_datapath = {number: name for name, number in self.switches.items()}

    def switch(self, datapath: int) -> str | None:
        """The name of a switch by its datapath id."""
        return self._by_datapath.get(datapath)

    def host(self, address: str) -> str | None:
        """The name of a host by one of its addresses."""
        return self._by_address.get(address)

    def addresses(self, host: str) -> list[str]:
        """The addresses of a host, first the one that stands for it."""
        sixth = self.addresses6.get(host)
        return [self.hosts[host], *([sixth] if sixth else [])]

    def as_told(self, flow: Flow) -> Flow:
        """A flow between two hosts by the addresses that stand for them."""
        if not self.addresses6:
            return flow
        source, target = self.host(flow.source), self.host(flow.target)
        if source is None or target is None:
            return flow
        return replace(flow, source=self.hosts[source], target=self.hosts[target])

    def by_each_ip(self, flow: Flow) -> list[Flow]:
        """A flow between two hosts by every IP of which both have an address."""
        source, target = self.host(flow.source), self.host(flow.target)
        if not self.has_ipv6 or source is None or target is None:
            return [flow]
        sources, targets = (
            {":" in address: address for address in self.addresses(host)}
            for host in (source, target)
        )
        return [
            replace(flow, source=sources[is_ipv6], target=targets[is_ipv6])
            for is_ipv6 in (False, True)
            if is_ipv6 in sources and is_ipv6 in targets
        ]

    def ports(self, switch: str) -> dict[str, list[str]]:
        """The ports of a switch that links name, with those links."""
        named: dict[str, list[str]] = {}
        for link in self.links.values():
            for node, port in ((link.source, link.source_port), (link.target, link.target_port)):
                if node == switch:
                    named.setdefault(port, []).append(link.name)
        return named

    def leaves_by(self, link: Link, view: View) -> int | None:
        """The port of the switch that a link leaves by; None if it is a host's, or not there."""
        return view.ports.get(link.source, {}).get(link.source_port)

    def enters_by(self, link: Link, view: View) -> int | None:
        """The port of the switch that a link enters by; None if it is a host's, or not there."""
        return view.ports.get(link.target, {}).get(link.target_port)

    def is_up(self, link: Link, view: View) -> bool:
        """Whether a link can carry packets: its switches have its ports, and they are up.

        A switch that has not told its ports is believed to have them all.
        """
        if link.name in view.cut:
            return False
        ends = ((link.source, link.source_port), (link.target, link.target_port))
        return all(node not in view.ports or port in view.ports[node] for node, port in ends)

    def path(self, source: str, target: str, asked: Sequence[str], view: View) -> list[Link]:
        """The links from a host to another: those asked for if they will do, else the fewest.

        Empty if there are none.
        """
        links = [self.links[name] for name in asked if name in self.links]
        if len(links) == len(asked) and self._will_do(links, source, target, view):
            return links
        path, at = [], source
        nearer = self.toward(target, view)
        while at != target:
            link = nearer.get(at)
            if link is None:
                return []
            path.append(link)
            at = link.target
        return path

    def toward(self, target: str, view: View) -> dict[str, Link]:
        """The link by which every node is nearest to `target`; ties by the links' order."""
        into: dict[str, list[Link]] = {}
        for link in self.links.values():
            if self.is_up(link, view):
                into.setdefault(link.target, []).append(link)
        found: dict[str, Link] = {}
        ahead = deque([target])
        while ahead:
            for link in into.get(ahead.popleft(), ()):
                if link.source != target and link.source not in found:
                    found[link.source] = link
                    if link.source in self.switches:  # hosts pass nothing on
                        ahead.append(link.source)
        return found

    def _will_do(self, links: list[Link], source: str, target: str, view: View) -> bool:
        if not links or links[0].source != source or links[-1].target != target:
            return False
        between = [link.target for link in links[:-1]]
        return (
            between == [link.source for link in links[1:]]
            and all(node in self.switches for node in between)
            and len(set(between)) == len(between)
            and all(self.is_up(link, view) for link in links)
        )

    def leaving(self, node: str) -> Sequence[Link]:
        """The links that begin at a node."""
        return self._out[node]

    def host_ports(self, switch: str, view: View) -> Iterable[tuple[str, int]]:
        """The hosts at a switch, each with the port that leads to it."""
        for link in self._out[switch]:
            port = self.leaves_by(link, view)
            if link.target in self.hosts and port is not None:
                yield link.target, port

    def cables(self, view: View) -> Iterable[tuple[Link, int]]:
        """Every link between switches with the port that it leaves by, where that is up."""
        for link in self.links.values():
            port = self.leaves_by(link, view)
            if port is not None and link.target in self.switches:
                yield link, port
