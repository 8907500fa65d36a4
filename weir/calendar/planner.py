"""From requests and reports to decisions: the calendar without clock, disk or network.

Every method takes the time as an argument and returns an `Outcome` that holds all it changed.
The caller makes the outcome durable before it tells anyone.

The engine plans packets on the wire, people speak of file bytes: sizes go in enlarged by
`WIRE_PER_FILE_BYTE`, and deadlines go in earlier by a margin that pays for connecting, slow
start and the last hash.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace

from weir import Bytes
from weir.calendar.claims import DEFAULT_QUOTAS, Claims, Quotas
from weir.calendar.clock import NS_PER_S, format_instant
from weir.calendar.elephants import Elephant, Elephants
from weir.calendar.engine import HELD_PREFIX, RecordedEngine, Verdict, Wanted
from weir.calendar.offers import Offers
from weir.calendar.precheck import Budget, Forecast, Search
from weir.calendar.problem import Problem, not_found
from weir.calendar.records import Event, Outcome, Submission, Transfer
from weir.calendar.refusal import instead, kept, reason, refused_data
from weir.calendar.timetable import Timetable, check
from weir.calendar.watch import Watch
from weir.calendar.wire import file_bytes, left_bytes, needed_bps, promised, wanted_of, wire_bytes

# A refusal's earliest deadline leaves this long to read it and ask again, unless told otherwise.
OFFER_NS = 60 * NS_PER_S
# Ten years: later deadlines are neither taken nor offered.
DEADLINE_MAX_S = 10 * 366 * 86_400
# A refusal looks for flows that only wait for their report, but not for every one of a flood.
REFRESH_EVERY_NS = NS_PER_S // 20
# `asdict` takes as long as the decision.
_ASKED = tuple(field.name for field in fields(Submission))
# A flow without capacity is tried again this often, and so is one that is planned too late.
REPLAN_EVERY_NS = NS_PER_S
REGAIN_EVERY_NS = 10 * NS_PER_S
# What has no deadline that binds is planned for the end of time, so that it holds back nothing.
VOID_PLAN_NS = 2**62
# With more active transfers, a precheck counts the asker's own held offer as taken: to look past
# it the whole plan is written and read again.
COPIED_MAX = 1_000
# The engine is told at least so often what links carry, that it may know the days ahead.
DAY_NS = 86_400 * NS_PER_S
NO_TIMETABLES: Mapping[str, Timetable] = {}
# Why a deadline is in danger that only the links stand in the way of.
BEHIND = "it is behind, and the links allow no more"
# A receiver confirms whole chunks of this size.
CHUNK_WIRE_BYTES = 1_100_000
# A report older than this is not compared with the time that is left: agents name those without
# news in turn, and what has moved since is what the model says.
FRESH_NS = 2 * NS_PER_S
# On a link of which half is free nobody waits for the epoch, if no epoch was so shortly before.
IDLE_SHARE = 0.5
EARLY_EPOCH_NS = NS_PER_S


@dataclass(frozen=True, slots=True)
class Report:
    """What an agent measured of one transfer. `finished_ago_ns` is by the agent's own clock."""

    id: str
    state: str
    bytes_durable: int | None
    bytes_total: int
    file_hash: str | None = None
    error: str | None = None
    finished_ago_ns: int = 0


@dataclass(frozen=True, slots=True)
class _Counter:
    """What a refusal names that could be asked for instead, each if there is such a thing.

    Attributes:
        by_links: the deadline before which the links alone rule the request out.
        largest_bytes: the size that could be there by the deadline asked for.
        latest_ns: the start with which all of it could.
    """

    by_links: str | None
    largest_bytes: int | None = None
    latest_ns: int | None = None


