"""What becomes of flows that are joined, without clock, switches or relays.

Events go in, with the time in seconds of any steady clock; `poll` tells what to send. A flow
*begins* when its first packet comes: it gets a UID and a port towards its server, both relays and
the switches at its ends are told, and when all have confirmed the packet is let go. It *lives* as
long as the join end says that something of it is there. Then it *ends*: its rules are taken away,
then the relays forget it, and only when all have confirmed are its numbers another's.

Relays are asked once a second, and know what this controller does not when it is started anew. A
switch's rules of flows are read part by part, and compared with what they should be.
"""

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weir.control import messages as m
from weir.control.join.aggregates import Aggregate
from weir.control.join.numbers import Numbers
from weir.control.join.reading import Reading, Wanted
from weir.control.join.segment import End, Offered, Syn, refusal, syn
from weir.control.join.sources import Sources
from weir.control.join.steering import Course, Rules, address_of, edges, steering
from weir.control.topology import Topology, View

UID_MAX = 65_532
ASK_S = 1.0
# A client whose SYN was let go is there after so long, or has given up.
AWAIT_S = 20.0
# So long are the rules of a flow kept that is over: its last packets may have to be sent again.
LINGER_S = 5.0
# The rules of a relay's flows are kept so long when it does not answer.
SILENCE_S = 30.0
# A port is another connection's when the kernel has forgotten the one before (TIME_WAIT).
REST_S = 60.0
# A first packet that comes again so soon after it was let go was sent before that.
AGAIN_S = 0.5
# So many flows a relay is told of at a time.
TOLD_MAX = 1_024


class Side(enum.Enum):
    """Which end of an aggregate: the one towards clients, or the one towards servers."""

    JOIN = "join"
    SPLIT = "split"


Key = tuple[int, Side]
"""A relay: the number of its aggregate, and which end it is."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a relay is told, and that it is to say how its clients are."""

    announce: tuple[tuple[Course, Offered], ...] = ()
    forget: tuple[End, ...] = ()
    is_all: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """A client that a relay knows.

    Attributes:
        course: who it is.
        stage: "awaited", "here" or "over".
    """

    course: Course
    stage: str


@dataclass(slots=True)
class Orders:
    """What is to be sent to switches, and to relays."""

    switches: dict[str, list[m.Message]] = field(default_factory=dict)
    relays: dict[Key, Question] = field(default_factory=dict)


class _Stage(enum.Enum):
    BEGINS, LIVES, ENDS = range(3)


@dataclass(slots=True)
class _Flow:
    """One flow.

    `awaited` are those who have not confirmed: switches by name, and relays. `since_s` is when it
    began, and once it lives, when its first packet was let go.
    """

    aggregate: int
    course: Course
    offered: Offered
    stage: _Stage
    since_s: float
    awaited: set[str | Key] = field(default_factory=set)
    # The rules of switches by which its client comes: they are told when all others have confirmed.
    # A first packet that comes again before would go by them to a join end that does not know it.
    last: Rules = field(default_factory=dict)
    held: tuple[str, int, Syn] | None = None
    # Whether its client has come to the join end: then its port is in use for longer.
    has_come: bool = False
    # Since when it is over; and whether that is because a relay is gone.
    over_s: float | None = None
    is_lost: bool = False
    places: dict[str, list[m.Place]] = field(default_factory=dict)


