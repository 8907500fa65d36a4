"""Rules of flows that are read part by part, and mended, however many there are (003-spec 2.5)."""

from dataclasses import replace

import pytest
from control_rig import Fabric
from hypothesis import given, settings
from hypothesis import strategies as st
from join_rig import JOIN, NETWORK, SERVER, World, described, frame, view
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from weir.control import codec, rules
from weir.control import messages as m
from weir.control.core import Core
from weir.control.join.reading import PART_RULES, Reading, Wanted
from weir.control.join.segment import End
from weir.control.join.sources import SYN_RATE
from weir.control.join.steering import Course, beginnings, steering
from weir.control.promises import READ_EVERY_S

CLIENTS = [End("10.0.0.1", port) for port in range(1, 1_201)]
PARTS = 4  # of 2 400 rules a switch
# It may take so long until what others have broken is mended.
MENDED_S = 2.0


class Crowd(World):
    """Many flows: not each of them is looked at whenever something happens."""

    def check(self):
        """Others do."""

    def check_is_set_up(self, data):
        """Others do."""


@pytest.fixture
def world():
    """More than a thousand flows, with their rules."""
    world = Crowd()
    world.settle(2)
    for client in CLIENTS:
        assert world.core.on_frame("s1", 1, frame(client, SERVER), view(), world.now_s)
        world.now_s += 1 / SYN_RATE
        if client.port % 100 == 0:
            world.settle(5)
    world.settle(10)
    assert [*world.core.flows().values()] == ["lives"] * len(CLIENTS)
    world.settle(40)
    assert all(len(x) == 2 * len(CLIENTS) for x in world.rules.values())
    world.most = 0
    return world


def mended_s(world, is_whole):
    """After how long it is so."""
    begun_s = world.now_s
    while not is_whole():
        assert world.now_s - begun_s < 60, "it is never mended"
        world.settle(1)
    return world.now_s - begun_s


def test_what_is_read_at_a_time_is_bounded(world):
    world.settle(200)
    assert 0 < world.most <= PART_RULES
    # Between rounds nobody is asked for anything.
    asked = [world.core.poll(view(), world.now_s).switches for _ in range(3)]
    assert not any(asked[1:])


def test_what_a_switch_has_lost_it_gets_again(world):
    whole = {name: dict(one) for name, one in world.rules.items()}
    for place in [*whole["s1"]][:1_234]:
        del world.rules["s1"][place]
    assert mended_s(world, lambda: world.rules == whole) <= MENDED_S
    world.connect("s2", is_new=True)
    assert mended_s(world, lambda: world.rules == whole) <= MENDED_S
    assert world.most <= PART_RULES


def test_what_others_have_added_goes(world):
    whole = dict(world.rules["s1"])
    place, entry = next(iter(whole.items()))
    for priority, cookie in ((7, entry.cookie), (8, 1 << 47), (9, entry.cookie)):
        match = replace(place.match, port=priority)
        world.rules["s1"][m.Place(place.table, priority, match)] = m.Entry(m.Actions(), cookie)
    assert mended_s(world, lambda: world.rules["s1"] == whole) <= MENDED_S


def test_what_others_have_changed_is_found_in_its_turn(world):
    whole = dict(world.rules["s1"])
    place, entry = next(iter(whole.items()))
    world.rules["s1"][place] = replace(entry, actions=m.Actions())
    assert mended_s(world, lambda: world.rules["s1"] == whole) <= PARTS * READ_EVERY_S + 1
    # Who writes a cookie of its own there is seen with all that are no flows'.
    world.rules["s1"][place] = replace(entry, cookie=5)
    world.read("s1")
    world.settle(2)
    assert world.rules["s1"] == whole


def test_the_next_controller_finds_what_is_there_and_what_is_not(world):
    whole = {name: dict(one) for name, one in world.rules.items()}
    topology, (aggregate,) = described()
    gone = steering(topology, view(), aggregate, Course(End("10.0.0.2", 9), SERVER, 9_999, 9))
    for name, ours in gone.items():
        world.rules[name].update(ours)
    for place in [*whole["s2"]][::3]:
        del world.rules["s2"][place]
    told = []
    do = world.do_one
    world.do_one = lambda name: (told.extend(world.queues[name][:1]), do(name))
    world.start()
    assert mended_s(world, lambda: world.rules == whole) <= MENDED_S
    # What was right is not touched.
    assert sum(isinstance(x, m.AddRule) for x in told) == len(CLIENTS) * 2 / 3
    assert sum(isinstance(x, m.RemoveRule) for x in told) == 4
    assert world.most <= PART_RULES


def test_a_relay_that_speaks_late_is_waited_for(world):
    whole = {name: dict(one) for name, one in world.rules.items()}
    world.start()
    answer = world.answer
    world.answer = lambda key: None if key == JOIN else answer(key)
    world.settle(30)
    assert world.rules == whole
    del world.rules["s1"][next(iter(whole["s1"]))]
    world.answer = answer
    assert mended_s(world, lambda: world.rules == whole) <= MENDED_S


