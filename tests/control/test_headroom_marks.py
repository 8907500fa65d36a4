"""Elephants that are told of: which are marked, until when, and by which rules."""

from dataclasses import replace

import pytest
from control_rig import Fabric, Packet, network

from weir.calendar.agents.enforcer import Allotment, Pair
from weir.calendar.network import parse_network
from weir.control.core import Core
from weir.control.elephant import TCP, UDP, Count, Flow, Told
from weir.control.headroom.book import FOUND_MAX, IDLE_S, KEEP_SHARE, QUIET_S, Book
from weir.control.headroom.marker import Marker
from weir.control.messages import IPV6
from weir.errors import BadInput

CABLES = [("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("s1", "s3"), ("s3", "s2")]
SQUARE = network(["h1", "h2"], CABLES, ["s1", "s2", "s3"])
BOTH = network(["h1", "h2"], CABLES, ["s1", "s2", "s3"], has_ipv6=True)
DIRECT = ["h1s1.forward", "s1s2.forward", "s2h2.forward"]
AROUND = ["h1s1.forward", "s1s3.forward", "s3s2.forward", "s2h2.forward"]
FLOW = Flow("10.0.0.1", "10.0.0.2", TCP, 50_000, 7000)
ANY = Flow("10.0.0.1", "10.0.0.2", TCP, 0, 7000)
FIND_BPS = 8_000_000.0


def running(marked, allotted=None, made=SQUARE):
    """A core whose switches do what is wanted."""
    core, fabric = Core(made), Fabric(made)
    core.allot(allotted or {})
    core.mark(marked)
    fabric.connect(core)
    fabric.settle(core, 0.0)
    return core, fabric


def sent(fabric, ends=("10.0.0.1", "10.0.0.2"), **changes):
    """The links that a packet of the flow takes, and the code point that it arrives with."""
    about = {"port": 7000, "source_port": 50_000} | changes
    path, packet = fabric.trace("h1s1.forward", Packet(*ends, **about))
    return path, packet.dscp


@pytest.mark.parametrize("dscp", [0, 8, 10, 46])
def test_an_elephant_is_marked_where_it_enters_whatever_it_said_itself(dscp):
    _, fabric = running({FLOW: ()})
    assert sent(fabric, dscp=dscp) == (DIRECT, 8)
    assert not [x for x in fabric.does["s2"].rules if x.match.port]


def test_packets_that_are_no_elephants_stay_as_they_are():
    _, fabric = running({FLOW: ()})
    others = [{"source_port": 50_001}, {"port": 7001}, {"protocol": UDP}]
    assert {sent(fabric, **one)[1] for one in others} == {0}


@pytest.mark.parametrize("path", [(), AROUND], ids=["everybody's path", "a chosen one"])
def test_an_elephant_is_what_its_hosts_send_by_ipv6_too(path):
    core, fabric = running({FLOW: path}, made=BOTH)
    sixth = ("fd00::1", "fd00::2")
    assert sent(fabric) == sent(fabric, sixth) == (list(path) or DIRECT, 8)
    assert sent(fabric, sixth, port=7001) == (DIRECT, 0)
    # Nobody is promised anything there.
    assert sent(fabric, sixth, port=7001, dscp=10) == (DIRECT, 0)
    assert sent(fabric, ("fd00::1", "fd00::9"))[0] == ["h1s1.forward"]
    core.mark({})
    fabric.settle(core, 1.0)
    assert sent(fabric, sixth) == (DIRECT, 0)


def test_what_an_elephant_carries_is_counted_together_whatever_ip_it_is():
    core, fabric = running({FLOW: ()}, made=BOTH)
    for place in fabric.does["s1"].rules:
        fabric.passed["s1"][place] = 7 if place.match.eth_type == IPV6 else 5
    fabric.settle(core, 3.0)
    assert core.counted() == {FLOW: Count(12, 3.0)}


def test_a_host_without_ipv6_is_marked_by_ipv4_and_sends_nothing_unbounded():
    nodes = {"h1": {"address": "10.0.0.1", "committed": "5 Mbit/s"}, "s1": {"datapath": "1"}}
    nodes["h2"] = {"address": "10.0.0.2", "address6": "fd00::2"}
    cables = [("h1", "s1"), ("s1", "h2")]
    links = [{"name": f"{a}{b}", "ends": [a, b], "capacity": "1 Gbit/s"} for a, b in cables]
    core, fabric = running({FLOW: ()}, made=parse_network({"nodes": nodes, "links": links}))
    assert not [x for x in fabric.does["s1"].rules if x.match.source and ":" in x.match.source]
    link = core.topology.links["h1s1.forward"]
    for dscp in (0, 10, 46):
        _, packet, met = fabric.hop("s1", link, Packet("fd00::7", "fd00::2", dscp=dscp))
        assert (packet.dscp, met) == (0 if dscp == 10 else dscp, [190_001])
    assert fabric.hop("s1", link, Packet("fd00::7", "fd00::2", dscp=8))[2] == []


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("10.0.0.1", "'10.0.0.1' is not an IPv6 address"),
        (6, "6 is not an IPv6 address"),
        ("fe80::1%eth0", "is no address of one host"),
        ("ff02::1", "is no address of one host"),
        ("fd00:0::2", "fd00::2 is another host's"),
    ],
)
def test_an_ipv6_address_that_no_host_can_have_is_refused(address, message):
    nodes = {"h1": {"address6": "fd00::2"}, "h2": {"address6": address}}
    links = [{"ends": ["h1", "h2"], "capacity": "1 Gbit/s"}]
    with pytest.raises(BadInput, match=f"nodes.h2: .*{message}"):
        parse_network({"nodes": nodes, "links": links})
    nodes = {"h1": nodes["h1"] | {"datapath": "1"}, "h2": {}}
    with pytest.raises(BadInput, match="h1: address6 is for hosts"):
        parse_network({"nodes": nodes, "links": links})


