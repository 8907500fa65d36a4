"""OpenFlow as bytes: what was encoded is read back, and no bytes do any harm."""

import contextlib
import ipaddress
import signal
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_v1_3_parser as of
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from weir.control import codec, flows
from weir.control import messages as m

KINDS = range(30)


@settings(max_examples=300)
@given(st.sampled_from(KINDS), st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_whatever_a_stranger_sends_is_read_or_refused(kind, body, number):
    head = struct.pack("!BBHI", codec.VERSION, kind, 8 + len(body), number)
    try:
        codec.decoded(head + body)
    except ValueError as error:
        assert str(error)


@settings(max_examples=300)
@given(st.sampled_from([13, 19]), st.integers(0, 15), st.binary(max_size=200))
def test_answers_that_are_broken_are_refused(kind, what, body):
    body = struct.pack("!HH4x", what, 0) + body if kind == 19 else body
    try:
        codec.decoded(struct.pack("!BBHI", codec.VERSION, kind, 8 + len(body), 1) + body)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("version", "said"), [(1, "it speaks OpenFlow 1.0 and not 1.3"), (3, "OpenFlow 1.2")]
)
def test_a_switch_of_an_older_version_is_told_so(version, said):
    with pytest.raises(ValueError, match=said):
        codec.decoded(struct.pack("!BBHI", version, 0, 8, 1))


def test_a_newer_switch_may_say_hello_and_nothing_else():
    assert codec.decoded(struct.pack("!BBHI", 6, 0, 8, 1)) is None
    with pytest.raises(ValueError, match="version 6"):
        codec.decoded(struct.pack("!BBHI", 6, 2, 8, 1))


def test_bytes_are_those_of_the_specification():
    # OpenFlow 1.3.5, 7.3.8 and A.3.4.1: a barrier is a header; delete strict is command 4.
    assert codec.encoded(m.Barrier(), 7).hex() == "0414000800000007"
    place = m.Place(1, 258, m.Match(in_port=3))
    data = codec.encoded(m.RemoveRule(place), 9)
    version, kind, length, number = struct.unpack_from("!BBHI", data)
    assert (version, kind, length, number) == (4, 14, len(data), 9)
    table, command, idle, hard, priority = struct.unpack_from("!BBHHH", data, 24)
    assert (table, command, idle, hard, priority) == (1, 4, 0, 0, 258)
    # The match: type 1 (OXM), 12 bytes, and the field of in_port with 4 bytes.
    assert data[48:60].hex() == "0001000c8000000400000003"


ADDRESSES = st.integers(0, 2**32 - 1).map(lambda x: str(ipaddress.IPv4Address(x)))
ADDRESSES6 = st.integers(0, 2**128 - 1).map(lambda x: str(ipaddress.IPv6Address(x)))
MACS = st.binary(min_size=6, max_size=6).map(lambda x: x.hex(":"))


@st.composite
def matches(draw):
    """What rules may look at: fields of IP with their protocol, or those of ARP, or neither."""
    fields = {"in_port": st.integers(1, 2**32 - 1), "eth_source": MACS, "eth_target": MACS}
    kind = draw(st.sampled_from([None, m.IPV4, m.IPV6, m.ARP, m.LLDP]))
    fixed = {} if kind is None else {"eth_type": kind}
    if kind in (m.IPV4, m.IPV6):
        addresses = ADDRESSES if kind == m.IPV4 else ADDRESSES6
        fields |= {"source": addresses, "target": addresses, "dscp": st.integers(0, 63)}
        protocols = [None, m.TCP, m.UDP, *([m.ICMP6] if kind == m.IPV6 else [])]
        if (protocol := draw(st.sampled_from(protocols))) == m.ICMP6:
            fixed |= {"protocol": protocol, "icmp_type": m.NEIGHBOR_SOLICITATION}
            del fields["source"]
        elif protocol:
            fixed["protocol"] = protocol
            fields |= dict.fromkeys(("port", "source_port"), st.integers(0, 65_535))
    if kind == m.ARP:
        fields["target"] = ADDRESSES
    return m.Match(**fixed, **draw(st.fixed_dictionaries({}, optional=fields)))


