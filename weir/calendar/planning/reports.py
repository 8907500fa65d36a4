"""What agents report: how far transfers have come, and how they end."""

from collections.abc import Iterable

from weir.calendar.clock import format_instant
from weir.calendar.fast_record import changed, record
from weir.calendar.planning.late import Late
from weir.calendar.planning.wire import left_bytes
from weir.calendar.problem import not_found
from weir.calendar.records import Outcome, Transfer


@record(frozen=True, slots=True)
class Report:
    """What an agent measured of one transfer. `finished_ago_ns` is by the agent's own clock."""

    id: str
    state: str
    bytes_durable: int | None
    bytes_total: int
    file_hash: str | None = None
    error: str | None = None
    finished_ago_ns: int = 0


class Reports(Late):
    """A plan that follows what is really moved, and ends."""

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

        The answer is the ids that the agent should stop: unknown, finished, another's, or of
        which no agent has been told because their start is still to come.
        """
        outcome = Outcome(answer=[])
        moved: list[Transfer] = []
        for report in reports:
            transfer = self.transfers.get(report.id)
            if transfer is None or transfer.source != host or not transfer.is_begun:
                outcome.answer.append(report.id)
            elif report.state == "done":
                self._done(outcome, now_ns, transfer, report)
            elif report.state == "failed":
                failed = changed(transfer, error=report.error)
                self._finish(outcome, now_ns, failed, "failed", now_ns)
            else:
                self._moved(outcome, now_ns, transfer, report)
                moved += [self.transfers[x] for x in (report.id,) if x in self.transfers]
        self._progress(outcome, now_ns, moved)
        return self._sealed(outcome)

    def _done(self, outcome: Outcome, now_ns: int, transfer: Transfer, report: Report) -> None:
        """Completes a transfer whose source was delivered whole, by the agent's own count.

        What was declared counts for nothing here: of an empty file nothing is durable.
        """
        durable = report.bytes_total if report.bytes_durable is None else report.bytes_durable
        done = changed(transfer, bytes_durable=durable, size_bytes=report.bytes_total)
        finished_ns = max(now_ns - report.finished_ago_ns, transfer.submitted_ns)
        if durable == report.bytes_total:
            done = changed(done, file_hash=report.file_hash)
            self._finish(outcome, now_ns, done, "completed", finished_ns)
            return
        error = f"the agent was done with {durable} of {report.bytes_total} bytes delivered"
        self._finish(outcome, now_ns, changed(done, error=error), "failed", now_ns)

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
        transfer = changed(
            transfer,
            answer_ns=None,
            state=state,
            finished_ns=finished_ns,
            planned=False,
            risk="",
            # Late by the service's clock while unheard of, on time by the agent's.
            missed=late if state == "completed" else transfer.missed,
        )
        self._over(outcome, transfer)
        data = {"finished": format_instant(finished_ns), "bytes_durable": transfer.bytes_durable}
        if state == "completed":
            data |= {"on_time": not late, "hash": transfer.file_hash}
        if transfer.error:
            data |= {"error": transfer.error}
        self._event(outcome, now_ns, state, transfer.id, data)
        self._rates(outcome, now_ns, changes)
        return transfer

    def _over(self, outcome: Outcome, transfer: Transfer) -> None:
        """Lets go of a transfer that is over, as it ended; the engine has nothing of it."""
        self._claims.remove(transfer)
        self._put(outcome, transfer)
        del self.transfers[transfer.id]
        self._watch.forget(transfer.id)
        self._keys.pop((transfer.owner, transfer.idempotency_key), None)
        self._replanned_ns.pop(transfer.id, None)
        self._reported_ns.pop(transfer.id, None)

    def _moved(self, outcome: Outcome, now_ns: int, transfer: Transfer, report: Report) -> None:
        self._reported_ns[transfer.id] = now_ns
        total = report.bytes_total or transfer.size_bytes
        durable = transfer.bytes_durable
        if report.bytes_durable is not None:
            durable = min(report.bytes_durable, total)
        begins = transfer.state == "accepted" or (
            transfer.state == "waiting" and transfer.started_ns is None
        )
        if begins and report.state == "running":
            state = "running" if transfer.state == "accepted" else transfer.state
            transfer = changed(transfer, state=state, started_ns=now_ns)
            self._event(outcome, now_ns, "started", transfer.id, {})
        error = report.error or None
        if (report.bytes_durable or 0) > total:
            error = f"its agent says that {report.bytes_durable} of its {total} bytes are there"
        moved = changed(transfer, size_bytes=total, bytes_durable=durable, error=error)
        self._put(outcome, moved)
        if moved.is_void and not transfer.is_void:
            self._void(outcome, now_ns, moved)
        elif moved.is_rest and not transfer.is_rest:
            self._rest(outcome, now_ns, moved)
        elif moved.planned and left_bytes(moved) > left_bytes(transfer):
            self._grown(outcome, now_ns, moved)

    def _grown(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> None:
        """More is left of it than before: what was there is gone, or the agent says now this.

        What was planned when less was left holds no room for the rest of it: it is asked for anew.
        """
        if left_bytes(transfer) > self.engine.size_bytes(transfer.id):
            self._drop(outcome, now_ns, transfer)
            self._replan(outcome, now_ns, self.transfers[transfer.id])

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
        on_time = False
        if remaining:
            self._report_remaining(outcome, now_ns, remaining)
            behind = self._behind(now_ns, moved)
            on_time = not behind
            if behind and self._refresh(outcome, now_ns):
                self._report_remaining(outcome, now_ns, remaining)
                behind = self._behind(now_ns, behind)
            if behind and self._make_way(outcome, now_ns, behind):
                self._report_remaining(outcome, now_ns, remaining)
                behind = self._behind(now_ns, behind)
            self._catch_up(outcome, now_ns, [self.transfers[x.id] for x in behind])
        # As a rule all are on time, and nothing has changed that since.
        known = () if on_time else None
        self._risks(outcome, now_ns, [self.transfers[x.id] for x in moved], known)