def test_a_flow_of_any_port_is_every_such_flow():
    _, fabric = running({ANY: ()})
    assert sent(fabric, source_port=1)[1] == 8
    assert sent(fabric, port=7001)[1] == 0


def test_an_elephant_for_which_a_path_was_chosen_takes_it_and_leaves_it():
    core, fabric = running({FLOW: AROUND, ANY: ()})
    assert sent(fabric, source_port=1) == (DIRECT, 8)
    assert core.marked() == {FLOW: AROUND}
    core.mark({FLOW: DIRECT})
    fabric.settle(core, 1.0)
    assert sent(fabric) == (DIRECT, 8)
    core.mark({})
    fabric.settle(core, 2.0)
    assert sent(fabric) == (DIRECT, 0)
    fabric.settle(core, 9.0)
    assert fabric.does == running({})[1].does


def test_what_is_promised_is_no_elephant():
    pair = Pair(FLOW.source, FLOW.target, FLOW.port)
    _, fabric = running({FLOW: ()}, {pair: Allotment(10**8)})
    assert sent(fabric)[1] == 10


@pytest.mark.parametrize("covers", [{}, {"port": 50_000}, {"source_port": 7000}])
@pytest.mark.parametrize("said", [0, 10, 46])
def test_acknowledgements_of_what_is_promised_are_no_elephant(covers, said):
    back, pair = Flow("10.0.0.2", "10.0.0.1", TCP, **covers), Pair(FLOW.source, FLOW.target, 7000)
    _, fabric = running({back: ()}, {pair: Allotment(10**8)})

    def arrives(**about):
        packet = Packet("10.0.0.2", "10.0.0.1", **({"port": 50_000, "dscp": said} | about))
        path, packet = fabric.trace("s2h2.backward", packet)
        assert path[-1] == "h1s1.backward"
        return packet.dscp

    assert arrives(source_port=7000) == 0
    other = {"source_port": 7000} if "source_port" in covers else {"source_port": 7001}
    _, fabric = running({back: ()})
    assert arrives(**other) == 8


def test_acknowledgements_need_a_rule_only_where_an_elephant_would_take_them_in():
    pair = Pair(FLOW.source, FLOW.target, 7000)
    alone = running({}, {pair: Allotment(10**8)})[1].does["s2"].rules.keys()
    back = Flow("10.0.0.2", "10.0.0.1", TCP, 7001)
    for elephant in (back, replace(back, source_port=0, protocol=UDP)):
        does = running({elephant: ()}, {pair: Allotment(10**8)})[1].does["s2"].rules.keys()
        assert [x.match.source_port for x in does - alone] == [elephant.source_port or None]


def test_a_chosen_path_that_is_down_is_gone_round():
    core, fabric = running({FLOW: AROUND})
    ports = {"h1": 1, "s2": 2}
    core.on_ports("s1", ports)
    fabric.settle(core, 1.0)
    assert sent(fabric) == (DIRECT, 8)


