"""Carries one half through: submits each transfer at its time and watches the files arrive.

Both halves run through this same loop; only the carrier differs. A file has arrived when it
stands under its final name at its full size, which is looked at from outside the mover; when that
happened is what the file system noted as the file's last change of status, its renaming.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from studies.demonstration.measure import STEP_S, LinkMeter
from studies.demonstration.run_state import Flow, RunState
from studies.demonstration.view import View

_TICK_S = 0.025
_SHOW_EVERY_S = 0.125


class Carrier(Protocol):
    """What moves the files: the calendar with its agents, or senders on their own."""

    def submit(self, state: RunState, flow: Flow) -> None:
        """Asks for a transfer now; leaves the flow "sending", "refused" or "failed"."""

    def poll(self, state: RunState) -> None:
        """Brings the run state up to date with what has been heard; never waits."""


Counters = Callable[[], tuple[float, dict[str, int]]]
"""Reads how many bytes have left each link in the direction of the transfers, and when: in
seconds by a clock of its own, since the answer may take its time."""


def run_submit_loop(
    state: RunState,
    carrier: Carrier,
    arrivals: Mapping[str, Path],
    meters: list[LinkMeter],
    counters: Counters,
    view: View,
    limit_s: float,
) -> None:
    """Runs until every transfer has ended, or for `limit_s`.

    Args:
        state: brought up to date all the while.
        carrier: moves the files.
        arrivals: where each transfer's file will stand.
        meters: get a sample every `STEP_S`.
        counters: where the samples come from.
        view: shown the run state several times a second.
        limit_s: what has not arrived by then has failed.
    """
    start, start_wall = time.monotonic(), time.time()
    # Where the half begins on the counters' clock.
    offset_s = counters()[0]
    next_sample = next_show = 0.0
    while not state.ended:
        state.now_s = time.monotonic() - start
        if state.now_s >= next_sample:
            next_sample = state.now_s + STEP_S
            _sample(state, meters, counters(), offset_s)
            state.now_s = time.monotonic() - start
        for flow in state.flows.values():
            if flow.state == "waiting" and state.now_s >= flow.transfer.at.ns / 1e9:
                flow.submitted_s = state.now_s
                carrier.submit(state, flow)
        carrier.poll(state)
        state.now_s = time.monotonic() - start
        _look(state, arrivals, start_wall)
        if state.now_s >= limit_s:
            _give_up(state, limit_s)
        if state.now_s >= next_show:
            next_show = state.now_s + _SHOW_EVERY_S
            view.show(state)
        time.sleep(_TICK_S)
    _sample(state, meters, counters(), offset_s)
    view.show(state)


def _sample(
    state: RunState,
    meters: list[LinkMeter],
    read: tuple[float, dict[str, int]],
    offset_s: float,
) -> None:
    at_s, counts = read
    for meter in meters:
        meter.note(at_s - offset_s, counts[meter.name])
        if meter.name == state.plan.bottleneck.name:
            state.link_bps = meter.lately_bps()


def _look(state: RunState, arrivals: Mapping[str, Path], start_wall: float) -> None:
    for id, flow in state.flows.items():
        if flow.submitted_s is None or flow.ended:
            continue
        changed_wall = _stands_since(flow, arrivals[id])
        if changed_wall is None:
            continue
        # On a busy machine this loop may be late; the file system is not.
        arrived_s = min(max(changed_wall - start_wall, flow.submitted_s), state.now_s)
        flow.state = "delivered"
        flow.finish_s = arrived_s - flow.submitted_s
        flow.heard(arrived_s, flow.transfer.size.count)
        slack = flow.deadline_s - flow.finish_s
        words = f"{slack:.1f} s to spare" if slack >= 0 else f"{-slack:.1f} s late"
        state.tell(id, f"delivered, {words}", "good" if slack >= 0 else "bad")


def _stands_since(flow: Flow, path: Path) -> float | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ctime if status.st_size == flow.transfer.size.count else None


def _give_up(state: RunState, limit_s: float) -> None:
    for id, flow in state.flows.items():
        if not flow.ended:
            flow.state, flow.error = "failed", f"not there after {limit_s:.0f} s"
            state.tell(id, flow.error, "bad")
