"""From requests and reports to decisions: the calendar without clock, disk or network.

Every method takes the time as an argument and returns an `Outcome` that holds all it changed.
The caller makes the outcome durable before it tells anyone. `plan` says what is kept, `answers`
has what requests bring, `trials` what is answered later, `reports` what agents bring, and this
module what time, operators and hosts bring.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from weir.calendar.clock import NS_PER_S
from weir.calendar.elephants import Elephant
from weir.calendar.planning.trials import Trials
from weir.calendar.records import Outcome, Transfer
from weir.calendar.timetable import Timetable, check

# A flow without capacity is tried again this often, and so is one that is planned too late.
REPLAN_EVERY_NS = NS_PER_S
REGAIN_EVERY_NS = 10 * NS_PER_S
# So many of those on a link that is to carry more or less are tried at once.
REGAINED_MAX = 20
# The engine is told at least so often what links carry, that it may know the days ahead.
DAY_NS = 86_400 * NS_PER_S
# On a link of which half is free nobody waits for the epoch, if no epoch was so shortly before.
IDLE_SHARE = 0.5
EARLY_EPOCH_NS = NS_PER_S


class Planner(Trials):
    """Every active transfer, and the engine that holds their capacity."""

    def hosts_lost(self, now_ns: int, hosts: Iterable[str]) -> Outcome:
        """Marks what runs from or to silent hosts as at risk; their capacity is kept."""
        outcome = Outcome()
        for host in sorted(set(hosts) - self._lost):
            self._lost.add(host)
            self._event(outcome, now_ns, "agent-lost", None, {"host": host})
        for transfer in filter(self._is_lost, self.transfers.values()):
            self._note(transfer)
        self._risks(outcome, now_ns, self.transfers.values())
        return self._sealed(outcome)

    def hosts_back(self, now_ns: int, hosts: Iterable[str]) -> Outcome:
        """The hosts answer again: their transfers get what their deadlines now need."""
        outcome = Outcome()
        back = sorted(set(hosts) & self._lost)
        for host in back:
            self._lost.discard(host)
            self._event(outcome, now_ns, "agent-back", None, {"host": host})
        touched = [x for x in self.transfers.values() if {x.source, x.destination} & set(back)]
        for transfer in touched:
            self._note(transfer)
            if not transfer.planned and not self._is_lost(transfer):
                self._replan(outcome, now_ns, transfer)
        # It has stood still, so what it needs now is more than it was given.
        self._progress(outcome, now_ns, [self.transfers[x.id] for x in touched])
        self._risks(outcome, now_ns, self.transfers.values())
        return self._sealed(outcome)

    def narrowed(self, now_ns: int, most: Mapping[str, int], why: str) -> Outcome:
        """Transfers go on over so many paths, where they had more, for that reason.

        Each is planned anew over the first of its paths; whose promise they cannot keep is at risk.
        """
        outcome = Outcome()
        for transfer in self._in_order(most):
            paths = max(1, most[transfer.id])
            if paths >= transfer.paths_max:
                continue
            kept = transfer.routes[:paths]
            narrow = replace(
                transfer, paths_max=paths, path=kept[0], paths=kept if len(kept) > 1 else ()
            )
            self._claims.replace(transfer, narrow)
            self._put(outcome, narrow)
            if kept == transfer.routes:
                continue
            self._event(outcome, now_ns, "narrowed", transfer.id, {"paths": paths, "reason": why})
            if transfer.planned:
                self._narrow(outcome, now_ns, transfer, narrow)
        return self._sealed(outcome)

    def _narrow(self, outcome: Outcome, now_ns: int, transfer: Transfer, narrow: Transfer) -> None:
        self._uncross(transfer)
        self._cross(narrow)
        self._freed.update(set(transfer.links) - set(narrow.links))
        self.lanes.pop(transfer.id, None)
        changes = self.engine.narrow(now_ns, transfer.id, narrow.paths_max)
        self._rates(outcome, now_ns, changes)
        self._risks(outcome, now_ns, self._in_order({*changes, transfer.id}))

    def tick(self, now_ns: int) -> Outcome:
        """What time alone brings: missed deadlines, and plans that became impossible."""
        outcome = self.end_elephants(now_ns, self.elephants.expired(now_ns), "expired")
        self._release(outcome, now_ns, self._offers.lapsed(now_ns))
        for transfer in self._concerned(now_ns):
            if transfer.state == "waiting":
                # What becomes of it, the answer says.
                continue
            if transfer.state == "scheduled" and now_ns >= (transfer.start_ns or 0):
                transfer = self._due(outcome, now_ns, transfer)
            if now_ns > transfer.deadline_ns and not (transfer.missed or transfer.is_rest):
                transfer = self._miss(outcome, now_ns, transfer)
            if self._lost and self._is_lost(transfer):
                if transfer.planned and self._is_impossible(now_ns, transfer):
                    self._drop(outcome, now_ns, transfer)
            elif not transfer.planned and self._replan_due(now_ns, transfer.id):
                self._replan(outcome, now_ns, transfer)
            elif transfer.plan_ns > transfer.deadline_ns and self._may_regain(now_ns, transfer):
                self._regain(outcome, now_ns, transfer)
        if self._freed and now_ns - self._shared_ns >= EARLY_EPOCH_NS:
            if self._offer_ended or self._waits_needlessly():
                self._share_out(outcome, now_ns)
            self._freed.clear()
            self._offer_ended = False
        due = [x for x, due_ns in self._capacity_due_ns.items() if now_ns >= due_ns]
        for link in due:
            self._tell_capacity(outcome, now_ns, link)
        turn_ns = self.turn_ns
        if due or (turn_ns is not None and now_ns >= turn_ns):
            self._share_out(outcome, now_ns)
        return self._sealed(outcome)

    @property
    def turn_ns(self) -> int | None:
        """When `tick` is next due by a plan that is made ahead; None with the other policies.

        Rates are to change then: on a full link, what is sent later by another one is lost.
        """
        return self.engine.next_epoch_ns if self._plans_ahead else None

    def _concerned(self, now_ns: int) -> list[Transfer]:
        """Whom the passing of time may concern, in the order of submission."""
        return self._in_order(self._watch.due(now_ns))

    def _due(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> Transfer:
        """Its start has come: agents are told of it from now on."""
        due = replace(transfer, state="accepted")
        self._put(outcome, due)
        self._event(outcome, now_ns, "due", transfer.id, {})
        if not due.planned:
            self._replan(outcome, now_ns, due)
            due = self.transfers[due.id]
        self._risks(outcome, now_ns, [due])
        return self.transfers[transfer.id]

    def epoch(self, now_ns: int) -> Outcome:
        """Redistributes what completions have freed."""
        outcome = Outcome()
        self._share_out(outcome, now_ns)
        return self._sealed(outcome)

    def _waits_needlessly(self) -> bool:
        """Whether a flow on a link that another left has all of a path to itself, and waits."""
        nearby = {x for link in self._freed for x in self._crossing.get(link, ())}
        links = {link for x in nearby for link in self.transfers[x].links}
        idle = {link for link in links if self._is_idle(link)}
        paths = (path for x in nearby for path in self.transfers[x].routes)
        return any(map(idle.issuperset, paths))

    def _is_idle(self, link: str) -> bool:
        allotted_bps = sum(self._on_link(x, link) for x in self._crossing.get(link, ()))
        return allotted_bps < IDLE_SHARE * self.engine.capacities_bps[link]

    def change_timetables(
        self, now_ns: int, links: Iterable[str], change: Callable[[Timetable], Timetable]
    ) -> Outcome:
        """Changes what links carry, now or later; whose promise is lost by that is told at once.

        Raises:
            BadInput: the entries cannot be; nothing is changed.
        """
        outcome = Outcome()
        # What is over would be refused with all else, were it asked for now.
        known = {x: self.timetables.get(x, Timetable()).without_past(now_ns) for x in links}
        changed = {link: change(timetable) for link, timetable in known.items()}
        for link, timetable in changed.items():
            check(timetable.entries, now_ns, timetable.fixed, known[link].entries)
        for link, timetable in changed.items():
            self.timetables[link] = outcome.timetables[link] = timetable
            nominal_bps = self.engine.capacities_bps[link]
            data: dict[str, object] = {
                "link": link,
                "capacity_bps": timetable.capacity_bps(now_ns, nominal_bps),
                **timetable.to_json(),
            }
            self._event(outcome, now_ns, "capacity", None, data)
            self._tell_capacity(outcome, now_ns, link)
        self._share_out(outcome, now_ns)
        return self._sealed(outcome)

    def _tell_capacity(self, outcome: Outcome, now_ns: int, link: str) -> None:
        """Tells the engine what a link carries in the days ahead."""
        pieces, rest_bps = self.timetables[link].plan(now_ns, self.engine.capacities_bps[link])
        ends_ns = pieces[0].to_ns if pieces else now_ns + DAY_NS
        self._capacity_due_ns[link] = min(ends_ns, now_ns + DAY_NS)
        self._release(outcome, now_ns, self._offers.on([link]))
        self._rates(outcome, now_ns, self.engine.set_capacity(now_ns, link, pieces, rest_bps))
        crossing = [self.transfers[x] for x in sorted(self._crossing.get(link, ()))]
        lost = [x for x in crossing if self._has_lost(x) and self._has_time(now_ns, x)]
        for transfer in sorted(lost, key=lambda x: (x.deadline_ns, x.id))[:REGAINED_MAX]:
            self._regain(outcome, now_ns, self.transfers[transfer.id])
        self._risks(outcome, now_ns, [self.transfers[x.id] for x in crossing])

    def readmit(self, now_ns: int) -> Outcome:
        """Asks a fresh engine for every active transfer again, earliest deadline first.

        Used when the network or the policy is not the one that the stored plan was made for. What
        cannot be on time any more is given what is left once every other promise is kept, and
        what has no deadline that binds comes last.
        """
        outcome = Outcome()
        self.rates.clear()
        self.lanes.clear()
        self._ends_ns.clear()
        self._crossing.clear()
        for link in self.timetables:
            self._tell_capacity(outcome, now_ns, link)
        again: list[Transfer] = []
        everybody = sorted(self.transfers.values(), key=lambda x: (x.deadline_ns, x.id))
        for transfer in (x for x in everybody if x.state != "waiting"):
            unplanned = replace(transfer, planned=False)
            if transfer.is_unbound or not self._plan(outcome, now_ns, unplanned):
                again.append(unplanned)
        for transfer in sorted(again, key=lambda x: x.is_unbound):
            self._replan(outcome, now_ns, transfer)
        self._ask_again(outcome, now_ns, (x for x in everybody if x.state == "waiting"))
        self._risks(outcome, now_ns, self.transfers.values())
        return self._sealed(outcome)

    def tell(
        self, now_ns: int, kind: str, data: dict[str, object], transfer: str | None = None
    ) -> Outcome:
        """Puts on record what happened to the calendar itself, or to a transfer's packets."""
        outcome = Outcome()
        self._event(outcome, now_ns, kind, transfer, data)
        return outcome

    def tell_elephant(self, now_ns: int, asked: Elephant) -> Outcome:
        """An application tells of an elephant; the answer is as it now stands."""
        told = self.elephants.tell(asked)
        outcome = Outcome(answer=told, elephants={told.id: told})
        self._event(outcome, now_ns, "elephant-told", None, _elephant_data(told))
        return outcome

    def end_idle(self, now_ns: int, identifiers: Iterable[str], why: str) -> Outcome:
        """The controller says that elephants are idle; those told again just now are not."""
        return self.end_elephants(now_ns, self.elephants.believed_idle(identifiers, now_ns), why)

    def end_elephants(self, now_ns: int, identifiers: Iterable[str], why: str) -> Outcome:
        """Elephants are over; the answer is those that were not before."""
        outcome = Outcome(answer=[])
        for identifier in identifiers:
            over = self.elephants.end(identifier)
            if over is not None:
                outcome.answer.append(over)
                outcome.elephants[identifier] = None
                data = _elephant_data(over) | {"reason": why}
                self._event(outcome, now_ns, "elephant-over", None, data)
        return outcome

    def _has_time(self, now_ns: int, transfer: Transfer) -> bool:
        """Whether its deadline binds and a plan may still end in time."""
        return not transfer.is_unbound and now_ns < transfer.deadline_ns - self._margin_ns

    def _may_regain(self, now_ns: int, transfer: Transfer) -> bool:
        """Whether a promise that was given up may be kept after all, since capacity came free."""
        if not self._has_time(now_ns, transfer):
            return False
        tried_ns = self._replanned_ns.get(transfer.id, 0)
        return now_ns - tried_ns >= REGAIN_EVERY_NS and self._freed_ns > tried_ns

    def _regain(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> None:
        """Asks for the deadline once more; what cannot have it is planned as it was, or earlier."""
        freed_ns = self._freed_ns
        self._drop(outcome, now_ns, transfer)
        # Its own capacity, which it leaves and takes again, is nothing new.
        self._freed_ns = freed_ns
        unplanned = self.transfers[transfer.id]
        if not self._plan(outcome, now_ns, unplanned):
            self._replan(outcome, now_ns, unplanned)
        self._risks(outcome, now_ns, [self.transfers[transfer.id]])

    def _replan_due(self, now_ns: int, identifier: str) -> bool:
        return now_ns - self._replanned_ns.get(identifier, 0) >= REPLAN_EVERY_NS


def _elephant_data(elephant: Elephant) -> dict[str, object]:
    told = elephant.assignment()
    return {"elephant": told.pop("id"), "owner": elephant.owner, **told}