def test_what_was_marked_is_counted_where_it_enters():
    core, fabric = running({FLOW: (), ANY: AROUND})
    for place in fabric.does["s1"].rules:
        fabric.passed["s1"][place] = 7 if place.match.source_port else 5
    fabric.settle(core, 3.0)
    assert core.counted() == {FLOW: Count(7, 3.0), ANY: Count(5, 3.0)}


# --- the book ---


def counted(book, flow, carried, read_s):
    book.count({flow: Count(carried, read_s)})


def test_one_that_is_told_of_is_marked_until_it_is_said_to_be_over():
    book = Book()
    book.tell("a", Told(FLOW))
    book.tell("b", Told(FLOW, size_bytes=5))
    book.end(["a"])
    assert list(book.marks()) == [FLOW]
    book.end(["b", "nobody"])
    assert book.marks() == {}


def test_no_report_says_more_than_the_calendar_takes():
    book = Book()
    book.tell("a", Told(FLOW))
    for at, count in enumerate((0, 10**18, 0, 10**18)):
        counted(book, FLOW, count, float(at))
    [(_, report)] = book.reports()
    assert report["carried_bytes"] == 10**18


def test_a_snapshot_takes_the_place_of_all_that_was_told():
    book = Book()
    book.begin({"a": Told(FLOW), "b": Told(ANY)})
    book.begin({"b": Told(ANY, 5), "c": Told(FLOW)})
    assert set(book.marks()) == {ANY, FLOW}
    book.begin({})
    assert book.marks() == {}


def test_one_that_is_told_of_and_idle_is_over_until_it_is_told_again():
    book = Book()
    book.tell("a", Told(FLOW))
    counted(book, FLOW, 0, 10.0)
    counted(book, FLOW, 5, 10.0 + IDLE_S)
    counted(book, FLOW, 5, 10.0 + 2 * IDLE_S - 1)
    assert list(book.marks()) == [FLOW]
    counted(book, FLOW, 5, 10.0 + 2 * IDLE_S)
    assert book.marks() == {}
    assert book.reports() == [(None, {"id": "a", "over": "idle for 60 s"})]
    book.end(["a"])
    assert book.reports() == []
    book.tell("a", Told(FLOW))
    assert list(book.marks()) == [FLOW]


TOLD_AGAIN = [lambda book, told: book.tell("a", told), lambda book, told: book.begin({"a": told})]


@pytest.mark.parametrize("again", TOLD_AGAIN)
def test_one_that_is_told_again_has_its_time_anew_and_is_as_was_said_last(again):
    book = Book()
    book.tell("a", Told(FLOW))
    counted(book, FLOW, 5, 10.0)
    counted(book, FLOW, 5, 9.0 + IDLE_S)
    again(book, Told(FLOW, 10**9, 7))
    counted(book, FLOW, 5, 11.0 + IDLE_S)
    counted(book, FLOW, 5, 10.0 + 2 * IDLE_S)
    assert book.marks() == {FLOW: Told(FLOW, 10**9, 7)}
    counted(book, FLOW, 5, 11.0 + 2 * IDLE_S)
    assert book.marks() == {}


@pytest.mark.parametrize("again", TOLD_AGAIN)
def test_one_that_is_over_and_told_again_is_marked_again(again):
    book = Book()
    book.tell("a", Told(FLOW))
    counted(book, FLOW, 5, 10.0)
    counted(book, FLOW, 5, 10.0 + IDLE_S)
    again(book, Told(FLOW, 10**9, 7))
    assert book.marks() == {FLOW: Told(FLOW, 10**9, 7)}
    assert book.reports() == [(FLOW, {"id": "a", "carried_bytes": 0})]


def test_a_switch_that_is_away_is_no_idleness():
    book = Book()
    book.tell("a", Told(FLOW))
    for _ in range(100):
        counted(book, FLOW, 5, 10.0)
    assert list(book.marks()) == [FLOW]


@pytest.mark.parametrize("is_new", [True, False])
def test_one_that_is_told_while_its_switch_is_away_has_its_time_when_that_is_back(is_new):
    book = Book()
    book.tell("a", Told(FLOW))
    counted(book, FLOW, 5, 10.0)
    if is_new:
        book.end(["a"])
    # What was read last is handed on for as long as the switch is away.
    counted(book, FLOW, 5, 10.0)
    book.tell("a", Told(FLOW))
    counted(book, FLOW, 5, 10.0)
    counted(book, FLOW, 5, 11.0 + IDLE_S)
    assert list(book.marks()) == [FLOW]
    counted(book, FLOW, 5, 10.0 + 2 * IDLE_S)
    assert list(book.marks()) == [FLOW]
    counted(book, FLOW, 5, 11.0 + 2 * IDLE_S)
    assert book.marks() == {}


