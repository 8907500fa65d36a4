"""The pure engine with a record of every step, so that a restart can take the same ones.

The engine reads no clock and draws no random numbers: from the same snapshot the same steps lead
to the same state, rates included. That is how a restarted service goes on with the very rates
that the agents are still moving at.

Callers speak calendar time, the engine and the recorded steps engine time (see `clock`): the
offset between the two is fixed for the life of one `RecordedEngine`.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from weir import Bytes, Rate, Time
from weir._core import Calendar, Decision
from weir.calendar.fast_record import changed, record
from weir.calendar.records import Step
from weir.calendar.timetable import Piece
from weir.errors import BadInput

# What a step takes to be read and taken again beside the engine's own time for it, and what each
# flow does that it reports of.
STEP_S = 1e-4
REPORTED_S = 1e-5
# The time that the calling thread had of a processor: other programs' work is not the plan's.
spent_s = time.thread_time
# What flows are called that only hold room (see `offers`); no transfer is.
HELD_PREFIX = "offer/"


@record(frozen=True, slots=True)
class Wanted:
    """What is asked of the engine, in calendar time and in bytes on the wire.

    `start_ns`, `least_bytes` and `hold_ns` are None, and `weight` is 1, where a request says
    nothing of them. A start and a weight are for policies that plan ahead; only these let answers
    wait, and only these take more than one of `paths`. What was `promised` before is planned anew:
    it is refused for lack of room alone.
    """

    ends: tuple[str, str]
    size_bytes: int
    deadline_ns: int
    rate_max_bps: int | None = None
    start_ns: int | None = None
    least_bytes: int | None = None
    weight: int = 1
    hold_ns: int | None = None
    paths: int = 1
    promised: bool = False

    def payload(self, identifier: str, offset_ns: int) -> dict[str, Any]:
        """The same as a step keeps it, in engine time."""
        payload: dict[str, Any] = {
            "id": identifier,
            "ends": list(self.ends),
            "size": self.size_bytes,
            "deadline": max(0, self.deadline_ns - offset_ns),
            "rate_max": self.rate_max_bps,
        }
        if self.start_ns is not None:
            payload["start"] = max(0, self.start_ns - offset_ns)
        if self.least_bytes is not None:
            payload["least"] = self.least_bytes
        if self.weight != 1:
            payload["weight"] = self.weight
        if self.hold_ns:
            payload["hold"] = self.hold_ns
        if self.paths != 1:
            payload["paths"] = self.paths
        if self.promised:
            payload["promised"] = True
        return payload


@record(frozen=True, slots=True)
class Verdict:
    """The engine's answer to a request; the reason and the earliest deadline when refused.

    If it is `waiting`, the answer comes with an epoch. `size_bytes` is what is promised on the
    wire, which may be less than what was asked for. `lanes` are the paths that it may take, in an
    order that stays, with the first rate on each.
    """

    accepted: bool
    rate_bps: int
    lanes: tuple[tuple[tuple[str, ...], int], ...]
    changes: dict[str, int]
    link: str | None
    needed_bps: int | None
    available_bps: int | None
    earliest_ns: int | None
    size_bytes: int = 0
    waiting: bool = False

    @property
    def refused(self) -> bool:
        """Whether the answer is no."""
        return not (self.accepted or self.waiting)

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        """The links of each path that it may take."""
        return tuple(path for path, _ in self.lanes)

    @property
    def path(self) -> tuple[str, ...]:
        """The links of the first of them."""
        return self.lanes[0][0] if self.lanes else ()

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The links of each, where there are several."""
        return self.routes if len(self.lanes) > 1 else ()


