"""Requests whose answers may wait: taken on trial, answered when the engine says so.

Until then a request is planned and sent as if it had been admitted, and may lose its place to one
that takes less of the links. Nothing is promised of it.
"""

import json
from collections.abc import Iterable
from dataclasses import replace

from weir import Bytes
from weir.calendar.planning.answers import Answers, CounterOffer, asked_again
from weir.calendar.planning.engine import Verdict
from weir.calendar.planning.refusal import refused_data
from weir.calendar.planning.reports import Reports
from weir.calendar.planning.wire import left_bytes, promised
from weir.calendar.problem import Problem
from weir.calendar.records import Outcome, Submission, Transfer


class Trials(Answers, Reports):
    """A plan that shares capacity out, which is when answers that waited come."""

    def submit(self, now_ns: int, asked: Submission) -> Outcome:
        """Admits, refuses, or takes on trial what may wait for its answer."""
        outcome = super().submit(now_ns, asked)
        if asked.id in self.transfers and self.transfers[asked.id].state == "waiting":
            # Who waits is told rates with the epoch that is due now.
            steps = outcome.steps
            self._share_out(outcome, now_ns)
            outcome = self._sealed(outcome)
            outcome.steps = steps + outcome.steps
            outcome.answer = self.transfers[asked.id]
        return outcome

    def _share_out(self, outcome: Outcome, now_ns: int) -> None:
        self._shared_ns = now_ns
        self._freed.clear()
        changes = self.engine.epoch(now_ns)
        answers = self.engine.take_answers()
        for identifier, verdict in answers:
            self._answer(outcome, now_ns, self.transfers[identifier], verdict)
        if answers:
            # What is held for who was refused, or held no longer, has changed these since.
            changes = {x: sum(self._lanes(x)) for x in changes if x in self.rates}
        self._rates(outcome, now_ns, changes)
        # Reports tell who falls behind: to look at all of ten thousand takes a tenth of a second.
        touched = self._watch.troubled | changes.keys()
        self._risks(outcome, now_ns, self._in_order(touched))

    def _answer(self, outcome: Outcome, now_ns: int, transfer: Transfer, verdict: Verdict) -> None:
        """Gives the answer that a transfer waits for."""
        if not verdict.accepted:
            self._refuse(outcome, now_ns, transfer, verdict)
            return
        state = "accepted" if transfer.started_ns is None else "running"
        if now_ns < (transfer.start_ns or 0):
            state = "scheduled"
        part = promised(transfer, verdict)
        admitted = replace(transfer, state=state, answer_ns=None, promised_bytes=part)
        self._put(outcome, admitted)
        self._tell_taken(outcome, now_ns, admitted, verdict.rate_bps)
        self._risks(outcome, now_ns, [admitted])

    def _refuse(self, outcome: Outcome, now_ns: int, transfer: Transfer, verdict: Verdict) -> None:
        """The engine, which holds nothing of it any more, says no."""
        asked = asked_again(transfer)
        self._end(outcome, now_ns, transfer)
        self._release(outcome, now_ns, self._offers.lapsed(now_ns))
        if self._offers.of(asked.owner) is not None:
            self._release(outcome, now_ns, [asked.owner])
        counter = self._counter(now_ns, asked, verdict)
        offer = self._offer(outcome, now_ns, verdict, asked)
        refusal = self._refusal(now_ns, verdict, asked, offer, counter)
        self._turn_away(outcome, now_ns, transfer, refusal)

    def _turn_away(
        self, outcome: Outcome, now_ns: int, transfer: Transfer, refusal: Problem
    ) -> None:
        asked = asked_again(transfer)
        refusal.extra["id"] = transfer.id
        # It can be asked for again under its key, as what is refused at once.
        self._keys.pop((transfer.owner, transfer.idempotency_key), None)
        refused = replace(
            transfer,
            idempotency_key=None,
            state="refused",
            answer_ns=None,
            finished_ns=now_ns,
            planned=False,
            risk="",
            error=refusal.detail,
            refusal=json.dumps(refusal.body()),
        )
        self._over(outcome, refused)
        data = refused_data(asked, refusal)
        self._event(outcome, now_ns, "refused", transfer.id, data, asked)

    def _void(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> None:
        """What is larger than was declared gets what is free, or no for an answer."""
        if transfer.state != "waiting":
            super()._void(outcome, now_ns, transfer)
            return
        changes = self.engine.cancel(now_ns, transfer.id)
        self._end(outcome, now_ns, transfer)
        sizes = (transfer.declared_bytes, transfer.size_bytes)
        declared, true = (Bytes.from_count(x) for x in sizes)
        why = f"it has {true}, where {declared} were declared"
        self._decline(outcome, now_ns, transfer, why, "submit it again with its true size")
        self._rates(outcome, now_ns, changes)

    def _decline(
        self, outcome: Outcome, now_ns: int, transfer: Transfer, why: str, hint: str
    ) -> None:
        """Says no to what waits for its answer, for a reason of its own and not of the links."""
        nothing = Verdict(False, 0, (), {}, None, None, None, None)
        asked = asked_again(transfer)
        refusal = self._refusal(now_ns, nothing, asked, (None, 0), CounterOffer(None))
        refusal.detail, refusal.hint = why, hint
        self._turn_away(outcome, now_ns, transfer, refusal)

    def _grown(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> None:
        """What waits for its answer waits on, with all that is left of it."""
        if transfer.state != "waiting":
            super()._grown(outcome, now_ns, transfer)
        elif left_bytes(transfer) > self.engine.size_bytes(transfer.id):
            changes = self.engine.cancel(now_ns, transfer.id)
            self._end(outcome, now_ns, transfer)
            self._rates(outcome, now_ns, changes)
            self._ask_again(outcome, now_ns, [transfer])

    def _ask_again(self, outcome: Outcome, now_ns: int, transfers: Iterable[Transfer]) -> None:
        """Asks a fresh engine for those that wait for their answers, by the same time."""
        for transfer in transfers:
            if not self.engine.joins((transfer.source, transfer.destination)):
                why = "no links join its hosts in this network any more"
                self._decline(outcome, now_ns, transfer, why, "ask for hosts that it has")
                continue
            plan_ns = transfer.deadline_ns - self._margin_ns
            verdict = self._ask(now_ns, transfer.id, transfer, plan_ns)
            if verdict.refused:
                self._refuse(outcome, now_ns, transfer, verdict)
                continue
            planned = replace(
                transfer, planned=True, plan_ns=plan_ns, path=verdict.path, paths=verdict.paths
            )
            self._claims.replace(transfer, planned)
            self._put(outcome, planned)
            self._begin(outcome, now_ns, planned, verdict.rate_bps)
            if verdict.accepted:
                self._answer(outcome, now_ns, planned, verdict)
            self._rates(outcome, now_ns, verdict.changes)
