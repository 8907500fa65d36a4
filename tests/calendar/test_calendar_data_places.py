"""Where agents may take data: what the network file declares, and who is refused by it."""

import asyncio
import ipaddress
import random
import re

import pytest
from calendar_lab import NETWORK, headers, settings
from conftest import served

from weir.calendar.agents.agent import HostAgent, MoverOptions
from weir.calendar.agents.assignments import AssignmentStream
from weir.calendar.data_places import parse_place, refusal
from weir.calendar.network import parse_network
from weir.errors import BadInput


def network(**declared):
    """The lab's, with what is declared for some of its hosts."""
    nodes = {name: {} for name in NETWORK["nodes"]}
    for name, places in declared.items():
        nodes[name] = {"data_address": places}
    return NETWORK | {"nodes": nodes}


def why(declared, host, address, ports=()):
    return refusal(parse_network(network(**declared)).data_places, host, address, ports)


@pytest.mark.parametrize(
    ("places", "address", "ports", "may"),
    [
        ("10.1.0.2", "10.1.0.2:7411", (), True),
        ("10.1.0.2", "10.1.0.3:7411", (), False),
        ("10.1.0.2", "[::ffff:10.1.0.2]:7411", (), True),
        ("::ffff:10.1.0.2", "10.1.0.2:7411", (), True),
        ("10.1.0.0/24", "10.1.0.77:1", (1, 2, 3), True),
        ("10.1.0.0/24", "10.1.1.0:1", (), False),
        ("10.1.0.0/24", "dtn1:1", (), False),
        ("fd00:1::/64", "[fd00:1:0:0::9]:7411", (), True),
        ("fd00:1::/64", "[fd00:1:0:1::9]:7411", (), False),
        ("10.1.0.2:7411", "10.1.0.2:7411", (7411,), True),
        ("10.1.0.2:7411", "10.1.0.2:7412", (), False),
        # A port that no list has is one all the same.
        ("10.1.0.2:7411", "10.1.0.2:22", (7411,), False),
        ("10.1.0.2:7411-7414", "10.1.0.2:7411", (7411, 7414), True),
        ("10.1.0.2:7411-7414", "10.1.0.2:7411", (7411, 7415), False),
        ("[fd00::2]:7411", "[fd00::2]:7411", (), True),
        ("[fd00::2]:7411", "[fd00::2]:7412", (), False),
        ("Gate.example.org", "gate.EXAMPLE.org.:7411", (), True),
        ("gate.example.org:7411", "gate.example.org:7412", (), False),
        (["10.1.0.2", "gate.example.org"], "gate.example.org:7411", (), True),
        # What resolvers take for 10.1.0.2, and what a sender would read otherwise.
        ("10.1.0.2", "167837698:7411", (), False),
        ("10.1.0.2", "10.1.2:7411", (), False),
        ("10.1.0.2", "10.1.0.2:7411/x", (), False),
        ("10.1.0.2", "10.1.0.2", (), False),
        ("10.1.0.2", ":7411", (), False),
    ],
)
def test_a_host_takes_data_where_it_is_declared_and_nowhere_else(places, address, ports, may):
    said = why({"dtn3": places}, "dtn3", address, ports)
    assert (said is None) is may
    # Nothing is declared of the others.
    assert why({"dtn3": places}, "dtn4", "192.0.2.1:7411") is None
    if not may:
        declared = places if isinstance(places, str) else ", ".join(places)
        assert said == f'"{address}" is not where data for "dtn3" may go: declared is {declared}'


def test_what_is_declared_one_hosts_alone_is_no_others():
    declared = {"dtn1": ["10.1.0.2:7411", "gate"], "dtn2": "10.1.0.2:7500", "dtn4": "10.9.0.0/16"}
    for address in ("10.1.0.2:7411", "[::ffff:a01:2]:7411", "10.1.0.2:7411/..", "gate:1"):
        assert '"dtn1"' in why(declared, "dtn3", address), address
    assert '"dtn2"' in why(declared, "dtn3", "10.1.0.2:7400", [7400, 7500])
    # Behind forwarded ports others are reached at the same address, and many have one prefix.
    assert why(declared, "dtn3", "10.1.0.2:7600") is None
    assert why(declared, "dtn3", "10.9.0.2:7411") is None
    assert why(declared, "dtn2", "10.1.0.2:7500") is None
    assert "declared is 10.1.0.2:7500" in why(declared, "dtn2", "10.1.0.2:7411")


