"""Dumps of `ibnetdiscover`, and what switches are: the work's plan, odd trees, damaged dumps."""

import random
from collections import Counter

import pytest

from weir.errors import BadInput
from weir.observe.infiniband import dump, plan, roles

# Two switches and three hosts, as ibnetdiscover 44 prints them.
DUMP = """\
#
# Topology file: generated on Thu Nov 26 19:00:00 2026
#
# Initiated from node 0000000000100000 port 0000000000100001

vendid=0x2c9
devid=0xc738
sysimgguid=0x200000
switchguid=0x200000(200000)
Switch\t36 "S-0000000000200000"\t\t# "edge one" base port 0 lid 5 lmc 0
[1]\t"H-0000000000100000"[1](100001) \t\t# "node1 HCA-1" lid 1 4xFDR
[2]\t"H-0000000000100002"[1](100003) \t\t# "node2 HCA-1" lid 2 4xFDR
[36]\t"S-0000000000200001"[1]\t\t# "top" lid 6 4xFDR

switchguid=0x200001(200001)
Switch\t36 "S-0000000000200001"\t\t# "top" enhanced port 0 lid 6 lmc 0
[1]\t"S-0000000000200000"[36]\t\t# "edge one" lid 5 4xFDR

caguid=0x100000
Ca\t2 "H-0000000000100000"\t\t# "node1 HCA-1"
[1](100001) \t"S-0000000000200000"[1]\t\t# lid 1 lmc 0 "edge one" lid 5 4xFDR

caguid=0x100002
Ca\t1 "H-0000000000100002"\t\t# "node2 HCA-1"
[1](100003) \t"S-0000000000200000"[2]\t\t# lid 2 lmc 0 "edge one" lid 5 4xFDR
"""


@pytest.fixture(scope="module")
def cluster():
    """The work's plan, through the text of its dump."""
    return dump.parse(dump.text_of(plan.cluster()))


def test_a_dump_is_read_as_it_is_printed():
    fabric = dump.parse(DUMP)
    edge = fabric["S-0000000000200000"]
    assert (edge.kind, edge.ports, edge.name, edge.lid) == ("switch", 36, "edge one", 5)
    assert edge.cables[36] == dump.Far("S-0000000000200001", 1, dump.Speed(4, "FDR"))
    found = roles.classified(fabric)
    assert found.kind == {"S-0000000000200000": "Leaf", "S-0000000000200001": "Spine"}
    assert found.way["S-0000000000200000", 36] == "up"
    assert found.way["S-0000000000200000", 1] == "down"
    assert found.way["S-0000000000200001", 1] == "down"


def test_what_a_speed_is_worth():
    # InfiniBand's table of speeds: 4 ns a byte and 8 Gbit/s of data at SDR, 54.5 Gbit/s at FDR.
    assert dump.Speed(4, "SDR").symbol_ns == 4
    assert dump.Speed(4, "SDR").rate_bps == pytest.approx(8e9)
    assert dump.Speed(4, "FDR").rate_bps == pytest.approx(54.54e9, rel=1e-3)
    assert dump.Speed(4, "EDR").rate_bps == pytest.approx(100e9)


def test_the_plan_has_the_works_switches_and_categories(cluster):
    found = roles.classified(cluster, ["Glade", "DAV"])
    kinds = Counter(found.kind.values())
    assert (kinds["ToR"], kinds["Leaf"], kinds["Spine"]) == (252, 261, 162)
    assert (kinds["GladeLeaf"], kinds["GladeSpine"]) == (4, 6)
    up_and_down = [(kind, way) for kind in ("Leaf", "ToR", "DAVLeaf", "GladeLeaf")
                   for way in ("up", "down")]  # fmt: skip
    only_down = [(kind, "down") for kind in ("Spine", "DAVSpine", "GladeSpine")]
    assert set(found.categories()) == {*up_and_down, *only_down}
    assert found.categories()["ToR", "down"] == found.categories()["ToR", "up"] == 252 * 18
    assert sum(kinds.values()) == 693
    assert sum(node.kind == "host" and node.name.startswith("node-")
               for node in cluster.values()) == 4536  # fmt: skip


def test_the_plan_is_wired_by_the_works_rule(cluster):
    assert [one for one in plan.WORKS.leaves_of_group(1) if one < 59] == [1, 2, 30, 31]
    assert [one for one in plan.WORKS.leaves_of_group(2) if one < 59] == [3, 4, 32, 33]
    of = {node.name: node for node in cluster.values()}
    for group in (1, 2, 14):
        for tor in (of[f"tor-{group}-1"], of[f"tor-{group}-18"]):
            above = {cluster[far.node].name for far in tor.cables.values()} & {
                f"leaf-{number}" for number in range(1, 262)
            }
            assert above == {f"leaf-{number}" for number in plan.WORKS.leaves_of_group(group)}
    # Every switch of the main tree is full, but for spines: 29 leaves on 36 ports.
    assert all(len(of[f"leaf-{n}"].cables) == 36 for n in range(1, 262))