PLACES = st.builds(m.Place, st.integers(0, 254), st.integers(0, 65_535), matches())
NUMBERS = st.integers(0, 2**32 - 1)
ENTRIES = st.builds(
    m.Entry,
    st.builds(
        m.Actions,
        meter=st.none() | NUMBERS,
        dscp=st.none() | st.integers(0, 63),
        eth_source=st.none() | MACS,
        output=st.none() | NUMBERS,
        goto=st.none() | st.integers(0, 254),
    ),
    st.integers(0, 2**64 - 1),
)


def by_os_ken(place, entry):
    """A match and instructions, as os-ken has them."""
    match, actions = place.match, entry.actions
    names = {"in_port": "in_port", "eth_source": "eth_src", "eth_target": "eth_dst"}
    names |= {"eth_type": "eth_type", "protocol": "ip_proto", "source": "ipv4_src"}
    names |= {"dscp": "ip_dscp", "target": "arp_tpa" if match.eth_type == m.ARP else "ipv4_dst"}
    if match.eth_type == m.IPV6:
        names |= {"source": "ipv6_src", "icmp_type": "icmpv6_type"}
        names["target"] = "ipv6_dst" if match.icmp_type is None else "ipv6_nd_target"
    names["port"] = "udp_dst" if match.protocol == m.UDP else "tcp_dst"
    names["source_port"] = "udp_src" if match.protocol == m.UDP else "tcp_src"
    values = {theirs: getattr(match, ours) for ours, theirs in names.items()}
    found = {name: value for name, value in values.items() if value is not None}
    done = [] if actions.dscp is None else [of.OFPActionSetField(ip_dscp=actions.dscp)]
    done += [of.OFPActionSetField(eth_src=actions.eth_source)] if actions.eth_source else []
    done += [] if actions.output is None else [of.OFPActionOutput(actions.output, 0xFFFF)]
    instructions = [] if actions.meter is None else [of.OFPInstructionMeter(actions.meter)]
    instructions += [of.OFPInstructionActions(4, done)] if done else []
    instructions += [] if actions.goto is None else [of.OFPInstructionGotoTable(actions.goto)]
    return of.OFPMatch(**found), instructions


def told(rules):
    """A reply with rules: table, priority, cookie, count, and what os-ken makes of the rest."""
    body = b""
    for table, priority, cookie, count, match, instructions in rules:
        rest = bytearray()
        match.serialize(rest, 0)
        for one in instructions:
            one.serialize(rest, len(rest))
        # OpenFlow 1.3.5, 7.3.5.2; the age and the packets may be anything.
        head = (48 + len(rest), table, 5, 6, priority, 0, 0, 0, cookie, 9, count)
        body += struct.pack("!HBxIIHHHH4xQQQ", *head) + bytes(rest)
    return struct.pack("!BBHIHH4x", codec.VERSION, 19, 16 + len(body), 1, 1, 0) + body


@settings(max_examples=200)
@given(PLACES, ENTRIES)
def test_rules_are_written_as_os_ken_writes_them(place, entry):
    match, instructions = by_os_ken(place, entry)
    theirs = of.OFPFlowMod(
        ProtocolDesc(codec.VERSION),
        cookie=entry.cookie,
        table_id=place.table,
        priority=place.priority,
        out_port=0xFFFF_FFFF,
        out_group=0xFFFF_FFFF,
        match=match,
        instructions=instructions,
    )
    theirs.set_xid(7)
    theirs.serialize()
    assert codec.encoded(m.AddRule(place, entry), 7) == bytes(theirs.buf)


@settings(max_examples=200)
@given(st.lists(st.tuples(PLACES, ENTRIES, st.integers(0, 2**64 - 2)), max_size=4))
def test_rules_are_read_as_os_ken_writes_them(rules):
    heard = codec.decoded(
        told(
            (place.table, place.priority, entry.cookie, count, *by_os_ken(place, entry))
            for place, entry, count in rules
        )
    )
    assert heard.rules == {place: entry for place, entry, _ in rules}
    assert heard.passed == {place: min(count, 10**18) for place, _, count in rules}


