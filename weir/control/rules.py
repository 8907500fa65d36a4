"""Which rules every switch should have, for a topology and what pairs are allotted.

A pair's packets are recognised once, at the first switch of its path: there they are metered,
given the code point of their class, and a *label* in place of their Ethernet source address. The
switches behind it look at the label alone. A label stands for one pair on one path: a pair that
moves to another path has another label, and so the rules of both can stand side by side (as in
"Shadow MACs: scalable label-switching for commodity Ethernet", HotSDN 2014, where the label is the
destination). Hosts do not look at the source address of what they receive.

An elephant's packets are recognised in the same way and marked CS1. Unless a path was chosen for
it, they then go as everything else. What answers a pair, its acknowledgements, is no elephant.

Everything else goes by next hops toward its address, ARP and IPv6's neighbor discovery included:
nothing is flooded, so loops need no spanning tree. What is for no known host is dropped.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weir.calendar.agents.enforcer import LOWER_DSCPS, Allotment, Pair, TrafficClass
from weir.calendar.network import Link
from weir.control import messages as m
from weir.control.elephant import Flow
from weir.control.topology import Topology, View

# Tables: what a packet is, and where everything goes that is nothing in particular.
WHAT, WHERE = 0, 1
LLDP_TARGET = "01:80:c2:00:00:0e"
_LLDP, _LABEL, JOINED, JOINED_SYN = 60_000, 50_000, 45_000, 42_000
_LOWER, _PAIR, _UDP, _ANSWER = 40_100, 40_000, 39_000, 38_500
_ELEPHANT, _UNMARK, _FREE, _HELD, _NEXT_HOP, _REST = 38_000, 1_000, 910, 900, 100, 0
# The meter of a host has the number of its port above this; pairs' are below.
_COMMITTED = 190_000
# The meter of what a host begins towards joined servers, likewise (`weir.control.join`).
SYN_METERS = 120_000
# A rule of ours that is no pair's has this cookie; a pair's has its label below it.
COOKIE = 0x5745 << 48
# Those of joined flows have a bit that no label has: there may be very many, which are read apart.
FLOW = m.Cookies(1 << 47, 1 << 47)
NO_FLOW = m.Cookies(0, 1 << 47)
# A meter is there against who ignores its rate: what is paced never meets it. It must let bursts
# of several segments of 64 KiB pass, and a quarter of a second in which a source still has the
# rate that it had before.
METER_PER_RATE = 1.1
BURST_BYTES_MIN = 524_288
BURST_S = 0.25
NOTHING_MARKED: Mapping[Flow, "Course | None"] = {}


@dataclass(frozen=True, slots=True)
class Course:
    """A pair's way through the network: its links, and the label of its packets there."""

    links: tuple[Link, ...]
    label: str

    @property
    def cookie(self) -> int:
        """The cookie of all of its rules."""
        return COOKIE | int(self.label.replace(":", ""), 16)

    @property
    def switches(self) -> list[str]:
        """The switches on the way, first to last."""
        return [link.target for link in self.links[:-1]]


def course(topology: Topology, view: View, pair: Pair, allotment: Allotment) -> Course | None:
    """The way of a pair; None where none is up, or an end is unknown."""
    source, target = topology.host(pair.source), topology.host(pair.destination)
    if source is None or target is None or source == target:
        return None
    links = topology.path(source, target, allotment.path, view)
    if len(links) < 2:
        return None  # Without a switch between them there is nothing to tell.
    return Course(tuple(links), label(pair, [link.name for link in links]))


def label(pair: Pair, path: list[str]) -> str:
    """The label of a pair on a path: 40 bits of its hash in an address of local meaning.

    Whoever computes it has the same one, so nothing need be kept over a restart.
    """
    return _label(f"{pair.source} {pair.destination} {pair.port} {' '.join(path)}")


def flow_label(flow: Flow, path: list[str]) -> str:
    """The label of an elephant on a path."""
    return _label(f"{flow} {' '.join(path)}")


def _label(text: str) -> str:
    digest = hashlib.blake2b(text.encode(), digest_size=5).digest()
    return ":".join(f"{byte:02x}" for byte in (0x02, *digest))


