"""The controller without clock, sockets or OpenFlow: what switches say goes in, messages come out.

Every method takes the time, in seconds of any steady clock. After each call, and at least every
`TICK_S`, the caller sends what `poll` gives it.

A switch is told one batch at a time, ended by a barrier; what it does is what it has last
reported, with the batches that it has confirmed since. All are asked for their rules, with their
counters, in rounds of `READ_EVERY_S`, so that what others change is mended. A switch that is not
connected goes on by the rules that it has.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from weir.calendar.agents.enforcer import Allotment, Pair
from weir.calendar.network import Network
from weir.control import messages as m
from weir.control import rules, update
from weir.control.awaited import CHANGES, PORTS, RULES, Awaited
from weir.control.cabling import Cabling
from weir.control.elephant import Count, Flow
from weir.control.promises import READ_EVERY_S, Kept, Ledger
from weir.control.topology import Topology, View

log = logging.getLogger(__name__)

TICK_S = 0.1
# What a switch refuses is tried again after so long.
RETRY_S = 1.0
# So many different refusals of a switch are told before it does again what it is told.
REFUSALS_MAX = 16
# Promises are counted so often, and when a switch has told what it carried.
SETTLE_EVERY_S = 0.5
# A packet that was given a label has left the network after so long: longer than any queue.
DRAIN_S = 1.0


Beside = Callable[[View], Mapping[str, m.Tables]]


@dataclass(slots=True)
class _Switch:
    """A switch as far as it is known; `does` is None until it has reported."""

    is_connected: bool = False
    does: m.Tables | None = None
    asked: list[m.Change] | None = None
    is_reading: bool = False
    read_s: float = -math.inf
    # What it has refused since it has last done all that it was told: each is said once.
    refusals: set[str] = field(default_factory=set)
    # When what it has refused is tried again.
    retry_s: float = -math.inf

    @property
    def is_busy(self) -> bool:
        """Whether an answer is awaited."""
        return self.is_reading or self.asked is not None


@dataclass(slots=True)
class _Plan:
    """What is wanted for one state of topology, allotments and elephants."""

    ways: dict[Pair, rules.Course]
    marked: dict[Flow, rules.Course | None]
    tables: dict[str, m.Tables]
    rates: dict[Pair, int]
    paths: dict[Pair, tuple[list[str], str]]


class Core:
    """Keeps switches at what pairs are allotted."""

    def __init__(self, network: Network, beside: Beside | None = None) -> None:
        """With `beside`, switches do what that says, too, for what is there.

        Then their rules of joined flows are not read: they are another's.
        """
        self.topology = Topology(network)
        self._beside = beside
        self._read = m.Read() if beside is None else m.Read(rules.NO_FLOW)
        self._cabling = Cabling(self.topology)
        self._ledger = Ledger()
        self._awaited = Awaited()
        self._switches = {name: _Switch() for name in self.topology.switches}
        self._ports: dict[str, Mapping[str, int]] = {}
        self._cut: frozenset[str] = frozenset()
        self._allotted: dict[Pair, Allotment] | None = None
        self._marked: dict[Flow, tuple[str, ...]] = {}
        # What each switch has counted of elephants that enter there.
        self._counted: dict[str, dict[Flow, Count]] = {}
        self._meters: dict[Pair, int] = {}
        self._unused_s: dict[str, float] = {}
        self._plan: _Plan | None = None
        self._round_s = -math.inf
        # The plan by which promises were judged last, and when; whether a switch has told since.
        self._settled: _Plan | None = None
        self._settled_s = -math.inf
        self._is_read = False
        # When there may be something to tell the switches, unless something happens before.
        self._look_s = 0.0
        self._told: list[str] = []

    # --- what happens ---

    def allot(self, allotted: Mapping[Pair, Allotment]) -> None:
        """What pairs may send from now on. Before the first call nothing is taken from switches."""
        self._allotted = dict(allotted)
        self._plan = None

    def mark(self, marked: Mapping[Flow, Sequence[str]]) -> None:
        """These elephants are marked from now on, and no others.

        Args:
            marked: with the links that each is to take; none: as everybody else.
        """
        wanted = {flow: tuple(path) for flow, path in marked.items()}
        if wanted != self._marked:
            self._marked, self._plan = wanted, None

    def on_connected(self, switch: str, ports: Mapping[str, int]) -> None:
        """A switch is there, with these ports up; what it does is not known."""
        self._switches[switch] = _Switch(is_connected=True)
        self._forget(switch)
        self.on_ports(switch, ports)

    def on_gone(self, switch: str) -> None:
        """The connection to a switch has ended; it goes on by the rules that it has."""
        self._switches[switch] = _Switch()
        self._look_s = 0.0
        self._forget(switch)

    def _forget(self, switch: str) -> None:
        """What a switch was asked over a connection that is gone is not answered."""
        self._cabling.gone(switch)
        self._ledger.gone(switch)
        self._awaited.gone(switch)

    def on_ports(self, switch: str, ports: Mapping[str, int]) -> None:
        """These are the ports of a switch that are up."""
        before = self._ports.get(switch)
        if before == ports:
            return
        self._tell_ports(switch, before, ports)
        self._ports[switch] = dict(ports)
        self._plan = None

    def on_frame(self, switch: str, port: int, data: bytes) -> None:
        """A switch has handed on a frame that came in by a port."""
        self._cabling.heard(switch, port, data, self.view())

    def on_counted(self, switch: str, received: Mapping[int, int]) -> None:
        """So many packets have come in to a switch by each port."""
        self._awaited.answered(switch, PORTS)
        self._cabling.counted(switch, received, self.view())

    def on_read(
        self, switch: str, tables: m.Tables, passed: Mapping[m.Place, int], now_s: float
    ) -> None:
        """A switch has told what it does, and the bytes that each rule has let pass."""
        state = self._switches[switch]
        state.is_reading, state.read_s = False, now_s
        self._awaited.answered(switch, RULES)
        if state.does is None:
            self._adopt_meters(tables)
        state.does, self._look_s, self._is_read = tables, 0.0, True
        self._ledger.read(switch, passed, now_s)
        carried: Counter[Flow] = Counter()
        for place, count in passed.items():
            if flow := rules.flow_of(place):
                carried[self.topology.as_told(flow)] += count
        self._counted[switch] = {flow: Count(count, now_s) for flow, count in carried.items()}

    def on_done(self, switch: str) -> None:
        """A switch has done all of its batch."""
        state = self._switches[switch]
        if state.asked is not None and state.does is not None:
            state.does = m.after(state.does, state.asked)
            state.refusals.clear()
        state.asked = None
        self._awaited.answered(switch, CHANGES)
        self._look_s = 0.0

    def on_refused(self, switch: str, why: str, now_s: float) -> None:
        """A switch did not do something; what it does is to be read again."""
        state = self._switches[switch]
        if why not in state.refusals and len(state.refusals) < REFUSALS_MAX:
            state.refusals.add(why)
            self._told.append(f"switch {switch} refuses: {why}")
        # The barrier behind the refused message is still answered; nothing is sent until then.
        # A question that was refused is not.
        state.is_reading = False
        self._awaited.answered(switch, RULES)
        state.does, state.retry_s = None, now_s + RETRY_S

    # --- what is to be done ---

    def poll(self, now_s: float) -> dict[str, list[m.Message]]:
        """What to send to each switch now."""
        cut = self._cabling.cut(self.view())
        if cut != self._cut:
            self._tell_cut(cut)
            self._cut, self._plan = cut, None
        out: dict[str, list[m.Message]] = {}
        for name, asked in self._cabling.ask(self.connected(), self.view(), now_s).items():
            out[name] = [*asked]
            self._awaited.asked(name, PORTS)
        for name, changes in self._due(now_s).items():
            self._switches[name].asked = changes
            self._awaited.asked(name, CHANGES)
            out.setdefault(name, []).extend([*changes, m.Barrier()])
        for name in self._to_read(now_s):
            self._switches[name].is_reading = True
            self._awaited.asked(name, RULES)
            out.setdefault(name, []).append(self._read)
        self._told += self._awaited.news(now_s)
        return out

    def take_told(self) -> list[str]:
        """What an operator should know that happened since the last call, in words."""
        told, self._told = self._told, []
        return told

    # --- how things stand ---

    def take_news(self) -> bool:
        """Whether the alarm of a promise has begun or ended since the last call."""
        return self._ledger.take_news()

    def is_settled(self) -> bool:
        """Whether every connected switch is known to do what is wanted."""
        wanted = self._planned().tables
        states = {name: x for name, x in self._switches.items() if x.is_connected}
        return all(x.does == wanted.get(name) and not x.asked for name, x in states.items())

    def connected(self) -> list[str]:
        """The switches that are connected."""
        return [name for name, state in self._switches.items() if state.is_connected]

    def is_allotted(self, pair: Pair) -> bool:
        """Whether a pair is promised anything."""
        return pair in (self._allotted or {})

    def missing(self) -> list[str]:
        """The switches of the file that are not connected."""
        return [name for name, state in self._switches.items() if not state.is_connected]

    def path(self, pair: Pair) -> list[str]:
        """The links that a pair is sent along; none if it goes as everybody else."""
        way = self._planned().ways.get(pair)
        return [link.name for link in way.links] if way else []

    def marked(self) -> dict[Flow, list[str]]:
        """The links that each elephant is sent along for which a path was chosen."""
        ways = self._planned().marked.items()
        return {flow: [link.name for link in way.links] for flow, way in ways if way}

    def counted(self) -> dict[Flow, Count]:
        """What rules have let pass of elephants, where they enter."""
        found: dict[Flow, Count] = {}
        for counts in self._counted.values():
            for flow, count in counts.items():
                other = found.get(flow, Count(0, count.read_s))
                read_s = min(other.read_s, count.read_s)
                found[flow] = Count(other.carried_bytes + count.carried_bytes, read_s)
        return found

    def is_in_force(self, pair: Pair) -> bool:
        """Whether the first switch of a pair's path is known to send its packets along it."""
        way = self._planned().ways.get(pair)
        if way is None or (does := self._switches[way.switches[0]].does) is None:
            return False
        return any(
            rules.pair_of(place) == pair and entry.actions.eth_source == way.label
            for place, entry in does.rules.items()
        )

    def kept(self) -> dict[Pair, Kept]:
        """What has become of every pair's promise."""
        return self._ledger.kept()

    def complaints(self) -> list[str]:
        """What is wrong with the cables, in words."""
        return self._cabling.complaints(self.view())

    # --- inside ---

    def view(self) -> View:
        """The ports that are up, and the links that are known to carry nothing."""
        return View(self._ports, self._cut)

    def _planned(self) -> _Plan:
        if self._plan is None:
            allotted = self._allotted or {}
            if allotted:
                self._number(allotted)
            view = self.view()
            ways = rules.courses(self.topology, view, allotted)
            marked = {
                flow: rules.elephant_course(self.topology, view, flow, path)
                for flow, path in self._marked.items()
            }
            tables = rules.wanted(self.topology, view, allotted, ways, self._meters, marked)
            if self._beside is not None:
                tables = m.merged(tables, self._beside(view))
            rates = {pair: one.rate_bps for pair, one in allotted.items()}
            paths = {pair: (way.switches, way.label) for pair, way in ways.items()}
            self._plan, self._look_s = _Plan(ways, marked, tables, rates, paths), 0.0
        return self._plan

    def _due(self, now_s: float) -> dict[str, list[m.Change]]:
        self._settle(now_s)
        plan = self._planned()
        if now_s < self._look_s:
            return {}
        known = {
            x: y.does for x, y in self._switches.items() if y.is_connected and y.does is not None
        }
        # What a switch was told and has not confirmed it may do already.
        unused = update.unused_labels(known) - self._labels_under_way()
        self._unused_s = {label: self._unused_s.get(label, now_s) for label in unused}
        unknown = self._switches.keys() - known.keys()
        courses = [*plan.ways.values(), *(x for x in plan.marked.values() if x)]
        broken = {x.label for x in courses if unknown.intersection(x.switches)}
        batches = update.due(
            {name: self._surely(name, does) for name, does in known.items()},
            plan.tables,
            not unknown,
            broken,
            lambda label: now_s - self._unused_s.get(label, now_s) >= DRAIN_S,
        )
        drained = [at_s + DRAIN_S for at_s in self._unused_s.values()]
        self._look_s = min((x for x in drained if x > now_s), default=math.inf)
        batches = {x: y for x, y in batches.items() if not self._switches[x].is_busy}
        if self._allotted is None:
            # A calendar that has not spoken yet has taken nothing back.
            for changes in batches.values():
                changes[:] = [x for x in changes if isinstance(x, m.AddRule)]
            batches = {x: y for x, y in batches.items() if y}
        return batches

    def _surely(self, switch: str, does: m.Tables) -> m.Tables:
        """What a switch does, without what it may have taken away already."""
        asked = self._switches[switch].asked or ()
        removed = [one for one in asked if isinstance(one, m.RemoveRule)]
        return m.after(does, removed) if removed else does

    def _labels_under_way(self) -> set[str | None]:
        """The labels of rules that switches are being told."""
        asked = (one for state in self._switches.values() for one in state.asked or ())
        return {one.entry.actions.eth_source for one in asked if isinstance(one, m.AddRule)}

    def _to_read(self, now_s: float) -> list[str]:
        """The switches that are to say now what they do."""
        if now_s - self._round_s >= READ_EVERY_S:
            self._round_s = now_s
        early = self._ledger.wants(now_s)
        found = []
        for name, state in self._switches.items():
            if not state.is_connected or state.is_busy:
                continue
            if state.does is None:
                is_due = now_s >= state.retry_s
            else:
                is_due = state.read_s < self._round_s or name in early
            if is_due:
                found.append(name)
        return found

    def _settle(self, now_s: float) -> None:
        """Has promises judged when there is something new to judge them by, or time has passed."""
        plan = self._planned()
        if plan is self._settled and not self._is_read and now_s - self._settled_s < SETTLE_EVERY_S:
            return
        self._settled, self._settled_s, self._is_read = plan, now_s, False
        self._ledger.settle(plan.rates, plan.paths, now_s)

    def _number(self, allotted: Mapping[Pair, Allotment]) -> None:
        """Gives every pair a number of its own, which it keeps."""
        self._meters = {pair: x for pair, x in self._meters.items() if pair in allotted}
        taken, number = set(self._meters.values()), 0
        for pair in allotted:
            if pair not in self._meters:
                number = next(x for x in range(number + 1, len(taken) + 2) if x not in taken)
                taken.add(number)
                self._meters[pair] = number

    def _adopt_meters(self, tables: m.Tables) -> None:
        """Takes over the numbers under which pairs are metered since before this controller."""
        for place, entry in tables.rules.items():
            pair, number = rules.pair_of(place), entry.actions.meter
            if pair is None or number is None or not rules.is_pairs(number):
                continue
            theirs = rules.number_of(number)
            holders = [x for x, y in self._meters.items() if y == theirs and x != pair]
            for holder in holders:
                del self._meters[holder]  # It is given another.
            self._meters[pair] = theirs
        self._plan = None

    def _tell_ports(
        self, switch: str, before: Mapping[str, int] | None, ports: Mapping[str, int]
    ) -> None:
        for port, links in self.topology.ports(switch).items():
            was, is_up = before is None or port in before, port in ports
            if was and not is_up:
                named = ", ".join(links)
                self._told.append(f"port {port} of {switch} is not there or down: {named} not used")
            elif is_up and not was:
                self._told.append(f"port {port} of {switch} is up")

    def _tell_cut(self, cut: frozenset[str]) -> None:
        wrong = self.complaints()
        self._told += [x for x in wrong if any(f"link {y}:" in x for y in cut - self._cut)]
        silent = [x for x in sorted(cut - self._cut) if not any(f"link {x}:" in y for y in wrong)]
        self._told += [f"link {x} carries nothing any more" for x in silent]
        self._told += [f"link {x} carries packets again" for x in sorted(self._cut - cut)]