def test_a_counter_that_a_switch_does_not_have_counts_nothing():
    # OpenFlow 1.3.5, 7.3.5: unsupported counters have all bits set.
    rules = [(0, priority, 1, 2**64 - priority, of.OFPMatch(), []) for priority in (1, 2)]
    assert [*codec.decoded(told(rules)).passed.values()] == [0, 10**18]
    ports = b"".join(
        struct.pack("!I4x12QII", at, count, *[9] * 11, 1, 1)
        for at, count in enumerate((7, 2**64 - 1, 2**64 - 2), 1)
    )
    assert codec.decoded(reply(4, ports)).received == {1: 7, 2: 0, 3: 10**18}


def test_what_a_switch_makes_up_is_not_kept():
    # Each as long as a message can be, and no two alike.
    longest = of.OFPInstructionActions(4, [of.OFPActionOutput(1)] * 4_000)
    ours = told([(0, 1, 1, 1, of.OFPMatch(in_port=1), [])])
    codec.decoded(ours)
    tracemalloc.start()
    try:
        for cookie in range(40):
            codec.decoded(told([(0, 1, cookie, 1, of.OFPMatch(), [longest])]))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 40 * 64_000 / 4
    first, again = codec.decoded(ours), codec.decoded(ours)
    assert next(iter(first.rules)) is next(iter(again.rules))


def reply(kind, body):
    return struct.pack("!BBHIHH4x", codec.VERSION, 19, 16 + len(body), 1, kind, 0) + body


def message(kind, body):
    return struct.pack("!BBHI", codec.VERSION, kind, 8 + len(body), 1) + body


PORT = struct.pack("!I4x6s2x16s8I", 1, bytes(6), b"eth1", *[0] * 8)
METER = struct.pack("!HHIHHII4x", 24, 13, 1, 1, 16, 1000, 500)
MATCH = bytes.fromhex("0001000c800000040000000300000000")
RULE = struct.pack("!HBxIIHHHH4xQQQ", 72, 0, 5, 6, 1, 0, 0, 0, 1, 9, 9) + MATCH
RULE += struct.pack("!HHI", 6, 8, 1)
# One of each that means something, and answers to questions that are never asked.
SAID = {
    "error": message(1, struct.pack("!HH", 5, 1) + bytes(64)),
    "echo": message(2, b"are you there?"),
    "features": message(6, struct.pack("!QIBB2xII", 1, 0, 254, 0, 0, 0)),
    "packet": message(10, struct.pack("!IHBBQ", 1, 60, 1, 0, 1) + MATCH + bytes(62)),
    "port": message(12, struct.pack("!B7x", 0) + PORT),
    "barrier": message(21, b""),
    "rules": reply(1, RULE * 2),
    "rule count": reply(2, struct.pack("!QQI4x", 1, 2, 3)),
    "port counts": reply(4, struct.pack("!I4x12QII", 1, *range(14)) * 2),
    "meters": reply(10, METER * 2),
    "ports": reply(13, PORT * 2),
    "hello": message(0, struct.pack("!HHI", 1, 8, 16)),
    "queues": message(23, struct.pack("!I4xIIH6x", 1, 1, 1, 16)),
    **{f"answer {kind}": reply(kind, bytes(64)) for kind in (0, 3, 5, 6, 7, 8, 9, 11, 12)},
}


class Endless(BaseException):
    """A message takes more of the processor than any may."""


@contextlib.contextmanager
def bounded(cpu_s):
    """Ends what does not end by itself; some of os-ken swallows everything that is raised."""
    ended = []

    def end(*_):
        ended.append(True)
        raise Endless

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        assert not ended