def test_a_number_that_stays_wrong_has_all_read_seldom():
    reading, now_s, read = Reading(), 0.0, 0
    while now_s < 60:
        match reading.due(5_000, now_s):
            case m.CountRules(_, number):
                reading.counted(number, 4_999, now_s)
            case m.ReadRules(_, number):
                assert reading.has_read(number)
                read += 1
        now_s += 0.01
    # 8 parts: all at the begin and once in some five seconds, one a round between.
    assert 60 < read < 8 * 12 + 60
    assert reading.is_done


@pytest.mark.parametrize("count", [None, 0, 3])
def test_a_switch_that_cannot_count_is_read_all_the_same(count):
    reading = Reading()
    reading.counted(reading.due(0, 0.0).number, count, 0.0)
    asked = reading.due(0, 0.0)
    assert asked.of == rules.FLOW
    assert reading.due(0, 4.9) is None
    # No answer: it is asked again, and an answer to the first question is none.
    again = reading.due(0, 5.1)
    assert reading.has_read(asked.number) is None
    assert reading.has_read(again.number) == (0, 1)
    assert reading.is_done and reading.due(0, 5.2).of == rules.FLOW


PLACES = st.integers(1, 40).map(lambda x: m.Place(0, rules.JOINED, m.Match(port=x)))
UIDS = st.sampled_from([1, 2, 3, 7, 8, 15, 65_532])
STEPS = st.lists(st.tuples(PLACES, st.none() | UIDS), max_size=60)


@given(STEPS, st.integers(0, 16))
@settings(max_examples=200)
def test_the_parts_are_all_that_is_wanted(steps, bits):
    wanted, model = Wanted(), {}
    for place, uid in steps:
        if uid is None:
            wanted.remove([place])
            model.pop(place, None)
        else:
            model[place] = m.Entry(m.Actions(), rules.COOKIE | rules.FLOW.cookie | uid)
            wanted.add({place: model[place]})
    parts = 1 << bits
    found = {}
    for number in {0, *(x.cookie & 0xFFFF & parts - 1 for x in model.values())}:
        part = wanted.part(number, parts)
        assert all(x.cookie & 0xFFFF & parts - 1 == number for x in part.values())
        assert not found.keys() & part.keys()
        found |= part
    assert found == model == wanted.rules


@pytest.mark.parametrize(
    ("message", "kind", "made"),
    [
        (m.Read(rules.NO_FLOW), parser.OFPFlowStatsRequest, (0, 1 << 47)),
        (m.Read(), parser.OFPFlowStatsRequest, (0, 0)),
        (m.ReadRules(m.Cookies(5, 7), 1), parser.OFPFlowStatsRequest, (5, 7)),
        (m.CountRules(rules.FLOW, 1), parser.OFPAggregateStatsRequest, (1 << 47, 1 << 47)),
    ],
)
def test_questions_are_as_os_ken_writes_them(message, kind, made):
    peer = ProtocolDesc(codec.VERSION)
    anything = (of.OFPTT_ALL, of.OFPP_ANY, of.OFPG_ANY)
    wanted = kind(peer, 0, *anything, *made, parser.OFPMatch())
    wanted.set_xid(77)
    wanted.serialize()
    sent = codec.encoded(message, 77)
    assert sent[: len(wanted.buf)] == bytes(wanted.buf)
    assert (len(sent) > len(wanted.buf)) == isinstance(message, m.Read)


def test_answers_carry_the_number_of_their_question():
    body = (0).to_bytes(8) + (0).to_bytes(8) + (4_321).to_bytes(4) + bytes(4)
    head = bytes([4, 19, 0, 16 + len(body)]) + (88).to_bytes(4)
    counted = codec.decoded(head + bytes([0, 2, 0, 0, 0, 0, 0, 0]) + body)
    assert counted == codec.RuleCount(4_321, 88)
    empty = bytes([4, 19, 0, 16]) + (89).to_bytes(4) + bytes([0, 1, 0, 0, 0, 0, 0, 0])
    assert codec.decoded(empty).number == 89
    with pytest.raises(ValueError, match="kind 19"):
        codec.decoded(bytes([4, 19, 0, 16]) + (1).to_bytes(4) + bytes([0, 2, 0, 0, 0, 0, 0, 0]))


def test_the_core_of_promises_leaves_flows_rules_alone():
    topology, aggregates = described()
    core, fabric = (
        Core(NETWORK, lambda view: beginnings(topology, view, aggregates)),
        Fabric(NETWORK),
    )
    fabric.connect(core)
    assert m.Read(rules.NO_FLOW) in core.poll(0.0)["s1"]
    without = Core(NETWORK)
    fabric.connect(without)
    assert m.Read() in without.poll(0.0)["s1"]