class RecordedEngine:
    """A `Calendar` whose every step is numbered and kept until `take_steps`.

    Instants that go in and come out are calendar time: engine time plus `offset_ns`.
    """

    def __init__(
        self,
        calendar: Calendar,
        last_step: int = 0,
        offset_ns: int = 0,
        *,
        learns: bool = False,
    ) -> None:
        """With a policy that `learns` prices from what is asked for, refusals are steps, too."""
        self._calendar = calendar
        self._learns = learns
        self._offset_ns = offset_ns
        self._last_step = last_step
        self._steps: list[Step] = []
        self._answers: list[tuple[str, Verdict]] = []
        self._work_s = 0.0
        self._began_s = 0.0
        # What the paths can carry together that were asked for.
        self._fastest: dict[tuple[tuple[str, ...], ...], int] = {}
        self._joined: dict[tuple[str, str], bool] = {}
        self._capacities = {link.name: link.capacity.bit_per_s for link in calendar.links()}

    @property
    def last_step(self) -> int:
        """The number of the newest step taken."""
        return self._last_step

    @property
    def work_s(self) -> float:
        """How long the steps so far were to take, of a processor's time, and would be again."""
        return self._work_s

    def take_steps(self) -> list[Step]:
        """The steps since the last call."""
        steps, self._steps = self._steps, []
        return steps

    def replay(self, steps: Iterable[Step]) -> None:
        """Takes recorded steps again, without recording them."""
        for step in steps:
            self._begin()
            getattr(self, f"_{step.kind}")(step.at_ns, **step.payload)
            self._count(step.payload)
            self._last_step = step.number
        # They were taken note of when the steps were first taken.
        self._answers.clear()

    def submit(
        self, now_ns: int, identifier: str, wanted: Wanted, offer: str | None = None
    ) -> Verdict:
        """Asks for so much between two nodes; a refusal changes no more than what is learnt.

        `offer` is what room was held for it as, by `offer`; it is held no longer.
        """
        payload = wanted.payload(identifier, self._offset_ns)
        if offer is not None:
            payload["offer"] = offer
        engine_ns = now_ns - self._offset_ns
        self._begin()
        verdict = self._submit(engine_ns, **payload)
        if offer is not None or self._learns or not verdict.refused:
            self._record(engine_ns, "submit", payload)
        return self._told(verdict)

    def offer(self, now_ns: int, name: str, wanted: Wanted) -> int | None:
        """Holds room for a request from its start on; the earliest deadline that it is for.

        None where nothing can be held for what starts later.
        """
        payload = wanted.payload(name, self._offset_ns)
        engine_ns = now_ns - self._offset_ns
        self._begin()
        deadline = self._offer(engine_ns, **payload)
        if deadline is None:
            return None
        self._record(engine_ns, "offer", payload)
        return deadline.ns + self._offset_ns

    def lanes(self, identifier: str) -> tuple[tuple[tuple[str, ...], int], ...]:
        """The paths that a flow may take, in an order that stays, with the rate on each."""
        lanes = self._calendar.lanes(identifier)
        return tuple((tuple(path), rate.bit_per_s) for path, rate in lanes)

    def narrow(self, now_ns: int, identifier: str, paths: int) -> dict[str, int]:
        """Has a flow take no more than the first so many of its paths; the changed rates."""
        engine_ns = now_ns - self._offset_ns
        payload: dict[str, Any] = {"id": identifier, "paths": paths}
        self._begin()
        changes = self._narrow(engine_ns, **payload)
        self._record(engine_ns, "narrow", payload)
        return changes

    def precheck(
        self, now_ns: int, identifier: str, wanted: Wanted, offer: str | None = None
    ) -> Verdict:
        """What `submit` would answer at once, and what it would cost others; changes nothing.

        `offer` is the flow that holds room for it, and would do so no longer.
        """
        wanted = replace(wanted, hold_ns=None)
        payload = wanted.payload(identifier, self._offset_ns)
        if offer is not None:
            payload["offer"] = offer
        return self._told(_decided(self._calendar.precheck, now_ns - self._offset_ns, payload))

    def _told(self, verdict: Verdict) -> Verdict:
        """A verdict in calendar time."""
        if verdict.earliest_ns is None:
            return verdict
        return changed(verdict, earliest_ns=verdict.earliest_ns + self._offset_ns)

    def progress(self, now_ns: int, remaining: dict[str, int]) -> dict[str, int]:
        """Tells what really remains to be moved, in bytes on the wire, by flow.

        A flow found behind is given what it needs where links allow: the rates that changed.
        """
        engine_ns = now_ns - self._offset_ns
        self._begin()
        changes = self._progress(engine_ns, remaining)
        self._record(engine_ns, "progress", {"remaining": remaining})
        return changes

    def complete(self, now_ns: int, identifier: str) -> dict[str, int]:
        """Ends a flow that has moved everything; the rates that changed by it."""
        engine_ns = now_ns - self._offset_ns
        self._begin()
        changes = self._complete(engine_ns, identifier)
        self._record(engine_ns, "complete", {"id": identifier})
        return changes

    def cancel(self, now_ns: int, identifier: str) -> dict[str, int]:
        """Ends a flow that has not; the rates that changed by it."""
        engine_ns = now_ns - self._offset_ns
        self._begin()
        changes = self._cancel(engine_ns, identifier)
        self._record(engine_ns, "cancel", {"id": identifier})
        return changes

    def epoch(self, now_ns: int) -> dict[str, int]:
        """Redistributes what completions have freed; the rates that changed by it.

        Answers that were due are then there to be taken.
        """
        engine_ns = now_ns - self._offset_ns
        self._begin()
        changes = self._epoch(engine_ns)
        self._record(engine_ns, "epoch", {})
        return changes

    def take_answers(self) -> list[tuple[str, Verdict]]:
        """The answers to requests that waited, since the last call."""
        answers, self._answers = self._answers, []
        return [(identifier, self._told(verdict)) for identifier, verdict in answers]

    def size_bytes(self, identifier: str) -> int:
        """What a flow was admitted with, in bytes on the wire: no more can be left of it."""
        flow = self._calendar.flow(identifier)
        return 0 if flow is None else flow.size.count

    @property
    def next_epoch_ns(self) -> int:
        """When `epoch` is next due by the plan itself."""
        return self._calendar.next_epoch.ns + self._offset_ns

    def behind(self, identifiers: Sequence[str]) -> set[str]:
        """Those flows whose deadlines the plan does not keep, as of the last step."""
        return set(self._calendar.behind(identifiers))

    def set_capacity(
        self, now_ns: int, link: str, pieces: Iterable[Piece], rest_bps: int
    ) -> dict[str, int]:
        """Says what a link carries from now on; the rates that changed by it."""
        payload: dict[str, Any] = {
            "link": link,
            "pieces": [
                (max(0, x.from_ns - self._offset_ns), x.to_ns - self._offset_ns, x.capacity_bps)
                for x in pieces
            ],
            "rest": rest_bps,
        }
        engine_ns = now_ns - self._offset_ns
        self._begin()
        changes = self._capacity(engine_ns, **payload)
        self._record(engine_ns, "capacity", payload)
        return changes

    def earliest_end_ns(self, identifier: str) -> int | None:
        """By when what is left of a flow could be there with every promise to others kept."""
        end = self._calendar.earliest_end(identifier)
        return None if end is None else end.ns + self._offset_ns

    def snapshot(self) -> str:
        """The whole state as text, for `Calendar.restore`."""
        return self._calendar.snapshot()

    def copy(self) -> Calendar:
        """The state as of now, which no further step changes."""
        return self._calendar.copy()

    def rates(self) -> dict[str, int]:
        """The allotted rate of every transfer's flow, in bit/s on the wire."""
        rates = _bps(self._calendar.rates())
        return {x: bps for x, bps in rates.items() if not x.startswith(HELD_PREFIX)}

    def held(self) -> list[tuple[str, int, int]]:
        """The flows that only hold room: name, start (0 if they hold it now), deadline."""
        names = [x for x, _ in self._calendar.rates() if x.startswith(HELD_PREFIX)]
        flows = [flow for x in names if (flow := self._calendar.flow(x)) is not None]
        ahead_ns = self._offset_ns
        return [
            (x.id, x.start.ns and x.start.ns + ahead_ns, x.deadline.ns + ahead_ns) for x in flows
        ]

    def earliest_by_links_ns(
        self,
        ends: tuple[str, str],
        size_bytes: int,
        rate_max_bps: int | None,
        paths: int,
        offer: str | None = None,
    ) -> int | None:
        """Before when no plan at all could have so much there; as of the last step or request.

        What the flow `offer` holds is free for it.
        """
        limit = None if rate_max_bps is None else Rate.from_bit_per_s(rate_max_bps)
        size = Bytes.from_count(size_bytes)
        earliest = self._calendar.earliest_by_links(*ends, size, limit, paths, offer=offer)
        return None if earliest is None else earliest.ns + self._offset_ns

    def joins(self, ends: tuple[str, str]) -> bool:
        """Whether the network has both nodes and a path between them."""
        if ends not in self._joined:
            try:
                self._calendar.earliest_by_links(*ends, Bytes.from_count(1))
            except BadInput:
                self._joined[ends] = False
            else:
                self._joined[ends] = True
        return self._joined[ends]

    def fastest_bps(self, paths: tuple[tuple[str, ...], ...], rate_max_bps: int | None) -> int:
        """More than this not even a flow alone on its paths could reach."""
        capacity_bps = self._fastest.get(paths)
        if capacity_bps is None:
            capacity_bps = self._fastest[paths] = together_bps(self._capacities, paths)
        return capacity_bps if rate_max_bps is None else min(capacity_bps, rate_max_bps)

    @property
    def capacities_bps(self) -> Mapping[str, int]:
        """What the calendar may give away of each link."""
        return self._capacities

    def _record(self, engine_ns: int, kind: str, payload: dict[str, Any]) -> None:
        self._last_step += 1
        self._steps.append(Step(self._last_step, engine_ns, kind, payload))
        self._count(payload)

    def _begin(self) -> None:
        """A step is about to be taken."""
        self._began_s = spent_s()

    def _count(self, payload: Mapping[str, Any]) -> None:
        """The step that was begun has been taken."""
        read_s = STEP_S + REPORTED_S * len(payload.get("remaining", ()))
        self._work_s += read_s + spent_s() - self._began_s

    def _submit(self, now_ns: int, **payload: Any) -> Verdict:
        verdict = _decided(self._calendar.submit, now_ns, payload)
        return replace(verdict, lanes=self.lanes(payload["id"])) if verdict.waiting else verdict

    def _offer(self, now_ns: int, **payload: Any) -> Time | None:
        arguments, more = _asked(now_ns, payload)
        return self._calendar.offer(*arguments, **more)

    def _progress(self, now_ns: int, remaining: dict[str, int]) -> dict[str, int]:
        told = [(identifier, Bytes.from_count(count)) for identifier, count in remaining.items()]
        return _bps(self._calendar.progress_all(Time.from_ns(now_ns), told))

    def _complete(self, now_ns: int, id: str) -> dict[str, int]:
        return _bps(self._calendar.complete(Time.from_ns(now_ns), id))

    def _narrow(self, now_ns: int, id: str, paths: int) -> dict[str, int]:
        return _bps(self._calendar.narrow(Time.from_ns(now_ns), id, paths))

    def _cancel(self, now_ns: int, id: str) -> dict[str, int]:
        return _bps(self._calendar.cancel(Time.from_ns(now_ns), id))

    def _capacity(
        self, now_ns: int, link: str, pieces: Iterable[Sequence[int]], rest: int
    ) -> dict[str, int]:
        told = [
            (Time.from_ns(begin), Time.from_ns(end), Rate.from_bit_per_s(bps))
            for begin, end, bps in pieces
        ]
        changes = self._calendar.set_capacity(
            Time.from_ns(now_ns), link, told, Rate.from_bit_per_s(rest)
        )
        return _bps(changes)

    def _epoch(self, now_ns: int) -> dict[str, int]:
        changes, answers = self._calendar.epoch_with_decisions(Time.from_ns(now_ns))
        self._answers += [(identifier, _verdict(decision)) for identifier, decision in answers]
        return _bps(changes)


