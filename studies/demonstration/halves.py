"""Carries out a plan: makes the files, brings up the lab, runs both halves, and measures."""

import os
import platform
import time
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from studies.demonstration.delivery_plan import Plan
from studies.demonstration.measure import LinkMeter, timeline
from studies.demonstration.paths import RunPaths, outgoing
from studies.demonstration.plain_half import plain_carrier
from studies.demonstration.report import (
    Decision,
    Delivery,
    Half,
    Link,
    Node,
    Result,
    Scenario,
)
from studies.demonstration.run_state import RunState
from studies.demonstration.submit_loop import Carrier, run_submit_loop
from studies.demonstration.view import View
from studies.demonstration.weir_half import calendar_carrier
from studies.rig import workspace
from weir import __version__
from weir.errors import Unavailable
from weir.format import percent, rate, size
from weir.lab import Lab
from weir.transfer import keys_init

_HALF_LIMIT_S = 50.0
_PRIORITY = -10
_BACKGROUND_LIMIT_S = 10.0
_SPARE_BYTES = 64_000_000


def carry_out(plan: Plan, view: View) -> Result:
    """Runs both halves one after the other; whatever happens, nothing is left behind.

    Raises:
        Unsupported: this machine or user cannot have the lab, or has no room for the files.
        Unavailable: a part did not start or broke off.
    """
    taken_at = datetime.now(UTC)
    load = os.getloadavg()[0]
    # Deadlines of seconds on a busy machine; who may, goes first.
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
    total = sum(item.size.count for item in plan.transfers)
    with ExitStack() as stack:
        # What has arrived in one half is removed before the next one.
        folder = stack.enter_context(workspace.open_workspace(2 * total + _SPARE_BYTES))
        view.say(f"making {len(plan.transfers)} files, {size(total)}, from seed {plan.lab.seed}")
        digests = _make_files(plan, folder)
        lab = stack.enter_context(Lab.up(plan.lab))
        view.say(f"lab {lab.name} is up: {', '.join(lab.hosts)}; routers {', '.join(lab.routers)}")
        paths = RunPaths(plan, lab, folder, digests)
        keys_init(paths.keys)
        _await_background(paths)
        decisions: list[Decision] = []
        ours = _run_half(paths, "weir", calendar_carrier(paths, decisions), view, {})
        accepted = {item.id: item.deadline_s for item in ours.deliveries}
        theirs = _run_half(paths, "plain", plain_carrier(paths), view, accepted)
        notes = _notes(lab.status(), load)
    return Result(
        scenario=_scenario(plan),
        weir=ours,
        plain=theirs,
        decisions=decisions,
        version=__version__,
        taken_at=f"{taken_at:%Y-%m-%d %H:%M} UTC",
        machine=f"{os.cpu_count()} CPUs, {platform.system()} {platform.release()}",
        notes=notes,
    )


def _make_files(plan: Plan, folder: Path) -> dict[str, str]:
    files = {item.id: outgoing(folder, item) for item in plan.transfers}
    sizes = {files[item.id]: item.size.count for item in plan.transfers}
    made = workspace.make_files(sizes, plan.lab.seed)
    return {id: made[path] for id, path in files.items()}


def _await_background(paths: RunPaths) -> None:
    """Waits until the background traffic is there, so that both halves meet the same."""
    wanted_bps = 0.9 * paths.plan.background.bit_per_s
    end_s = time.monotonic() + _BACKGROUND_LIMIT_S
    meter = LinkMeter(paths.plan.bottleneck.name, 1)
    while (meter.lately_bps() or 0.0) < wanted_bps:
        if time.monotonic() > end_s:
            raise Unavailable(
                f"the background traffic did not reach {paths.plan.background} on {meter.name}"
            )
        at_s, counts = _counters(paths)
        meter.note(at_s, counts[meter.name])
        time.sleep(0.1)


def _counters(paths: RunPaths) -> tuple[float, dict[str, int]]:
    status = paths.lab.status()
    return status["up_s"], {x["name"]: x["forward"]["bytes_out"] for x in status["links"]}


def _run_half(
    paths: RunPaths,
    half: str,
    begin: AbstractContextManager[Carrier],
    view: View,
    deadlines_s: dict[str, float],
) -> Half:
    state = RunState.of(half, paths.plan)
    for id, deadline_s in deadlines_s.items():
        state.flows[id].deadline_s = deadline_s
    meter = LinkMeter(paths.plan.bottleneck.name, state.capacity_bps)
    arrivals = {item.id: paths.incoming(half, item) for item in paths.plan.transfers}
    with begin as carrier:
        view.say(f"{state.title}: {len(state.flows)} files")
        run_submit_loop(
            state, carrier, arrivals, [meter], lambda: _counters(paths), view, _HALF_LIMIT_S
        )
    view.say(f"{state.title}: comparing what arrived with what was sent")
    return _measured(paths, state, meter, arrivals)


def _measured(
    paths: RunPaths, state: RunState, meter: LinkMeter, arrivals: dict[str, Path]
) -> Half:
    received = dict(zip(arrivals, workspace.hash_files(list(arrivals.values())), strict=True))
    deliveries = [
        Delivery(
            id=id,
            bytes=flow.transfer.size.count,
            source=flow.transfer.source,
            destination=flow.transfer.destination,
            submitted_s=round(flow.submitted_s or 0.0, 3),
            deadline_s=round(flow.deadline_s, 3),
            finish_s=None if flow.finish_s is None else round(flow.finish_s, 3),
            verified=received[id] == paths.digests[id],
            what=flow.transfer.what,
        )
        for id, flow in state.flows.items()
    ]
    for path in arrivals.values():
        path.unlink(missing_ok=True)
    half = Half(deliveries, timeline(state, [meter]), 0.0)
    return Half(deliveries, half.timeline, round(meter.utilisation(half.end_s), 4))


def _scenario(plan: Plan) -> Scenario:
    capacity = plan.bottleneck.forward.rate
    assert capacity is not None, "a plan's bottleneck has a rate"
    ends = {end for item in plan.transfers for end in (item.source, item.destination)}
    kinds = {plan.calendar_host: "service"} | dict.fromkeys(ends, "site")
    nodes = [
        Node(
            node.name,
            "router" if node.forwards else kinds.get(node.name, "background"),
            plan.places.get(node.name, ""),
        )
        for node in plan.lab.nodes
    ]
    links = [
        Link(
            link.name,
            link.ends,
            link.forward.rate.bit_per_s if link.forward.rate else 0,
            link.forward.delay.ns / 1e9,
        )
        for link in plan.lab.links
    ]
    return Scenario(
        name=plan.lab.name,
        seed=plan.lab.seed,
        nodes=nodes,
        links=links,
        bottleneck=plan.bottleneck.name,
        calendar_bps=round(plan.calendar_share * capacity.bit_per_s),
        background_bps=plan.background.bit_per_s,
        background=f"Background traffic of {rate(plan.background.bit_per_s)}",
        policy=plan.policy,
        congestion=plan.congestion,
    )


def _notes(status: dict[str, Any], load: float) -> list[str]:
    headroom = status["headroom"]
    limit = "fell behind for a while" if headroom["bottleneck"] else "was never the limit"
    return [
        f"The emulator {limit}: its busiest thread was at most "
        f"{percent(headroom['busy_peak'])} busy, and 99 % of packets left within "
        f"{headroom['lateness_p99_ns'] / 1e6:.2g} ms of their time.",
        f"The machine's load average before the run was {load:.1f}.",
    ]
