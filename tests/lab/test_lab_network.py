"""A lab as the network file of a calendar and a controller."""

import json

import pytest
from rig import needs_ovs

from weir.calendar.network import parse_network
from weir.errors import BadInput

SLOPING = """\
[lab]
name = "sloping"
[hosts]
h1 = {}
h2 = {}
[routers]
r = {}
[[link]]
ends = ["h1", "r"]
rate = "100 Mbit/s"
[[link]]
ends = ["r", "h2"]
forward = { rate = "50 Mbit/s" }
backward = { rate = "10 Mbit/s" }
"""
TWICE = """\
[lab]
name = "twice"
[hosts]
h = {}
[routers]
s1 = { kind = "switch" }
s2 = { kind = "switch", datapath = 0x2a }
[[link]]
ends = ["h", "s1"]
rate = "10 Mbit/s"
[[link]]
name = "one"
ends = ["s1", "s2"]
rate = "10 Mbit/s"
[[link]]
name = "other"
ends = ["s1", "s2"]
rate = "10 Mbit/s"
"""


def test_nodes_have_ipv6_where_the_scenario_wants_it_and_no_other_address(lab_of, weir):
    lab = lab_of(SLOPING.replace('name = "sloping"', 'name = "sloping"\nipv6 = true'))
    network = parse_network(json.loads(weir("lab", "network").stdout))
    assert network.addresses6 == {"h1": "fd77::1", "h2": "fd77::2", "r": "fd77::3"}
    assert network.nodes["h1"] == lab.address("h1") == "10.77.0.1"
    # Over the router, by the addresses that both have: no other is there to answer by.
    lab.run("h1", ["ping", "-6", "-c", "1", "-I", "fd77::1", "fd77::2"])
    lab.run("h2", ["ping", "-c", "1", "h1"])
    said = lab.run("h1", ["ip", "-6", "-o", "address"], capture_output=True, text=True).stdout
    assert {line.split()[3] for line in said.splitlines()} == {"::1/128", "fd77::1/128"}


def test_nodes_have_no_ipv6_otherwise(lab_of):
    lab = lab_of(SLOPING)
    assert lab.address6("h1") is None
    assert lab.run("h1", ["ip", "-6", "-o", "address"], capture_output=True, text=True).stdout == ""


def test_each_direction_has_its_share(lab_of, weir):
    lab = lab_of(SLOPING)
    network = parse_network(json.loads(weir("lab", "network", "--share", "0.5").stdout))
    assert network.nodes == {name: lab.address(name) for name in ("h1", "h2", "r")}
    told = {name: (x.source, x.target, x.capacity_bps / 1e6) for name, x in network.links.items()}
    assert told == {
        "h1-r.forward": ("h1", "r", 50),
        "h1-r.backward": ("r", "h1", 50),
        "r-h2.forward": ("r", "h2", 25),
        "r-h2.backward": ("h2", "r", 5),
    }
    refused = weir("lab", "network", "--share", "0")
    assert (refused.returncode, refused.stderr) == (
        2,
        "weir: a share of 0: more than 0, at most 1\n",
    )


def test_what_has_no_rate_cannot_be_promised(lab_of):
    lab = lab_of(SLOPING.replace('rate = "100 Mbit/s"', ""))
    with pytest.raises(BadInput, match="link h1-r has no rate, so nothing of it can be promised"):
        lab.network()


@needs_ovs
def test_two_cables_between_switches_have_their_ports(lab_of):
    lab = lab_of(TWICE)
    network = parse_network(lab.network())
    assert network.datapaths == {"s1": 1, "s2": 0x2A}
    for name, bridge in lab.switches().items():
        ports = {
            port
            for link in network.links.values()
            for node, port in ((link.source, link.source_port), (link.target, link.target_port))
            if node == name
        }
        assert ports == {lab.device(name, link) for link in lab.links if name in ends(lab, link)}
        assert len(ports) == {"s1": 3, "s2": 2}[bridge.name]


def ends(lab, link):
    return [port.node for port in lab.links[link]]
