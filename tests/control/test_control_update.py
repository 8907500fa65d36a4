"""No packet meets half a path, however messages and packets come between each other."""

import itertools
import random
from dataclasses import dataclass

from control_rig import Fabric, Packet, network
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.calendar.agents.enforcer import Allotment, Pair
from weir.control import messages as m
from weir.control.core import DRAIN_S, Core
from weir.control.rules import is_pair

HOSTS = ["h1", "h2", "h3"]
SWITCHES = ["s1", "s2", "s3", "s4"]


@st.composite
def networks(draw):
    """Three hosts at four switches, which stand in a row and are joined by some more cables."""
    rest = [(a, b) for i, a in enumerate(SWITCHES) for b in SWITCHES[i + 2 :]]
    more = draw(st.lists(st.sampled_from(rest), min_size=2, unique=True))
    at = [draw(st.sampled_from(SWITCHES)) for _ in HOSTS]
    row = list(itertools.pairwise(SWITCHES))
    cables = [*zip(HOSTS, at, strict=True), *row, *more]
    return network(HOSTS, cables, SWITCHES, has_ipv6=draw(st.booleans()))


def simple_paths(network, source, target):
    """Every path from a host to another that visits no node twice, as names of links."""

    def onward(node, seen):
        if node == target:
            yield ()
            return
        for link in network.links.values():
            may_pass = link.target in SWITCHES or link.target == target
            if link.source == node and may_pass and link.target not in seen:
                for rest in onward(link.target, seen | {link.target}):
                    yield (link.name, *rest)

    return sorted(onward(source, {source}))


@dataclass
class Under:
    """A packet under way: the link that it is on, and those that it took."""

    pair: Pair
    packet: Packet
    link: str
    path: list
    since_s: float
    may: set


class World:
    """A core and its switches, with packets among them, moved by what hypothesis draws."""

    def __init__(self, seed, made):
        self.random, self.network = random.Random(seed), made
        self.core, self.fabric, self.now_s = Core(made), Fabric(made), 0.0
        self.packets, self.arrived = [], 0
        self.pairs = {}
        for a, b in [("h1", "h2"), ("h2", "h3"), ("h3", "h1")]:
            addresses = made.addresses6 or made.nodes
            pair = Pair(addresses[a], addresses[b], 7411)
            first = next(x.name for x in made.links.values() if x.source == a)
            self.pairs[pair] = (first, simple_paths(made, a, b))
        # The ways that a pair's packets may take: everybody's, and those it was ever told.
        self.may = {pair: self._shortest(paths) for pair, (_, paths) in self.pairs.items()}
        self.core.allot({})
        self.fabric.connect(self.core)
        self.fabric.settle(self.core, 0.0)

    def _shortest(self, paths):
        least = min(len(path) for path in paths)
        return {path for path in paths if len(path) == least}

    def allot(self):
        """Other pairs, or the same on other paths."""
        allotted = {}
        for pair, (_, paths) in self.pairs.items():
            if self.random.random() < 0.7:
                path = self.random.choice(paths)
                allotted[pair] = Allotment(self.random.choice([10**7, 10**8]), path)
                self.may[pair].add(path)
                for under in self.packets:
                    if under.pair == pair:
                        under.may.add(path)
        self.core.allot(allotted)

    def send(self):
        """A packet leaves its host."""
        pair = self.random.choice(list(self.pairs))
        first = self.pairs[pair][0]
        packet = Packet(pair.source, pair.destination, pair.port)
        may = self.may[pair]
        self.packets.append(Under(pair, packet, first, [first], self.now_s, may))

    def move(self):
        """A packet under way comes to the next switch."""
        if self.packets:
            self._move(self.random.choice(self.packets))

    def _move(self, under):
        link = self.network.links[under.link]
        onward, under.packet, _ = self.fabric.hop(link.target, link, under.packet)
        if onward is None:
            self.is_lost(under, link.target)
            return
        under.path.append(onward.name)
        assert len(under.path) <= len(SWITCHES) + 1
        under.link = onward.name
        if onward.target not in SWITCHES:
            self.arrives(under)
            self.packets.remove(under)
            self.arrived += 1

    def arrives(self, under):
        assert tuple(under.path) in under.may

    def is_lost(self, under, at):
        raise AssertionError(f"{under.path} ends at {at}")

    def work(self):
        """A switch does some of the things that it was told."""
        self.fabric.take(self.core.poll(self.now_s))
        busy = [name for name, queue in self.fabric.queues.items() if queue]
        if busy:
            name = self.random.choice(busy)
            for _ in range(self.random.randint(1, len(self.fabric.queues[name]))):
                self.fabric.do_one(self.core, name, self.now_s)

    def wait(self):
        """Time passes; no packet is under way for longer than the network holds one."""
        self.now_s += DRAIN_S / 2
        for under in [x for x in self.packets if self.now_s - x.since_s >= DRAIN_S]:
            while under in self.packets:
                self._move(under)


