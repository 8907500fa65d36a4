"""The benchmark of the controller: its settings are valid, and its rows say what was measured."""

import pytest

from benches.control import rows
from benches.control_fabric import Port, packet
from benches.harness import validate
from benches.peers.controllers import CABLES, ONE, TWO, _faucet, _network, controllers
from weir.calendar.agents.enforcer import Pair
from weir.calendar.network import parse_network
from weir.control.topology import Topology, View


@pytest.mark.parametrize(("switches", "ports"), [(1, ONE), (2, TWO + CABLES)])
def test_the_network_of_weirs_controller_is_that_of_the_switches(switches, ports):
    network = parse_network(_network(switches))
    named = {(x.source, x.source_port) for x in network.links.values() if x.source in ("s1", "s2")}
    assert named == {(port.switch, port.name) for port in ports}
    there = {name: {port.name: 1 for port in ports if port.switch == name} for name, _ in named}
    assert len(Topology(network).path("h1", "h2", (), View(there))) == switches + 1
    pair = Pair(network.nodes["h1"], network.nodes["h2"], 7411)
    assert f"src={pair.source},dst={pair.destination}," in packet(1, 2)
    assert f"tcp(src=9,dst={pair.port})" in packet(1, 2)


def test_faucets_stack_has_two_cables_whose_ends_name_each_other():
    dps = _faucet(2)["dps"]
    ends = {
        (name, port): (one["stack"]["dp"], one["stack"]["port"])
        for name, dp in dps.items()
        for port, one in dp["interfaces"].items()
        if "stack" in one
    }
    assert len(ends) == 4
    assert all(ends[other] == one for one, other in ends.items())


def test_ports_name_their_peers():
    words = Port("s1", "a", "s2").words("folder")
    assert words[3:4] == ["s1-a"] and words[-1] == "options:peer=s2-a"


def test_each_figure_stands_beside_each_peers():
    ours = [
        {"installs": 10.0, "cpu": 2.0, "idle": 1.0, "re-route": 20.0, "back": 800.0},
        {"installs": 30.0, "cpu": 4.0, "idle": 1.0, "re-route": 40.0, "back": 900.0},
    ]
    names = [one.name for one in controllers()]
    theirs = [{"installs": 5.0, "cpu": 1.0, "idle": 0.0, "re-route": 10.0}]
    table = validate(rows({names[0]: ours, names[1]: theirs, names[2]: theirs}, 400), "control")
    assert [one["peer"] for one in table] == [*names[1:] * 4, None]
    assert (table[-1]["ours"], table[-1]["unit"]) == (850.0, "ms")
    assert (table[0]["ours"], table[0]["ratio"], table[0]["runs"]) == (20.0, 4.0, [10.0, 30.0])
    # Nothing can be compared with nothing.
    assert (table[4]["peer_value"], table[4]["ratio"]) == (0.0, None)
