"""The answers to requests: admitted, or refused with what could be asked for instead."""

from dataclasses import dataclass, fields

from weir import Bytes
from weir.calendar.clock import NS_PER_S, format_instant
from weir.calendar.fast_record import changed
from weir.calendar.planning.claims import TOLD_NS
from weir.calendar.planning.engine import Verdict, Wanted
from weir.calendar.planning.plan import DEADLINE_MAX_S
from weir.calendar.planning.precheck import Forecast, Search
from weir.calendar.planning.refusal import instead, kept, reason, refused_data
from weir.calendar.planning.risks import Risks
from weir.calendar.planning.split import lanes
from weir.calendar.planning.wire import RATE_FLOOR_BPS, file_bytes, promised, wanted_of, wire_bytes
from weir.calendar.problem import Problem, invalid
from weir.calendar.records import Outcome, Submission, Transfer
from weir.errors import BadInput

# `asdict` takes as long as the decision.
_ASKED = tuple(
    field.name for field in fields(Submission) if field.name not in {"hold_ns", "paths_able"}
)
# An answer comes before this part of the time to the deadline is over.
ANSWER_PART = 5


@dataclass(frozen=True, slots=True)
class CounterOffer:
    """What a refusal names that could be asked for instead, each if there is such a thing.

    Attributes:
        by_links: the deadline before which the links alone rule the request out.
        largest_bytes: the size that could be there by the deadline asked for.
        latest_ns: the start with which all of it could.
        lanes: the paths over which all of it could, with the first rate on each; it is to ask for
            so many.
    """

    by_links: str | None
    largest_bytes: int | None = None
    latest_ns: int | None = None
    lanes: tuple[tuple[tuple[str, ...], int], ...] = ()


