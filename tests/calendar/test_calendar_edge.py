"""What the edge enforces, on a real HTB of this kernel, in a network namespace of its own."""

import asyncio
import contextlib
import re
import socket

import pytest
from calendar_lab import wait_for
from namespace_rig import namespace as namespace
from namespace_rig import tc

from weir.calendar.agents import edge
from weir.calendar.agents.edge import EdgeAgent, pairs
from weir.calendar.agents.enforcer import Allotment, Pair, TrafficClass
from weir.calendar.agents.htb import Device, Shaper, parse_device
from weir.errors import BadInput, Unsupported

ONE = Pair("10.0.0.1", "10.0.0.3", 7411)
SIXTH = Pair("fd00::1", "2001:db8::3", 7411)
OTHER = Pair("10.0.0.2", "10.0.0.3", 7411)


def classes():
    """Rate and ceiling in bit/s of each class of wan0."""
    units = {"bit": 1, "Kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9}
    found = {}
    for line in tc("class", "show", "dev", "wan0").splitlines():
        name = re.search(r"class htb (\S+)", line)[1]
        numbers = re.findall(r"(?:rate|ceil) (\d+)([KMG]?bit)", line)
        found[name] = tuple(int(number) * units[unit] for number, unit in numbers)
    return found


def test_classes_follow_what_is_wanted(namespace):
    shaper = Shaper([Device("wan0", 10**9, 50_000_000)])
    shaper.install()
    others, lower = (8_000, 50_000_000), (8_000, 10**9)
    assert classes() == {"1:1": (10**9, 10**9), "1:2": others, "1:3": lower}
    shaper.apply({ONE: Allotment(100_000_000)})
    assert classes()["1:10"] == (100_000_000, 102_000_000)
    shaper.apply({ONE: Allotment(200_000_000), OTHER: Allotment(300_000_000)})
    assert classes()["1:10"] == (200_000_000, 204_000_000)
    assert classes()["1:11"] == (300_000_000, 306_000_000)
    assert tc("filter", "show", "dev", "wan0").count("flowid 1:1") == 2
    shaper.apply({OTHER: Allotment(300_000_000)})
    assert classes().keys() == {"1:1", "1:2", "1:3", "1:11"}
    assert tc("filter", "show", "dev", "wan0").count("flowid 1:1") == 1
    # The number that became free is used again.
    shaper.apply({OTHER: Allotment(300_000_000), ONE: Allotment(5_000_000)})
    assert classes()["1:10"] == (5_000_000, 5_100_000)
    shaper.remove()
    assert classes() == {}


def test_whoever_waits_may_go_on_as_slowly_as_its_source_does(namespace):
    shaper = Shaper([Device("wan0")])
    shaper.install()
    shaper.apply({ONE: Allotment(8_000, least_bps=300_000), OTHER: Allotment(10**6, least_bps=1)})
    assert classes()["1:10"] == (8_000, 300_000)
    assert classes()["1:11"] == (10**6, 1_020_000)


def test_a_class_whose_rate_is_raised_pays_for_nothing_that_it_sent_before(namespace):
    for words in (
        ("link", "set", "wan0", "mtu", "65000"),
        ("address", "add", f"{ONE.source}/24", "dev", "wan0"),
        ("neighbour", "add", ONE.destination, "lladdr", "02:00:00:00:00:03", "dev", "wan0"),
        ("link", "set", "lan0", "up"),
    ):
        tc(*words, program="ip")
    shaper = Shaper([Device("wan0")])
    shaper.install()
    shaper.apply({ONE: Allotment(8_000)})
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
        # Nothing of TCP but its ports, which is what filters look at; 48 s of packets at 8 kbit/s.
        segment = bytes((0, 1, *ONE.port.to_bytes(2, "big"))) + bytes(48_000)
        raw.sendto(segment, (ONE.destination, 0))
        wait_for(lambda: sent("1:10"))
        shaper.apply({ONE: Allotment(10**8)})
        assert classes().keys() == {"1:1", "1:2", "1:3", "1:11"}
        assert tc("filter", "show", "dev", "wan0").count("flowid 1:1") == 1
        raw.sendto(segment, (ONE.destination, 0))
        wait_for(lambda: sent("1:11"), 20)
    # Where nothing is owed for long, the class stays, and so does what waits in it.
    shaper.apply({ONE: Allotment(10**9)})
    assert classes()["1:11"] == (10**9, 1_020_000_000)


def sent(name):
    """How many packets a class of wan0 has let pass."""
    shown = tc("-s", "class", "show", "dev", "wan0")
    return int(re.search(rf"class htb {name} [^\n]*\n Sent \d+ bytes (\d+) pkt", shown)[1])


def test_what_is_of_the_lower_class_comes_after_what_is_promised(namespace):
    shaper = Shaper([Device("wan0")])
    shaper.install()
    shaper.apply({ONE: Allotment(10**6)})
    assert "prio 0" in one_class("1:10")
    # The path is not an edge's business.
    shaper.apply({ONE: Allotment(10**6, ("west",), TrafficClass.LOWER)})
    assert "prio 7" in one_class("1:10")


def one_class(name):
    """What the kernel says of a class of wan0."""
    lines = tc("class", "show", "dev", "wan0").splitlines()
    return next(line for line in lines if f"class htb {name} " in line)


def test_a_filter_matches_its_pair_and_port_and_nothing_else(namespace):
    shaper = Shaper([Device("wan0")])
    shaper.install()
    shaper.apply({ONE: Allotment(10**6)})
    shown = tc("filter", "show", "dev", "wan0")
    matches = matched(shown[shown.index(f"pref {0x10} ") :])
    # By RFC 791 and 9293: protocol at 9, addresses at 12 and 16, the ports behind 20 bytes.
    assert set(matches) == {
        ("00060000", "00ff0000", "8"),
        ("0a000001", "ffffffff", "12"),
        ("0a000003", "ffffffff", "16"),
        ("00001cf3", "0000ffff", "20"),
    }


def test_a_filter_of_ipv6_takes_the_packets_of_its_pair_and_no_others(namespace):
    for words in (
        ("-6", "address", "add", f"{SIXTH.source}/128", "dev", "wan0", "nodad"),
        ("-6", "address", "add", "fd00::9/128", "dev", "wan0", "nodad"),
        ("-6", "route", "add", "2001:db8::/64", "dev", "wan0"),
        *(
            ("neighbour", "add", f"2001:db8::{x}", "lladdr", "02:00:00:00:00:03", "dev", "wan0")
            for x in (3, 4)
        ),
        ("link", "set", "lan0", "up"),
    ):
        tc(*words, program="ip")
    shaper = Shaper([Device("wan0")])
    shaper.install()
    shaper.apply({SIXTH: Allotment(10**8), ONE: Allotment(10**8)})

    def send(source=SIXTH.source, target=SIXTH.destination, port=SIXTH.port, service=0, number=6):
        """A packet that the kernel gives its header, with the ports that stand behind it."""
        with socket.socket(socket.AF_INET6, socket.SOCK_RAW, number) as raw:
            raw.bind((source, 0))
            raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, service)
            raw.sendto(bytes((0, 1, *port.to_bytes(2))) + bytes(60), (target, 0))

    send()
    wait_for(lambda: sent("1:10") == 1)
    # Expedited forwarding is what it says itself, and changes nothing.
    send(service=46 << 2)
    wait_for(lambda: sent("1:10") == 2)
    for other in ({"source": "fd00::9"}, {"target": "2001:db8::4"}, {"port": 7412}, {"number": 17}):
        send(**other)
    wait_for(lambda: sent("1:2") >= 4)
    for count, dscp in enumerate((1, 8), start=1):
        send(service=dscp << 2 | 1)
        wait_for(lambda count=count: sent("1:3") == count)
    assert (sent("1:10"), sent("1:11")) == (2, 0)
    shaper.apply({ONE: Allotment(10**8)})
    assert "1:10" not in classes()
    send()
    wait_for(lambda: sent("1:2") >= 5)