class Planner:
    """Every active transfer, and the engine that holds their capacity."""

    def __init__(
        self,
        engine: RecordedEngine,
        transfers: Iterable[Transfer],
        *,
        margin_ns: int,
        offer_ns: int = OFFER_NS,
        hold_ns: int = 0,
        last_event: int = 0,
        lost: Iterable[str] = (),
        quotas: Quotas = DEFAULT_QUOTAS,
        plans_ahead: bool = False,
        timetables: Mapping[str, Timetable] = NO_TIMETABLES,
        elephants: Elephants | None = None,
    ) -> None:
        self.engine = engine
        self._plans_ahead = plans_ahead
        self.transfers = {transfer.id: transfer for transfer in transfers}
        self.rates = engine.rates()
        self._margin_ns = margin_ns
        self._offer_ns = offer_ns
        # These have no part in the plan: they go in what it leaves.
        self.elephants = elephants or Elephants((), quotas.elephants)
        self._offers = Offers(engine, min(hold_ns, offer_ns))
        self.timetables = {x: t for x, t in timetables.items() if x in engine.capacities_bps}
        # When the engine is next to be told of each.
        self._capacity_due_ns = dict.fromkeys(self.timetables, 0)
        self._budget = Budget()
        self._last_event = last_event
        self._lost = set(lost)
        self._keys = {(x.owner, x.idempotency_key): x.id for x in self.transfers.values()}
        self._replanned_ns: dict[str, int] = {}
        self._refreshed_ns = 0
        # When each flow would end at its rate, by what was last known of it.
        self._ends_ns: dict[str, int] = dict.fromkeys(self.rates, 0)
        # When each transfer was last reported.
        self._reported_ns: dict[str, int] = {}
        self._claims = Claims(quotas, engine.capacities_bps, self.transfers.values())
        self._watch = Watch()
        for transfer in self.transfers.values():
            self._note(transfer)
        # The flows on each link, the links that flows have left since capacity was last shared
        # out, and when that was.
        self._crossing: dict[str, set[str]] = defaultdict(set)
        for identifier in self.rates:
            self._cross(self.transfers[identifier])
        self._freed: set[str] = set()
        self._freed_ns = 0
        self._offer_ended = False
        self._shared_ns = 0

    def submit(self, now_ns: int, asked: Submission) -> Outcome:
        """Admits or refuses. The answer is a `Transfer`, or the refusal as a `Problem`."""
        outcome = Outcome()
        refusal = self._claims.refusal(asked)
        if refusal is not None:
            return self._refused(outcome, now_ns, asked, refusal)
        self._release(outcome, now_ns, self._offers.lapsed(now_ns))
        if self._offers.of(asked.owner) is not None:
            self._release(outcome, now_ns, [asked.owner])
        plan_ns = asked.deadline_ns - self._margin_ns
        verdict = self._ask(now_ns, asked.id, asked, plan_ns)
        if verdict.link is not None and self._refresh(outcome, now_ns):
            verdict = self._ask(now_ns, asked.id, asked, plan_ns)
        if not verdict.accepted:
            counter = self._counter(now_ns, asked, verdict, self.engine)
            offer = self._offer(outcome, now_ns, verdict, asked)
            refusal = self._refusal(now_ns, verdict, asked, offer, counter)
            return self._refused(outcome, now_ns, asked, refusal)
        refusal = self._claims.share_refusal(asked, verdict.path, now_ns)
        if refusal is not None:
            changes = verdict.changes | self.engine.cancel(now_ns, asked.id)
            changes.pop(asked.id, None)
            self._rates(outcome, now_ns, changes)
            return self._refused(outcome, now_ns, asked, refusal)
        transfer = self._admitted(outcome, now_ns, asked, verdict)
        self._risks(outcome, now_ns, [transfer])
        return self._sealed(outcome)

    def precheck(self, now_ns: int, asked: Submission) -> Outcome:
        """What `submit` would answer, as a `Forecast`, and what it would cost whom.

        Nothing changes: there is nothing in the outcome but its answer.
        """
        refusal = self._claims.refusal(asked)
        if refusal is not None:
            return Outcome(answer=Forecast(asked, refusal))
        engine, changes = self.engine, dict[str, int]()
        if self._offers.of(asked.owner) is not None and len(self.rates) <= COPIED_MAX:
            # Asking for it would give the offer up.
            engine, changes = engine.without(now_ns, HELD_PREFIX + asked.owner)
        verdict = engine.precheck(now_ns, asked.id, self._wanted(now_ns, asked))
        if verdict.accepted:
            refusal = self._claims.share_refusal(asked, verdict.path, now_ns)
        else:
            counter = self._counter(now_ns, asked, verdict, engine)
            offered_ns = self._offered_ns(now_ns, verdict)
            refusal = self._refusal(now_ns, verdict, asked, (offered_ns, 0), counter)
        costs = {}
        if refusal is None:
            changes |= verdict.changes
            costs = {
                x: (self.transfers[x].owner, self.rates.get(x, 0), rate_bps)
                for x, rate_bps in changes.items()
                if x in self.transfers and rate_bps != self.rates.get(x, 0)
            }
        return Outcome(answer=Forecast(asked, refusal, verdict, promised(asked, verdict), costs))

    def _wanted(self, now_ns: int, asked: Submission) -> Wanted:
        return wanted_of(now_ns, asked, asked.deadline_ns - self._margin_ns)

    def _refused(
        self, outcome: Outcome, now_ns: int, asked: Submission, refusal: Problem
    ) -> Outcome:
        refusal.extra["id"] = asked.id
        self._event(outcome, now_ns, "refused", None, refused_data(asked, refusal), asked)
        outcome.answer = refusal
        return self._sealed(outcome)

    def _admitted(
        self, outcome: Outcome, now_ns: int, asked: Submission, verdict: Verdict
    ) -> Transfer:
        transfer = Transfer(
            **{name: getattr(asked, name) for name in _ASKED},
            declared_bytes=asked.size_bytes,
            promised_bytes=promised(asked, verdict),
            state="accepted" if asked.start_ns is None else "scheduled",
            submitted_ns=now_ns,
            started_ns=None,
            finished_ns=None,
            bytes_durable=0,
            path=verdict.path,
            planned=True,
            plan_ns=asked.deadline_ns - self._margin_ns,
            risk="",
            missed=False,
            file_hash=None,
            error=None,
        )
        self._put(outcome, transfer)
        self._begin(outcome, now_ns, transfer, verdict.rate_bps)
        data = {
            "source": asked.source,
            "destination": asked.destination,
            "size_bytes": asked.size_bytes,
            "deadline": format_instant(asked.deadline_ns),
            "rate_bps": verdict.rate_bps,
            "path": list(verdict.path),
        }
        if asked.start_ns is not None:
            data["start"] = format_instant(asked.start_ns)
        if transfer.promised_bytes is not None:
            data["promised_bytes"] = transfer.promised_bytes
        self._event(outcome, now_ns, "admitted", asked.id, data)
        self._rates(outcome, now_ns, verdict.changes)
        outcome.answer, outcome.admitted = transfer, transfer.id
        self._keys[(asked.owner, asked.idempotency_key)] = asked.id
        self._claims.add(transfer)
        return transfer

    def cancel(self, now_ns: int, identifier: str) -> Outcome:
        """Gives a transfer up and frees its capacity; the answer is the transfer."""
        transfer = self.transfers.get(identifier)
        if transfer is None:
            raise not_found("active transfer", identifier)
        outcome = Outcome()
        transfer = self._finish(outcome, now_ns, transfer, "cancelled", now_ns)
        outcome.answer = transfer
        return self._sealed(outcome)

    def report(self, now_ns: int, host: str, reports: Iterable[Report]) -> Outcome:
        """Takes what the agent on a source host measured.

        The answer is the ids that the agent should stop: unknown, finished, or another's.
        """
        outcome = Outcome(answer=[])
        moved: list[Transfer] = []
        for report in reports:
            transfer = self.transfers.get(report.id)
            if transfer is None or transfer.source != host:
                outcome.answer.append(report.id)
            elif report.state == "done":
                self._done(outcome, now_ns, transfer, report)
            elif report.state == "failed":
                failed = replace(transfer, error=report.error)
                self._finish(outcome, now_ns, failed, "failed", now_ns)
            else:
                moved.append(self._moved(outcome, now_ns, transfer, report))
        self._progress(outcome, now_ns, moved)
        return self._sealed(outcome)

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

    def tick(self, now_ns: int) -> Outcome:
        """What time alone brings: missed deadlines, and plans that became impossible."""
        outcome = self.end_elephants(now_ns, self.elephants.expired(now_ns), "expired")
        self._release(outcome, now_ns, self._offers.lapsed(now_ns))
        for transfer in self._concerned(now_ns):
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
        if due or (self._plans_ahead and now_ns >= self.engine.next_epoch_ns):
            self._share_out(outcome, now_ns)
        return self._sealed(outcome)

    def _concerned(self, now_ns: int) -> list[Transfer]:
        """Whom the passing of time may concern, in the order of submission."""
        return self._in_order(self._watch.due(now_ns))

    def _in_order(self, identifiers: Iterable[str]) -> list[Transfer]:
        """Those of them that are transfers, in the order of submission."""
        found = [self.transfers[x] for x in identifiers if x in self.transfers]
        return sorted(found, key=lambda x: (x.submitted_ns, x.id))

    def _note(self, transfer: Transfer) -> None:
        """Has time watched for what it brings a transfer, as it is now."""
        is_waiting = self._lost and transfer.planned and self._is_lost(transfer)
        self._watch.note(transfer, self._latest_ns(transfer) if is_waiting else None)

    def _latest_ns(self, transfer: Transfer) -> int:
        """From when on not even the whole path would carry the rest of a transfer in time."""
        fastest_bps = self.engine.fastest_bps(transfer.path, transfer.rate_max_bps)
        wire_bits = wire_bytes(transfer.due_bytes) * 8
        # The microsecond is for the rounding of what this is compared with.
        return transfer.deadline_ns - wire_bits * NS_PER_S // max(1, fastest_bps) + 1_000

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

    def _share_out(self, outcome: Outcome, now_ns: int) -> None:
        self._shared_ns = now_ns
        self._freed.clear()
        changes = self.engine.epoch(now_ns)
        self._rates(outcome, now_ns, changes)
        # Reports tell who falls behind: to look at all of ten thousand takes a tenth of a second.
        touched = self._watch.troubled | changes.keys()
        self._risks(outcome, now_ns, self._in_order(touched))

    def _waits_needlessly(self) -> bool:
        """Whether a flow on a link that another left has all of its path to itself, and waits."""
        nearby = {x for link in self._freed for x in self._crossing.get(link, ())}
        links = {link for x in nearby for link in self.transfers[x].path}
        idle = {link for link in links if self._is_idle(link)}
        return any(idle.issuperset(self.transfers[x].path) for x in nearby)

    def _is_idle(self, link: str) -> bool:
        allotted_bps = sum(self.rates.get(x, 0) for x in self._crossing.get(link, ()))
        return allotted_bps < IDLE_SHARE * self.engine.capacities_bps[link]

    def change_timetables(
        self, now_ns: int, links: Iterable[str], change: Callable[[Timetable], Timetable]
    ) -> Outcome:
        """Changes what links carry, now or later; whose promise is lost by that is told at once.

        Raises:
            BadInput: the entries cannot be; nothing is changed.
        """
        outcome = Outcome()
        changed = {link: change(self.timetables.get(link, Timetable())) for link in links}
        for timetable in changed.values():
            check(timetable.entries, now_ns, timetable.fixed)
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
        crossing = self._crossing.get(link, ())
        self._risks(outcome, now_ns, [self.transfers[x] for x in sorted(crossing)])

    def readmit(self, now_ns: int) -> Outcome:
        """Asks a fresh engine for every active transfer again, earliest deadline first.

        Used when the network or the policy is not the one that the stored plan was made for. What
        cannot be on time any more is given what is left once every other promise is kept, and
        what has no deadline that binds comes last.
        """
        outcome = Outcome()
        self.rates.clear()
        self._ends_ns.clear()
        self._crossing.clear()
        for link in self.timetables:
            self._tell_capacity(outcome, now_ns, link)
        again: list[Transfer] = []
        for transfer in sorted(self.transfers.values(), key=lambda x: (x.deadline_ns, x.id)):
            unplanned = replace(transfer, planned=False)
            if transfer.is_unbound or not self._plan(outcome, now_ns, unplanned):
                again.append(unplanned)
        for transfer in sorted(again, key=lambda x: x.is_unbound):
            self._replan(outcome, now_ns, transfer)
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

    def find_key(self, owner: str, idempotency_key: str) -> Transfer | None:
        """The active transfer that an owner submitted under a key."""
        return self.transfers.get(self._keys.get((owner, idempotency_key), ""))

    # --- one transfer ---

    def _ask(
        self, now_ns: int, identifier: str, wanted: Submission | Transfer, plan_ns: int
    ) -> Verdict:
        return self.engine.submit(now_ns, identifier, wanted_of(now_ns, wanted, plan_ns))

    def _refresh(self, outcome: Outcome, now_ns: int) -> bool:
        """Corrects flows that the model believes ended while their agents have not said so.

        The engine takes nothing from a flow that is only waiting for its report; by what is
        known to be durable, such a flow may have much to spare. Whether anything was corrected.
        """
        if now_ns - self._refreshed_ns < REFRESH_EVERY_NS:
            return False
        self._refreshed_ns = now_ns
        ended = [x for x, end_ns in self._ends_ns.items() if end_ns <= now_ns]
        finishing = [self.transfers[x] for x in ended if x in self.transfers]
        remaining = {x.id: left_bytes(x) for x in finishing if x.due_bytes}
        if remaining:
            self._report_remaining(outcome, now_ns, remaining)
        return bool(remaining)

    def _report_remaining(self, outcome: Outcome, now_ns: int, remaining: dict[str, int]) -> None:
        self._rates(outcome, now_ns, self.engine.progress(now_ns, remaining))
        for identifier, count in remaining.items():
            rate_bps = max(1, self.rates.get(identifier, 1))
            self._ends_ns[identifier] = now_ns + count * 8 * NS_PER_S // rate_bps

    def _set_rate(self, outcome: Outcome, now_ns: int, identifier: str, rate_bps: int) -> None:
        """Notes a flow's rate and what it does to the flow's end."""
        before_bps = self.rates.get(identifier)
        self.rates[identifier] = outcome.rates[identifier] = rate_bps
        end_ns = self._ends_ns.get(identifier, now_ns)
        if before_bps and rate_bps and end_ns > now_ns:
            self._ends_ns[identifier] = now_ns + (end_ns - now_ns) * before_bps // rate_bps

    def _cross(self, transfer: Transfer) -> None:
        for link in transfer.path:
            self._crossing[link].add(transfer.id)

    def _begin(self, outcome: Outcome, now_ns: int, transfer: Transfer, rate_bps: int) -> None:
        """Notes a flow that the engine has just admitted."""
        self._cross(transfer)
        self.rates.pop(transfer.id, None)
        self._set_rate(outcome, now_ns, transfer.id, rate_bps)
        wire_bits = wire_bytes(transfer.due_bytes) * 8
        self._ends_ns[transfer.id] = now_ns + wire_bits * NS_PER_S // max(1, rate_bps)

    def _end(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> None:
        """Forgets a flow that the engine holds no more."""
        self.rates.pop(transfer.id, None)
        outcome.rates.pop(transfer.id, None)
        self._ends_ns.pop(transfer.id, None)
        for link in transfer.path:
            self._crossing[link].discard(transfer.id)
            self._freed.add(link)
        self._freed_ns = now_ns

    def _release(self, outcome: Outcome, now_ns: int, owners: Iterable[str]) -> None:
        """Gives back the room that is held for offers to these."""
        for owner in owners:
            held = self._offers.of(owner)
            assert held is not None, "asked for just before"
            self._rates(outcome, now_ns, self._offers.release(now_ns, owner))
            self._freed.update(held.path)
            self._freed_ns = now_ns
            self._offer_ended = True

    def _make_way(self, outcome: Outcome, now_ns: int, transfers: Iterable[Transfer]) -> bool:
        """Takes back offers where they hold what promises need; whether there were any."""
        owners = self._offers.on(link for transfer in transfers for link in transfer.path)
        self._release(outcome, now_ns, owners)
        return bool(owners)

    def _replan(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> None:
        """Asks for capacity again: by the deadline, else by the earliest that can be had."""
        if self._plan(outcome, now_ns, transfer) or transfer.is_unbound:
            return
        if not self._may_plan(now_ns, transfer):
            return
        if self._make_way(outcome, now_ns, [transfer]) and self._plan(outcome, now_ns, transfer):
            return
        verdict = self._ask(now_ns, transfer.id, transfer, transfer.deadline_ns - self._margin_ns)
        if verdict.earliest_ns is not None:
            self._plan(outcome, now_ns, transfer, verdict.earliest_ns)

    def _plan(
        self, outcome: Outcome, now_ns: int, transfer: Transfer, plan_ns: int | None = None
    ) -> bool:
        """Asks for capacity by its deadline, or by another time; whether it was given."""
        self._replanned_ns[transfer.id] = now_ns
        if not self._may_plan(now_ns, transfer):
            self._put(outcome, transfer)
            return False
        if plan_ns is None:
            unbound = transfer.is_unbound
            plan_ns = VOID_PLAN_NS if unbound else transfer.deadline_ns - self._margin_ns
        verdict = self._ask(now_ns, transfer.id, transfer, plan_ns)
        if not verdict.accepted:
            self._put(outcome, transfer)
            return False
        planned = replace(transfer, planned=True, plan_ns=plan_ns, path=verdict.path)
        self._begin(outcome, now_ns, planned, verdict.rate_bps)
        self._put(outcome, planned)
        self._rates(outcome, now_ns, {transfer.id: verdict.rate_bps} | verdict.changes)
        return True

    def _may_plan(self, now_ns: int, transfer: Transfer) -> bool:
        """Whether the policy can hold capacity for it already."""
        return self._plans_ahead or now_ns >= (transfer.start_ns or 0)

    def _may_regain(self, now_ns: int, transfer: Transfer) -> bool:
        """Whether a promise that was given up may be kept after all, since capacity came free."""
        if transfer.is_unbound or now_ns >= transfer.deadline_ns - self._margin_ns:
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

    def _drop(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> None:
        """Gives back the capacity of a transfer that can no longer use it in time."""
        changes = self.engine.cancel(now_ns, transfer.id)
        self._end(outcome, now_ns, transfer)
        self._put(outcome, replace(transfer, planned=False))
        self._rates(outcome, now_ns, changes)

    def _finish(
        self, outcome: Outcome, now_ns: int, transfer: Transfer, state: str, finished_ns: int
    ) -> Transfer:
        late = state == "completed" and finished_ns > transfer.deadline_ns
        # Where a part was promised, what came after the deadline may be the rest.
        late = late and (transfer.promised_bytes is None or transfer.missed)
        if late and not transfer.missed:
            transfer = self._miss(outcome, now_ns, transfer)
        changes: dict[str, int] = {}
        if transfer.planned:
            end = self.engine.complete if state == "completed" else self.engine.cancel
            changes = end(now_ns, transfer.id)
            self._end(outcome, now_ns, transfer)
        self._claims.remove(transfer)
        transfer = replace(
            transfer,
            state=state,
            finished_ns=finished_ns,
            planned=False,
            risk="",
            # Late by the service's clock while unheard of, on time by the agent's.
            missed=late if state == "completed" else transfer.missed,
        )
        self._put(outcome, transfer)
        del self.transfers[transfer.id]
        self._watch.forget(transfer.id)
        self._keys.pop((transfer.owner, transfer.idempotency_key), None)
        self._replanned_ns.pop(transfer.id, None)
        self._reported_ns.pop(transfer.id, None)
        data = {"finished": format_instant(finished_ns), "bytes_durable": transfer.bytes_durable}
        if state == "completed":
            data |= {"on_time": not late, "hash": transfer.file_hash}
        if transfer.error:
            data |= {"error": transfer.error}
        self._event(outcome, now_ns, state, transfer.id, data)
        self._rates(outcome, now_ns, changes)
        return transfer

    def _done(self, outcome: Outcome, now_ns: int, transfer: Transfer, report: Report) -> None:
        """Completes a transfer whose source was delivered whole, by the agent's own count.

        What was declared counts for nothing here: of an empty file nothing is durable.
        """
        durable = report.bytes_total if report.bytes_durable is None else report.bytes_durable
        done = replace(transfer, bytes_durable=durable, size_bytes=report.bytes_total)
        finished_ns = max(now_ns - report.finished_ago_ns, transfer.submitted_ns)
        if durable == report.bytes_total:
            done = replace(done, file_hash=report.file_hash)
            self._finish(outcome, now_ns, done, "completed", finished_ns)
            return
        error = f"the agent was done with {durable} of {report.bytes_total} bytes delivered"
        self._finish(outcome, now_ns, replace(done, error=error), "failed", now_ns)

    def _moved(self, outcome: Outcome, now_ns: int, transfer: Transfer, report: Report) -> Transfer:
        self._reported_ns[transfer.id] = now_ns
        total = report.bytes_total or transfer.size_bytes
        durable = transfer.bytes_durable
        if report.bytes_durable is not None:
            durable = min(report.bytes_durable, total)
        if transfer.state == "accepted" and report.state == "running":
            transfer = replace(transfer, state="running", started_ns=now_ns)
            self._event(outcome, now_ns, "started", transfer.id, {})
        moved = replace(
            transfer, size_bytes=total, bytes_durable=durable, error=report.error or None
        )
        self._put(outcome, moved)
        if moved.is_void and not transfer.is_void:
            self._void(outcome, now_ns, moved)
        elif moved.is_rest and not transfer.is_rest:
            self._rest(outcome, now_ns, moved)
        return self.transfers[moved.id]

    def _rest(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> None:
        """What was promised of it is there; the rest gets what is free."""
        if transfer.planned:
            self._drop(outcome, now_ns, transfer)
        self._replan(outcome, now_ns, self.transfers[transfer.id])

    def _void(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> None:
        """Takes back the promise to what is larger than was declared: it gets what is free."""
        data: dict[str, object] = {
            "declared_bytes": transfer.declared_bytes,
            "size_bytes": transfer.size_bytes,
        }
        self._event(outcome, now_ns, "deadline-void", transfer.id, data)
        if transfer.planned:
            self._drop(outcome, now_ns, transfer)
        self._replan(outcome, now_ns, self.transfers[transfer.id])

    def _progress(self, outcome: Outcome, now_ns: int, moved: list[Transfer]) -> None:
        remaining = {x.id: self._told_bytes(now_ns, x) for x in moved if x.planned}
        if remaining:
            self._report_remaining(outcome, now_ns, remaining)
            behind = [x for x in moved if self._is_behind(now_ns, x)]
            if behind and self._refresh(outcome, now_ns):
                self._report_remaining(outcome, now_ns, remaining)
                behind = [x for x in behind if self._is_behind(now_ns, x)]
            if behind and self._make_way(outcome, now_ns, behind):
                self._report_remaining(outcome, now_ns, remaining)
        self._risks(outcome, now_ns, [self.transfers[x.id] for x in moved])

    def _told_bytes(self, now_ns: int, transfer: Transfer) -> int:
        """What the engine is told to be left of a transfer, in bytes on the wire.

        Whole chunks are reported, once a second, and a connection has its start-up: a flow that
        keeps its rate seems a little behind at every report. Whoever would be done within half
        the margin of the plan counts as being on it, and so does, while a hundredth of the time
        left makes up for it, who lacks no more than the chunk under way. Otherwise each report
        would give such a flow the slack of another, which then were behind by its next one.
        """
        measured = left_bytes(transfer)
        rate_bps = self.rates.get(transfer.id, 0)
        if transfer.is_unbound or self._plans_ahead or not rate_bps:
            return measured
        left_ns = transfer.plan_ns - now_ns
        planned = rate_bps * left_ns // (8 * NS_PER_S)
        chunk_ns = CHUNK_WIRE_BYTES * 8 * NS_PER_S // rate_bps
        tolerated_ns = max(self._margin_ns // 2, min(chunk_ns, left_ns // 100))
        tolerated = rate_bps * tolerated_ns // (8 * NS_PER_S)
        return planned if 0 < planned < measured <= planned + tolerated else measured

    def _is_behind(self, now_ns: int, transfer: Transfer) -> bool:
        """Whether its rate would not have it there by its deadline, if it binds."""
        if transfer.is_unbound or not transfer.due_bytes:
            return False
        left_ns = transfer.deadline_ns - now_ns
        if left_ns <= 0:
            return True
        if self._plans_ahead:
            return transfer.id in self.engine.behind()
        if now_ns - self._reported_ns.get(transfer.id, now_ns) > FRESH_NS:
            return self._ends_ns.get(transfer.id, 0) > transfer.deadline_ns
        carried = self.rates.get(transfer.id, 0) * left_ns // (8 * NS_PER_S)
        if wire_bytes(transfer.due_bytes) <= carried:
            return False
        return self._told_bytes(now_ns, transfer) > carried

    def _miss(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> Transfer:
        missed = replace(transfer, missed=True)
        self._put(outcome, missed)
        data = {
            "deadline": format_instant(transfer.deadline_ns),
            "remaining_bytes": transfer.due_bytes,
        }
        self._event(outcome, now_ns, "missed", transfer.id, data)
        return missed

    # --- risk ---

    def _is_lost(self, transfer: Transfer) -> bool:
        return transfer.source in self._lost or transfer.destination in self._lost

    def _is_impossible(self, now_ns: int, transfer: Transfer) -> bool:
        """Whether not even the whole path, from now on, would carry the rest in time."""
        fastest_bps = self.engine.fastest_bps(transfer.path, transfer.rate_max_bps)
        return needed_bps(now_ns, transfer) > fastest_bps

    def _replan_due(self, now_ns: int, identifier: str) -> bool:
        return now_ns - self._replanned_ns.get(identifier, 0) >= REPLAN_EVERY_NS

    def _risk(self, now_ns: int, transfer: Transfer) -> str:
        if transfer.state == "scheduled":
            # Whether its agents are there counts once it starts.
            return "" if transfer.planned else "no capacity is held for it before its start"
        for host in (transfer.source, transfer.destination):
            if host in self._lost:
                return f"no agent answers on {host}"
        if transfer.is_void:
            declared = Bytes.from_count(transfer.declared_bytes)
            return f"larger than the {declared} declared: no deadline, and only what is free"
        if transfer.is_rest:
            return ""
        if now_ns > transfer.deadline_ns:
            return "the deadline has passed"
        if not transfer.planned:
            return "no capacity is held for it"
        if transfer.plan_ns > transfer.deadline_ns:
            return f"planned for {format_instant(transfer.plan_ns)}"
        if self._is_behind(now_ns, transfer):
            return BEHIND
        return ""

    def _risks(self, outcome: Outcome, now_ns: int, transfers: Iterable[Transfer]) -> None:
        for transfer in list(transfers):
            risk = self._risk(now_ns, transfer)
            if risk == transfer.risk:
                continue
            self._put(outcome, replace(transfer, risk=risk))
            if not risk:
                self._event(outcome, now_ns, "recovered", transfer.id, {})
                continue
            data: dict[str, object] = {"risk": risk}
            end_ns = self.engine.earliest_end_ns(transfer.id) if risk == BEHIND else None
            if end_ns is not None and end_ns - now_ns < DEADLINE_MAX_S * NS_PER_S:
                data["earliest"] = format_instant(end_ns)
            self._event(outcome, now_ns, "at-risk", transfer.id, data)

    # --- the outcome ---

    def _counter(
        self, now_ns: int, asked: Submission, verdict: Verdict, engine: RecordedEngine
    ) -> _Counter:
        """What would do instead, as things stand before anything is held for it."""
        by_links = self._by_links(now_ns, asked, engine)
        plan_ns = asked.deadline_ns - self._margin_ns
        left_ns = plan_ns - max(now_ns, asked.start_ns or now_ns)
        if left_ns <= 0:
            return _Counter(by_links)
        search = Search(engine, self._wanted, self._budget, now_ns, len(self.rates))
        guess = asked.size_bytes // 2
        if verdict.available_bps is not None:
            guess = file_bytes(verdict.available_bps * left_ns // (8 * NS_PER_S))
        latest_ns = search.latest_start(asked)
        return _Counter(by_links, search.largest(asked, guess), latest_ns)

    def _refusal(
        self,
        now_ns: int,
        verdict: Verdict,
        asked: Submission,
        offer: tuple[int | None, int],
        counter: _Counter,
    ) -> Problem:
        offered_ns, held_ns = offer
        largest, by_links = counter.largest_bytes, counter.by_links
        latest = None if counter.latest_ns is None else format_instant(counter.latest_ns)
        earliest = None if offered_ns is None else format_instant(offered_ns)
        detail = (
            f"{Bytes.from_count(asked.size_bytes)} cannot be promised by "
            f"{format_instant(asked.deadline_ns)}: {reason(verdict)}"
        )
        if earliest is None:
            hint = self._later(now_ns, verdict.link)
        else:
            hint = (
                f"this policy{'' if self._plans_ahead else ', which keeps constant rates,'} "
                f"can promise it for {earliest}: "
                f"ask for {earliest} or later within {self._offer_ns / NS_PER_S:g} s; "
                f"{kept(held_ns, self._offer_ns)}"
            )
        hint += instead(largest, latest)
        if by_links:
            hint = f"with every promise kept, no plan could have it there before {by_links}; {hint}"
        return Problem(
            409,
            "refused",
            "The deadline cannot be promised",
            detail,
            field="deadline",
            hint=hint,
            link=verdict.link,
            needed_bps=verdict.needed_bps,
            available_bps=verdict.available_bps,
            earliest_deadline=earliest,
            offer_valid_s=self._offer_ns / NS_PER_S if earliest else None,
            offer_held_s=held_ns / NS_PER_S if earliest else None,
            earliest_by_links=by_links,
            largest_size_bytes=largest,
            latest_start=latest,
        )

    def _offer(
        self, outcome: Outcome, now_ns: int, verdict: Verdict, asked: Submission
    ) -> tuple[int | None, int]:
        """The deadline that is offered instead, if any, and for how long its room is held."""
        offered_ns = self._offered_ns(now_ns, verdict)
        if verdict.earliest_ns is None or offered_ns is None:
            return None, 0
        if self._plans_ahead:
            # Room that lies later is not kept free by a rate that is held now.
            return offered_ns, 0
        # At the end of the offer there is as much time left as there would be now.
        wire_bits = wire_bytes(max(1, asked.size_bytes)) * 8
        rate_bps = -(-wire_bits * NS_PER_S // max(1, verdict.earliest_ns - now_ns))
        ends = (asked.source, asked.destination)
        found = self._offers.hold(now_ns, asked.owner, ends, rate_bps)
        if found is None:
            return offered_ns, 0
        held, changes = found
        self._rates(outcome, now_ns, changes)
        offered = replace(asked, deadline_ns=offered_ns)
        if self._claims.share_refusal(offered, held.path, held.until_ns) is not None:
            self._release(outcome, now_ns, [asked.owner])
            return offered_ns, 0
        return offered_ns, held.until_ns - now_ns

    def _offered_ns(self, now_ns: int, verdict: Verdict) -> int | None:
        """The deadline that a refused request can be given, and be asked for, for a while."""
        if verdict.earliest_ns is None:
            return None
        # Instants are told in milliseconds, rounded down.
        offered_ns = verdict.earliest_ns + self._margin_ns + self._offer_ns + 1_000_000
        # A link that can give a few bit/s would be done in centuries.
        return None if offered_ns - now_ns > DEADLINE_MAX_S * NS_PER_S else offered_ns

    def _by_links(self, now_ns: int, asked: Submission, engine: RecordedEngine) -> str | None:
        """Before when the links alone rule the request out, whatever the policy."""
        ends, size_bytes = (asked.source, asked.destination), wire_bytes(max(1, asked.size_bytes))
        least_ns = engine.earliest_by_links_ns(ends, size_bytes, asked.rate_max_bps)
        if least_ns is None or least_ns - now_ns > DEADLINE_MAX_S * NS_PER_S:
            return None
        return format_instant(least_ns + self._margin_ns)

    def _later(self, now_ns: int, link: str | None) -> str:
        """What to do when no deadline would be accepted now: when the link next has room."""
        crossing = self._crossing.get(link or "", ())
        last_ns = now_ns + DEADLINE_MAX_S * NS_PER_S
        ends = [end_ns for x in crossing if now_ns < (end_ns := self._ends_ns.get(x, 0)) < last_ns]
        offers = list(self._offers.ends_ns(link))
        if not (ends or offers):
            return "no deadline would be accepted"
        what = "a transfer over the link ends"
        if offers and min(offers) <= min(ends, default=math.inf):
            what = "room on the link is held for an offer to somebody else, which ends"
        return (
            f"no deadline would be accepted now; {what} at about "
            f"{format_instant(min(ends + offers))}: ask again then"
        )

    def _put(self, outcome: Outcome, transfer: Transfer) -> None:
        self.transfers[transfer.id] = transfer
        outcome.transfers[transfer.id] = transfer
        self._note(transfer)

    def _rates(self, outcome: Outcome, now_ns: int, changes: dict[str, int]) -> None:
        changes = {x: rate for x, rate in changes.items() if x in self.transfers}
        if not changes:
            return
        for identifier, rate_bps in changes.items():
            self._set_rate(outcome, now_ns, identifier, rate_bps)
        self._event(outcome, now_ns, "rates", None, {"rates_bps": changes})

    def _event(
        self,
        outcome: Outcome,
        now_ns: int,
        kind: str,
        transfer: str | None,
        data: dict[str, object],
        asked: Submission | None = None,
    ) -> None:
        self._last_event += 1
        event = Event(self._last_event, now_ns, kind, transfer, data)
        if asked is not None:
            request, owner, key = asked.id, asked.owner, asked.idempotency_key
            event = replace(event, request=request, owner=owner, idempotency_key=key)
        outcome.events.append(event)

    def _sealed(self, outcome: Outcome) -> Outcome:
        outcome.steps = self.engine.take_steps()
        return outcome


def _elephant_data(elephant: Elephant) -> dict[str, object]:
    told = elephant.assignment()
    return {"elephant": told.pop("id"), "owner": elephant.owner, **told}