def _decided(call: Callable[..., Decision], now_ns: int, payload: dict[str, Any]) -> Verdict:
    """The engine's answer to a step's payload."""
    arguments, more = _asked(now_ns, payload)
    return _verdict(call(*arguments, **more))


def _asked(now_ns: int, payload: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """A step's payload as the engine takes it."""
    source, destination = payload["ends"]
    rate_max, start, least = (payload.get(name) for name in ("rate_max", "start", "least"))
    more: dict[str, Any] = {"paths": payload.get("paths", 1)}
    if start is not None:
        more["start"] = Time.from_ns(start)
    if least is not None:
        more["least"] = Bytes.from_count(least)
    if "weight" in payload:
        more["weight"] = payload["weight"]
    if "hold" in payload:
        more["hold"] = Time.from_ns(payload["hold"])
    for name in ("offer", "promised"):
        if name in payload:
            more[name] = payload[name]
    arguments = [
        Time.from_ns(now_ns),
        payload["id"],
        source,
        destination,
        Bytes.from_count(payload["size"]),
        Time.from_ns(payload["deadline"]),
        None if rate_max is None else Rate.from_bit_per_s(rate_max),
    ]
    return arguments, more


def _verdict(decision: Decision) -> Verdict:
    reason, size, earliest = decision.reason, decision.size, decision.earliest_deadline
    needed = reason.needed if reason else None
    available = reason.available if reason else None
    return Verdict(
        accepted=decision.accepted,
        rate_bps=decision.rate.bit_per_s if decision.rate is not None else 0,
        lanes=tuple((tuple(path), rate.bit_per_s) for path, rate in decision.lanes),
        changes=_bps(decision.changes),
        link=reason.link if reason else None,
        needed_bps=needed.bit_per_s if needed is not None else None,
        available_bps=available.bit_per_s if available is not None else None,
        earliest_ns=earliest.ns if earliest is not None else None,
        size_bytes=size.count if size is not None else 0,
        waiting=decision.waiting,
    )


def together_bps(capacities: Mapping[str, int], paths: Sequence[Sequence[str]]) -> int:
    """What paths can carry together at most: exact for two, a bound for more.

    Each carries what its narrowest link does, and all of them what the links do that all take.
    """
    narrowest = [min(capacities[link] for link in path) for path in paths if path]
    common = set(paths[0]).intersection(*paths) if paths else set()
    return min([sum(narrowest), *(capacities[link] for link in common)])


def _bps(changes: Iterable[tuple[str, Rate]]) -> dict[str, int]:
    return {identifier: rate.bit_per_s for identifier, rate in changes}