def matched(shown):
    """The words of the packet that filters compare: value, mask and place."""
    return re.findall(r"match ([0-9a-f]{8})/([0-9a-f]{8}) at (\d+)", shown)


def test_what_may_wait_goes_by_the_last_class_whoever_sent_it(namespace):
    shaper = Shaper([Device("wan0", 10**9, 50_000_000)])
    shaper.install()
    shaper.apply({ONE: Allotment(10**6)})
    for name, priority in (("1:10", 0), ("1:2", 6), ("1:3", 7)):
        assert f"prio {priority} " in one_class(name)
    shown = tc("filter", "show", "dev", "wan0")
    asked_first = shown[: shown.index(f"pref {0x10} ")]
    assert asked_first.count("flowid 1:3") == 4
    # The DSCP is the upper six bits of the second byte of the header: 1 is LE, 8 is CS1. In IPv6
    # it stands behind the four bits of the version.
    assert set(matched(asked_first)) == {
        ("00040000", "00fc0000", "0"),
        ("00200000", "00fc0000", "0"),
        ("00400000", "0fc00000", "0"),
        ("02000000", "0fc00000", "0"),
    }


def test_installing_again_starts_from_nothing(namespace):
    first = Shaper([Device("wan0")])
    first.install()
    first.apply({ONE: Allotment(10**6)})
    # As after kill -9: nothing was taken away.
    second = Shaper([Device("wan0")])
    second.install()
    assert classes().keys() == {"1:1", "1:2", "1:3"}
    second.apply({ONE: Allotment(10**6)})
    assert "1:10" in classes()


