"""Bookings between hosts' IPv6 addresses: the same as those of IPv4, in every switch."""

import asyncio
import contextlib
import re
from dataclasses import replace

import pytest
from control_rig import Fabric, Packet, network, ports
from hypothesis import given, settings
from hypothesis import strategies as st
from ovs_rig import ovs as ovs
from test_control_ovs import AROUND, nothing, run, square
from test_control_update import networks, simple_paths

from weir.calendar.agents.edge import pairs
from weir.calendar.agents.enforcer import Allotment, Pair, TrafficClass
from weir.calendar.network import parse_network
from weir.control import messages as m
from weir.control import rules
from weir.control.bookings import Bookings
from weir.control.core import Core
from weir.control.elephant import TCP, Flow
from weir.control.promises import Kept
from weir.control.topology import Topology, View
from weir.errors import BadInput

CABLES = [("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("s1", "s3"), ("s3", "s2")]
BOTH = network(["h1", "h2"], CABLES, ["s1", "s2", "s3"], has_ipv6=True)
PAIR, PAIR4 = Pair("fd00::1", "fd00::2", 7411), Pair("10.0.0.1", "10.0.0.2", 7411)
ROUND = ("h1s1.forward", "s1s3.forward", "s3s2.forward", "s2h2.forward")
DIRECT = ["h1s1.forward", "s1s2.forward", "s2h2.forward"]
LABEL = rules.label(PAIR, list(ROUND))
COOKIE = f"cookie=0x5745{LABEL.replace(':', '')}"
REST = "cookie=0x5745000000000000"
PACKETS = "in_port=1,tcp6,ipv6_src=fd00::1,ipv6_dst=fd00::2,tp_dst=7411"


def tables(made, allotted):
    """The tables of every switch when all ports are up."""
    topology = Topology(made)
    view = View({x: ports(made, x) for x in made.datapaths})
    ways = rules.courses(topology, view, allotted)
    numbers = {pair: number for number, pair in enumerate(allotted, 1)}
    return rules.wanted(topology, view, allotted, ways, numbers)


def only_ipv6(made):
    """The same network of hosts that have no IPv4."""
    sixth = {name: f"fd00::{one.split('.')[-1]}" for name, one in made.nodes.items() if one}
    return replace(made, nodes=made.nodes | sixth, addresses6={})


def test_a_pair_of_ipv6_has_its_rules_along_the_path_that_is_asked_for():
    found = tables(BOTH, {PAIR: Allotment(100_000_000, ROUND)})
    said = found["s1"].text().splitlines()
    assert [x for x in said if "fd00" in x or "meter" in x or "dl_src" in x] == [
        "meter=1 kbps burst stats bands=type=drop rate=110000 burst_size=25000",
        "meter=2 kbps burst stats bands=type=drop rate=110000 burst_size=25000",
        *(
            f"{COOKIE}, table=0, priority=40100,{PACKETS},ip_dscp={dscp} "
            f"actions=set_field:{LABEL}->eth_src,output:3"
            for dscp in (1, 8)
        ),
        f"{COOKIE}, table=0, priority=40000,{PACKETS} "
        f"actions=meter:1,set_field:10->ip_dscp,set_field:{LABEL}->eth_src,output:3",
        f"{REST}, table=0, priority=39000,{PACKETS.replace('tcp6', 'udp6')} "
        "actions=meter:2,set_field:0->ip_dscp,goto_table:1",
        *(
            f"{REST}, table=1, priority=100,icmp6,icmpv6_type=135,nd_target=fd00::{host} "
            f"actions=output:{port}"
            for host, port in ((1, 1), (2, 2))
        ),
        *(
            f"{REST}, table=1, priority=100,ipv6,ipv6_dst=fd00::{host} actions=output:{port}"
            for host, port in ((1, 1), (2, 2))
        ),
    ]
    for name, port in (("s3", 1), ("s2", 3)):
        labelled = [x for x in found[name].text().splitlines() if "dl_src" in x]
        assert labelled == [
            f"{COOKIE}, table=0, priority=50000,in_port={port},dl_src={LABEL} actions=output:2"
        ]


def test_hosts_without_ipv4_have_tables_of_their_own():
    made = only_ipv6(network(["h1", "h2"], [("h1", "s1"), ("s1", "h2")], ["s1"]))
    assert (
        tables(made, {})["s1"].text()
        == f"""\
{REST}, table=0, priority=60000,dl_dst=01:80:c2:00:00:0e,dl_type=0x88cc actions=CONTROLLER:65535
{REST}, table=0, priority=1000,in_port=1,ip,ip_dscp=10 actions=set_field:0->ip_dscp,goto_table:1
{REST}, table=0, priority=1000,in_port=1,ipv6,ip_dscp=10 actions=set_field:0->ip_dscp,goto_table:1
{REST}, table=0, priority=1000,in_port=2,ip,ip_dscp=10 actions=set_field:0->ip_dscp,goto_table:1
{REST}, table=0, priority=1000,in_port=2,ipv6,ip_dscp=10 actions=set_field:0->ip_dscp,goto_table:1
{REST}, table=0, priority=0 actions=goto_table:1
{REST}, table=1, priority=100,icmp6,icmpv6_type=135,nd_target=fd00::1 actions=output:1
{REST}, table=1, priority=100,icmp6,icmpv6_type=135,nd_target=fd00::2 actions=output:2
{REST}, table=1, priority=100,ipv6,ipv6_dst=fd00::1 actions=output:1
{REST}, table=1, priority=100,ipv6,ipv6_dst=fd00::2 actions=output:2
{REST}, table=1, priority=0 actions=drop
"""
    )


@settings(max_examples=40)
@given(st.data(), networks())
def test_a_network_of_ipv6_has_the_rules_of_the_same_one_of_ipv4(data, made):
    made = replace(made, addresses6={})
    sixth = only_ipv6(made)
    to6 = {made.nodes[name]: sixth.nodes[name] for name in made.nodes if made.nodes[name]}
    to6 |= {None: None}
    allotted, allotted6, labels = {}, {}, {None: None}
    ends = st.sets(st.sampled_from([("h1", "h2"), ("h2", "h3"), ("h3", "h1")]))
    for a, b in sorted(data.draw(ends)):
        path = data.draw(st.sampled_from(simple_paths(made, a, b)))
        kind = data.draw(st.sampled_from(list(TrafficClass)))
        pair = Pair(made.nodes[a], made.nodes[b], 7411)
        other = Pair(to6[pair.source], to6[pair.destination], 7411)
        allotted[pair] = allotted6[other] = Allotment(10**8, path, kind)
        labels[rules.label(pair, list(path))] = rules.label(other, list(path))

    def cookie(old):
        told = [(x, y) for x, y in labels.items() if x]
        mine = {rules.Course((), x).cookie: rules.Course((), y).cookie for x, y in told}
        return mine.get(old, old)

    def as_sixth(place):
        match = place.match
        if match.eth_type == m.ARP:
            asks = {"protocol": m.ICMP6, "icmp_type": m.NEIGHBOR_SOLICITATION}
            match = replace(match, eth_type=m.IPV6, **asks)
        elif match.eth_type == m.IPV4:
            match = replace(match, eth_type=m.IPV6)
        ends = {"source": to6[match.source], "target": to6[match.target]}
        return replace(place, match=replace(match, eth_source=labels[match.eth_source], **ends))

    found = tables(sixth, allotted6)
    for name, before in tables(made, allotted).items():
        wanted = {
            as_sixth(place): m.Entry(
                replace(entry.actions, eth_source=labels[entry.actions.eth_source]),
                cookie(entry.cookie),
            )
            for place, entry in before.rules.items()
        }
        # Nobody promises anything to himself by IPv4 either.
        wanted |= {x: y for x, y in before.rules.items() if x.match.dscp == 10}
        assert found[name] == m.Tables(wanted, before.meters)


def running(allotted, marked=None, made=BOTH):
    core, fabric = Core(made), Fabric(made)
    core.allot(allotted)
    core.mark(marked or {})
    fabric.connect(core)
    fabric.settle(core, 0.0)
    return core, fabric


def test_what_the_same_hosts_send_by_the_other_ip_is_no_booking():
    _, fabric = running({PAIR: Allotment(10**8, ROUND)})
    path, arrived = fabric.trace("h1s1.forward", Packet("fd00::1", "fd00::2", 7411))
    assert (path, arrived.dscp) == (list(ROUND), 10)
    path, arrived = fabric.trace("h1s1.forward", Packet("10.0.0.1", "10.0.0.2", 7411, dscp=10))
    assert (path, arrived.dscp) == (DIRECT, 0)


def test_each_ip_has_a_booking_of_its_own():
    allotted = {PAIR: Allotment(10**8, ROUND), PAIR4: Allotment(10**7, tuple(DIRECT))}
    _, fabric = running(allotted)
    for pair, path, number in ((PAIR, list(ROUND), 1), (PAIR4, DIRECT, 3)):
        packet = Packet(pair.source, pair.destination, 7411)
        assert fabric.trace("h1s1.forward", packet)[0] == path
        assert fabric.hop("s1", BOTH.links["h1s1.forward"], packet)[2] == [number]


@pytest.mark.parametrize("ports_of_it", [{}, {"source_port": 7411}])
def test_acknowledgements_of_a_booking_by_ipv6_are_no_elephant(ports_of_it):
    back = Flow("10.0.0.2", "10.0.0.1", TCP, **ports_of_it)
    _, fabric = running({PAIR: Allotment(10**8)}, {back: ()})
    answer = Packet("fd00::2", "fd00::1", 50_000, source_port=7411)
    assert fabric.trace("s2h2.backward", answer)[1].dscp == 0
    other = replace(answer, source_port=7412)
    assert fabric.trace("s2h2.backward", other)[1].dscp == (0 if ports_of_it else 8)


def test_a_controller_that_is_started_anew_knows_the_meters_of_ipv6():
    first, fabric = running({PAIR4: Allotment(10**7), PAIR: Allotment(10**8)})
    fabric.told.clear()
    again = Core(BOTH)
    again.allot({PAIR: Allotment(10**8), PAIR4: Allotment(10**7)})
    fabric.connect(again)
    fabric.settle(again, 9.0)
    assert again.is_settled() and fabric.told == []
    assert again.is_in_force(PAIR) and first.path(PAIR) == again.path(PAIR) == DIRECT


def test_elephants_between_hosts_of_which_one_has_ipv6_alone_are_marked_where_they_can_be():
    made = replace(BOTH, nodes=BOTH.nodes | {"h2": "fd00::2"}, addresses6={"h1": "fd00::1"})
    _, fabric = running({}, {Flow("10.0.0.1", "fd00::2", TCP, port=7000): ()}, made)
    path, arrived = fabric.trace("h1s1.forward", Packet("fd00::1", "fd00::2", 7000))
    assert (path, arrived.dscp) == (DIRECT, 8)
    marked = [x.match for x in fabric.does["s1"].rules if x.match.protocol == TCP]
    assert {(x.source, x.target) for x in marked} == {("fd00::1", "fd00::2")}
    # Nothing can be sent between IPv4 alone and IPv6 alone.
    apart = replace(made, addresses6={})
    _, fabric = running({}, {Flow("10.0.0.1", "fd00::2", TCP, port=7000): ()}, apart)
    assert not [x for x in fabric.does["s1"].rules if x.match.protocol == TCP]


def test_addresses_that_cannot_be_are_refused():
    nodes = {"h1": {"address": "fd00::1", "address6": "fd00::2"}, "s1": {"datapath": "1"}}
    links = [{"ends": ["h1", "s1"], "capacity": "1 Gbit/s"}]
    with pytest.raises(BadInput, match="h1: address is IPv6 already"):
        parse_network({"nodes": nodes, "links": links})
    twice = replace(BOTH, nodes=BOTH.nodes | {"h2": "fd00::1"}, addresses6={"h1": "fd00::1"})
    with pytest.raises(BadInput, match="h1: the address fd00::1 is another host's"):
        Topology(twice)


def assignment(identifier, data_address, **more):
    ends = {"source_address": "10.0.0.1", "destination_address": "10.0.0.2"}
    ends |= {"source_address6": "fd00::1", "destination_address6": "fd00::2"}
    told = {"id": identifier, "rate_bps": 10**8, "path": list(AROUND), "size_bytes": 10**9}
    return told | ends | {"data_address": data_address} | more


def test_what_became_of_a_promise_is_told_by_the_ip_that_it_goes_by():
    one = assignment("a", "[fd00::2]:7411")
    other = assignment("b", "10.0.0.2:7411")
    assert set(pairs([one, other])) == {PAIR, PAIR4}
    kept = {PAIR: Kept(100, 80), PAIR4: Kept(50, 0, "empty", "why")}
    found = {x["id"]: x for x in Bookings().reports([one, other], kept)}
    assert (found["a"]["carried_bytes"], found["a"]["alarm"]) == (80, None)
    assert (found["b"]["carried_bytes"], found["b"]["alarm"]) == (0, "empty")


# --- Open vSwitch's rule engine ---

HEADER = "in_port=s1-h1,{kind},ipv6_src=fd00::1,ipv6_dst=fd00::2,dl_src=aa:00:00:00:00:01"


def way(ovs, kind="tcp6", port=7411, tos=0, switch="s1", header=HEADER):
    """The switches that a packet passes, and its traffic class at the end."""
    proto = kind.removesuffix("6")
    said = ovs.trace(switch, f"{header.format(kind=kind)},nw_tos={tos},{proto}_dst={port}")
    last = re.search(r"Final flow: .*nw_tos=(\d+)", said)
    found = re.findall(r'bridge\("(\w+)"\)', said)
    return found, int(last[1]) if last else tos, said


def test_a_booking_by_ipv6_takes_its_path_and_class_through_open_vswitch(ovs):
    made = square(has_ipv6=True)
    run(ovs, {PAIR: Allotment(10**8, AROUND), PAIR4: Allotment(10**7)}, nothing, made)
    found, tos, said = way(ovs)
    assert (found, tos) == (["s1", "s3", "s2"], 40)
    assert "meter(0)" in said or "meter:1" in said
    # Beside its promise: the same path, and what the source has called it.
    for dscp in (1, 8):
        assert way(ovs, tos=dscp << 2)[:2] == (["s1", "s3", "s2"], dscp << 2)
    assert way(ovs, port=7412, tos=40)[:2] == (["s1", "s2"], 0)
    assert way(ovs, kind="udp6")[:2] == (["s1", "s2"], 0)
    header = "in_port=s2-h2,tcp6,ipv6_src=fd00::2,ipv6_dst=fd00::1,tcp_src=7411"
    assert re.findall(r'bridge\("(\w+)"\)', ovs.trace("s2", header)) == ["s2", "s1"]
    # IPv4 has a booking of its own.
    stranger = "in_port=s1-h1,ipv6,ipv6_src=fd00::1,ipv6_dst=fd00::9"
    fourth = "in_port=s1-h1,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tcp_dst=7411"
    assert re.findall(r'bridge\("(\w+)"\)', ovs.trace("s1", fourth)) == ["s1", "s2"]
    assert "Datapath actions: drop" in ovs.trace("s1", stranger)


def test_hosts_of_ipv6_find_each_other_through_open_vswitch(ovs):
    run(ovs, {}, nothing, square(has_ipv6=True))
    asks = "in_port=s1-h1,icmp6,ipv6_src=fd00::1,ipv6_dst=ff02::1:ff00:2,icmpv6_type=135"
    answers = "in_port=s2-h2,icmp6,ipv6_src=fd00::2,ipv6_dst=fd00::1,icmpv6_type=136"
    assert re.findall(r'bridge\("(\w+)"\)', ovs.trace("s1", f"{asks},nd_target=fd00::2")) == [
        "s1",
        "s2",
    ]
    said = ovs.trace("s2", f"{answers},nd_target=fd00::2")
    assert re.findall(r'bridge\("(\w+)"\)', said) == ["s2", "s1"] and "drop" not in said
    # Whether it is still there is asked of one address by another.
    still = asks.replace("ff02::1:ff00:2", "fd00::2")
    assert "drop" not in ovs.trace("s1", f"{still},nd_target=fd00::2")
    assert "Datapath actions: drop" in ovs.trace("s1", f"{asks},nd_target=fd00::9")


def test_a_booking_by_ipv6_moves_and_is_counted(ovs):
    async def move(controller):
        core = controller.core
        assert core.path(PAIR) == list(AROUND)
        core.allot({PAIR: Allotment(10**8)})
        await controller.settled(3)
        with contextlib.suppress(KeyError):
            assert core.kept()[PAIR].alarm in ("", "empty")
        assert (await asyncio.to_thread(way, ovs))[0] == ["s1", "s2"]
        core.allot({})
        await controller.settled(3)
        assert (await asyncio.to_thread(way, ovs))[1] == 0

    run(ovs, {PAIR: Allotment(10**8, AROUND)}, move, square(has_ipv6=True))
