"""The carrier of Weir's half: asks the calendar, and hears from it what its agents do."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from studies.demonstration.report import Decision, format
from studies.demonstration.run_state import Flow, RunState
from weir.calendar.client import CalendarClient, RefusedTransfer
from weir.calendar.clock import parse_instant
from weir.errors import Unavailable, WeirError
from weir.format import rate

_POLL_S = 0.2
_SLOW_S = 0.5

Paths = Callable[[str], tuple[str, str]]
"""Where a transfer's file lies at its source, and shall lie at its destination."""


@dataclass(frozen=True)
class _Progress:
    transfers: list[dict[str, Any]]


class CalendarCarrier:
    """Submits to a calendar. A context manager: within it two threads listen.

    Args:
        client: makes a fresh connection to the calendar each time it is called.
        paths: by the transfer's id.
        decisions: gets the calendar's answers and rate changes, in order.
    """

    def __init__(
        self, client: Callable[[], CalendarClient], paths: Paths, decisions: list[Decision]
    ) -> None:
        self._decisions = decisions
        self._client = client
        self._asking = client()
        self._paths = paths
        self._ours: dict[str, str] = {}
        self._inbox: queue.SimpleQueue[dict[str, Any] | _Progress] = queue.SimpleQueue()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=listen, daemon=True)
            for listen in (self._hear_events, self._hear_progress)
        ]

    def __enter__(self) -> "CalendarCarrier":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._asking.close()

    def submit(self, state: RunState, flow: Flow) -> None:
        """Asks; when refused and the plan says so, takes the earliest deadline offered."""
        asked_s = time.time()
        try:
            answer = self._ask(state, flow, {"deadline_s": flow.deadline_s})
        except RefusedTransfer as refusal:
            offered_s = self._refused(state, flow, refusal.problem, asked_s)
            if not flow.transfer.takes_earliest or offered_s is None:
                flow.state = "failed"
                return
            try:
                answer = self._ask(state, flow, {"deadline": refusal.problem["earliest_deadline"]})
            except RefusedTransfer as again:
                self._refused(state, flow, again.problem, asked_s)
                flow.state = "failed"
                return
            flow.deadline_s = offered_s
        self._admitted(state, flow, answer)

    def poll(self, state: RunState) -> None:
        """Takes in what the threads have heard."""
        with contextlib.suppress(queue.Empty):
            while True:
                item = self._inbox.get_nowait()
                if isinstance(item, _Progress):
                    self._progress(state, item.transfers)
                else:
                    self._event(state, item)

    # --- asking ---

    def _ask(self, state: RunState, flow: Flow, deadline: dict[str, Any]) -> dict[str, Any]:
        begun_s = time.monotonic()
        try:
            return self._request(flow, deadline)
        finally:
            took_s = time.monotonic() - begun_s
            if took_s > _SLOW_S:
                state.tell(flow.transfer.id, f"the calendar took {took_s:.1f} s to answer", "bad")

    def _request(self, flow: Flow, deadline: dict[str, Any]) -> dict[str, Any]:
        source_path, destination_path = self._paths(flow.transfer.id)
        return self._asking.submit(
            {
                "source": flow.transfer.source,
                "source_path": source_path,
                "destination": flow.transfer.destination,
                "destination_path": destination_path,
                "size_bytes": flow.transfer.size.count,
            }
            | deadline
        )

    def _admitted(self, state: RunState, flow: Flow, answer: dict[str, Any]) -> None:
        self._ours[answer["id"]] = flow.transfer.id
        flow.state, flow.allotted_bps = "sending", answer["rate_bps"]
        self._decide(
            state,
            flow.transfer.id,
            "accepted",
            rate_bps=answer["rate_bps"],
            deadline_s=flow.deadline_s,
        )

    def _refused(
        self, state: RunState, flow: Flow, problem: dict[str, Any], asked_s: float
    ) -> float | None:
        earliest = problem["earliest_deadline"]
        offered_s = None if earliest is None else parse_instant(earliest) / 1e9 - asked_s
        flow.state = "refused"
        self._decide(
            state,
            flow.transfer.id,
            "refused",
            deadline_s=flow.deadline_s,
            earliest_deadline_s=offered_s,
            link=problem.get("link"),
            detail=_why(problem),
        )
        return offered_s

    def _decide(self, state: RunState, id: str, kind: str, **fields: Any) -> None:
        decision = Decision(round(state.now_s, 3), id, kind, **fields)
        self._decisions.append(decision)
        if kind != "rate":
            tone = "bad" if kind == "refused" else "good"
            state.tell(id, format.decision(decision), tone)

    # --- hearing ---

    def _hear_events(self) -> None:
        with contextlib.suppress(WeirError), self._client() as client:
            for event in client.events(after=0):
                if self._over.is_set():
                    return
                self._inbox.put(event)

    def _hear_progress(self) -> None:
        with self._client() as client:
            while not self._over.wait(_POLL_S):
                # A calendar that does not answer now is asked again; files are seen to arrive
                # without it.
                with contextlib.suppress(Unavailable):
                    self._inbox.put(_Progress(client.list("all", 100)))

    def _progress(self, state: RunState, transfers: list[dict[str, Any]]) -> None:
        for transfer in transfers:
            id = self._ours.get(transfer["id"])
            if id is not None and not state.flows[id].ended:
                state.flows[id].heard(state.now_s, transfer["bytes_durable"])

    def _event(self, state: RunState, event: dict[str, Any]) -> None:
        if event["kind"] == "rates":
            for identifier, rate_bps in event["rates_bps"].items():
                self._new_rate(state, identifier, rate_bps)
        id = self._ours.get(event["transfer"] or "")
        if id is None:
            return
        if event["kind"] == "failed":
            state.flows[id].state = "failed"
            state.flows[id].error = event.get("error") or "failed"
            state.tell(id, f"failed: {state.flows[id].error}", "bad")
        elif event["kind"] == "missed":
            state.tell(id, "missed its deadline", "bad")

    def _new_rate(self, state: RunState, identifier: str, rate_bps: int) -> None:
        id = self._ours.get(identifier)
        if id is None or state.flows[id].allotted_bps == rate_bps:
            return
        state.flows[id].allotted_bps = rate_bps
        self._decide(state, id, "rate", rate_bps=rate_bps)


def _why(problem: dict[str, Any]) -> str:
    if problem.get("link") and problem.get("needed_bps") and problem.get("available_bps"):
        link, _, _way = problem["link"].rpartition(".")
        return (
            f"{link} has {rate(problem['available_bps'])} to give, "
            f"{rate(problem['needed_bps'])} needed"
        )
    return str(problem["detail"])
