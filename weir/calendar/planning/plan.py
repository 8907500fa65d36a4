"""The plan: every active transfer, the engine that holds their capacity, and what is known of it.

Every method takes the time as an argument and notes all that it changes in an `Outcome`.

The engine plans packets on the wire, people speak of file bytes: sizes go in enlarged by
`WIRE_PER_FILE_BYTE`, and deadlines go in earlier by a margin that pays for connecting, slow
start and the last hash.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from weir.calendar.clock import NS_PER_S
from weir.calendar.elephants import Elephants
from weir.calendar.fast_record import changed
from weir.calendar.network import DEFAULT_QUOTAS, Quotas
from weir.calendar.planning.claims import Claims
from weir.calendar.planning.engine import RecordedEngine, Verdict
from weir.calendar.planning.offers import Offers
from weir.calendar.planning.precheck import Budget
from weir.calendar.planning.split import on_link
from weir.calendar.planning.watch import Instants, Watch
from weir.calendar.planning.wire import left_bytes, wanted_of, wire_bytes
from weir.calendar.records import Event, Outcome, Submission, Transfer
from weir.calendar.timetable import Timetable

# A refusal's earliest deadline leaves this long to read it and ask again, unless told otherwise.
OFFER_NS = 60 * NS_PER_S
# Ten years: later deadlines are neither taken nor offered.
DEADLINE_MAX_S = 10 * 366 * 86_400
# A refusal looks for flows that only wait for their report, but not for every one of a flood.
REFRESH_EVERY_NS = NS_PER_S // 20
# What has no deadline that binds is planned for the end of time, so that it holds back nothing.
VOID_PLAN_NS = 2**62
# This part of the margin is kept for the last hash of what is planned again.
KEPT_PART = 4
NO_TIMETABLES: Mapping[str, Timetable] = {}


class Plan:
    """Active transfers with their rates, and how they come to capacity and lose it."""

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
        # The rate on each path of those that have several.
        self.lanes: dict[str, tuple[int, ...]] = {}
        self._margin_ns = margin_ns
        self._offer_ns = offer_ns
        # These have no part in the plan: they go in what it leaves.
        self.elephants = elephants or Elephants((), quotas.elephants)
        self._offers = Offers(engine, min(hold_ns, offer_ns))
        self.timetables = {x: t for x, t in timetables.items() if x in engine.capacities_bps}
        # When the engine is next to be told of each.
        self._capacity_due_ns = dict.fromkeys(self.timetables, 0)
        self._budget = Budget()
        # When the next flow on a link ends, and when that was looked for.
        self._next_end_ns: dict[str, tuple[int | None, int]] = {}
        self._last_event = last_event
        # How often a transfer was changed.
        self._puts = 0
        self._lost = set(lost)
        self._keys = {(x.owner, x.idempotency_key): x.id for x in self.transfers.values()}
        self._replanned_ns: dict[str, int] = {}
        self._refreshed_ns = 0
        # Until when the time is spent that there is for those that are behind.
        self._spent_ns = 0
        # When each flow would end at its rate, by what was last known of it.
        self._ends_ns = Instants(self.rates)
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
            if self.transfers[identifier].paths:
                self.lanes[identifier] = self._lanes(identifier)
        self._freed: set[str] = set()
        self._freed_ns = 0
        self._offer_ended = False
        self._shared_ns = 0

    @property
    def changes(self) -> tuple[int, int, int]:
        """Another one after every change of the plan."""
        return self._puts, self._last_event, self.engine.last_step

    def find_key(self, owner: str, idempotency_key: str) -> Transfer | None:
        """The active transfer that an owner submitted under a key."""
        return self.transfers.get(self._keys.get((owner, idempotency_key), ""))

    def _ask(
        self, now_ns: int, identifier: str, wanted: Submission | Transfer, plan_ns: int
    ) -> Verdict:
        return self.engine.submit(now_ns, identifier, wanted_of(now_ns, wanted, plan_ns))

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
        planned = changed(
            transfer, planned=True, plan_ns=plan_ns, path=verdict.path, paths=verdict.paths
        )
        self._claims.replace(transfer, planned)
        self._put(outcome, planned)
        self._begin(outcome, now_ns, planned, verdict.rate_bps)
        self._rates(outcome, now_ns, {transfer.id: verdict.rate_bps} | verdict.changes)
        return True

    def _replan(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> None:
        """Asks for capacity again: by the deadline, else by the earliest that can be had."""
        if self._plan(outcome, now_ns, transfer) or transfer.is_unbound:
            return
        if not self._may_plan(now_ns, transfer):
            return
        # Most of the margin is for what has happened to it by now.
        if self._plan(outcome, now_ns, transfer, self._latest_plan_ns(transfer)):
            return
        if self._make_way(outcome, now_ns, [transfer]) and self._plan(outcome, now_ns, transfer):
            return
        verdict = self._ask(now_ns, transfer.id, transfer, transfer.deadline_ns - self._margin_ns)
        if verdict.earliest_ns is not None:
            self._plan(outcome, now_ns, transfer, verdict.earliest_ns)

    def _latest_plan_ns(self, transfer: Transfer) -> int:
        """The latest that a plan may end for its deadline to hold."""
        return transfer.deadline_ns - self._margin_ns // KEPT_PART

    def _may_plan(self, now_ns: int, transfer: Transfer) -> bool:
        """Whether the policy can hold capacity for it already, and the network carries it."""
        is_time = self._plans_ahead or now_ns >= (transfer.start_ns or 0)
        return is_time and self.engine.joins((transfer.source, transfer.destination))

    def _drop(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> None:
        """Gives back the capacity of a transfer that can no longer use it in time."""
        changes = self.engine.cancel(now_ns, transfer.id)
        self._end(outcome, now_ns, transfer)
        self._put(outcome, changed(transfer, planned=False))
        self._rates(outcome, now_ns, changes)

    def _refresh(self, outcome: Outcome, now_ns: int) -> bool:
        """Corrects flows that the model believes ended while their agents have not said so.

        The engine takes nothing from a flow that is only waiting for its report; by what is
        known to be durable, such a flow may have much to spare. Whether anything was corrected.
        """
        if now_ns - self._refreshed_ns < REFRESH_EVERY_NS:
            return False
        self._refreshed_ns = now_ns
        ended = self._ends_ns.come(now_ns)
        finishing = [self.transfers[x] for x in ended if x in self.transfers]
        remaining = {x.id: left_bytes(x) for x in finishing if x.due_bytes}
        if remaining:
            self._report_remaining(outcome, now_ns, remaining)
        return bool(remaining)

    def _report_remaining(self, outcome: Outcome, now_ns: int, remaining: dict[str, int]) -> None:
        self._rates(outcome, now_ns, self.engine.progress(now_ns, remaining))
        for identifier, count in remaining.items():
            rate_bps = max(1, self.rates.get(identifier, 1))
            self._ends_ns.put(identifier, now_ns + count * 8 * NS_PER_S // rate_bps)

    def _set_rate(self, outcome: Outcome, now_ns: int, identifier: str, rate_bps: int) -> None:
        """Notes a flow's rate and what it does to the flow's end."""
        before_bps = self.rates.get(identifier)
        self.rates[identifier] = outcome.rates[identifier] = rate_bps
        if self.transfers[identifier].paths:
            self.lanes[identifier] = outcome.lanes[identifier] = self._lanes(identifier)
        end_ns = self._ends_ns.get(identifier, now_ns)
        if before_bps and rate_bps and end_ns > now_ns:
            left_ns = (end_ns - now_ns) * before_bps // rate_bps
            self._ends_ns.put(identifier, now_ns + left_ns)

    def _lanes(self, identifier: str) -> tuple[int, ...]:
        return tuple(rate_bps for _, rate_bps in self.engine.lanes(identifier))

    def _cross(self, transfer: Transfer) -> None:
        for link in transfer.links:
            self._crossing[link].add(transfer.id)

    def _uncross(self, transfer: Transfer) -> None:
        for link in transfer.links:
            self._crossing[link].discard(transfer.id)

    def _on_link(self, identifier: str, link: str) -> int:
        """What a flow is allotted of a link."""
        transfer = self.transfers[identifier]
        return on_link(transfer, self.rates.get(identifier, 0), self.lanes.get(identifier), link)

    def _begin(self, outcome: Outcome, now_ns: int, transfer: Transfer, rate_bps: int) -> None:
        """Notes a flow that the engine has just admitted."""
        self._cross(transfer)
        self.rates.pop(transfer.id, None)
        self._set_rate(outcome, now_ns, transfer.id, rate_bps)
        wire_bits = wire_bytes(transfer.due_bytes) * 8
        self._ends_ns.put(transfer.id, now_ns + wire_bits * NS_PER_S // max(1, rate_bps))

    def _end(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> None:
        """Forgets a flow that the engine holds no more."""
        for known in (self.rates, outcome.rates, self.lanes, outcome.lanes):
            known.pop(transfer.id, None)
        self._ends_ns.drop(transfer.id)
        self._uncross(transfer)
        self._freed.update(transfer.links)
        self._freed_ns = now_ns

    def _release(self, outcome: Outcome, now_ns: int, owners: Iterable[str]) -> None:
        """Gives back the room that is held for offers to these."""
        for owner in owners:
            self._offer_ends(now_ns, owner)
            self._rates(outcome, now_ns, self._offers.release(now_ns, owner))

    def _offer_ends(self, now_ns: int, owner: str) -> None:
        held = self._offers.of(owner)
        assert held is not None, "asked for just before"
        self._freed.update(held.links)
        self._freed_ns = now_ns
        self._offer_ended = True

    def _make_way(self, outcome: Outcome, now_ns: int, transfers: Iterable[Transfer]) -> bool:
        """Takes back offers where they hold what promises need; whether there were any."""
        owners = self._offers.on(link for transfer in transfers for link in transfer.links)
        self._release(outcome, now_ns, owners)
        return bool(owners)

    def _in_order(self, identifiers: Iterable[str]) -> list[Transfer]:
        """Those of them that are transfers, in the order of submission."""
        found = [self.transfers[x] for x in identifiers if x in self.transfers]
        return sorted(found, key=lambda x: (x.submitted_ns, x.id))

    def _is_lost(self, transfer: Transfer) -> bool:
        return transfer.source in self._lost or transfer.destination in self._lost

    def _note(self, transfer: Transfer) -> None:
        """Has time watched for what it brings a transfer, as it is now."""
        is_waiting = self._lost and transfer.planned and self._is_lost(transfer)
        self._watch.note(transfer, self._latest_ns(transfer) if is_waiting else None)

    def _latest_ns(self, transfer: Transfer) -> int:
        """From when on not even the whole path would carry the rest of a transfer in time."""
        fastest_bps = self.engine.fastest_bps(transfer.routes, transfer.rate_max_bps)
        wire_bits = wire_bytes(transfer.due_bytes) * 8
        # The microsecond is for the rounding of what this is compared with.
        return transfer.deadline_ns - wire_bits * NS_PER_S // max(1, fastest_bps) + 1_000

    def _put(self, outcome: Outcome, transfer: Transfer) -> None:
        self._puts += 1
        self.transfers[transfer.id] = transfer
        outcome.transfers[transfer.id] = transfer
        self._note(transfer)

    def _rates(self, outcome: Outcome, now_ns: int, changes: dict[str, int]) -> None:
        changes = {x: rate for x, rate in changes.items() if x in self.transfers}
        if not changes:
            return
        for identifier in changes:
            if self.transfers[identifier].paths:
                # With its lanes, which are as the engine now has them.
                changes[identifier] = sum(self._lanes(identifier))
        for identifier, rate_bps in changes.items():
            self._set_rate(outcome, now_ns, identifier, rate_bps)
        data: dict[str, object] = {"rates_bps": changes}
        lanes_bps = {x: list(self.lanes[x]) for x in changes if x in self.lanes}
        if lanes_bps:
            data["lanes_bps"] = lanes_bps
        self._event(outcome, now_ns, "rates", None, data)

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
        whose = () if asked is None else (asked.id, asked.owner, asked.idempotency_key)
        event = Event(self._last_event, now_ns, kind, transfer, data, *whose)
        outcome.events.append(event)

    def _sealed(self, outcome: Outcome) -> Outcome:
        outcome.steps = self.engine.take_steps()
        return outcome