def test_a_prefix_has_the_addresses_that_the_standard_library_finds_in_it():
    rng = random.Random(7)
    for _ in range(300):
        bits = rng.choice([32, 128])
        make = ipaddress.IPv4Address if bits == 32 else ipaddress.IPv6Address
        length = rng.randrange(bits + 1)
        first = rng.getrandbits(bits)
        prefix = ipaddress.ip_network((make(first >> (bits - length) << (bits - length)), length))
        near = first ^ (1 << rng.randrange(bits))
        address = make(rng.choice([first, near, rng.getrandbits(bits)]))
        named = f"[{address}]" if bits == 128 else str(address)
        said = why({"dtn3": str(prefix)}, "dtn3", f"{named}:7411")
        assert (said is None) is (address in prefix)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([], "a list of some"),
        (5, "as text"),
        ([None], "as text"),
        ("", "no address, prefix or name"),
        ("10.1.0.2/24", "host bits set"),
        ("10.1.0.0/33", "does not appear to be"),
        ("10.1.0", "no address, prefix or name"),
        ("167837698", "no address, prefix or name"),
        ("a b", "no address, prefix or name"),
        ("dtn1:", "no address, prefix or name"),
        ("dtn1:0", "ports are from 1 to 65535"),
        ("dtn1:99999", "ports are from 1 to 65535"),
        ("dtn1:8-7", "the first one first"),
        ("[fd00::2:7411", "no address, prefix or name"),
    ],
)
def test_a_declaration_that_is_none_is_named(places, said):
    with pytest.raises(BadInput, match=rf"nodes\.dtn3: data_address.*{re.escape(said)}"):
        parse_network(network(dtn3=places))


def test_a_switch_takes_no_data():
    nodes = {name: {} for name in NETWORK["nodes"]}
    nodes["west"] = {"datapath": "1", "data_address": "10.0.0.1"}
    with pytest.raises(BadInput, match="is for hosts"):
        parse_network(NETWORK | {"nodes": nodes})
    assert parse_place("10.0.0.1").is_single and not parse_place("10.0.0.0/31").is_single


def test_who_says_that_it_takes_data_elsewhere_is_turned_away_and_nothing_is_sent_there(
    tmp_path, tokens, token_directory
):
    (tmp_path / "tokens.json").write_bytes((token_directory / "tokens.json").read_bytes())
    nodes = network(dtn3="10.3.0.0/24")
    nodes["nodes"]["dtn1"] = {"address": "10.1.0.2"}
    with served(tmp_path, tokens, settings(network=nodes)) as api:
        given = headers(tokens["agent"])

        def report(host, **body):
            return api.post(f"/v1/agents/{host}/reports", json=body, headers=given)

        assert report("dtn3", data_address="10.3.0.2:7411").status_code == 200
        refused = report("dtn3", data_address="10.1.0.2:7411")
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:weir:problem:forbidden")
        assert "declared is 10.3.0.0/24" in refused.json()["detail"]
        # Nor is another's address its own, which edges hold to rates.
        assert '"dtn1"' in report("dtn3", address="10.1.0.2").json()["detail"]
        assert report("dtn1", address="10.1.0.2").status_code == 200
        made = api.post(
            "/v1/transfers",
            json={"source": "dtn1", "source_path": "x", "destination": "dtn3"}
            | {"destination_path": "y", "size_bytes": 5, "deadline_s": 60},
        )
        assert made.status_code == 201, made.text
        url = "/v1/agents/dtn1/assignments"
        with api.stream("GET", url, headers=headers(tokens["dtn1"])) as stream:
            told = next(line for line in stream.iter_lines() if '"data_address"' in line)
        assert '"data_address":"10.3.0.2:7411"' in told

        async def agent():
            async with AssignmentStream(str(api.base_url), tokens["agent"], "dtn3") as stream:
                options = MoverOptions(tmp_path, None)
                await HostAgent(stream, options, "10.1.0.2:7411").run()

        with pytest.raises(BadInput, match="turns this agent away"):
            asyncio.run(asyncio.wait_for(agent(), 60))