def test_names_and_order_do_not_matter(cluster):
    nodes = list(cluster.values())
    random.Random(1).shuffle(nodes)
    shuffled = {node.id: node for node in nodes}
    expected = roles.classified(cluster, ["Glade", "DAV"])
    for node in nodes:
        node.name = "switch"
    found = roles.classified(shuffled, ["Glade", "DAV"])
    assert found.kind == expected.kind
    assert found.way == expected.way


def without(fabric, *gone):
    """The fabric without some nodes and their cables."""
    left = {node.id: node for node in fabric.values() if node.id not in gone}
    for node in left.values():
        node.cables = {port: far for port, far in node.cables.items() if far.node in left}
    return left


def test_a_rack_that_is_switched_off_keeps_its_role():
    fabric = plan.cluster()
    tor = next(node for node in fabric.values() if node.name == "tor-3-5")
    hosts = [far.node for far in tor.cables.values() if fabric[far.node].kind == "host"]
    found = roles.classified(without(fabric, *hosts))
    assert found.kind[tor.id] == "ToR"
    assert {found.way[tor.id, port] for port in tor.cables} == {"up"}


def test_a_host_on_a_spine_or_on_a_leaf_makes_no_edge_switch_of_it():
    fabric = plan.cluster()
    expected = roles.classified(fabric, ["Glade", "DAV"]).kind
    build = plan.Builder()
    build.fabric = fabric
    build._count = {"switch": 10_000, "host": 10_000}
    for name in ("spine-2-7", "dav-spine-1"):
        at = next(node for node in fabric.values() if node.name == name)
        build.host(f"manager-{name}", at)
    found = roles.classified(fabric, ["Glade", "DAV"])
    assert {node: kind for node, kind in found.kind.items() if expected[node] != kind} == {}


@pytest.mark.parametrize(("edges", "tops"), [(1, 1), (2, 1), (4, 2), (80, 20)])
def test_a_tree_of_two_tiers(edges, tops):
    found = roles.classified(plan.fat_tree(edges, tops, 2))
    assert Counter(found.kind.values()) == {"Leaf": edges, "Spine": tops}
    assert found.categories() == {
        ("Leaf", "up"): edges * tops,
        ("Spine", "down"): edges * tops,
        ("Leaf", "down"): 2 * edges,
    }


def test_one_switch_alone():
    build = plan.Builder()
    switch = build.switch("only")
    build.host("a", switch)
    found = roles.classified(build.fabric)
    assert found.kind == {switch.id: "Switch"}
    assert found.way == {(switch.id, 1): "down"}


def replaced(old, new):
    assert old in DUMP
    return DUMP.replace(old, new)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no switch and no host"),
        (DUMP[:700], "is cut"),
        (DUMP[: DUMP.index("caguid=0x100002")], "leads to H-0000000000100002, which is not in it"),
        (replaced("[2]\t", "[37]\t"), "line 12: port 37, where edge one has 36 ports"),
        (replaced('[36]\t"S-0000000000200001"[1]', '[36]\t"S-0000000000200000"[35]'), "a loop"),
        (replaced("Ca\t1", "Gateway\t1"), "'Gateway' is a kind of device that is not known"),
        (replaced("[36]\t", "[1]\t"), "port 1 of edge one is there a second time"),
        (replaced('[1]\t"S-0000000000200000"[36]', '[2]\t"S-0000000000200000"[36]'), "lead back"),
        (DUMP + "what is this?\n", "neither a node nor a port: what is this"),
        (DUMP + DUMP, "is there a second time"),
        ('[1]\t"S-1"[1]\n', "a port before any switch"),
        ('Switch\t300 "S-1"\n', "300 ports"),
    ],
)
def test_a_damaged_dump_is_refused_with_one_message(text, message):
    with pytest.raises(BadInput, match=message) as caught:
        dump.parse(text)
    assert "\n" not in str(caught.value)


def test_every_cut_of_a_dump_is_noticed():
    for end in range(len(DUMP) - 1):
        with pytest.raises(BadInput):
            roles.classified(dump.parse(DUMP[:end]))


def test_switches_without_hosts_have_no_bottom():
    build = plan.Builder()
    a, b = build.switch("a"), build.switch("b")
    build.cable(a, b)
    with pytest.raises(BadInput, match="no host is attached"):
        roles.classified(build.fabric)
    build.host("h", a)
    build.cable(build.switch("c"), build.switch("d"))
    with pytest.raises(BadInput, match="joined to no host"):
        roles.classified(build.fabric)


def test_the_small_cluster_has_the_same_categories():
    fabric = plan.cluster(plan.SMALL)
    found = roles.classified(fabric, ["Glade", "DAV"])
    assert Counter(found.kind.values()) == {
        "ToR": 4, "Leaf": 10, "Spine": 4, "GladeSpine": 2, "GladeLeaf": 2, "DAVLeaf": 2,
        "DAVSpine": 1,
    }  # fmt: skip
    assert len(found.categories()) == 11
