"""The rules by which switches lead a flow through its relays, and hand its first packet to us.

At the switches where a client is joined, what it sends to the server goes to the join end instead,
and what that answers comes from the server; at those where the server is joined, what the split end
sends comes from the client, and the server's answers go to the split end (003-spec section 2.5,
rules 2, 3, 9 and 10). Between these, everything takes the way of its addresses.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weir.control import messages as m
from weir.control.join.aggregates import Aggregate
from weir.control.join.segment import End
from weir.control.rules import (
    COOKIE,
    FLOW,
    JOINED,
    JOINED_SYN,
    SYN_METERS,
    WHAT,
    WHERE,
    host_meter,
    kind_of,
)
from weir.control.topology import Topology, View

# A little more than what an address may begin (`sources`), by the longest first packets, 94 bytes
# with IPv6 and all options. What is beyond is dropped by the switch: it comes to the controller by
# one queue for all ports, and who floods would have others' first packets be lost there.
SYN_METER = m.Meter(rate_kbps=160, burst_kbit=320)

Rules = dict[str, dict[m.Place, m.Entry]]


@dataclass(frozen=True, slots=True)
class Course:
    """A flow as switches know it: who means whom, its number, and whence its server is reached."""

    client: End
    server: End
    uid: int
    source_port: int


def steering(topology: Topology, view: View, aggregate: Aggregate, course: Course) -> Rules:
    """The rules of a flow, by switch; those of switches whose ports are not known are missing."""
    client, server = course.client, course.server
    join = End(address_of(topology, aggregate.join.host, client), aggregate.port)
    split = End(address_of(topology, aggregate.split.host, client), course.source_port)
    cookie = COOKIE | FLOW.cookie | course.uid
    rules: Rules = {}

    def add(
        switch: str,
        ends: tuple[End, End],
        becomes: tuple[End | None, End | None],
        port: int | None = None,
        meter: int | None = None,
        mac: str | None = None,
    ) -> None:
        match = m.Match(
            in_port=port,
            eth_type=kind_of(client.address),
            protocol=m.TCP,
            source=ends[0].address,
            target=ends[1].address,
            source_port=ends[0].port,
            port=ends[1].port,
        )
        source, target = becomes
        actions = m.Actions(
            meter=meter,
            dscp=0,  # Nothing of it is promised: a code point that says so is taken off.
            goto=WHERE,
            eth_target=mac,
            source=source.address if source else None,
            target=target.address if target else None,
            source_port=source.port if source else None,
            port=target.port if target else None,
        )
        rules.setdefault(switch, {})[m.Place(WHAT, JOINED, match)] = m.Entry(actions, cookie)

    for host, switch, port in edges(topology, view, client.address):
        meter = host_meter(topology, host, port)
        add(switch, (client, server), (None, join), port, meter, aggregate.join.mac)
        add(switch, (join, client), (server, None))
    for host, switch, port in edges(topology, view, server.address):
        meter = host_meter(topology, host, port)
        add(switch, (split, server), (client, None))
        add(switch, (server, client), (None, split), port, meter, aggregate.split.mac)
    return rules


def beginnings(
    topology: Topology, view: View, aggregates: Sequence[Aggregate]
) -> dict[str, m.Tables]:
    """What every switch does with the first packets of connections to servers, by their meters.

    Those of relays are nobody's first packets, nor are those that come from another switch.
    """
    found: dict[str, m.Tables] = {}
    for switch in view.ports:
        rules: dict[m.Place, m.Entry] = {}
        meters: dict[int, m.Meter] = {}
        for host, port in topology.host_ports(switch, view):
            for place in _begins(topology, host, port, aggregates):
                meters[SYN_METERS + port] = SYN_METER
                actions = m.Actions(meter=SYN_METERS + port, output=m.TO_CONTROLLER)
                rules[place] = m.Entry(actions, COOKIE)
        found[switch] = m.Tables(rules, meters)
    return found


def _begins(
    topology: Topology, host: str, port: int, aggregates: Iterable[Aggregate]
) -> Iterable[m.Place]:
    kinds = {":" in address for address in topology.addresses(host)}
    for aggregate in aggregates:
        if host in (aggregate.join.host, aggregate.split.host):
            continue
        for server in aggregate.servers:
            if (":" in server.address) in kinds and topology.host(server.address) != host:
                match = m.Match(
                    in_port=port,
                    eth_type=kind_of(server.address),
                    protocol=m.TCP,
                    target=server.address,
                    port=server.port,
                    is_syn=True,
                )
                yield m.Place(WHAT, JOINED_SYN, match)


def edges(topology: Topology, view: View, address: str) -> list[tuple[str, str, int]]:
    """The host of an address, with each switch that it is joined to and the port there."""
    host = topology.host(address)
    found = []
    for link in topology.leaving(host) if host else ():
        port = topology.enters_by(link, view)
        if host and port is not None:
            found.append((host, link.target, port))
    return found


def address_of(topology: Topology, host: str, like: End) -> str:
    """The address of a host of the same IP as another."""
    return next(x for x in topology.addresses(host) if (":" in x) == (":" in like.address))