@settings(max_examples=60)
@given(st.integers(0, 2**32), networks())
def test_every_packet_takes_the_whole_of_one_path(seed, made):
    world = World(seed, made)
    acts = [*[world.send] * 4, *[world.move] * 8, *[world.work] * 8, world.wait]
    for number in range(300):
        if number % 60 == 0:
            world.allot()
        world.random.choice(acts)()
    while world.packets:
        world.move()


@settings(max_examples=15)
@given(st.data(), st.integers(0, 2**32), networks())
def test_what_is_right_is_not_touched_and_what_is_wrong_is_mended(data, seed, made):
    world = World(seed, made)
    world.allot()
    for _ in range(3):
        world.fabric.settle(world.core, world.now_s)
        world.now_s += DRAIN_S
    assert world.core.is_settled()
    right = dict(world.fabric.does)

    # A new controller finds everything as it should be.
    world.fabric.told.clear()
    again = Core(made)
    again.allot(world.core._allotted)
    world.fabric.connect(again)
    world.fabric.settle(again, world.now_s)
    assert world.fabric.told == []
    assert again.is_settled()

    # Some rules and meters are lost, one is changed: these are put right, and no others.
    name = data.draw(st.sampled_from(SWITCHES))
    places = list(right[name].rules)
    lost = set(data.draw(st.lists(st.sampled_from(places), max_size=5)))
    wrong = data.draw(st.sampled_from(places))
    rules = {x: y for x, y in right[name].rules.items() if x not in lost}
    rules[wrong] = m.Entry(m.Actions(output=99), 7)
    world.fabric.does[name] = m.Tables(rules, right[name].meters)
    world.now_s += 2 * DRAIN_S
    world.fabric.settle(again, world.now_s)
    assert world.fabric.does == right
    changed = {(at, one.place) for at, one in world.fabric.told}
    assert changed == {(name, place) for place in lost | {wrong}}


def test_a_pair_that_is_to_begin_at_another_switch_waits_for_its_path():
    made = network(
        ["h1", "h2"],
        [("h1", "s1"), ("h1", "s3"), ("s1", "s2"), ("s3", "s2"), ("s2", "h2")],
        ["s1", "s2", "s3"],
    )
    pair = Pair("10.0.0.1", "10.0.0.2", 7411)
    core, fabric = Core(made), Fabric(made)
    core.allot({pair: Allotment(10**8)})
    fabric.connect(core)
    fabric.settle(core, 0.0)
    core.allot({pair: Allotment(10**8, ("h1s3.forward", "s3s2.forward", "s2h2.forward"))})
    fabric.take(core.poll(0.1))
    held = fabric.queues["s2"]
    fabric.queues["s2"] = []
    for name in ("s1", "s3"):
        while fabric.queues[name]:
            fabric.do_one(core, name, 0.1)
    assert any(is_pair(place) for place in fabric.does["s1"].rules)
    assert core.poll(0.1) == {}
    fabric.queues["s2"] = held
    while held:
        fabric.do_one(core, "s2", 0.1)
    fabric.settle(core, 0.1)
    assert [len(one.meters) for one in fabric.does.values()] == [0, 0, 2]


def test_a_switch_that_has_lost_everything_gets_it_back_and_no_other_is_touched():
    made = network(
        ["h1", "h2"], [("h1", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "h2")], SWITCHES[:3]
    )
    core, fabric = Core(made), Fabric(made)
    core.allot({Pair("10.0.0.1", "10.0.0.2", 7411): Allotment(10**8)})
    fabric.connect(core)
    fabric.settle(core, 0.0)
    before = dict(fabric.does)
    core.on_gone("s2")
    fabric.told.clear()
    fabric.does["s2"] = m.Tables()
    fabric.settle(core, 0.2)
    fabric.connect(core, "s2")
    fabric.settle(core, 0.3)
    assert fabric.does == before
    assert {name for name, _ in fabric.told} == {"s2"}


def test_nobody_is_sent_along_a_path_through_a_switch_that_is_not_there():
    made = network(
        ["h1", "h2"], [("h1", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "h2")], SWITCHES[:3]
    )
    core, fabric = Core(made), Fabric(made)
    core.allot({Pair("10.0.0.1", "10.0.0.2", 7411): Allotment(10**8)})
    fabric.connect(core, "s1", "s3")
    fabric.settle(core, 0.0)
    assert not any(is_pair(place) for place in fabric.does["s1"].rules)
    fabric.connect(core, "s2")
    fabric.settle(core, 0.1)
    assert any(is_pair(place) for place in fabric.does["s1"].rules)