def wanted(
    topology: Topology,
    view: View,
    allotted: Mapping[Pair, Allotment],
    ways: Mapping[Pair, Course],
    meters: Mapping[Pair, int],
    marked: Mapping[Flow, Course | None] = NOTHING_MARKED,
) -> dict[str, m.Tables]:
    """The tables of every switch whose ports are known.

    Args:
        topology: what is joined to what.
        view: what of it is there now.
        allotted: what pairs may send.
        ways: by which way; a pair without one is treated as everybody else.
        meters: a number for every pair, from 1, that is no other's; its meters have two by it.
        marked: elephants with their ways; None: as everybody else.
    """
    rules = {name: _common(topology, view, name) for name in view.ports}
    metered = {name: _committed(topology, view, name) for name in view.ports}
    for host in topology.hosts:
        for name, link in topology.toward(host, view).items():
            port = topology.leaves_by(link, view)
            if name in rules and port is not None:
                for address in topology.addresses(host):
                    rules[name].update(_next_hop(address, port))
    for pair, way in ways.items():
        allotment = allotted[pair]
        first = way.switches[0]
        if first in metered:
            held = meter(allotment.most_bps)
            metered[first] |= dict.fromkeys(meter_numbers(meters[pair]), held)
        for name, enters, leaves in _hops(topology, view, way):
            if name == first:
                rules[name] |= _first(pair, allotment, enters, leaves, meters[pair], way)
            else:
                rules[name] |= _behind(enters, leaves, way)
    for flow, course_of_it in marked.items():
        _mark(topology, view, rules, flow, course_of_it)
    for pair in _answered(topology, ways, marked):
        _answer(topology, view, rules, pair)
    return {name: m.Tables(rules[name], metered[name]) for name in view.ports}


def courses(
    topology: Topology, view: View, allotted: Mapping[Pair, Allotment]
) -> dict[Pair, Course]:
    """The way of every pair that has one."""
    found = {pair: course(topology, view, pair, one) for pair, one in allotted.items()}
    return {pair: way for pair, way in found.items() if way is not None}


def elephant_course(
    topology: Topology, view: View, flow: Flow, path: Sequence[str]
) -> Course | None:
    """The way of an elephant for which a path was chosen; None: as everybody else."""
    source, target = topology.host(flow.source), topology.host(flow.target)
    if not path or source is None or target is None or source == target:
        return None
    links = topology.path(source, target, path, view)
    if len(links) < 2:
        return None
    return Course(tuple(links), flow_label(flow, [link.name for link in links]))