def test_one_that_is_found_while_its_switch_is_away_is_judged_when_that_is_back():
    book = Book(FIND_BPS)
    counted(book, FLOW, 5, 10.0)
    book.find(FLOW)
    counted(book, FLOW, 5, 10.0)
    counted(book, FLOW, 5, 11.0 + QUIET_S)
    assert list(book.marks()) == [FLOW]
    counted(book, FLOW, 5, 11.0 + 2 * QUIET_S)
    assert book.marks() == {}


def test_one_that_was_found_is_over_when_it_is_slow_for_a_while_and_not_between():
    book = Book(FIND_BPS)
    assert book.find(FLOW)
    least = int(KEEP_SHARE * FIND_BPS / 8 * QUIET_S)
    carried = 0
    for period in range(5):
        counted(book, FLOW, carried, period * QUIET_S)
        carried += least
        assert list(book.marks()) == [FLOW]
    counted(book, FLOW, carried - 1, 5 * QUIET_S)
    assert book.marks() == {}


def test_a_rule_that_was_put_back_counts_from_nothing_and_nothing_is_lost():
    book = Book(FIND_BPS)
    book.find(FLOW)
    for carried, read_s in ((10, 1.0), (15, 1.1), (4, 1.2), (9, 1.3)):
        counted(book, FLOW, carried, read_s)
    assert book.reports() == [(FLOW, {"id": None, "carried_bytes": 24})]


def test_one_that_is_found_and_then_told_of_ends_by_what_is_told():
    book = Book(FIND_BPS)
    book.find(FLOW)
    book.tell("a", Told(FLOW, size_bytes=9))
    for period in range(4):
        counted(book, FLOW, 0, period * QUIET_S)
    assert book.marks() == {FLOW: Told(FLOW, size_bytes=9)}
    book.end(["a"])
    assert book.marks() == {}


def test_what_is_found_has_a_bound_and_what_is_told_comes_on_top():
    book = Book(FIND_BPS)
    flows = [Flow("10.0.0.1", "10.0.0.2", TCP, 1 + x, 80) for x in range(FOUND_MAX + 1)]
    assert [book.find(one) for one in flows] == [True] * FOUND_MAX + [False]
    assert book.find(flows[0]), "marked already"
    book.tell("a", Told(flows[-1]))
    assert book.is_marked(flows[-1])


def test_a_flow_is_marked_by_itself_or_with_others():
    book = Book()
    book.tell("a", Told(ANY))
    assert book.is_marked(FLOW)
    assert not book.is_marked(Flow("10.0.0.1", "10.0.0.2", TCP, 50_000, 7001))
    assert not book.is_marked(Flow("10.0.0.1", "10.0.0.2", UDP, 50_000, 7000))


# --- between the calendar and the core ---


def told(identifier, **changes):
    about = {"protocol": "tcp", "source_port": 50_000, "destination_port": 7000}
    about |= {"id": identifier, "source": "h1", "destination": "h2"}
    return about | {"size_bytes": None, "rate_max_bps": None} | changes


def test_the_calendar_tells_and_is_told():
    said = []
    core, fabric = running({})
    marker = Marker(core, Book(), said.append)
    marker.hear({"kind": "snapshot", "assign": [], "elephants": [told("a")]})
    fabric.settle(core, 1.0)
    assert sent(fabric)[1] == 8
    strange = told("c", destination="h9")
    marker.hear({"kind": "elephants", "add": [told("b", source_port=None), strange], "remove": []})
    fabric.settle(core, 2.0)
    assert sent(fabric, source_port=9)[1] == 8
    for place in fabric.does["s1"].rules:
        fabric.passed["s1"][place] = 7
    fabric.settle(core, 3.5)
    marker.look()
    common = {"source": "h1", "destination": "h2", "protocol": "tcp", "destination_port": 7000}
    common |= {"carried_bytes": 7, "path": []}
    assert marker.reports() == [
        {"id": "a", "source_port": 50_000} | common,
        {"id": "b", "source_port": None} | common,
    ]
    marker.hear({"kind": "elephants", "add": [strange], "remove": ["a", "b"]})
    marker.hear({"kind": "question", "ticket": "1"})
    fabric.settle(core, 4.0)
    assert sent(fabric)[1] == 0
    assert said == ['elephants of "h9" are not marked: it is no host of the file']
    # A calendar older than the controller.
    marker.hear({"kind": "snapshot", "assign": []})
    assert marker.reports() == []