def test_a_device_that_is_not_there_is_bad_input(namespace):
    with pytest.raises(BadInput, match="nodev"):
        Shaper([Device("nodev")]).install()


def assignment(identifier, rate_bps, **changes):
    values = {
        "id": identifier,
        "source_address": "10.0.0.1",
        "destination_address": None,
        "data_address": "10.0.0.3:7411",
        "rate_bps": rate_bps,
    }
    return values | changes


def allotted(rate_bps, transfers=1, path=()):
    """What so many transfers of a pair are allotted: their sources may send 1.5 Mbit/s anyhow."""
    return Allotment(rate_bps, path, least_bps=transfers * 1_500_000)


def test_transfers_between_the_same_hosts_share_a_class_with_the_sum():
    assignments = [
        assignment("a", 10**6),
        assignment("b", 2 * 10**6),
        assignment("c", 5, source_address="10.0.0.2"),
    ]
    assert pairs(assignments) == {
        ONE: allotted(3 * 10**6, transfers=2),
        OTHER: allotted(8_000),
    }


SIX = {"source_address6": "fd00::1", "destination_address6": "2001:db8::3"}


@pytest.mark.parametrize(
    ("told", "pair"),
    [
        # Both have both: it goes to where the receiver says that it takes data.
        (SIX | {"data_address": "[2001:db8::3]:7411"}, SIXTH),
        (SIX | {"data_address": "10.0.0.3:7411", "destination_address": "10.0.0.3"}, ONE),
        # By name, IPv4 comes first.
        (SIX | {"data_address": "dtn3:7411", "destination_address": "10.0.0.3"}, ONE),
        (SIX | {"data_address": "dtn3:7411"}, SIXTH),
        # What is declared is believed, whatever the agent says of its address.
        (SIX | {"data_address": "[fd00::77]:7411"}, SIXTH),
        # Hosts that have no other.
        (
            {"source_address": "fd00:0::1", "data_address": "[2001:DB8::3]:7411"},
            SIXTH,
        ),
        # As sockets of IPv6 write IPv4.
        ({"source_address": "::ffff:10.0.0.1", "data_address": "[::ffff:10.0.0.3]:7411"}, ONE),
        # Packets of an IP of which the source has no address are nobody's.
        ({"data_address": "[2001:db8::3]:7411", "destination_address": "10.0.0.3"}, None),
        (SIX | {"source_address6": None, "data_address": "[2001:db8::3]:7411"}, None),
    ],
)
def test_a_pair_is_of_the_ip_that_the_receiver_takes_data_by(told, pair):
    found = pairs([assignment("a", 10**6, **told)])
    assert found == ({pair: allotted(10**6)} if pair else {})


@pytest.mark.parametrize(
    "unknown",
    [
        {"source_address": None},
        {"data_address": None},
        {"data_address": "host.example:7411"},
        {"source_address": "fe80::1"},
        {"data_address": "10.0.0.3:x"},
    ],
)
def test_a_transfer_whose_ends_are_not_known_has_no_class(unknown):
    assert pairs([assignment("a", 10**6, **unknown)]) == {}


def test_a_pair_takes_the_path_of_its_first_transfer():
    assignments = [
        assignment("a", 10**6, path=["west", "core"]),
        assignment("b", 10**6, path=["east"]),
    ]
    assert pairs(assignments) == {ONE: allotted(2 * 10**6, 2, ("west", "core"))}


def test_a_transfer_over_several_paths_has_a_pair_for_each():
    lanes = [{"path": ["west"], "rate_bps": 10**6}, {"path": ["east"], "rate_bps": 0}]
    one = assignment("a", 10**6, lanes=lanes, data_ports=[7411, 7412])
    second = Pair("10.0.0.1", "10.0.0.3", 7412)
    expected = {ONE: allotted(10**6, path=("west",)), second: allotted(8_000, path=("east",))}
    assert pairs([one]) == expected
    # Another between the same hosts has one path, and its packets go to the first port.
    other = assignment("b", 10**6, path=["west"])
    assert pairs([one, other])[ONE] == allotted(2 * 10**6, 2, ("west",))
    # A receiver of fewer ports has what is beyond them at the last one.
    few = assignment("a", 3, lanes=[{"path": [], "rate_bps": 10**6}] * 3, data_ports=[7411, 7412])
    assert {x.port: y.rate_bps for x, y in pairs([few]).items()} == {7411: 10**6, 7412: 2 * 10**6}