@dataclass(slots=True)
class _Relay:
    """A relay as far as it is known; `run` is None until it has answered."""

    run: str | None = None
    silent_s: float | None = None
    asked: Question | None = None
    asked_s: float = -1e9
    announce: dict[End, None] = field(default_factory=dict)
    forget: dict[End, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Switch:
    """A connected switch: what it is to be told, and the flows of batches by their numbers."""

    wanted: Wanted = field(default_factory=Wanted)
    reading: Reading = field(default_factory=Reading)
    out: list[m.Message] = field(default_factory=list)
    confirming: list[End] = field(default_factory=list)
    batches: dict[int, list[End]] = field(default_factory=dict)


class Joining:
    """Sets flows up and takes them down.

    Args:
        topology: of the switches and hosts.
        aggregates: whose flows.
        begin: which of the ports from a first to a last one is to be given out first. A controller
            that is started anew knows the ports of running connections from the relays, but not
            those that the kernel has yet to forget: it had better begin elsewhere.
    """

    def __init__(
        self,
        topology: Topology,
        aggregates: Sequence[Aggregate],
        begin: Callable[[int, int], int] = min,
    ) -> None:
        self._topology, self._aggregates = topology, aggregates
        self._of_server = {x: at for at, one in enumerate(aggregates) for x in one.servers}
        self._uids = [Numbers(1, UID_MAX) for _ in aggregates]
        self._ports = {
            server: Numbers(*one.ports, REST_S, begin(*one.ports))
            for one in aggregates
            for server in one.servers
        }
        # By the client: a join end knows flows by nothing else.
        self._flows: dict[End, _Flow] = {}
        # Those that begin, and those that are over or end: all others are not looked at.
        self._beginning: dict[End, None] = {}
        self._ending: dict[End, None] = {}
        self._relays = {(at, end): _Relay() for at in range(len(aggregates)) for end in Side}
        self._switches: dict[str, _Switch] = {}
        # First packets that wait, each with its aggregate; by who sends them.
        self._sources: Sources[tuple[int, tuple[str, int, Syn]]] = Sources()
        self._number = 0
        self._now_s = 0.0
        self._told: list[str] = []
        self._is_full = False
        # How many went by themselves since there was nothing left for them.
        self.direct = 0

    # --- what happens ---

    def on_connected(self, switch: str, view: View) -> None:
        """A switch is there; its rules are not known."""
        self.on_gone(switch)
        self._switches[switch] = _Switch()
        for flow in self._flows.values():
            if flow.stage is not _Stage.ENDS and switch not in flow.last:
                self._want(flow, self._steering(flow, view), [switch])

    def on_gone(self, switch: str) -> None:
        """A switch goes on by the rules that it has; what it was told may be done or not."""
        if self._switches.pop(switch, None) is None:
            return
        for client in [*self._beginning, *self._ending]:
            flow = self._flows.get(client)
            if flow is None or switch not in flow.awaited:
                continue
            if flow.stage is _Stage.BEGINS:
                self._end(flow)  # Its packet comes again.
            else:
                # What is left there is found when it is read.
                self._confirmed(flow, switch)

    def on_frame(self, switch: str, port: int, frame: bytes, view: View, now_s: float) -> bool:
        """A switch has handed on a frame; whether that was a first packet."""
        one = syn(frame)
        if one is None:
            return False
        self._now_s = now_s
        at = self._of_server.get(one.server)
        # Whoever is not where its address is can be nobody that we serve.
        here = ((x, y) for _, x, y in edges(self._topology, view, one.client.address))
        if at is None or (switch, port) not in here:
            return True
        if self._sources.of(one.client).may_begin(now_s):
            self._sources.wait(one.client, (at, (switch, port, one)))
        return True

    def on_done(self, switch: str, number: int, refusal: str = "") -> None:
        """A switch has done a batch, or refused something of it."""
        state = self._switches.get(switch)
        for client in state.batches.pop(number, ()) if state else ():
            flow = self._flows.get(client)
            if flow is None or switch not in flow.awaited:
                continue
            if refusal and flow.stage is _Stage.BEGINS:
                self._told.append(f"switch {switch} refuses rules of a joined flow: {refusal}")
                self._end(flow, is_refused=True)
            else:
                self._confirmed(flow, switch)

    def on_counted(self, switch: str, number: int, count: int | None, now_s: float) -> None:
        """A switch has told how many rules of flows it has, or (None) cannot."""
        if (state := self._switches.get(switch)) is not None:
            state.reading.counted(number, count, now_s)

    def on_read(self, switch: str, number: int, found: Mapping[m.Place, m.Entry]) -> None:
        """A switch has told a part of its rules of flows."""
        state = self._switches.get(switch)
        part = state.reading.has_read(number) if state else None
        if state is not None and part is not None:
            self._mend(state, found, state.wanted.part(*part))

    def on_strays(self, switch: str, found: Mapping[m.Place, m.Entry]) -> None:
        """A switch has rules where those of flows are, and they are not marked as such."""
        state = self._switches.get(switch)
        if state is not None:
            rules = state.wanted.rules
            self._mend(state, found, {x: rules[x] for x in found if x in rules})

    def _mend(
        self,
        state: _Switch,
        found: Mapping[m.Place, m.Entry],
        wanted: Mapping[m.Place, m.Entry],
    ) -> None:
        """Has a switch have these rules, and none of what was found beside them."""
        if any(x.run is None for (_, end), x in self._relays.items() if end is Side.JOIN):
            return  # Who knows the flows has not spoken yet.
        rules = state.wanted.rules
        stale = [m.RemoveRule(place) for place in found if place not in rules]
        lost = [m.AddRule(x, y) for x, y in wanted.items() if found.get(x) != y]
        state.out += [*stale, *lost]

    def on_answer(
        self, relay: Key, run: str, known: Iterable[Known], view: View, now_s: float
    ) -> None:
        """A relay has done what it was asked; `known` are those not "here", or all if so asked."""
        self._now_s = now_s
        state = self._relays[relay]
        asked, state.asked = state.asked or Question(), None
        if state.silent_s is not None:
            self._told.append(f"{self._name(relay)} answers")
        state.silent_s = None
        if state.run != run:
            is_first, state.run = state.run is None, run
            if is_first:
                self._adopt(relay, known, view, now_s)
                for switch in self._switches.values():
                    switch.reading.hurry()
                return
            self._is_new(relay, now_s)
        for client in [x.client for x, _ in asked.announce] + [*asked.forget]:
            flow = self._flows.get(client)
            if flow is not None and relay in flow.awaited and not self._is_to_be_told(relay, flow):
                self._confirmed(flow, relay)
        awaited, over = set(), set()
        for one in known:
            if one.stage == "awaited":
                awaited.add(one.course.client)
            flow = self._flows.get(one.course.client)
            if flow is None or flow.course != one.course:
                # The join end may not have told yet what the split end knows.
                if flow is None and self._relays[relay[0], Side.JOIN].run is not None:
                    state.forget[one.course.client] = None
            elif relay[1] is Side.JOIN and flow.stage is _Stage.LIVES:
                is_late = one.stage == "awaited" and now_s - flow.since_s >= AWAIT_S
                if is_late:
                    self._end(flow)
                elif one.stage == "over":
                    over.add(one.course.client)
                    self._over(flow, now_s)
        if relay[1] is Side.JOIN:
            self._note_come(relay[0], awaited)
            for client in [x for x in self._ending if x not in over]:
                flow = self._flows[client]
                is_here = flow.stage is _Stage.LIVES and not flow.is_lost
                if flow.aggregate == relay[0] and is_here:
                    # The client's port has begun another connection.
                    flow.over_s = None
                    del self._ending[client]

    def _note_come(self, aggregate: int, awaited: Collection[End]) -> None:
        """A join end has told whom it still awaits: all others have come."""
        for source, client in self._sources.awaited():
            flow = self._flows[client]
            if flow.aggregate == aggregate and client not in awaited:
                flow.has_come = True
                del source.awaited[client]

    def on_silent(self, relay: Key, why: str, now_s: float) -> None:
        """A relay does not answer."""
        state = self._relays[relay]
        asked, state.asked = state.asked or Question(), None
        if state.silent_s is None:
            state.silent_s = now_s
            self._told.append(f"{self._name(relay)} does not answer, clients are refused: {why}")
        for client in asked.forget:
            if client in self._flows:
                state.forget[client] = None
        for client in [*self._beginning]:
            flow = self._flows[client]
            if flow.aggregate == relay[0]:
                self._end(flow, is_refused=True)

    # --- what is to be done ---

    def poll(self, view: View, now_s: float) -> Orders:
        """What to send now."""
        self._now_s = now_s
        self._look(now_s)
        for at, held in self._sources.due():
            self._admit(at, held, view, now_s)
        orders = Orders()
        for name, switch in self._switches.items():
            if switch.confirming:
                self._number += 1
                switch.batches[self._number] = switch.confirming
                switch.out.append(m.Confirm(self._number))
                switch.confirming = []
            # Behind all that it was told: it is to have done that when it counts.
            if asked := switch.reading.due(len(switch.wanted.rules), now_s):
                switch.out.append(asked)
            if switch.out:
                orders.switches[name], switch.out = switch.out, []
        for key, relay in self._relays.items():
            if relay.asked is None and self._is_due(relay, now_s):
                orders.relays[key] = relay.asked = self._question(relay)
                relay.asked_s = now_s
        return orders

    def take_told(self) -> list[str]:
        """What an operator should know that happened since the last call, in words."""
        told, self._told = self._told, []
        return told

    # --- how things stand ---

    def control(self, relay: Key) -> Path:
        """Where a relay answers."""
        one = self._aggregates[relay[0]]
        return (one.join if relay[1] is Side.JOIN else one.split).control

    def source(self, relay: Key, course: Course) -> End:
        """From where the split end connects for a flow."""
        split = self._aggregates[relay[0]].split
        return End(address_of(self._topology, split.host, course.client), course.source_port)

    def flows(self) -> dict[Course, str]:
        """All flows, and whether each begins, lives or ends."""
        return {flow.course: flow.stage.name.lower() for flow in self._flows.values()}

    # --- inside ---

    def _name(self, relay: Key) -> str:
        aggregate = self._aggregates[relay[0]]
        one = aggregate.join if relay[1] is Side.JOIN else aggregate.split
        return f"the {relay[1].value} end at {one.host} ({one.control})"

    def _admit(self, at: int, held: tuple[str, int, Syn], view: View, now_s: float) -> None:
        """It is a first packet's turn."""
        switch, _, one = held
        flow = self._flows.get(one.client)
        if flow is not None and flow.course.server == one.server:
            self._begin_again(flow, held, view, now_s)
            return
        relays = [self._relays[at, end] for end in Side]
        if any(x.silent_s is not None for x in relays):
            self._refuse(held)
        elif flow is not None:
            self._pass_on(switch, one, view)  # The join end could not tell it from the other one.
        elif all(x.run for x in relays):
            given_up = self._sources.of(one.client).given_up()
            if given_up is not None:
                self._end(self._flows[given_up])
            self._begin_new(at, held, view, now_s)

    def _begin_again(
        self, flow: _Flow, held: tuple[str, int, Syn], view: View, now_s: float
    ) -> None:
        """The first packet of a flow that is known has come again."""
        if flow.stage is _Stage.BEGINS:
            flow.held = held
        elif flow.stage is _Stage.LIVES and now_s - flow.since_s >= AGAIN_S:
            # There is no rule for it there: it begins anew, as what it was.
            flow.held = held
            self._begin(flow, self._steering(flow, view), now_s)

    def _begin_new(self, at: int, held: tuple[str, int, Syn], view: View, now_s: float) -> None:
        switch, _, one = held
        uid, port = self._uids[at].take(now_s), self._ports[one.server].take(now_s)
        course = Course(one.client, one.server, uid or 0, port or 0)
        rules = steering(self._topology, view, self._aggregates[at], course)
        if uid is None or port is None or not self._can_be_told(one, rules, view):
            if self._is_full is False and (uid is None or port is None):
                self._is_full = True
                self._told.append("all numbers are taken: further flows go by themselves")
            self._give_back(at, one.server, uid, port)
            self._pass_on(switch, one, view)
            return
        flow = _Flow(at, course, one.offered, _Stage.BEGINS, now_s, held=held)
        self._flows[one.client] = flow
        self._begin(flow, rules, now_s)

    def _can_be_told(self, one: Syn, rules: Rules, view: View) -> bool:
        """Whether every switch that a flow needs is there and known."""
        ends = (one.client.address, one.server.address)
        needed = {x for address in ends for _, x, _ in edges(self._topology, view, address)}
        states = [self._switches.get(x) for x in needed | rules.keys()]
        return len(needed) > 0 and all(x is not None and x.reading.is_done for x in states)

    def _begin(self, flow: _Flow, rules: Rules, now_s: float) -> None:
        """Tells everybody of a flow."""
        flow.stage, flow.since_s, flow.over_s, flow.is_lost = _Stage.BEGINS, now_s, None, False
        client = flow.course.client
        self._beginning[client] = None
        self._ending.pop(client, None)
        source = self._sources.of(client)
        source.beginning.add(client)
        source.awaited.pop(client, None)
        host = self._topology.host(client.address) or ""
        nearest = {link.target for link in self._topology.leaving(host)}
        flow.last = {name: ours for name, ours in rules.items() if name in nearest}
        self._add(flow, {name: ours for name, ours in rules.items() if name not in nearest})
        for end in Side:
            self._relays[flow.aggregate, end].forget.pop(client, None)
            self._relays[flow.aggregate, end].announce[client] = None
            flow.awaited.add((flow.aggregate, end))

    def _add(self, flow: _Flow, rules: Rules) -> None:
        """Has switches do what these rules of a flow say."""
        for name, ours in self._want(flow, rules, self._switches).items():
            self._switches[name].out += [m.AddRule(x, y) for x, y in ours.items()]
            self._switches[name].confirming.append(flow.course.client)
            flow.awaited.add(name)

    def _add_last(self, flow: _Flow) -> None:
        """All others have confirmed: now the switches by which the client comes are told."""
        rules, flow.last = flow.last, {}
        self._add(flow, rules)
        if not flow.awaited:
            self._end(flow)  # They have gone; its packet comes again.

    def _steering(self, flow: _Flow, view: View) -> Rules:
        return steering(self._topology, view, self._aggregates[flow.aggregate], flow.course)

    def _want(self, flow: _Flow, rules: Rules, switches: Iterable[str]) -> Rules:
        """Has some switches have a flow's rules from now on; these rules."""
        rules = {name: rules[name] for name in switches if name in rules}
        for name, ours in rules.items():
            self._switches[name].wanted.add(ours)
            flow.places[name] = list(ours)
        return rules

    def _confirmed(self, flow: _Flow, by: str | Key) -> None:
        flow.awaited.discard(by)
        if flow.awaited:
            return
        if flow.last:
            self._add_last(flow)
        elif flow.stage is _Stage.BEGINS:
            flow.stage, flow.since_s = _Stage.LIVES, self._now_s
            self._begins_no_more(flow.course.client)
            self._sources.of(flow.course.client).awaited[flow.course.client] = None
            if flow.held:
                self._let_go(flow.held)
            flow.held = None
        elif flow.stage is _Stage.ENDS:
            if isinstance(by, str):
                self._have_forgotten(flow)
            else:
                self._free(flow)

    def _begins_no_more(self, client: End) -> None:
        self._beginning.pop(client, None)
        self._sources.of(client).beginning.discard(client)

    def _let_go(self, held: tuple[str, int, Syn]) -> None:
        switch, port, one = held
        if switch in self._switches:
            out = m.PacketOut(m.BY_THE_TABLES, one.frame, port)
            self._switches[switch].out.append(out)

    def _refuse(self, held: tuple[str, int, Syn]) -> None:
        """Has the client told what a server that refuses would tell it."""
        switch, port, one = held
        if switch in self._switches:
            self._switches[switch].out.append(m.PacketOut(port, refusal(one)))

    def _pass_on(self, switch: str, one: Syn, view: View) -> None:
        """Sends a first packet to its server: no other packet of that flow comes here."""
        self.direct += 1
        host = self._topology.host(one.server.address)
        link = self._topology.toward(host, view).get(switch) if host else None
        port = self._topology.leaves_by(link, view) if link else None
        if port is not None and switch in self._switches:
            self._switches[switch].out.append(m.PacketOut(port, one.frame))

    def _over(self, flow: _Flow, now_s: float) -> None:
        if flow.over_s is None:
            flow.over_s = now_s
            self._ending[flow.course.client] = None

    def _end(self, flow: _Flow, is_refused: bool = False) -> None:
        """Takes a flow's rules away, wherever they are or may be."""
        if is_refused and flow.held:
            self._refuse(flow.held)
        client = flow.course.client
        flow.stage, flow.held, flow.over_s = _Stage.ENDS, None, None
        flow.awaited, flow.last = set(), {}
        self._begins_no_more(client)
        self._sources.of(client).awaited.pop(client, None)
        self._ending[client] = None
        for key in ((flow.aggregate, end) for end in Side):
            self._relays[key].announce.pop(client, None)
        for name, places in flow.places.items():
            if (state := self._switches.get(name)) is not None:
                state.wanted.remove(places)
                state.out += [m.RemoveRule(place) for place in places]
                state.confirming.append(client)
                flow.awaited.add(name)
        if not flow.awaited:
            self._have_forgotten(flow)

    def _have_forgotten(self, flow: _Flow) -> None:
        """Has relays forget a flow of which there is no rule any more."""
        for key in ((flow.aggregate, end) for end in Side):
            self._relays[key].forget[flow.course.client] = None
            flow.awaited.add(key)

    def _free(self, flow: _Flow) -> None:
        course = flow.course
        del self._flows[course.client]
        self._ending.pop(course.client, None)
        used = (course.uid, course.source_port)
        self._give_back(flow.aggregate, course.server, *used, is_used=flow.has_come)
        self._is_full = False

    def _give_back(
        self, at: int, server: End, uid: int | None, port: int | None, is_used: bool = False
    ) -> None:
        if uid is not None:
            self._uids[at].give_back(uid, self._now_s)
        if port is not None:
            # The split end has connected from it only if the client has come.
            self._ports[server].give_back(port, self._now_s, rests=is_used)

    def _look(self, now_s: float) -> None:
        """Ends what is over for long enough."""
        for key, relay in self._relays.items():
            if relay.silent_s is not None and now_s - relay.silent_s >= SILENCE_S:
                self._all_over(key[0], now_s)
        for client in [*self._ending]:
            flow = self._flows[client]
            is_over = flow.over_s is not None and now_s - flow.over_s >= LINGER_S
            if flow.stage is _Stage.LIVES and is_over:
                self._end(flow)

    def _all_over(self, aggregate: int, now_s: float) -> None:
        for flow in self._flows.values():
            if flow.aggregate == aggregate and flow.stage is _Stage.LIVES:
                # Whether its client had come nobody can tell now.
                flow.is_lost = flow.has_come = True
                self._over(flow, now_s)

    def _is_new(self, relay: Key, now_s: float) -> None:
        """A relay was started anew: it knows no flow, and the connections are gone."""
        self._told.append(f"{self._name(relay)} was started anew")
        self._all_over(relay[0], now_s)
        for client in self._beginning:
            flow = self._flows[client]
            if flow.aggregate == relay[0]:
                flow.awaited.add(relay)
                self._relays[relay].announce[client] = None

    def _adopt(self, relay: Key, known: Iterable[Known], view: View, now_s: float) -> None:
        """Takes over the flows of a controller before this one, which the join end knows."""
        for one in known:
            course = one.course
            at = self._of_server.get(course.server)
            is_ours = at == relay[0] and course.client not in self._flows
            if relay[1] is Side.SPLIT:
                continue  # What the join end does not know is forgotten with the next answer.
            if at is None or not is_ours or not self._uids[at].claim(course.uid):
                self._relays[relay].forget[course.client] = None
                continue
            self._ports[course.server].claim(course.source_port)
            flow = _Flow(at, course, Offered(), _Stage.LIVES, now_s)
            flow.has_come = one.stage != "awaited"
            if not flow.has_come:
                self._sources.of(course.client).awaited[course.client] = None
            self._flows[course.client] = flow
            self._want(flow, self._steering(flow, view), self._switches)

    def _is_to_be_told(self, relay: Key, flow: _Flow) -> bool:
        """Whether a relay was told something of a flow that holds no longer."""
        state, client = self._relays[relay], flow.course.client
        return client in state.announce or client in state.forget

    def _is_due(self, relay: _Relay, now_s: float) -> bool:
        has_news = relay.silent_s is None and (relay.announce or relay.forget)
        return bool(has_news and relay.run) or now_s - relay.asked_s >= ASK_S

    def _question(self, relay: _Relay) -> Question:
        if relay.run is None or relay.silent_s is not None:
            return Question(is_all=True)
        announced = [*relay.announce][:TOLD_MAX]
        forgotten = [*relay.forget][:TOLD_MAX]
        for client in announced:
            del relay.announce[client]
        for client in forgotten:
            del relay.forget[client]
        found = [self._flows[client] for client in announced]
        return Question(tuple((x.course, x.offered) for x in found), tuple(forgotten))
