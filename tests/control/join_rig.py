"""Switches, relays and clients that do by the book what the core of joined flows tells them."""

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from control_rig import network, ports
from os_ken.lib.packet import ethernet, ipv4, ipv6, packet, tcp

from weir.control import messages as m
from weir.control.join.aggregates import parse_aggregates
from weir.control.join.core import Joining, Known, Side
from weir.control.join.segment import End
from weir.control.join.steering import steering
from weir.control.rules import NO_FLOW
from weir.control.topology import Topology, View

CABLES = [("c1", "s1"), ("c2", "s1"), ("p1", "s1"), ("s1", "s2"), ("p2", "s2"), ("s2", "h")]
HOSTS = ["c1", "c2", "p1", "p2", "h"]
NETWORK = network(HOSTS, CABLES, ["s1", "s2"], has_ipv6=True)
SERVER, OTHER = End("10.0.0.5", 443), End("10.0.0.5", 80)
AGGREGATE = {
    "servers": [str(SERVER), str(OTHER), "[fd00::5]:443"],
    "join": {"host": "p1", "port": 7600, "control": "join.sock", "mac": "52:54:00:00:00:01"},
    "split": {"host": "p2", "control": "split.sock", "mac": "52:54:00:00:00:02"},
}
JOIN, SPLIT = (0, Side.JOIN), (0, Side.SPLIT)


def described(**about):
    """The topology with its aggregate; `about` changes the split end."""
    topology = Topology(NETWORK)
    item = AGGREGATE | {"split": AGGREGATE["split"] | about}
    return topology, parse_aggregates({"aggregate": [item]}, topology)


def view():
    """Everything is up."""
    return View({name: ports(NETWORK, name) for name in NETWORK.datapaths})


@lru_cache
def frame(client, server, sequence=77, bits=tcp.TCP_SYN, options=()):
    """A segment of TCP in a frame, by os-ken."""
    made = packet.Packet()
    kind = m.IPV6 if ":" in client.address else m.IPV4
    ends = ("aa:aa:aa:aa:aa:01", "aa:aa:aa:aa:aa:05")
    made.add_protocol(ethernet.ethernet(src=ends[0], dst=ends[1], ethertype=kind))
    addresses = {"src": client.address, "dst": server.address}
    ip = ipv6.ipv6(nxt=6, **addresses) if kind == m.IPV6 else ipv4.ipv4(proto=6, **addresses)
    made.add_protocol(ip)
    made.add_protocol(
        tcp.tcp(client.port, server.port, sequence, bits=bits, option=list(options) or None)
    )
    made.serialize()
    return bytes(made.data)


@dataclass
class Relay:
    """What a relay was told, and the question that it has not answered."""

    run: int = 0
    announced: dict = field(default_factory=dict)
    asked: object = None

    def known(self, is_all):
        """What it tells of its clients."""
        return [Known(*one) for one in self.announced.values() if is_all or one[1] != "here"]


