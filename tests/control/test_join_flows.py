"""Flows set up by the core of joined flows (003-spec 2.4, 2.5; T-A1, T-A5), in every order."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from join_rig import (
    AGGREGATE,
    JOIN,
    NETWORK,
    OTHER,
    SERVER,
    SPLIT,
    World,
    described,
    frame,
    ports,
    view,
)
from os_ken.lib.packet import packet, packet_utils, tcp

from weir.control import messages as m
from weir.control import rules
from weir.control.core import Core
from weir.control.join.aggregates import parse_aggregates
from weir.control.join.core import UID_MAX, Joining
from weir.control.join.numbers import Numbers
from weir.control.join.relays import Relays
from weir.control.join.segment import End, Offered, end_of, refusal, syn
from weir.control.join.sources import BEGIN_MAX, SYN_BURST, SYN_RATE
from weir.control.join.steering import Course, beginnings, steering
from weir.control.openflow import Switches
from weir.errors import BadInput

CLIENT = End("10.0.0.1", 5_000)
COURSE = Course(CLIENT, SERVER, 7, 10_000)


def text(tables):
    return {name: m.Tables(one).text().splitlines() for name, one in tables.items()}


def test_a_flow_has_the_rules_of_the_work():
    topology, (aggregate,) = described()
    head = "cookie=0x5745800000000007, table=0, priority=45000,"
    assert text(steering(topology, view(), aggregate, COURSE)) == {
        "s1": [
            # Rule 2: client to P1; rule 3: P1 to client, as the server.
            f"{head}in_port=1,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.5,tp_src=5000,tp_dst=443 "
            "actions=set_field:0->ip_dscp,set_field:52:54:00:00:00:01->eth_dst,"
            "set_field:10.0.0.3->ip_dst,set_field:7600->tcp_dst,goto_table:1",
            f"{head}tcp,nw_src=10.0.0.3,nw_dst=10.0.0.1,tp_src=7600,tp_dst=5000 "
            "actions=set_field:0->ip_dscp,set_field:10.0.0.5->ip_src,"
            "set_field:443->tcp_src,goto_table:1",
        ],
        "s2": [
            # Rule 10: server to P2; rule 9: P2 to server, as the client.
            f"{head}in_port=3,tcp,nw_src=10.0.0.5,nw_dst=10.0.0.1,tp_src=443,tp_dst=5000 "
            "actions=set_field:0->ip_dscp,set_field:52:54:00:00:00:02->eth_dst,"
            "set_field:10.0.0.4->ip_dst,set_field:10000->tcp_dst,goto_table:1",
            f"{head}tcp,nw_src=10.0.0.4,nw_dst=10.0.0.5,tp_src=10000,tp_dst=443 "
            "actions=set_field:0->ip_dscp,set_field:10.0.0.1->ip_src,"
            "set_field:5000->tcp_src,goto_table:1",
        ],
    }


def test_a_flow_of_ipv6_has_the_same_rules_by_its_addresses():
    topology, (aggregate,) = described()
    course = replace(COURSE, client=End("fd00::1", 5_000), server=End("fd00::5", 443))
    four = text(steering(topology, view(), aggregate, COURSE))
    for name, lines in text(steering(topology, view(), aggregate, course)).items():
        for line, before in zip(lines, four[name], strict=True):
            for at in range(1, 6):
                before = before.replace(f"10.0.0.{at},", f"fd00::{at},")
                before = before.replace(f"10.0.0.{at}->ip_", f"fd00::{at}->ipv6_")
            before = before.replace(",tcp,", ",tcp6,").replace("nw_src", "ipv6_src")
            assert line == before.replace("nw_dst", "ipv6_dst")


def test_first_packets_of_clients_come_to_the_controller_by_a_meter():
    topology, aggregates = described()
    found = beginnings(topology, view(), aggregates)
    assert text({"s1": found["s1"].rules})["s1"] == [
        f"cookie=0x5745000000000000, table=0, priority=42000,in_port={port},tcp{six},"
        f"{dst},tp_dst={to},tcp_flags=+syn-ack actions=meter:{120_000 + port},CONTROLLER:65535"
        for port in (1, 2)
        for six, dst, to in (
            ("", "nw_dst=10.0.0.5", 443),
            ("", "nw_dst=10.0.0.5", 80),
            ("6", "ipv6_dst=fd00::5", 443),
        )
    ]
    assert set(found["s1"].meters) == {120_001, 120_002}
    # At the other switch there are none but the split end and the server.
    assert found["s2"] == m.Tables()


OPTIONS = (
    tcp.TCPOptionMaximumSegmentSize(1_412),
    tcp.TCPOptionSACKPermitted(),
    tcp.TCPOptionTimestamps(5, 0),
    tcp.TCPOptionNoOperation(),
    tcp.TCPOptionWindowScale(9),
)


@pytest.mark.parametrize("client", [CLIENT, End("fd00::1", 5_000)])
def test_a_syn_is_read_and_refused_as_its_server_would(client):
    server = End("fd00::5", 443) if ":" in client.address else SERVER
    one = syn(frame(client, server, 2**32 - 1, options=OPTIONS))
    assert (one.client, one.server) == (client, server)
    assert one.offered == Offered(1_412, 9, True, True)
    assert syn(frame(client, server)).offered == Offered()
    read = packet.Packet(refusal(one))
    segment, ip = read.get_protocol(tcp.tcp), read.protocols[1]
    assert (ip.src, ip.dst) == (server.address, client.address)
    assert (segment.src_port, segment.dst_port, segment.ack) == (443, 5_000, 0)
    assert segment.bits == tcp.TCP_RST | tcp.TCP_ACK
    # Over what carries its own checksum, the sum of the Internet is nothing (RFC 1071).
    data = refusal(one)
    assert packet_utils.checksum_ip(ip, 20, data[-20:]) == 0
    assert ":" in client.address or packet_utils.checksum(data[14:34]) == 0


@pytest.mark.parametrize("bits", [0, tcp.TCP_ACK, tcp.TCP_SYN | tcp.TCP_ACK, tcp.TCP_RST])
def test_what_begins_nothing_is_no_syn(bits):
    assert syn(frame(CLIENT, SERVER, bits=bits)) is None


@settings(max_examples=300)
@given(st.binary(max_size=80), st.integers(0, 80))
def test_broken_frames_do_no_harm(noise, at):
    whole = frame(CLIENT, SERVER, options=OPTIONS)
    for data in (noise, whole[:at], whole[:at] + noise, whole[:14] + noise):
        one = syn(data)
        assert one is None or refusal(one)


def begun(**about):
    """A world in which relays have answered, and what switches have was read."""
    world = World(**about)
    world.settle(3)
    return world


def test_a_syn_waits_for_all_four_and_is_let_go_once():
    world = begun()
    world.begin(CLIENT, SERVER)
    for again in range(3):
        # It comes again before it is let go: nothing more is said.
        world.begin(CLIENT, SERVER)
        assert len(world.queues["s2"]) == 3, again
    for step in (lambda: world.answer(JOIN), lambda: world.answer(SPLIT)):
        # Where the client is, a first packet that comes again would take the rules for granted.
        assert not world.queues["s1"]
        step()
    for _ in range(3):
        assert not world.queues["s1"]
        world.do_one("s2")
    for _ in range(3):
        assert world.seen["let go"] == 0
        world.do_one("s1")
    assert world.seen["let go"] == 1
    world.do_one("s1")
    assert world.seen["came"] == 1
    assert [*world.core.flows().values()] == ["lives"]


def test_all_is_gone_when_a_flow_is_over():
    world = begun()
    world.begin(CLIENT, SERVER)
    world.settle()
    assert sum(map(len, world.rules.values())) == 4
    world.end(CLIENT)
    world.settle(20)
    # Its last packets may be on their way.
    assert sum(map(len, world.rules.values())) == 4
    world.settle()
    assert not any(world.rules.values()) and not world.core.flows()
    assert not any(x.announced for x in world.relays.values())


def test_a_port_that_begins_anew_is_the_same_flow():
    world = begun()
    world.begin(CLIENT, SERVER)
    world.settle()
    world.end(CLIENT)
    world.settle(20)
    world.begin(CLIENT, SERVER)  # There is still the rule: it goes to the join end.
    world.settle(80)
    assert [*world.core.flows().values()] == ["lives"]
    assert sum(map(len, world.rules.values())) == 4


def test_a_client_that_never_comes_is_given_up():
    world = begun()
    world.arrive = lambda client: None
    world.begin(CLIENT, SERVER)
    world.settle(150)
    assert [*world.core.flows().values()] == ["lives"]
    world.settle(120)
    assert not world.core.flows() and not any(world.rules.values())


def test_a_relay_that_does_not_answer_has_clients_refused():
    world = begun()
    world.begin(CLIENT, SERVER)
    world.core.on_silent(SPLIT, "gone", world.now_s)
    world.relays[SPLIT].asked = None
    other = End("10.0.0.2", 6_000)
    world.begin(other, SERVER)
    world.settle(1)
    assert world.refused == [CLIENT, other]
    assert world.seen["let go"] == 0
    world.settle()
    assert not world.core.flows()
    world.begin(other, SERVER)
    world.settle(3)
    assert world.seen["came"] == 1
    assert any("does not answer" in x for x in world.told), world.told


def test_a_switch_that_refuses_a_rule_has_the_client_refused():
    world = begun()
    world.begin(CLIENT, SERVER)
    number = next(x.number for x in world.queues["s2"] if isinstance(x, m.Confirm))
    world.queues["s2"].clear()
    world.core.on_done("s2", number, "table is full")
    world.settle(3)
    assert world.refused == [CLIENT] and world.seen["let go"] == 0
    assert any("table is full" in x for x in world.told)


def test_one_port_of_a_client_toward_two_servers_is_joined_once():
    world = begun()
    world.begin(CLIENT, SERVER)
    world.begin(CLIENT, OTHER)
    world.settle(3)
    assert (world.seen["came"], world.seen["direct"]) == (1, 1)


def test_nobody_begins_for_an_address_that_is_elsewhere():
    world = begun()
    for port, client in ((2, CLIENT), (1, End("10.0.0.9", 5_000)), (4, CLIENT)):
        assert world.core.on_frame("s1", port, frame(client, SERVER), view(), world.now_s)
    assert not world.core.flows()


def test_who_floods_is_bounded_and_others_are_served():
    world = begun()
    for port in range(1, 600):
        world.begin(End("10.0.0.1", port), SERVER)
    # What all are told of another host's is not behind all of these.
    world.begin(End("10.0.0.2", 5_000), SERVER)
    assert len(world.core.flows()) == BEGIN_MAX + 1
    world.settle(3)
    assert world.relays[JOIN].announced[End("10.0.0.2", 5_000)][1] == "here"
    world.settle(30)
    assert world.seen["came"] == SYN_BURST + 1


def test_a_flood_keeps_nobody_out_and_leaves_nothing():
    """First packets of a host without a pause, whose clients never come, and slow switches."""
    # There are not many more ports than one host may hold.
    world = begun(ports="10000-10999")
    flood = [End("10.0.0.1", port) for port in range(1, 2_001)]
    frames = [frame(client, SERVER) for client in flood]
    other, begun_s, waited_s, most = End("10.0.0.2", 5_000), None, None, 0
    came = world.arrive
    world.arrive = lambda client: came(client) if client == other else None
    network, each = view(), int(SYN_RATE / 10) + 10
    for step in range(250):
        for at in range(each):
            data = frames[(step * each + at) % len(frames)]
            world.core.on_frame("s1", 1, data, network, world.now_s)
        if step == 200:
            world.begin(other, SERVER)
            begun_s = world.now_s
        # A switch does 300 things a second, and a flow costs it three, and three again.
        for name in world.queues:
            world.do(name, 30)
        for key in world.relays:
            world.answer(key)
        if world.seen["came"] and waited_s is None:
            waited_s = world.now_s - begun_s
        most = max(most, *map(len, world.rules.values()))
        world.wait(0.1)
    assert waited_s is not None and waited_s <= 3
    assert most <= 2 * 1_000
    assert world.seen["direct"] == 0
    world.end(other)
    for _ in range(30):
        world.settle(2)
        world.wait(1)
    assert not any(world.rules.values()) and not world.core.flows()
    assert not any(x.announced for x in world.relays.values())


def test_flows_beyond_the_last_uid_go_by_themselves():
    """T-A1: 65 532 of them are joined, and no more."""
    world = begun(ports="1-65535")
    # All but a hundred are others'.
    others = [world.core._uids[0].take(0) for _ in range(UID_MAX - 100)]
    assert len(set(others)) == len(others)
    for port in range(1, 201):
        world.begin(End("10.0.0.1", port), SERVER)
    world.settle(5)
    flows = world.core.flows()
    assert {x.uid for x in flows} == {*range(1, UID_MAX + 1)} - {*others}
    assert (world.seen["came"], world.seen["direct"]) == (100, 100)
    assert [x for x in world.told if "numbers are taken" in x] == [
        "all numbers are taken: further flows go by themselves"
    ]
    # One that is over makes room for one more.
    world.end(End("10.0.0.1", 1))
    world.settle(80)
    world.begin(End("10.0.0.1", 777), SERVER)
    world.settle(5)
    assert world.seen["came"] == 101


CLIENTS = [End("10.0.0.1", 5_000), End("10.0.0.1", 5_001), End("10.0.0.2", 5_000)]
CLIENTS += [End("fd00::2", 5_000)]
STEPS = st.one_of(
    st.tuples(st.just("begin"), st.sampled_from(CLIENTS), st.booleans()),
    st.tuples(st.just("end"), st.sampled_from(CLIENTS)),
    st.tuples(st.just("do_one"), st.sampled_from(["s1", "s2"])),
    st.tuples(st.just("do_one"), st.sampled_from(["s1", "s2"])),
    st.tuples(st.just("answer"), st.sampled_from([JOIN, SPLIT])),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 1.0, 6.0, 30.0])),
    st.tuples(st.just("read"), st.sampled_from(["s1", "s2"])),
    st.tuples(st.just("connect"), st.sampled_from(["s1", "s2"]), st.booleans()),
    st.tuples(st.just("restart"), st.sampled_from([JOIN, SPLIT])),
    st.tuples(st.just("start")),
    st.tuples(st.just("settle"), st.integers(1, 12)),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_in_every_order_numbers_are_one_flows_and_nothing_is_left(steps):
    world = begun()
    for name, *arguments in steps:
        if name == "begin":
            client, is_first = arguments
            server = SERVER if is_first else OTHER
            arguments = [client, End("fd00::5", 443) if ":" in client.address else server]
        getattr(world, name)(*arguments)
        world.check()
    world.rest()
    assert not world.core.flows()
    assert not any(world.rules.values()), world.rules
    assert not any(x.announced for x in world.relays.values())


WRONG = [
    ({"aggregate": []}, r"at least one \[\[aggregate\]\]"),
    ({"aggregates": []}, "unknown key 'aggregates'"),
    ({"servers": []}, "wanted a list of ADDRESS:PORT"),
    ({"servers": ["10.0.0.5"]}, "wanted ADDRESS:PORT"),
    ({"servers": ["fd00::5:443"]}, "wants brackets"),
    ({"servers": ["10.9.9.9:443"]}, "is no host's address in the network file"),
    ({"servers": ["10.0.0.3:443"]}, "is at p1, the join end's host"),
    ({"join": {"host": "p1", "control": "x"}}, "port is missing"),
    ({"join": {"host": "p9", "control": "x", "port": 1}}, "'p9' is no host"),
    ({"join": {"host": "p1", "control": "x", "port": 0}}, "0 is no port"),
    ({"join": {"host": "p1", "control": "x", "port": 1, "mac": "1"}}, "'1' is none"),
    ({"split": {"host": "p2", "control": "x", "ports": "9-1"}}, "wanted two ports"),
    ({"split": {"host": "p2", "control": "join.sock"}}, "both ends have the control"),
]


@pytest.mark.parametrize(("changed", "words"), WRONG)
def test_what_is_wrong_in_the_file_is_named(changed, words):
    topology, _ = described()
    item = AGGREGATE | changed
    document = changed if changed.keys() & {"aggregate", "aggregates"} else {"aggregate": [item]}
    with pytest.raises(BadInput, match=words):
        parse_aggregates(document, topology)


def test_two_aggregates_have_no_server_in_common():
    topology, _ = described()
    with pytest.raises(BadInput, match=r"10\.0\.0\.5:443 is aggregate\[0\]'s"):
        parse_aggregates({"aggregate": [AGGREGATE, AGGREGATE]}, topology)


@pytest.mark.parametrize("text", ["10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:", "[::1]", "a:1", ""])
def test_what_is_no_end_is_none(text):
    with pytest.raises(ValueError):
        end_of(text)


def test_rules_of_flows_are_told_from_all_others():
    topology, aggregates = described()
    ours = steering(topology, view(), aggregates[0], COURSE)
    assert all(rules.is_joined(x) for one in ours.values() for x in one)
    others = rules.wanted(topology, view(), {}, {}, {})
    begin = beginnings(topology, view(), aggregates)
    assert not any(rules.is_joined(x) for one in others.values() for x in one.rules)
    assert not any(rules.is_joined(x) for one in begin.values() for x in one.rules)
    assert ports(NETWORK, "s1") == {"c1": 1, "c2": 2, "p1": 3, "s2": 4}


def test_numbers_begin_anywhere_and_each_rests():
    numbers = Numbers(10, 14, 60.0, 13)
    assert [numbers.take(0.0) for _ in range(3)] == [13, 14, 10]
    assert numbers.claim(11) and not numbers.claim(10)
    assert [numbers.take(0.0) for _ in range(2)] == [12, None]
    numbers.give_back(10, 1.0)
    numbers.give_back(14, 2.0, rests=False)
    assert [numbers.take(2.0), numbers.take(60.9), numbers.take(61.0)] == [14, None, 10]


def test_what_relays_answer_is_acted_on_at_once_and_not_with_the_next_tick():
    """A connection is set up when both have answered; nobody is there to answer here."""

    async def answered() -> None:
        relays = Relays(Joining(*described()))
        switches = Switches(Core(NETWORK), lambda _: None, joined=relays)
        is_pumped = asyncio.Event()
        switches.pump = is_pumped.set
        assert relays.poll(view(), 0.0).relays.keys() == {JOIN, SPLIT}
        await asyncio.wait_for(is_pumped.wait(), 120)
        await relays.close()

    asyncio.run(answered())