class Answers(Risks):
    """A plan that takes requests."""

    def submit(self, now_ns: int, asked: Submission) -> Outcome:
        """Admits or refuses. The answer is a `Transfer`, or the refusal as a `Problem`."""
        outcome = Outcome()
        refusal = self._claims.refusal(asked)
        if refusal is not None:
            return self._refused(outcome, now_ns, asked, refusal)
        self._release(outcome, now_ns, self._offers.lapsed(now_ns))
        plan_ns = asked.deadline_ns - self._margin_ns
        try:
            verdict = self._ask_with_offer(outcome, now_ns, asked)
        except BadInput as error:
            # The engine found what no earlier check can know, such as two nodes without a path.
            outcome.answer = invalid(None, str(error))
            return self._sealed(outcome)
        if verdict.link is not None and self._refresh(outcome, now_ns):
            verdict = self._ask(now_ns, asked.id, asked, plan_ns)
        if verdict.refused:
            counter = self._counter(now_ns, asked, verdict)
            offer = self._offer(outcome, now_ns, verdict, asked)
            refusal = self._refusal(now_ns, verdict, asked, offer, counter)
            return self._refused(outcome, now_ns, asked, refusal)
        refusal = self._share_refusal(now_ns, asked, verdict.routes)
        if refusal is not None:
            changes = verdict.changes | self.engine.cancel(now_ns, asked.id)
            changes.pop(asked.id, None)
            self._rates(outcome, now_ns, changes)
            return self._refused(outcome, now_ns, asked, refusal)
        transfer = self._admitted(outcome, now_ns, asked, verdict)
        self._risks(outcome, now_ns, [transfer])
        return self._sealed(outcome)

    def _ask_with_offer(self, outcome: Outcome, now_ns: int, asked: Submission) -> Verdict:
        """Asks the engine; what is held for an offer to the same owner is held no longer."""
        owner = asked.owner
        if self._offers.of(owner) is None:
            return self.engine.submit(now_ns, asked.id, self._wanted(now_ns, asked))
        if self._plans_ahead:
            self._offer_ends(now_ns, owner)
            return self._offers.take_up(now_ns, owner, asked.id, self._wanted(now_ns, asked))
        self._release(outcome, now_ns, [owner])
        return self.engine.submit(now_ns, asked.id, self._wanted(now_ns, asked))

    def precheck(self, now_ns: int, asked: Submission) -> Outcome:
        """What `submit` would answer, as a `Forecast`, and what it would cost whom.

        Nothing changes: there is nothing in the outcome but its answer.
        """
        refusal = self._claims.refusal(asked)
        if refusal is not None:
            return Outcome(answer=Forecast(asked, refusal))
        # Asking for it would give up what is held for its owner.
        held = self._offers.of(asked.owner)
        offer = None if held is None else held.flow
        verdict = self.engine.precheck(now_ns, asked.id, self._wanted(now_ns, asked), offer)
        if verdict.accepted:
            refusal = self._share_refusal(now_ns, asked, verdict.routes)
        else:
            counter = self._counter(now_ns, asked, verdict, offer)
            offered_ns = self._offered_ns(now_ns, verdict)
            refusal = self._refusal(now_ns, verdict, asked, (offered_ns, 0), counter)
        costs = {}
        if refusal is None:
            costs = {
                x: (self.transfers[x].owner, self.rates.get(x, 0), rate_bps)
                for x, rate_bps in verdict.changes.items()
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
            promised_bytes=None if verdict.waiting else promised(asked, verdict),
            answer_ns=self._answer_ns(now_ns, asked) if verdict.waiting else None,
            state=_state(asked, verdict),
            submitted_ns=now_ns,
            started_ns=None,
            finished_ns=None,
            bytes_durable=0,
            path=verdict.path,
            paths=verdict.paths,
            planned=True,
            plan_ns=asked.deadline_ns - self._margin_ns,
            risk="",
            missed=False,
            file_hash=None,
            error=None,
        )
        self._put(outcome, transfer)
        self._begin(outcome, now_ns, transfer, verdict.rate_bps)
        self._tell_taken(outcome, now_ns, transfer, verdict.rate_bps)
        self._rates(outcome, now_ns, verdict.changes)
        outcome.answer, outcome.admitted = transfer, transfer.id
        self._keys[(asked.owner, asked.idempotency_key)] = asked.id
        self._claims.add(transfer)
        return transfer

    def _tell_taken(self, outcome: Outcome, now_ns: int, transfer: Transfer, rate_bps: int) -> None:
        """Tells that it was admitted, or waits for its answer."""
        data = {
            "source": transfer.source,
            "destination": transfer.destination,
            "size_bytes": transfer.declared_bytes,
            "deadline": format_instant(transfer.deadline_ns),
            "rate_bps": rate_bps,
            "path": list(transfer.path),
        }
        if transfer.paths:
            data["lanes"] = lanes(transfer, rate_bps, self.lanes.get(transfer.id))
        if transfer.start_ns is not None:
            data["start"] = format_instant(transfer.start_ns)
        if transfer.promised_bytes is not None:
            data["promised_bytes"] = transfer.promised_bytes
        kind = "admitted"
        if transfer.answer_ns is not None:
            kind, data["answer_by"] = "waiting", format_instant(transfer.answer_ns)
        self._event(outcome, now_ns, kind, transfer.id, data)

    def _answer_ns(self, now_ns: int, asked: Submission) -> int:
        """When the answer to a request that may wait comes at the latest."""
        until_ns = asked.deadline_ns - self._margin_ns - now_ns
        wait_ns = min(asked.hold_ns or 0, until_ns // ANSWER_PART)
        if asked.start_ns is not None:
            wait_ns = min(wait_ns, asked.start_ns - now_ns)
        return now_ns + wait_ns

    def _counter(
        self, now_ns: int, asked: Submission, verdict: Verdict, offer: str | None = None
    ) -> CounterOffer:
        """What would do instead, as things stand before anything more is held for it.

        What the flow `offer` holds for it is free.
        """
        by_links = self._by_links(now_ns, asked, offer)
        plan_ns = asked.deadline_ns - self._margin_ns
        left_ns = plan_ns - max(now_ns, asked.start_ns or now_ns)
        if left_ns <= 0:
            return CounterOffer(by_links)
        copied = 0 if self._plans_ahead else len(self.rates)
        search = Search(self.engine, self._wanted, self._budget, now_ns, copied, offer)
        guess = asked.size_bytes // 2
        if verdict.available_bps is not None:
            guess = file_bytes(verdict.available_bps * left_ns // (8 * NS_PER_S))
        latest_ns = search.latest_start(asked)
        lanes = search.lanes(asked)
        return CounterOffer(by_links, search.largest(asked, guess), latest_ns, lanes)

    def _refusal(
        self,
        now_ns: int,
        verdict: Verdict,
        asked: Submission,
        offer: tuple[int | None, int],
        counter: CounterOffer,
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
        does = [{"path": list(path), "rate_bps": rate_bps} for path, rate_bps in counter.lanes]
        hint += instead(largest, latest, does)
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
            paths_that_do=len(does) or None,
            lanes_that_do=does or None,
        )

    def _offer(
        self, outcome: Outcome, now_ns: int, verdict: Verdict, asked: Submission
    ) -> tuple[int | None, int]:
        """The deadline that is offered instead, if any, and for how long its room is held."""
        offered_ns = self._offered_ns(now_ns, verdict)
        if verdict.earliest_ns is None or offered_ns is None:
            return None, 0
        if self._plans_ahead:
            return self._offer_ahead(outcome, now_ns, asked, offered_ns)
        # At the end of the offer there is as much time left as there would be now.
        wire_bits = wire_bytes(max(1, asked.size_bytes)) * 8
        rate_bps = -(-wire_bits * NS_PER_S // max(1, verdict.earliest_ns - now_ns))
        ends = (asked.source, asked.destination)
        found = self._offers.hold(now_ns, asked.owner, ends, rate_bps)
        if found is None:
            return offered_ns, 0
        held, changes = found
        self._rates(outcome, now_ns, changes)
        offered = changed(asked, deadline_ns=offered_ns)
        paths = self._offers.paths(asked.owner)
        if self._claims.share_refusal(offered, paths, held.until_ns) is not None:
            self._release(outcome, now_ns, [asked.owner])
            return self._within_share(now_ns, asked, paths), 0
        return offered_ns, held.until_ns - now_ns

    def _offer_ahead(
        self, outcome: Outcome, now_ns: int, asked: Submission, offered_ns: int
    ) -> tuple[int | None, int]:
        """Holds room that lies later; the deadline that it is for, and for how long.

        Where nothing is held, what is offered is `offered_ns`, or what its owner's shares allow.
        """
        wanted = self._wanted(now_ns, asked)
        # None is given more than ends it in a second, whenever it is asked for.
        most_bps = max(RATE_FLOOR_BPS, wanted.size_bytes * 8)
        if asked.rate_max_bps is not None:
            most_bps = min(most_bps, asked.rate_max_bps)
        wanted = changed(wanted, rate_max_bps=most_bps, least_bytes=None, hold_ns=None)
        found = self._offers.hold_ahead(now_ns, asked.owner, wanted)
        if found is None:
            return offered_ns, 0
        held, plan_ns = found
        held_ns = plan_ns + self._margin_ns + TOLD_NS
        offered = changed(asked, deadline_ns=held_ns)
        paths = self._offers.paths(asked.owner)
        is_beyond = self._claims.share_refusal(offered, paths, held.until_ns) is not None
        if is_beyond or held_ns - now_ns > DEADLINE_MAX_S * NS_PER_S:
            self._release(outcome, now_ns, [asked.owner])
            return self._within_share(now_ns, asked, paths) if is_beyond else offered_ns, 0
        return held_ns, held.until_ns - now_ns

    def _share_refusal(
        self, now_ns: int, asked: Submission, paths: tuple[tuple[str, ...], ...]
    ) -> Problem | None:
        """Why its owner would hold too much of a link, with the deadline that would do; or None."""
        refusal = self._claims.share_refusal(asked, paths, now_ns)
        if refusal is None:
            return None
        earliest_ns = self._within_share(now_ns, asked, paths)
        if earliest_ns is not None:
            earliest, valid_s = format_instant(earliest_ns), self._offer_ns / NS_PER_S
            told = {"earliest_deadline": earliest, "offer_valid_s": valid_s, "offer_held_s": 0.0}
            refusal.extra |= told
            refusal.hint = (
                f"ask for {earliest} or later within {valid_s:g} s, which takes less of the link; "
                f"or {refusal.hint}"
            )
        return refusal

    def _within_share(
        self, now_ns: int, asked: Submission, paths: tuple[tuple[str, ...], ...]
    ) -> int | None:
        """The deadline that its owner's shares allow as long as an offer is valid; or None."""
        least_ns = self._claims.share_deadline_ns(asked, paths, now_ns + self._offer_ns)
        if least_ns is None or least_ns - now_ns > DEADLINE_MAX_S * NS_PER_S:
            return None
        return least_ns + TOLD_NS

    def _offered_ns(self, now_ns: int, verdict: Verdict) -> int | None:
        """The deadline that a refused request can be given, and be asked for, for a while."""
        if verdict.earliest_ns is None:
            return None
        offered_ns = verdict.earliest_ns + self._margin_ns + self._offer_ns + TOLD_NS
        # A link that can give a few bit/s would be done in centuries.
        return None if offered_ns - now_ns > DEADLINE_MAX_S * NS_PER_S else offered_ns

    def _by_links(self, now_ns: int, asked: Submission, offer: str | None) -> str | None:
        """Before when the links alone rule the request out, whatever the policy."""
        ends, size_bytes = (asked.source, asked.destination), wire_bytes(max(1, asked.size_bytes))
        least_ns = self.engine.earliest_by_links_ns(
            ends, size_bytes, asked.rate_max_bps, asked.paths_max, offer
        )
        if least_ns is None or least_ns - now_ns > DEADLINE_MAX_S * NS_PER_S:
            return None
        return format_instant(least_ns + self._margin_ns)

    def _later(self, now_ns: int, link: str | None) -> str:
        """What to do when no deadline would be accepted now: when the link next has room."""
        next_ns = self._next_end(now_ns, link or "")
        offer_ns = min(self._offers.ends_ns(link), default=None)
        if next_ns is None and offer_ns is None:
            return "no deadline would be accepted"
        what = "a transfer over the link ends"
        if offer_ns is not None and (next_ns is None or offer_ns <= next_ns):
            what = "room on the link is held for an offer to somebody else, which ends"
            next_ns = offer_ns
        assert next_ns is not None, "one of the two is"
        return (
            f"no deadline would be accepted now; {what} at about "
            f"{format_instant(next_ns)}: ask again then"
        )

    def _next_end(self, now_ns: int, link: str) -> int | None:
        """When the next flow over a link ends, within ten years, by a look a second old at most.

        There may be hundreds on it, and as many requests a second that it refuses.
        """
        found_ns, at_ns = self._next_end_ns.get(link, (None, -NS_PER_S))
        if found_ns is not None and now_ns < found_ns and now_ns - at_ns < NS_PER_S:
            return found_ns
        last_ns = now_ns + DEADLINE_MAX_S * NS_PER_S
        ends = (self._ends_ns.get(x, 0) for x in self._crossing.get(link, ()))
        found_ns = min((x for x in ends if now_ns < x < last_ns), default=None)
        self._next_end_ns[link] = found_ns, now_ns
        return found_ns


def asked_again(transfer: Transfer) -> Submission:
    """The request that a transfer came from."""
    return Submission(**{name: getattr(transfer, name) for name in _ASKED})


def _state(asked: Submission, verdict: Verdict) -> str:
    if verdict.waiting:
        return "waiting"
    return "accepted" if asked.start_ns is None else "scheduled"