class World:
    """A core with its switches and relays; time passes only by `wait`."""

    def __init__(self, **about):
        self.topology, self.aggregates = described(**about)
        self.now_s = 0.0
        self.rules = {name: {} for name in NETWORK.datapaths}
        self.queues = {name: [] for name in NETWORK.datapaths}
        self.relays = {JOIN: Relay(), SPLIT: Relay()}
        self.seen = Counter()
        self.told = []
        self.refused = []
        # The most rules that were told at a time.
        self.most = 0
        self.start()

    def start(self):
        """A controller begins, and all switches connect to it."""
        self.core = Joining(self.topology, self.aggregates)
        for relay in self.relays.values():
            relay.asked = None
        for name in self.queues:
            self.connect(name)

    def connect(self, name, is_new=False):
        """A switch connects again, started anew or with the rules that it has."""
        self.core.on_gone(name)
        self.queues[name] = []
        if is_new:
            self.rules[name] = {}
        self.core.on_connected(name, view())

    def chosen(self, name, of):
        """The rules that a switch is asked for."""
        rules = self.rules[name].items()
        return {x: y for x, y in rules if y.cookie & of.mask == of.cookie & of.mask}

    def read(self, name):
        """A switch tells those of its rules that are not marked as flows'."""
        self.core.on_strays(name, self.chosen(name, NO_FLOW))

    def poll(self):
        """Hands what the core wants over to switches and relays."""
        orders = self.core.poll(view(), self.now_s)
        for name, messages in orders.switches.items():
            for message in messages:
                if isinstance(message, m.PacketOut) and message.port == m.BY_THE_TABLES:
                    self.check_is_set_up(message.frame)
            self.queues[name] += messages
        for key, question in orders.relays.items():
            assert self.relays[key].asked is None
            self.relays[key].asked = question
        self.told += self.core.take_told()

    def wait(self, seconds):
        """Time passes."""
        self.now_s += seconds
        self.poll()

    def begin(self, client, server, switch="s1"):
        """A client's first packet comes to a switch, the first time or again."""
        if self.up(client, server):
            self.arrive(client)
            return
        port = ports(NETWORK, switch)[self.topology.host(client.address)]
        assert self.core.on_frame(switch, port, frame(client, server), view(), self.now_s)
        self.poll()

    def up(self, client, server):
        """Whether the client's switch has a rule for its packets."""
        return any(
            (x.match.source, x.match.source_port) == (client.address, client.port)
            and (x.match.target, x.match.port) == (server.address, server.port)
            for x in self.rules["s1"]
        )

    def arrive(self, client):
        """A client's SYN comes to the join end."""
        known = self.relays[JOIN].announced.get(client)
        if known and known[1] != "here":
            known[1] = "here"
            self.seen["came"] += 1

    def end(self, client):
        """A client's connection is over."""
        known = self.relays[JOIN].announced.get(client)
        if known and known[1] == "here":
            known[1] = "over"

    def do_one(self, name):
        """A switch does the next thing that it was told."""
        self.do(name, 1)

    def do(self, name, count):
        """A switch does the next things that it was told."""
        for _ in range(min(count, len(self.queues[name]))):
            self._do_next(name)
        self.poll()

    def _do_next(self, name):
        match self.queues[name].pop(0):
            case m.AddRule(place, entry):
                self.rules[name][place] = entry
            case m.RemoveRule(place):
                self.rules[name].pop(place, None)
            case m.Confirm(number):
                self.core.on_done(name, number)
            case m.CountRules(of, number):
                count = len(self.chosen(name, of))
                self.core.on_counted(name, number, count, self.now_s)
            case m.ReadRules(of, number):
                self.most = max(self.most, len(found := self.chosen(name, of)))
                self.core.on_read(name, number, found)
            case m.PacketOut(port, data, _):
                self.send(name, port, data)

    def send(self, name, port, data):
        """A switch sends a frame out."""
        ip = packet.Packet(data).get_protocol(ipv6.ipv6 if data[12] == 0x86 else ipv4.ipv4)
        segment = packet.Packet(data).get_protocol(tcp.tcp)
        if segment.bits & tcp.TCP_RST:
            self.refused.append(End(ip.dst, segment.dst_port))
        elif port == m.BY_THE_TABLES:
            self.arrive(End(ip.src, segment.src_port))
        else:
            assert (name, port) == ("s1", ports(NETWORK, "s1")["s2"])
            self.seen["direct"] += 1

    def answer(self, key):
        """A relay does what it was asked, and answers."""
        relay = self.relays[key]
        if relay.asked is None:
            return
        question, relay.asked = relay.asked, None
        for client in question.forget:
            relay.announced.pop(client, None)
        for course, _ in question.announce:
            before = relay.announced.get(course.client)
            if before is None or before[0] != course:
                relay.announced[course.client] = [course, "awaited"]
        # Two clients with one number would be one flow to it.
        uids = [course.uid for course, _ in relay.announced.values()]
        assert len(uids) == len(set(uids))
        self.core.on_answer(key, str(relay.run), relay.known(question.is_all), view(), self.now_s)
        self.poll()

    def restart(self, key):
        """A relay is killed and started anew; a question to it is lost."""
        relay = self.relays[key]
        relay.run += 1
        relay.announced = {}
        if key == SPLIT:
            for known in self.relays[JOIN].announced.values():
                known[1] = "over" if known[1] == "here" else known[1]
        if relay.asked is not None:
            relay.asked = None
            self.core.on_silent(key, "killed", self.now_s)
        self.poll()

    def check_is_set_up(self, data):
        """A SYN is let go: all rules of its flow are there, and relays know it."""
        ip = packet.Packet(data).get_protocol(ipv6.ipv6 if data[12] == 0x86 else ipv4.ipv4)
        client = End(ip.src, packet.Packet(data).get_protocol(tcp.tcp).src_port)
        course = next(x for x in self.core.flows() if x.client == client)
        wanted = steering(self.topology, view(), self.aggregates[0], course)
        assert [len(x) for x in wanted.values()] == [2, 2]
        for name, rules in wanted.items():
            assert rules.items() <= self.rules[name].items()
        for relay in self.relays.values():
            known = relay.announced.get(client)
            assert (known and known[0] == course) or relay.run != self.known_run(relay)
        self.seen["let go"] += 1

    def known_run(self, relay):
        """The run of a relay that the core knows of."""
        key = next(x for x, y in self.relays.items() if y is relay)
        told = self.core._relays[key].run
        return None if told is None else int(told)

    def check(self):
        """No two flows have a number in common."""
        flows = list(self.core.flows())
        assert len({x.uid for x in flows}) == len(flows)
        assert len({(x.server, x.source_port) for x in flows}) == len(flows)
        assert len({x.client for x in flows}) == len(flows)

    def settle(self, steps=60):
        """Everybody does what there is to do, with the time that it takes."""
        for _ in range(steps):
            for name in self.queues:
                while self.queues[name]:
                    self.do_one(name)
            for key in self.relays:
                self.answer(key)
            self.check()
            self.wait(0.1)

    def rest(self):
        """All clients are done; everything ends that is over."""
        for _ in range(8):
            for known in self.relays[JOIN].announced.values():
                known[1] = "over" if known[1] == "here" else known[1]
            self.settle(10)
            for name in self.queues:
                self.read(name)
            self.wait(15)