def meter(rate_bps: int, per_rate: float = METER_PER_RATE) -> m.Meter:
    """The meter of who may send at a rate, with so much of it."""
    burst_bits = max(BURST_BYTES_MIN * 8, int(rate_bps * BURST_S))
    return m.Meter(max(1, int(rate_bps * per_rate) // 1000), burst_bits // 1000)


def meter_numbers(number: int) -> tuple[int, int]:
    """The meters of the pair with this number: of its TCP and of its UDP."""
    return 2 * number - 1, 2 * number


def number_of(meter_number: int) -> int:
    """The number of the pair that has this meter."""
    return (meter_number + 1) // 2


def is_pairs(meter_number: int) -> bool:
    """Whether a meter's number is one that a pair can have: no host's, nor of no meter."""
    return 1 <= meter_number < SYN_METERS


def label_of(place: m.Place) -> str | None:
    """The label that a rule goes by, if it is one behind the first switch of a path."""
    return place.match.eth_source if place.priority == _LABEL else None


def is_joined(place: m.Place) -> bool:
    """Whether a rule is of one flow that is joined, which this module knows nothing of."""
    return place.table == WHAT and place.priority == JOINED


def is_pair(place: m.Place) -> bool:
    """Whether a rule is one at the first switch of a path, which gives packets their label."""
    return place.priority in {_PAIR, _LOWER, _ELEPHANT}


def pair_of(place: m.Place) -> Pair | None:
    """The pair that a rule recognises."""
    match = place.match
    if place.priority not in {_PAIR, _LOWER}:
        return None
    if match.source is None or match.target is None or match.port is None:
        return None
    return Pair(match.source, match.target, match.port)


def flow_of(place: m.Place) -> Flow | None:
    """The elephant that a rule recognises, by the addresses in it."""
    match = place.match
    if place.priority != _ELEPHANT or not match.source or not match.target or not match.protocol:
        return None
    ports = match.source_port or 0, match.port or 0
    return Flow(match.source, match.target, match.protocol, *ports)


def goes_first(place: m.Place) -> Pair | Flow | None:
    """Whose packets a rule at the first switch of a path recognises."""
    return pair_of(place) or flow_of(place)


def _common(topology: Topology, view: View, switch: str) -> dict[m.Place, m.Entry]:
    """What every switch does, whoever sends: LLDP to us, no promise without an allotment."""
    lldp = m.Match(eth_target=LLDP_TARGET, eth_type=m.LLDP)
    rules = {
        m.Place(WHAT, _LLDP, lldp): _entry(m.Actions(output=m.TO_CONTROLLER)),
        m.Place(WHAT, _REST, m.Match()): _entry(m.Actions(goto=WHERE)),
        m.Place(WHERE, _REST, m.Match()): _entry(m.Actions()),
    }
    dscp = TrafficClass.PROMISED.dscp
    for host, port in topology.host_ports(switch, view):
        held = host_meter(topology, host, port)
        for kind in (m.IPV4, m.IPV6) if topology.has_ipv6 else (m.IPV4,):
            marked = m.Match(in_port=port, eth_type=kind, dscp=dscp)
            rules[m.Place(WHAT, _UNMARK, marked)] = _entry(m.Actions(held, 0, goto=WHERE))
            if held is not None:
                rules |= _held(port, kind, held)
    return rules


def _held(port: int, kind: int, number: int) -> dict[m.Place, m.Entry]:
    """What a host may send that is neither promised nor an elephant goes by a meter."""
    ip = m.Match(in_port=port, eth_type=kind)
    lower = [replace(ip, dscp=dscp) for dscp in LOWER_DSCPS]
    return {
        m.Place(WHAT, _HELD, ip): _entry(m.Actions(number, goto=WHERE)),
        **{m.Place(WHAT, _FREE, one): _entry(m.Actions(goto=WHERE)) for one in lower},
    }


def host_meter(topology: Topology, host: str, port: int) -> int | None:
    """The meter of what a host sends that is neither promised nor an elephant, if it has one."""
    return _COMMITTED + port if host in topology.committed_bps else None


def _committed(topology: Topology, view: View, switch: str) -> dict[int, m.Meter]:
    """The meters of the hosts at a switch that have a rate."""
    return {
        _COMMITTED + port: meter(topology.committed_bps[host], 1.0)
        for host, port in topology.host_ports(switch, view)
        if host in topology.committed_bps
    }


def kind_of(address: str) -> int:
    """The type of frames with packets of an address."""
    return m.IPV6 if ":" in address else m.IPV4


def _next_hop(address: str, port: int) -> dict[m.Place, m.Entry]:
    """What is for an address, and who asks for it: by ARP, or in IPv6 a packet to a group."""
    asks = m.Match(eth_type=m.ARP, target=address)
    if kind_of(address) == m.IPV6:
        asks = m.Match(
            eth_type=m.IPV6,
            protocol=m.ICMP6,
            icmp_type=m.NEIGHBOR_SOLICITATION,
            target=address,
        )
    entry = _entry(m.Actions(output=port))
    matches = (m.Match(eth_type=kind_of(address), target=address), asks)
    return {m.Place(WHERE, _NEXT_HOP, match): entry for match in matches}


def _hops(topology: Topology, view: View, way: Course) -> list[tuple[str, int, int]]:
    """The switches of a way, last to first, with the ports that it enters and leaves them by."""
    found = []
    for before, link in reversed(list(zip(way.links, way.links[1:], strict=False))):
        enters, leaves = topology.enters_by(before, view), topology.leaves_by(link, view)
        if enters is not None and leaves is not None:
            # One that is not there is left out: what it does is not known.
            found.append((link.source, enters, leaves))
    return found


def _behind(enters: int, leaves: int, way: Course) -> dict[m.Place, m.Entry]:
    """The rule of a way at a switch behind its first."""
    place = m.Place(WHAT, _LABEL, m.Match(in_port=enters, eth_source=way.label))
    return {place: m.Entry(m.Actions(output=leaves), way.cookie)}


def _given(way: Course) -> str | None:
    """The label that the first switch gives: who is first and last at once needs none."""
    return way.label if len(way.links) > 2 else None


def _mark(
    topology: Topology,
    view: View,
    rules: Mapping[str, dict[m.Place, m.Entry]],
    flow: Flow,
    way: Course | None,
) -> None:
    """Adds the rules of an elephant: where its host is joined, and along its way if it has one.

    Hosts that have addresses of both IPs may send it by either: labels look the same to both.
    """
    flows = topology.by_each_ip(flow)
    host = topology.host(flow.source)
    for link in topology.leaving(host) if host else ():
        port = topology.enters_by(link, view)
        if port is not None and link.target in rules:
            actions = m.Actions(dscp=TrafficClass.ELEPHANT.dscp, goto=WHERE)
            rules[link.target] |= {_elephant(x, port): _entry(actions) for x in flows}
    for name, enters, leaves in _hops(topology, view, way) if way else ():
        if way and name == way.switches[0]:
            dscp = TrafficClass.ELEPHANT.dscp
            actions = m.Actions(dscp=dscp, eth_source=_given(way), output=leaves)
            entry = m.Entry(actions, way.cookie)
            rules[name].update({_elephant(x, enters): entry for x in flows})
        elif way:
            rules[name].update(_behind(enters, leaves, way))


def _answered(topology: Topology, pairs: Iterable[Pair], marked: Iterable[Flow]) -> Iterator[Pair]:
    """The pairs whose acknowledgements an elephant would take in, which is of either IP."""
    ends = {(x.source, x.target, x.source_port) for x in marked if x.protocol == m.TCP}
    for pair in pairs if ends else ():
        back = topology.as_told(Flow(pair.destination, pair.source))
        if any((back.source, back.target, port) in ends for port in (pair.port, 0)):
            yield pair


def _answer(
    topology: Topology, view: View, rules: Mapping[str, dict[m.Place, m.Entry]], pair: Pair
) -> None:
    """Adds the rule that lets acknowledgements of a pair go unmarked, as everything else.

    It promises nothing, and whoever sends it has the meter of its host.
    """
    host = topology.host(pair.destination)
    for link in topology.leaving(host) if host else ():
        port = topology.enters_by(link, view)
        if port is not None and link.target in rules:
            match = m.Match(
                in_port=port,
                eth_type=kind_of(pair.source),
                protocol=m.TCP,
                source=pair.destination,
                target=pair.source,
                source_port=pair.port,
            )
            held = host_meter(topology, host, port) if host else None
            actions = m.Actions(held, 0, goto=WHERE)
            rules[link.target][m.Place(WHAT, _ANSWER, match)] = _entry(actions)


def _elephant(flow: Flow, enters: int) -> m.Place:
    match = m.Match(
        in_port=enters,
        eth_type=kind_of(flow.source),
        protocol=flow.protocol,
        source=flow.source,
        target=flow.target,
        port=flow.port or None,
        source_port=flow.source_port or None,
    )
    return m.Place(WHAT, _ELEPHANT, match)


def _first(
    pair: Pair, allotment: Allotment, enters: int, leaves: int, number: int, way: Course
) -> dict[m.Place, m.Entry]:
    """The rules of a pair at the first switch of its way."""

    def match(protocol: int, dscp: int | None = None) -> m.Match:
        return m.Match(
            in_port=enters,
            eth_type=kind_of(pair.source),
            protocol=protocol,
            source=pair.source,
            target=pair.destination,
            port=pair.port,
            dscp=dscp,
        )

    promised, given = allotment.traffic_class.dscp, _given(way)
    tcp, udp = meter_numbers(number)
    lower = m.Actions(None, None, given, leaves)
    marked = m.Actions(tcp, promised, given, leaves)
    # Transfers are TCP. UDP to their port has no promise, and no more of it gets through.
    held = m.Actions(udp, 0, goto=WHERE)
    return {
        # What the source itself sends as less than promised goes the same way, and as such.
        **{
            m.Place(WHAT, _LOWER, match(m.TCP, dscp)): m.Entry(lower, way.cookie)
            for dscp in LOWER_DSCPS
        },
        m.Place(WHAT, _PAIR, match(m.TCP)): m.Entry(marked, way.cookie),
        m.Place(WHAT, _UDP, match(m.UDP)): _entry(held),
    }


def _entry(actions: m.Actions) -> m.Entry:
    return m.Entry(actions, COOKIE)
