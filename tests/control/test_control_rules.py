"""Which rules switches are to have: golden tables of small networks, and packets that take them."""

import pytest
from control_rig import Fabric, Packet, network, ports

from weir.calendar.agents.enforcer import Allotment, Pair, TrafficClass
from weir.calendar.network import parse_network
from weir.control import messages as m
from weir.control import rules
from weir.control.core import Core
from weir.control.topology import Topology, View
from weir.errors import BadInput

#   h1 - s1 - s2 - h2      s1 - s3 - s2 is the way round
SQUARE = network(
    ["h1", "h2"],
    [("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("s1", "s3"), ("s3", "s2")],
    ["s1", "s2", "s3"],
)
PAIR = Pair("10.0.0.1", "10.0.0.2", 7411)
ROUND = ("h1s1.forward", "s1s3.forward", "s3s2.forward", "s2h2.forward")


def tables(network, allotted, cut=()):
    """The text of every switch's tables when all ports are up but those of some cables."""
    topology = Topology(network)
    view = View({x: ports(network, x) for x in network.datapaths}, frozenset(cut))
    ways = rules.courses(topology, view, allotted)
    numbers = {pair: number for number, pair in enumerate(allotted, 1)}
    found = rules.wanted(topology, view, allotted, ways, numbers)
    return {name: one.text() for name, one in found.items()}


def test_without_allotments_everything_goes_by_next_hops():
    assert (
        tables(SQUARE, {})["s1"]
        == """\
cookie=0x5745000000000000, table=0, priority=60000,dl_dst=01:80:c2:00:00:0e,dl_type=0x88cc \
actions=CONTROLLER:65535
cookie=0x5745000000000000, table=0, priority=1000,in_port=1,ip,ip_dscp=10 \
actions=set_field:0->ip_dscp,goto_table:1
cookie=0x5745000000000000, table=0, priority=0 actions=goto_table:1
cookie=0x5745000000000000, table=1, priority=100,arp,nw_dst=10.0.0.1 actions=output:1
cookie=0x5745000000000000, table=1, priority=100,arp,nw_dst=10.0.0.2 actions=output:2
cookie=0x5745000000000000, table=1, priority=100,ip,nw_dst=10.0.0.1 actions=output:1
cookie=0x5745000000000000, table=1, priority=100,ip,nw_dst=10.0.0.2 actions=output:2
cookie=0x5745000000000000, table=1, priority=0 actions=drop
"""
    )


def paths_rules(text):
    """The lines of a table that an allotment has brought."""
    return [x for x in text.splitlines() if x.startswith("meter") or "7411" in x or "dl_src" in x]


def test_a_pair_has_its_rules_along_the_path_that_is_asked_for():
    found = tables(SQUARE, {PAIR: Allotment(100_000_000, ROUND)})
    assert paths_rules(found["s1"]) == [
        "meter=1 kbps burst stats bands=type=drop rate=110000 burst_size=25000",
        "meter=2 kbps burst stats bands=type=drop rate=110000 burst_size=25000",
        *(
            "cookie=0x574502e33e47c012, table=0, priority=40100,in_port=1,tcp,nw_src=10.0.0.1,"
            f"nw_dst=10.0.0.2,tp_dst=7411,ip_dscp={dscp} "
            "actions=set_field:02:e3:3e:47:c0:12->eth_src,output:3"
            for dscp in (1, 8)
        ),
        "cookie=0x574502e33e47c012, table=0, priority=40000,in_port=1,tcp,nw_src=10.0.0.1,"
        "nw_dst=10.0.0.2,tp_dst=7411 actions=meter:1,set_field:10->ip_dscp,"
        "set_field:02:e3:3e:47:c0:12->eth_src,output:3",
        "cookie=0x5745000000000000, table=0, priority=39000,in_port=1,udp,nw_src=10.0.0.1,"
        "nw_dst=10.0.0.2,tp_dst=7411 actions=meter:2,set_field:0->ip_dscp,goto_table:1",
    ]
    assert paths_rules(found["s3"]) == [
        "cookie=0x574502e33e47c012, table=0, priority=50000,in_port=1,dl_src=02:e3:3e:47:c0:12 "
        "actions=output:2"
    ]
    assert paths_rules(found["s2"]) == [
        "cookie=0x574502e33e47c012, table=0, priority=50000,in_port=3,dl_src=02:e3:3e:47:c0:12 "
        "actions=output:2"
    ]


@pytest.mark.parametrize(
    "asked",
    [
        (),
        ("h1s1.forward", "s3s2.forward", "s2h2.forward"),
        ("h1s1.forward", "s1s3.forward"),
        ("h1s1.forward", "unknown", "s2h2.forward"),
        ("s2h2.backward", "s1s2.backward", "h1s1.backward"),
    ],
)
def test_a_path_that_will_not_do_is_replaced_by_the_shortest(asked):
    found = tables(SQUARE, {PAIR: Allotment(10**8, asked)})
    assert paths_rules(found["s3"]) == []
    assert "output:2" in paths_rules(found["s1"])[4]


def test_a_link_that_is_cut_is_gone_round():
    found = tables(SQUARE, {PAIR: Allotment(10**8)}, cut=["s1s2.forward"])
    assert len(paths_rules(found["s3"])) == 1
    assert "ip,nw_dst=10.0.0.2 actions=output:3" in found["s1"]
    # The other direction still carries.
    assert "ip,nw_dst=10.0.0.1 actions=output:1" in found["s2"]


def fabric(allotted):
    core, made = Core(SQUARE), Fabric(SQUARE)
    core.allot(allotted)
    made.connect(core)
    made.settle(core, 0.0)
    return made


def test_packets_of_a_pair_take_its_path_and_its_class_and_others_do_not():
    made = fabric({PAIR: Allotment(10**8, ROUND)})
    path, arrived = made.trace("h1s1.forward", Packet("10.0.0.1", "10.0.0.2", 7411))
    assert path == list(ROUND)
    assert arrived.dscp == TrafficClass.PROMISED.dscp
    # Another port; no promise for who gives it to itself.
    path, arrived = made.trace("h1s1.forward", Packet("10.0.0.1", "10.0.0.2", 80, dscp=10))
    assert path == ["h1s1.forward", "s1s2.forward", "s2h2.forward"]
    assert arrived.dscp == 0
    # Somebody else with the pair's source address.
    path, arrived = made.trace("s2h2.backward", Packet("10.0.0.1", "10.0.0.2", 7411))
    assert arrived.dscp == 0


@pytest.mark.parametrize("dscp", [1, 8])
def test_what_a_source_sends_as_less_than_promised_goes_the_same_way_and_stays_that(dscp):
    made = fabric({PAIR: Allotment(10**8, ROUND)})
    path, arrived = made.trace("h1s1.forward", Packet("10.0.0.1", "10.0.0.2", 7411, dscp=dscp))
    assert path == list(ROUND)
    assert arrived.dscp == dscp


def test_a_pair_of_the_lower_class_is_marked_as_such():
    made = fabric({PAIR: Allotment(10**8, ROUND, TrafficClass.LOWER)})
    _, arrived = made.trace("h1s1.forward", Packet("10.0.0.1", "10.0.0.2", 7411))
    assert arrived.dscp == 1


def test_udp_of_a_pair_has_a_meter_of_its_own_and_no_promise():
    made = fabric({PAIR: Allotment(10**8, ROUND)})
    link = SQUARE.links["h1s1.forward"]
    packet = Packet("10.0.0.1", "10.0.0.2", 7411, m.UDP, dscp=10)
    onward, packet, met = made.hop("s1", link, packet)
    assert (onward.name, packet.dscp, met) == ("s1s2.forward", 0, [2])


def test_a_host_cannot_send_with_a_label():
    made = fabric({PAIR: Allotment(10**8, ROUND)})
    stolen = next(x.match.eth_source for x in made.does["s2"].rules if x.match.eth_source)
    packet = Packet("10.0.0.1", "10.0.0.2", 80, eth_source=stolen)
    path, _ = made.trace("h1s1.forward", packet)
    assert path == ["h1s1.forward", "s1s2.forward", "s2h2.forward"]


def test_hosts_behind_one_switch_need_no_label():
    small = network(["h1", "h2"], [("h1", "s1"), ("h2", "s1")], ["s1"])
    lines = paths_rules(tables(small, {PAIR: Allotment(8_000)})["s1"])
    assert lines[:1] == ["meter=1 kbps burst stats bands=type=drop rate=8 burst_size=4194"]
    assert lines[4].endswith("actions=meter:1,set_field:10->ip_dscp,output:2")


def test_a_network_that_cannot_be_controlled_is_refused():
    with pytest.raises(BadInput, match="no node has a datapath id"):
        Topology(network(["h1", "h2"], [("h1", "h2")], []))
    without = network(["h1", "h2"], [("h1", "s1"), ("h2", "s1")], ["s1"])
    without.nodes["h2"] = None
    with pytest.raises(BadInput, match=r"nodes\.h2: .*needs its address"):
        Topology(without)
    without.nodes["h2"] = "10.0.0.1"
    with pytest.raises(BadInput, match=r"nodes\.h2: .*another host's"):
        Topology(without)


@pytest.mark.parametrize(
    ("datapaths", "ports", "message"),
    [
        (["1", "0x2"], [], "nodes.s2: datapath = '0x2': up to 16 hexadecimal digits"),
        (["1", "00001"], [], "nodes.s2: the datapath 00001 is another switch's"),
        ([1, "2"], [], "nodes.s1: datapath = 1: up to 16 hexadecimal digits"),
        (["1", "2"], ["eth0"], r"links\[0\]: ports = \['eth0'\]: the names of two ports"),
        (["1", "2"], ["eth0", "x" * 16], r"links\[0\]: ports = .*: the names of two ports"),
    ],
)
def test_a_file_whose_switches_cannot_be_right_is_refused_by_name(datapaths, ports, message):
    nodes = {f"s{at}": {"datapath": one} for at, one in enumerate(datapaths, 1)}
    link = {"ends": ["s1", "s2"], "capacity": "1 Gbit/s"} | ({"ports": ports} if ports else {})
    with pytest.raises(BadInput, match=message):
        parse_network({"nodes": nodes, "links": [link]})


def test_a_link_has_a_port_at_each_end_in_both_directions():
    nodes = {"s1": {"datapath": "00000000000000Ab"}, "s2": {"datapath": "2"}}
    link = {"name": "x", "ends": ["s1", "s2"], "capacity": "1 Gbit/s", "ports": ["eth7", ""]}
    found = parse_network({"nodes": nodes, "links": [link]})
    assert found.datapaths == {"s1": 0xAB, "s2": 2}
    ends = {name: (one.source_port, one.target_port) for name, one in found.links.items()}
    assert ends == {"x.forward": ("eth7", "s1"), "x.backward": ("s1", "eth7")}
    # What the engine reads, and has on record, is what it was.
    assert "port" not in found.engine_json()