def test_the_rules_of_a_path_that_nobody_takes_any_more_go():
    made = network(
        ["h1", "h2"],
        [("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("s1", "s3"), ("s3", "s2")],
        ["s1", "s2", "s3"],
    )
    pair = Pair("10.0.0.1", "10.0.0.2", 7411)
    core, fabric = Core(made), Fabric(made)
    core.allot({pair: Allotment(10**8)})
    fabric.connect(core)
    fabric.settle(core, 0.0)
    before = dict(fabric.does)
    around = ("h1s1.forward", "s1s3.forward", "s3s2.forward", "s2h2.forward")
    fabric.told.clear()
    core.allot({pair: Allotment(10**8, around)})
    fabric.settle(core, 0.1)
    # The label first, from the inside; then who gives it; the old one stays for what is under way.
    assert [name for name, _ in fabric.told] == ["s2", "s3", "s1", "s1", "s1"]
    assert before["s2"].rules.keys() < fabric.does["s2"].rules.keys()
    fabric.settle(core, 0.2 + DRAIN_S)
    assert not before["s2"].rules.keys() <= fabric.does["s2"].rules.keys()
    assert core.is_settled()
    core.allot({})
    fabric.settle(core, 0.3 + DRAIN_S)
    fabric.settle(core, 0.4 + 2 * DRAIN_S)
    assert [one.meters for one in fabric.does.values()] == [{}, {}, {}]
    assert len(fabric.does["s3"].rules) == len(fabric.does["s2"].rules) - 1  # no host, no port


class Mortal(World):
    """A world whose controller and switches are killed, whatever they are about."""

    def __init__(self, seed, made):
        super().__init__(seed, made)
        self.dead, self.killed = set(), set()

    def kill_controller(self):
        """What it has sent and is not done yet is lost; another knows nothing but the calendar."""
        for queue in self.fabric.queues.values():
            queue.clear()
        allotted, self.core = self.core._allotted, Core(self.network)
        self.fabric.connect(self.core, *(x for x in SWITCHES if x not in self.dead))
        for _ in range(self.random.randint(0, 8)):
            self.work()  # The calendar speaks later.
        self.core.allot(allotted)

    def kill_switch(self):
        """It forgets everything, and comes back some time."""
        name = self.random.choice(SWITCHES)
        self.fabric.queues[name].clear()
        self.fabric.does[name] = m.Tables()
        self.core.on_gone(name)
        self.dead.add(name)
        self.killed.add(name)

    def start_switch(self):
        if self.dead:
            self.fabric.connect(self.core, self.dead.pop())

    def arrives(self, under):
        """Where a switch forgot its label a packet goes by next hops, and to nobody else."""
        if not self.killed:
            super().arrives(under)
        host = self.network.links[under.link].target
        addresses = self.network.nodes[host], self.network.addresses6.get(host)
        assert under.pair.destination in addresses

    def is_lost(self, under, at):
        """Packets end in switches that have forgotten everything, and nowhere else."""
        assert at in self.killed
        self.packets.remove(under)

    def end(self):
        """Everybody is there again: within two seconds all is as if nothing had happened."""
        while self.dead:
            self.start_switch()
        for _ in range(4):
            self.fabric.settle(self.core, self.now_s)
            self.now_s += DRAIN_S / 2
        assert self.core.is_settled()
        fresh, core = Fabric(self.network), Core(self.network)
        core.allot(self.core._allotted)
        fresh.connect(core)
        fresh.settle(core, 0.0)
        rules = {name: one.rules.keys() for name, one in self.fabric.does.items()}
        assert rules == {name: one.rules.keys() for name, one in fresh.does.items()}
        self.killed.clear()
        self.packets.clear()
        for _ in range(20):
            self.send()
            self.move()
        while self.packets:
            self.move()


@settings(max_examples=20)
@given(st.integers(0, 2**32), networks(), st.booleans())
def test_whoever_is_killed_half_way_no_packet_takes_a_way_that_it_may_not(seed, made, switches):
    world = Mortal(seed, made)
    kills = [world.kill_controller]
    kills += [world.kill_switch, world.start_switch, world.start_switch] if switches else []
    acts = [*[world.send] * 4, *[world.move] * 8, *[world.work] * 8, world.wait]
    for number in range(240):
        if number % 60 == 0:
            world.allot()
        if number % 15 == 14:
            world.random.choice(kills)()
        world.random.choice(acts)()
    world.end()
