"""Switches that do by the book what their tables say: the oracle for what the controller tells."""

from collections import Counter
from dataclasses import dataclass, replace

from weir.calendar.network import parse_network
from weir.control import messages as m

RATE = "100 Mbit/s"


def network(hosts, cables, switches, *, has_ipv6=False):
    """A network of hosts by name (with addresses 10.0.0.1, ...) and cables between two nodes.

    With `has_ipv6` hosts have addresses fd00::1, ..., too.
    """
    nodes = {name: {"address": f"10.0.0.{at}"} for at, name in enumerate(hosts, 1)}
    for at, name in enumerate(hosts if has_ipv6 else (), 1):
        nodes[name]["address6"] = f"fd00::{at}"
    nodes |= {name: {"datapath": f"{at:x}"} for at, name in enumerate(switches, 1)}
    links = [{"name": f"{a}{b}", "ends": [a, b], "capacity": RATE} for a, b in cables]
    return parse_network({"nodes": nodes, "links": links})


def ports(network, switch):
    """The ports of a switch, numbered from 1 in the order of the network's links."""
    names = [link.source_port for link in network.links.values() if link.source == switch]
    return {name: number for number, name in enumerate(dict.fromkeys(names), 1)}


@dataclass(frozen=True)
class Packet:
    """A packet of IPv4 or, by its addresses, IPv6 with what switches look at."""

    source: str
    target: str
    port: int = 0
    protocol: int = m.TCP
    dscp: int = 0
    eth_source: str = "aa:aa:aa:aa:aa:aa"
    source_port: int = 50_000


def step(tables, in_port, packet):
    """Where a switch sends a packet (None: nowhere), how it is then, and the meters it met."""
    table, met, output = 0, [], None
    while table is not None:
        found = [x for x in tables.rules if x.table == table and matches(x.match, in_port, packet)]
        if not found:
            break
        place = max(found, key=lambda x: x.priority)
        actions = tables.rules[place].actions
        if actions.meter is not None:
            assert actions.meter in tables.meters
            met.append(actions.meter)
        if actions.dscp is not None:
            packet = replace(packet, dscp=actions.dscp)
        if actions.eth_source is not None:
            packet = replace(packet, eth_source=actions.eth_source)
        output, table = actions.output, actions.goto
    return output, packet, met


def matches(match, in_port, packet):
    """Whether a rule is for a packet."""
    kind = m.IPV6 if ":" in packet.source else m.IPV4
    if match.eth_target is not None or match.eth_type not in (None, kind) or match.icmp_type:
        return False
    wanted = (match.in_port, match.eth_source, match.source, match.target)
    wanted += (match.port, match.source_port, match.protocol, match.dscp)
    has = (in_port, packet.eth_source, packet.source, packet.target)
    has += (packet.port, packet.source_port, packet.protocol, packet.dscp)
    return all(want is None or want == have for want, have in zip(wanted, has, strict=True))


class Fabric:
    """Switches with their tables, the messages that they have not done yet, and the cables."""

    def __init__(self, network):
        self.network = network
        self.does = {name: m.Tables() for name in network.datapaths}
        self.queues = {name: [] for name in network.datapaths}
        self.told = []
        # Packets that came in, by switch and port; None while switches do not answer.
        self.counts = Counter()
        self.passed = {name: {} for name in network.datapaths}

    def take(self, out):
        """Puts what a core sends into the switches' queues."""
        for name, messages in out.items():
            self.queues[name] += [x for x in messages if not isinstance(x, m.PacketOut)]

    def do_one(self, core, name, now_s):
        """A switch does the next thing that it was told."""
        message = self.queues[name].pop(0)
        match message:
            case m.Barrier():
                core.on_done(name)
            case m.ReadPorts():
                if self.counts is not None:
                    mine = {port: x for (at, port), x in self.counts.items() if at == name}
                    core.on_counted(name, mine)
            case m.Read():
                core.on_read(name, self.does[name], self.passed[name], now_s)
            case change:
                self.told.append((name, change))
                if isinstance(change, m.AddMeter):
                    assert change.number not in self.does[name].meters
                if isinstance(change, m.ChangeMeter):
                    assert change.number in self.does[name].meters
                self.does[name] = m.after(self.does[name], [change])

    def connect(self, core, *names):
        """Switches, or all, connect with all of their ports."""
        for name in names or self.does:
            core.on_connected(name, ports(self.network, name))

    def settle(self, core, now_s, steps=200):
        """Lets everything be done until nothing more is asked for at this time."""
        for _ in range(steps):
            self.take(core.poll(now_s))
            if not any(self.queues.values()):
                return
            for name, queue in self.queues.items():
                while queue:
                    self.do_one(core, name, now_s)
        raise AssertionError("there is always something more to do")

    def hop(self, node, link, packet):
        """The next link of a packet that came to a switch by a link, and the packet then."""
        numbers = ports(self.network, node)
        output, packet, met = step(self.does[node], numbers[link.target_port], packet)
        for onward in self.network.links.values():
            if onward.source == node and numbers[onward.source_port] == output:
                return onward, packet, met
        return None, packet, met

    def trace(self, first, packet):
        """The links that a packet takes from its first one, and how it arrives."""
        link, path = self.network.links[first], [first]
        while link is not None and link.target in self.does and len(path) < 50:
            link, packet, _ = self.hop(link.target, link, packet)
            if link is not None:
                path.append(link.name)
        return path, packet
