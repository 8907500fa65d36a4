"""Relays in scenario files: what the simulator makes of them, what is refused."""

from pathlib import Path

import pytest

from weir import Time
from weir.errors import BadInput
from weir.lab import Lab, load, parse
from weir.sim import Run
from weir.sim.run import run

SHIPPED = Path(__file__).parents[2] / "scenarios" / "relay.toml"


def test_the_shipped_scenario_is_shared_by_weights_and_no_client_is_told_too_much():
    result = run(Run(load(SHIPPED), Time("30 s"), Time("10 s")))
    flows = {flow["name"]: flow for flow in result["flows"]}
    half, favoured = (flows[name]["goodput_bps"] for name in ("half", "favoured"))
    assert favoured / half == pytest.approx(3, rel=0.01)
    # 1448 of 1500 bytes of a packet are data, 4 of which may be a frame's header.
    assert half + favoured == pytest.approx(8e6 * 1444 / 1500, rel=0.01)
    relay = flows["joined"]["relay"]
    assert (relay["linked_ack"], relay["flows"], relay["ahead_bytes_max"]) == ("strict", 100, 0)
    # One hundred bulk connections count for fairness; the aggregate is not one of them.
    assert result["jain_index"] == pytest.approx(200**2 / (100 * (50 + 50 * 9)), rel=0.01)


def test_linked_flow_by_flow_no_client_is_told_too_much_and_the_line_is_as_full():
    text = SHIPPED.read_text().replace('"strict"', '"per-flow"')
    result = run(Run(parse(text), Time("10 s"), Time("5 s")))
    flows = {flow["name"]: flow for flow in result["flows"]}
    relay = flows["joined"]["relay"]
    assert (relay["linked_ack"], relay["ahead_bytes_max"]) == ("per-flow", 0)
    goodput = sum(flows[name]["goodput_bps"] for name in ("half", "favoured"))
    assert goodput == pytest.approx(8e6 * 1444 / 1500, rel=0.02)


def test_without_linked_acknowledgements_clients_are_told_what_no_server_has():
    text = SHIPPED.read_text().replace('"strict"', '"none"')
    result = run(Run(parse(text), Time("5 s")))
    relay = next(flow["relay"] for flow in result["flows"] if "relay" in flow)
    assert relay["ahead_bytes_max"] > 10_000
    assert relay["received_bytes"] > relay["acknowledged_bytes"] > 0


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('through = "joined"', 'through = "nobody"', "there is no such relay; the relays are join"),
        ('through = "joined"\n', "weight = 2\n", "through is missing"),
        ("weight = 3", "weight = 10001", "weight = 10001"),
        ('linked_ack = "strict"', 'linked_ack = "loose"', "linked_ack"),
        ('linked_ack = "strict"', 'start = "1 s"', "from the first client on"),
        ('linked_ack = "strict"', 'window = "0 B"', "window"),
        ("streams = 50", "size = 50", "size"),
    ],
)
def test_what_is_wrong_is_refused_in_plain_words(old, new, told):
    text = SHIPPED.read_text()
    assert old in text
    with pytest.raises(BadInput, match=told):
        parse(text.replace(old, new, 1))


def test_a_lab_has_programs_instead():
    told = r"traffic joined: kind = .relay. exists in the simulator only.*weir relay"
    with pytest.raises(BadInput, match=told):
        Lab.up(load(SHIPPED))