def test_the_declared_address_is_believed_before_the_agents():
    found = pairs([assignment("a", 10**6, destination_address="10.9.9.9")])
    assert found == {Pair("10.0.0.1", "10.9.9.9", 7411): allotted(10**6)}


def test_devices_are_read_as_they_are_written():
    assert parse_device("wan0") == Device("wan0")
    assert parse_device("wan0=1 Gbit/s") == Device("wan0", 10**9)
    assert parse_device("wan0=1 Gbit/s,50 Mbit/s") == Device("wan0", 10**9, 50_000_000)


class Ledger:
    """An `Enforcer` that writes down what it is told."""

    def __init__(self, pairs_max=9):
        self.told, self.pairs_max, self.rates = [], pairs_max, None

    def install(self):
        self.told.append("install")
        self.rates = {}

    def apply(self, wanted):
        if len(wanted) > self.pairs_max:
            raise Unsupported("no room")
        self.told.append(dict(wanted))
        self.rates = dict(wanted)

    def in_force(self):
        return self.rates

    def remove(self):
        self.told.append("remove")
        self.rates = None


class Stream:
    """An agent's side of a calendar that sends these messages and then no more."""

    def __init__(self, *messages):
        self.given, self.told, self.reports = messages, asyncio.Event(), []

    async def messages(self):
        for given in self.given:
            yield given
        self.told.set()
        await asyncio.Event().wait()

    async def post(self, what, content):
        self.reports.append((what, content))


def enforced(enforcer, *messages):
    """Runs an edge agent with that enforcer until it has taken all messages; its stream."""

    async def run():
        stream = Stream(*messages)
        agent = asyncio.create_task(EdgeAgent(stream, enforcer).run())
        told = asyncio.create_task(stream.told.wait())
        await asyncio.wait([agent, told], timeout=60, return_when=asyncio.FIRST_COMPLETED)
        agent.cancel()
        told.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await agent
        return stream

    return asyncio.run(run())


def test_an_agent_asks_no_more_of_its_enforcer_than_the_seam_says():
    ledger = Ledger()
    other = assignment("b", 2 * 10**6, source_address="10.0.0.2")
    stream = enforced(
        ledger,
        {"kind": "snapshot", "assign": [assignment("a", 10**6)]},
        {"kind": "change", "assign": [other]},
        # Not known where it comes from: nothing changes at the edge.
        {"kind": "change", "assign": [assignment("c", 10**6, source_address=None)]},
        {"kind": "change", "assign": [assignment("a", 3 * 10**6)], "release": ["b"]},
        # The stream broke: what is not in the new snapshot is over.
        {"kind": "snapshot", "assign": [other]},
        {"kind": "change", "release": ["b"]},
    )
    assert ledger.told == [
        "install",
        {ONE: allotted(10**6)},
        {ONE: allotted(10**6), OTHER: allotted(2 * 10**6)},
        {ONE: allotted(3 * 10**6)},
        {OTHER: allotted(2 * 10**6)},
        {},
        "remove",
    ]
    assert ("reports", {"edge": True}) in stream.reports


def test_whose_rate_is_lowered_may_send_as_before_for_a_moment(monkeypatch):
    monkeypatch.setattr(edge, "GRACE_S", 0.05)
    ledger = Ledger()
    given = [
        {"kind": "snapshot", "assign": [assignment("a", 10**7)]},
        {"kind": "change", "assign": [assignment("a", 10**6)]},
    ]

    async def run():
        agent = asyncio.create_task(EdgeAgent(Stream(*given), ledger).run())
        async with asyncio.timeout(60):
            while len(ledger.told) < 4:
                await asyncio.sleep(0.01)
        agent.cancel()

    asyncio.run(run())
    assert ledger.told[:4] == [
        "install",
        {ONE: allotted(10**7)},
        # What it sends now comes first as far as it is promised.
        {ONE: Allotment(10**6, least_bps=10**7)},
        {ONE: allotted(10**6)},
    ]


def test_an_agent_whose_enforcer_fails_says_why_and_leaves_nothing():
    ledger = Ledger(pairs_max=0)
    with pytest.raises(Unsupported, match="no room"):
        enforced(ledger, {"kind": "snapshot", "assign": [assignment("a", 10**6)]})
    assert ledger.told == ["install", "remove"]
