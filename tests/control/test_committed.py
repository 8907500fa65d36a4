"""What hosts may send that is neither promised nor an elephant: held where it enters."""

import pytest
from control_rig import Fabric, Packet, network, step

from weir.calendar.agents.enforcer import Allotment, Pair
from weir.calendar.network import parse_network
from weir.control import messages as m
from weir.control.core import Core
from weir.control.elephant import TCP, Flow
from weir.errors import BadInput

NODES = {
    "h1": {"address": "10.0.0.1", "committed": "50 Mbit/s"},
    "h2": {"address": "10.0.0.2"},
    "s1": {"datapath": "1"},
}
LINKS = [{"ends": [x, "s1"], "capacity": "1 Gbit/s"} for x in ("h1", "h2")]
HELD = 190_001


def running(allotted=None, marked=None, nodes=NODES):
    """A switch that does what is wanted; its tables."""
    made = parse_network({"nodes": nodes, "links": LINKS})
    core, fabric = Core(made), Fabric(made)
    core.allot(allotted or {})
    core.mark(marked or {})
    fabric.connect(core)
    fabric.settle(core, 0.0)
    return core, fabric


def met(fabric, **about):
    """The meters that a packet from h1 to h2 meets, and its code point then."""
    packet = Packet("10.0.0.1", "10.0.0.2", **({"port": 7000} | about))
    output, packet, meters = step(fabric.does["s1"], 1, packet)
    assert output == 2
    return meters, packet.dscp


@pytest.mark.parametrize("dscp", [0, 46, 26])
def test_what_is_nothing_in_particular_is_held_whatever_it_calls_itself(dscp):
    _, fabric = running()
    assert met(fabric, dscp=dscp) == ([HELD], dscp)
    assert met(fabric, protocol=m.UDP, dscp=dscp) == ([HELD], dscp)
    assert fabric.does["s1"].meters == {HELD: m.Meter(50_000, 12_500)}


def test_what_says_that_it_is_promised_and_is_not_is_held_too():
    assert met(running()[1], dscp=10) == ([HELD], 0)


@pytest.mark.parametrize("dscp", [1, 8])
def test_what_goes_behind_all_others_is_free(dscp):
    assert met(running()[1], dscp=dscp) == ([], dscp)


def test_elephants_and_promises_are_not_held_by_it():
    flow, pair = Flow("10.0.0.1", "10.0.0.2", TCP, 50_000, 7000), Pair("10.0.0.1", "10.0.0.2", 80)
    _, fabric = running({pair: Allotment(10**8)}, {flow: ()})
    assert met(fabric) == ([], 8)
    assert met(fabric, port=80) == ([1], 10)
    assert met(fabric, port=81) == ([HELD], 0)


def test_acknowledgements_of_a_promise_are_held_though_an_elephant_would_take_them_in():
    flow, pair = Flow("10.0.0.1", "10.0.0.2", TCP), Pair("10.0.0.2", "10.0.0.1", 80)
    _, fabric = running({pair: Allotment(10**8)}, {flow: ()})
    assert met(fabric, source_port=80) == ([HELD], 0)
    assert met(fabric, source_port=81) == ([], 8)


def test_hosts_without_a_rate_are_not_held_and_neither_is_what_comes_to_one():
    _, fabric = running()
    back = Packet("10.0.0.2", "10.0.0.1", 7000)
    assert step(fabric.does["s1"], 2, back)[2] == []
    plain = {
        name: {x: y for x, y in one.items() if x != "committed"} for name, one in NODES.items()
    }
    assert met(running(nodes=plain)[1]) == ([], 0)


def test_a_rate_that_is_taken_back_leaves_nothing_behind():
    _, fabric = running()
    plain = {
        name: {x: y for x, y in one.items() if x != "committed"} for name, one in NODES.items()
    }
    core, wanted = running(nodes=plain)
    wanted.does["s1"] = fabric.does["s1"]
    core = Core(wanted.network)
    core.allot({})
    wanted.connect(core)
    wanted.settle(core, 1.0)
    assert wanted.does["s1"].meters == {}
    assert wanted.does == running(nodes=plain)[1].does


@pytest.mark.parametrize("wrong", ["fast", "1 bit/s", "0 bit/s", 5, None, "5 Tbit/s"])
def test_a_rate_that_cannot_be_is_refused_by_its_host(wrong):
    nodes = NODES | {"h1": NODES["h1"] | {"committed": wrong}}
    with pytest.raises(BadInput, match=r"nodes\.h1: committed"):
        parse_network({"nodes": nodes, "links": LINKS})


def test_a_switch_has_no_rate():
    nodes = NODES | {"s1": {"datapath": "1", "committed": "1 Mbit/s"}}
    with pytest.raises(BadInput, match="this is a switch"):
        parse_network({"nodes": nodes, "links": LINKS})


def test_networks_without_rates_are_as_before():
    assert network(["h1", "h2"], [("h1", "s1"), ("s1", "h2")], ["s1"]).committed_bps == {}
