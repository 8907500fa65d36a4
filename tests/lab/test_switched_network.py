"""`scenarios/headroom.toml` is the network of 000-spec, and a lab of it does what is simulated."""

import itertools
from collections import Counter
from dataclasses import replace

from rig import needs_ovs

from weir import Time
from weir.lab import addressing, load
from weir.lab.scenario import Queue
from weir.shipped import scenario
from weir.sim.run import simulate


def test_next_hops_load_the_links_as_in_figure_3_6():
    """000-spec section 3.6.2: of 46 crossings six by each way of B-C, two or three by others."""
    decided = addressing.plan(load(scenario("headroom")))
    hosts = [f"{node.lower()}1" for node in "ABCDEF"]
    crossed = Counter(
        port.node + port.peer
        for pair in itertools.permutations(hosts, 2)
        for port in decided.way(*pair)
        if {port.node, port.peer} <= set("ABCDEF")
    )
    assert crossed.total() == 46
    assert {way for way, times in crossed.items() if times == 6} == {"BC", "CB"}
    thrice = {"AB", "CD", "EF", "BA", "DC", "FE"}
    assert {way for way, times in crossed.items() if times == 3} == thrice
    assert sorted(crossed.values())[:8] == [2] * 8
    to_d = [(port.node, port.peer) for port in decided.way("a1", "d1")]
    assert to_d == [("a1", "A"), ("A", "B"), ("B", "C"), ("C", "D"), ("D", "d1")]


def deep(link):
    """The link with queues in which nothing is lost while others keep the machine from us."""
    queue = Queue("fifo", Time("4 s"))
    ways = {"forward": link.forward, "backward": link.backward}
    return replace(link, **{name: replace(way, queue=queue) for name, way in ways.items()})


@needs_ovs
def test_the_lab_and_the_simulator_carry_bursts_past_elephants_without_loss(lab_of):
    whole = load(scenario("headroom"))
    short = replace(
        whole,
        links=tuple(deep(link) for link in whole.links),
        traffic=tuple(replace(one, start=Time("0 s"), stop=Time("2 s")) for one in whole.traffic),
    )
    simulated = {flow["name"]: flow for flow in simulate(short)["flows"]}
    lab = lab_of(short)
    status = lab.finish()
    carried = {flow["name"]: flow for flow in status["traffic"]}
    # A machine that others keep busy loses packets in the switches' programs, and counts them.
    too_late = sum(switch["dropped"] for switch in status["switches"])
    for name in ("bursts-b", "bursts-c"):
        sent = carried[name]["sent_packets"]
        assert sent - too_late <= carried[name]["received_packets"] <= sent
        # What a busy machine does not let a sender send in time, it leaves out.
        assert 0 < sent <= simulated[name]["sent_packets"] and not simulated[name]["lost_packets"]
    for flow in (carried["elephant-b"], carried["elephant-c"]):
        assert flow["state"] == "done" and flow["received_rate_bps"] > 0
    b = next(one for one in status["switches"] if one["name"] == "B")
    classes = {
        (port["to"], one["name"]): one["sent_packets"]
        for port in b["ports"]
        for one in port["classes"]
    }
    assert classes["C", "elephants"] > 0 and classes["C", "ordinary"] > 0
    assert classes["A", "elephants"] == classes["F", "elephants"] == 0


def shorter(network):
    stop = Time("8 s")
    return replace(network, traffic=tuple(replace(one, stop=stop) for one in network.traffic))


def lost_of_best_effort(network):
    flows = simulate(shorter(network))["flows"]
    assert all(flow["goodput_bps"] > 0 for flow in flows)
    return [flow["lost_packets"] for flow in flows if flow["name"].startswith("bursts")]


def test_headroom_of_a_tier_2_stacks_on_that_of_its_tier_1():
    """000-spec section 3.2: elephants of two customers converge, and are marked only once."""
    whole = load(scenario("tiers"))
    assert lost_of_best_effort(whole) == [0, 0]
    plain = replace(whole, switching=replace(whole.switching, classes=()))
    assert sum(lost_of_best_effort(plain)) > 0


@needs_ovs
def test_the_mark_of_a_customer_holds_in_both_tiers(lab_of):
    whole = load(scenario("tiers"))
    short = replace(
        whole,
        links=tuple(deep(link) for link in whole.links),
        traffic=tuple(replace(one, start=Time("0 s"), stop=Time("2 s")) for one in whole.traffic),
    )
    status = lab_of(short).finish()
    counted = {
        (switch["name"], port["to"], one["name"]): one["sent_packets"]
        for switch in status["switches"]
        for port in switch["ports"]
        for one in port["classes"]
    }
    by_hop = [("west", "first"), ("first", "second"), ("second", "east")]
    carried = [counted[*hop, "elephants"] for hop in by_hop]
    assert min(carried) > 0
    # Lost are few at the first queue, and none is taken for anything else behind it.
    received = sum(
        flow["received_bytes"] for flow in status["traffic"] if flow["name"].startswith("elephant")
    )
    assert carried[-1] >= received / 1448
