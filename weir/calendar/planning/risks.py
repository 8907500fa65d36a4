"""Which deadlines are in danger, and why."""

from collections.abc import Container, Iterable

from weir import Bytes
from weir.calendar.clock import NS_PER_S, format_instant
from weir.calendar.fast_record import changed
from weir.calendar.planning.plan import DEADLINE_MAX_S, Plan
from weir.calendar.planning.wire import left_bytes, needed_bps, wire_bytes
from weir.calendar.records import Outcome, Transfer

# Why a deadline is in danger that only the links stand in the way of.
BEHIND = "it is behind, and the links allow no more"
# A receiver confirms whole chunks of this size.
CHUNK_WIRE_BYTES = 1_100_000
# A report older than this is not compared with the time that is left: agents name those without
# news in turn, and what has moved since is what the model says.
FRESH_NS = 2 * NS_PER_S


class Risks(Plan):
    """A plan that tells who is behind, who is at risk, and who has missed the deadline."""

    def _is_impossible(self, now_ns: int, transfer: Transfer) -> bool:
        """Whether not even the whole path, from now on, would carry the rest in time."""
        fastest_bps = self.engine.fastest_bps(transfer.routes, transfer.rate_max_bps)
        return needed_bps(now_ns, transfer) > fastest_bps

    def _behind(self, now_ns: int, transfers: Iterable[Transfer]) -> list[Transfer]:
        """Which of them would not be there by their deadlines at their rates, if these bind."""
        bound = [x for x in transfers if x.due_bytes and not x.is_unbound]
        if not self._plans_ahead:
            return [x for x in bound if self._is_behind(now_ns, x)]
        behind = self.engine.behind([x.id for x in bound]) if bound else ()
        return [x for x in bound if x.id in behind or x.deadline_ns <= now_ns]

    def _is_behind(self, now_ns: int, transfer: Transfer) -> bool:
        """The same of one, by a policy that plans for now alone."""
        left_ns = transfer.deadline_ns - now_ns
        if left_ns <= 0:
            return True
        if now_ns - self._reported_ns.get(transfer.id, now_ns) > FRESH_NS:
            return self._ends_ns.get(transfer.id, 0) > transfer.deadline_ns
        carried = self.rates.get(transfer.id, 0) * left_ns // (8 * NS_PER_S)
        if wire_bytes(transfer.due_bytes) <= carried:
            return False
        return self._told_bytes(now_ns, transfer) > carried

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

    def _miss(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> Transfer:
        missed = changed(transfer, missed=True)
        self._put(outcome, missed)
        data = {
            "deadline": format_instant(transfer.deadline_ns),
            "remaining_bytes": transfer.due_bytes,
        }
        self._event(outcome, now_ns, "missed", transfer.id, data)
        return missed

    def _risk(self, now_ns: int, transfer: Transfer, behind: Container[str]) -> str:
        if transfer.state == "waiting":
            # Nothing is promised of it yet.
            return ""
        if not transfer.planned and not self.engine.joins((transfer.source, transfer.destination)):
            return f"no links join {transfer.source} and {transfer.destination} in this network"
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
        return BEHIND if transfer.id in behind else ""

    def _risks(
        self,
        outcome: Outcome,
        now_ns: int,
        transfers: Iterable[Transfer],
        behind: Container[str] | None = None,
    ) -> None:
        """Tells whose risk is another now; `behind` are those that are, where that is known."""
        transfers = list(transfers)
        if behind is None:
            behind = {x.id for x in self._behind(now_ns, transfers)}
        for transfer in transfers:
            risk = self._risk(now_ns, transfer, behind)
            if risk == transfer.risk:
                continue
            self._put(outcome, changed(transfer, risk=risk))
            if not risk:
                self._event(outcome, now_ns, "recovered", transfer.id, {})
                continue
            data: dict[str, object] = {"risk": risk}
            end_ns = self.engine.earliest_end_ns(transfer.id) if risk == BEHIND else None
            if end_ns is not None and end_ns - now_ns < DEADLINE_MAX_S * NS_PER_S:
                data["earliest"] = format_instant(end_ns)
            self._event(outcome, now_ns, "at-risk", transfer.id, data)
