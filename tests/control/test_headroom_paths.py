"""The provider's choice of paths for elephants, on the switches' topology."""

import random
from collections import Counter

import pytest
from control_rig import Fabric, Packet, network, ports

from weir.control.core import Core
from weir.control.elephant import TCP, Flow, Told
from weir.control.headroom.book import Book
from weir.control.headroom.marker import Marker
from weir.control.headroom.paths import Paths, Service
from weir.control.topology import Topology, View
from weir.errors import BadInput

# The six routers of 000-spec section 3.6.2 with a host at each; two more at B and C.
EDGES = ["AB", "BC", "CD", "DE", "EF", "FA", "BF", "CE"]
HOSTS = ["a1", "b1", "c1", "d1", "e1", "f1"]
SIX = network(HOSTS, [*map(tuple, EDGES), *((x, x[0].upper()) for x in HOSTS)], list("ABCDEF"))
ADDRESS = {name: address for name, address in SIX.nodes.items() if address}


def flow(source, target, number):
    return Flow(ADDRESS[source], ADDRESS[target], TCP, number, 7000)


def view(cut=()):
    return View({x: ports(SIX, x) for x in SIX.datapaths}, frozenset(cut))


def simple_paths(source, target, cut=()):
    """Every path between hosts through switches, by depth first."""

    def onward(node, seen):
        if node == target:
            yield ()
            return
        for link in SIX.links.values():
            may = link.target in SIX.datapaths or link.target == target
            if link.source == node and may and link.target not in seen and link.name not in cut:
                for rest in onward(link.target, seen | {link.target}):
                    yield (link.name, *rest)

    return list(onward(source, {source}))


@pytest.mark.parametrize("seed", range(5))
def test_each_new_elephant_meets_as_few_others_as_can_be(seed):
    """The oracle searches all simple paths and keeps counts of its own (AMB-6)."""
    draw, topology = random.Random(seed), Topology(SIX)
    paths, marked, on, taken = Paths(topology, Service()), {}, Counter(), {}
    for number in range(1, 80):
        if marked and draw.random() < 0.3:
            gone = draw.choice(list(marked))
            del marked[gone]
            on.subtract(taken.pop(gone))
        ends = draw.sample(HOSTS, 2)
        new = flow(*ends, number)
        marked[new] = Told(new)
        found = paths.choose(marked, view())
        assert found.keys() == marked.keys()
        default = [link.name for link in topology.path(*ends, (), view())]
        path = list(found[new]) or default
        between = [set(one[1:-1]) for one in simple_paths(*ends)]
        least = min(max((on[x] for x in one), default=0) for one in between)
        assert tuple(path) in simple_paths(*ends)
        assert max((on[x] for x in path[1:-1]), default=0) == least
        on.update(path[1:-1])
        taken[new] = path[1:-1]


def test_when_nobody_is_there_the_default_path_needs_no_rules():
    paths = Paths(Topology(SIX), Service())
    one, other = flow("b1", "c1", 1), flow("b1", "c1", 2)
    found = paths.choose({one: Told(one), other: Told(other)}, view())
    assert found[one] == ()
    assert found[other]
    assert "BC.forward" not in found[other]


def test_hops_have_a_limit_where_one_is_asked_for():
    paths = Paths(Topology(SIX), Service(hops_more=1))
    marked = {one: Told(one) for one in (flow("b1", "c1", x) for x in range(1, 9))}
    assert set(paths.choose(marked, view()).values()) == {()}
    wide = Paths(Topology(SIX), Service(hops_more=2))
    longest = max(len(path) for path in wide.choose(marked, view()).values())
    assert longest == 2 + 3


def test_the_merged_service_sets_up_a_path_for_a_large_elephant_and_not_for_a_small_one():
    paths = Paths(Topology(SIX), Service("merged"))
    first, small, large = (flow("b1", "c1", x) for x in (1, 2, 3))
    marked = {first: Told(first), small: Told(small, size_bytes=10_000)}
    marked[large] = Told(large, size_bytes=10**9)
    found = paths.choose(marked, view())
    assert (found[first], found[small]) == ((), ())
    assert found[large]


def test_a_link_that_fails_is_avoided_and_used_again():
    paths, cut = Paths(Topology(SIX), Service()), {"BC.forward"}
    marked = {one: Told(one) for one in (flow("b1", "c1", x) for x in range(1, 4))}
    before = paths.choose(marked, view())
    down = paths.choose(marked, view(cut))
    default = Topology(SIX).path("b1", "c1", (), view(cut))
    for path in down.values():
        assert (path or tuple(x.name for x in default)) in simple_paths("b1", "c1", cut)
    assert [len(x) for x in paths.choose(marked, view()).values()] == [
        len(x) for x in before.values()
    ]


def test_no_path_at_all_is_no_choice():
    paths = Paths(Topology(SIX), Service())
    one = flow("b1", "c1", 1)
    assert paths.choose({one: Told(one)}, view({"AB.backward", "BC.forward", "BF.forward"})) == {
        one: ()
    }


def test_a_service_that_there_is_not_is_refused():
    with pytest.raises(BadInput):
        Paths(Topology(SIX), Service("ecmp"))


def test_elephants_that_are_told_of_go_by_the_paths_that_were_chosen_for_them():
    core, fabric = Core(SIX), Fabric(SIX)
    core.allot({})
    fabric.connect(core)
    fabric.settle(core, 0.0)
    marker = Marker(core, Book(), print, paths=Paths(core.topology, Service()))
    about = {"source": "b1", "destination": "c1", "protocol": "tcp", "destination_port": 7000}
    about |= {"size_bytes": None, "rate_max_bps": None}
    told = [about | {"id": f"{x}", "source_port": x} for x in (1, 2)]
    marker.hear({"kind": "elephants", "add": told, "remove": []})
    fabric.settle(core, 1.0)
    way = {}
    for port in (1, 2, 3):
        packet = Packet(ADDRESS["b1"], ADDRESS["c1"], 7000, source_port=port)
        path, arrived = fabric.trace("b1B.forward", packet)
        way[port] = (path, arrived.dscp)
    assert way[1] == (["b1B.forward", "BC.forward", "c1C.backward"], 8)
    assert way[3] == (["b1B.forward", "BC.forward", "c1C.backward"], 0)
    assert way[2][1] == 8
    assert way[2][0][1] in {"AB.backward", "BF.forward"}
    reports = {x["id"]: x["path"] for x in marker.reports()}
    assert reports == {"1": [], "2": way[2][0]}
    # The first ends: who is there keeps its path.
    marker.hear({"kind": "elephants", "add": [], "remove": ["1"]})
    fabric.settle(core, 2.0)
    assert {x["id"]: x["path"] for x in marker.reports()} == {"2": way[2][0]}