@pytest.mark.parametrize("said", SAID)
def test_no_length_that_a_message_states_is_read_for_ever(said):
    whole = SAID[said]
    with contextlib.suppress(ValueError):
        codec.decoded(whole)
    for at in range(8, len(whole) - 1):
        for length in (0, 1, 4, 7, 8, 9, 16, 24, 0xFFFF):
            damaged = whole[:at] + struct.pack("!H", length) + whole[at + 2 :]
            with bounded(1.0), contextlib.suppress(ValueError):
                codec.decoded(damaged)


def test_what_is_tried_with_all_lengths_is_read_as_it_stands():
    heard = {name: codec.decoded(said) for name, said in SAID.items()}
    assert heard["meters"] == codec.Meters({1: m.Meter(1000, 500)}, has_more=False)
    assert heard["ports"] == codec.Ports((codec.PortState("eth1", 1, True),) * 2, False)
    assert heard["port counts"] == codec.PortCounts({1: 0})
    assert heard["packet"].port == 3
    assert heard["rule count"].count == 3
    assert len(heard["rules"].rules) == 1


FOREIGN = [
    (of.OFPMatch(ipv4_src=("10.0.0.0", "255.0.0.0"), eth_type=m.IPV4), []),
    (of.OFPMatch(vlan_vid=5), []),
    (of.OFPMatch(), [of.OFPInstructionWriteMetadata(1, 1)]),
    (of.OFPMatch(), [of.OFPInstructionActions(4, [of.OFPActionDecNwTtl()])]),
    (of.OFPMatch(), [of.OFPInstructionActions(4, [of.OFPActionSetField(ip_ecn=1)])]),
    (of.OFPMatch(), [of.OFPInstructionActions(4, [of.OFPActionOutput(1), of.OFPActionOutput(2)])]),
    (
        of.OFPMatch(),
        [of.OFPInstructionActions(4, [of.OFPActionOutput(1), of.OFPActionSetField(ip_dscp=1)])],
    ),
]


@pytest.mark.parametrize(("match", "instructions"), FOREIGN)
def test_what_no_rule_of_ours_has_is_equal_to_none_and_can_be_removed(match, instructions):
    heard = codec.decoded(told([(3, 9, 1, 1, match, instructions)]))
    [(place, entry)] = heard.rules.items()
    assert place.match.other or entry.actions.output == flows.FOREIGN
    removal = of.OFPFlowMod(
        ProtocolDesc(codec.VERSION), table_id=3, command=4, priority=9,
        out_port=0xFFFF_FFFF, out_group=0xFFFF_FFFF, match=match,
    )  # fmt: skip
    removal.set_xid(1)
    removal.serialize()
    assert codec.encoded(m.RemoveRule(place), 1) == bytes(removal.buf)


def error(kind, code, refused):
    return struct.pack("!BBHIHH", codec.VERSION, 1, 12 + len(refused), 5, kind, code) + refused


@pytest.mark.parametrize(
    "message", [m.AddMeter(3, m.Meter(1000, 500)), m.Read(), m.ChangeMeter(3, m.Meter(1, 1))]
)
def test_a_switch_without_meters_is_told_as_such(message):
    sent = codec.encoded(message, 5)
    if isinstance(message, m.Read):
        sent = sent[56:]  # behind the question for rules
    # Bad type, or what a switch without them says to a question (OpenFlow 1.3.5, 7.5.4.2).
    for code in (1, 2):
        heard = codec.decoded(error(1, code, sent[:64]))
        assert heard.why.startswith("meters, without which it can hold nobody to a rate (OFPET_BAD")
    out_of_meters = codec.decoded(error(12, 10, b""))
    assert "(OFPET_METER_MOD_FAILED(12), OFPMMFC_OUT_OF_METERS(10))" in out_of_meters.why


def test_other_refusals_are_in_the_switchs_words():
    sent = codec.encoded(m.AddRule(m.Place(0, 1, m.Match()), m.Entry(m.Actions(), 1)), 5)
    heard = codec.decoded(error(5, 1, sent[:64]))
    assert heard.why == "OFPET_FLOW_MOD_FAILED(5), OFPFMFC_TABLE_FULL(1)"
