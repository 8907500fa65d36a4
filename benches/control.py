"""The controller beside a learning switch on os-ken and Faucet: rules per second, and re-routes.

All control Open vSwitch's dummy datapath, whose rules are those of the real one and whose packets
we make. Weir's is told what to install, the others learn it from packets; what counts is when the
rules are in the switch, and what the controller's process has cost.
"""

import itertools
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from benches.calendar_service import cpu_s
from benches.control_fabric import CABLE, SPARE, Fabric, await_that, packet
from benches.harness import quick, row
from benches.peers.controllers import CABLES, FAUCET, ONE, TWO, Controller, Running, controllers
from weir.errors import Unavailable

# Rules that do not come for so long do not come any more.
SILENCE_S = 10.0
HOSTS_AT_ONCE = 50
IDLE_S = 5.0
STREAM_EVERY_S = 0.005
# So many packets in a row have arrived when the way round is found.
ARRIVED = 40

Figures = dict[str, float]


def run() -> list[dict[str, Any]]:
    """In turns, one controller after the other, several times."""
    rules, rounds = (400, 1) if quick() else (4_000, 5)
    found: dict[str, list[Figures]] = defaultdict(list)
    all_of_them = controllers()
    for turn in range(rounds):
        first = turn % len(all_of_them)
        for controller in (*all_of_them[first:], *all_of_them[:first]):
            figures = installs(controller, rules) | {"re-route": reroute(controller)}
            found[controller.name].append(figures)
    return rows(found, rules)


def notes() -> dict[str, Any]:
    """The peer's version."""
    return {"packages": {"faucet": FAUCET}}


def rows(found: dict[str, list[Figures]], rules: int) -> list[dict[str, Any]]:
    """Each figure of Weir's beside each peer's."""
    metrics = {
        "installs": (f"controller, {rules} rules into one switch", "1/s"),
        "cpu": (f"controller, {rules} rules into one switch, CPU of 1 000 rules", "ms"),
        "idle": (f"controller at rest with {rules} rules, CPU of 1 000 rules in a second", "ms"),
        "re-route": ("controller, no packet after a cable is pulled", "ms"),
    }
    ours, *peers = found
    table = []
    for key, (metric, unit) in metrics.items():
        values = [one[key] for one in found[ours]]
        for peer in peers:
            theirs = statistics.median(one[key] for one in found[peer])
            table.append(row(metric, unit, statistics.median(values), peer, theirs, values))
    # Who learns rules from packets has them back when packets come.
    back = [one["back"] for one in found[ours]]
    metric = f"controller, {rules} rules back in a switch that was killed"
    table.append(row(metric, "ms", statistics.median(back), None, None, back))
    return table


def installs(controller: Controller, rules: int) -> Figures:
    """Rules per second, and what the controller's process has spent on them and after them."""
    steps = rules // controller.rules_per_step
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        folder = Path(name)
        with controller.run(folder, 1) as running, _fabric(folder, running, ONE) as fabric:
            before, cpu_before_s = _ready(fabric), cpu_s(running.process.pid)
            # Both hosts of the switch are known.
            fabric.receive(ONE[1], packet(2, 1))
            fabric.receive(ONE[0], packet(1, 2))
            started_s = time.monotonic()
            # A switch drops packets that its controller is too slow for: who learns from them is
            # shown a few hosts at a time.
            at_once = steps if controller.knows_all else HOSTS_AT_ONCE
            for first in range(0, steps, at_once):
                last = min(steps, first + at_once)
                running.install(fabric, first, last)
                wanted = before + last * controller.rules_per_step
                count, ended_s = _grown(fabric, wanted)
            spent_s = cpu_s(running.process.pid) - cpu_before_s
            if count < before + 0.9 * rules:
                raise Unavailable(f"{controller.name} installed {count - before} of {rules} rules")
            idle_s = _idle_s(running)
            added = count - before
            figures = {
                "installs": added / (ended_s - started_s),
                "cpu": spent_s * 1e6 / added,
                "idle": idle_s * 1e6 / added,
            }
            if controller.knows_all:
                figures["back"] = _until_back_s(fabric, count) * 1e3
        return figures


def reroute(controller: Controller) -> float:
    """For how many milliseconds no packet arrives when the cable that they take is pulled."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        folder = Path(name)
        ports = [x for x in CABLES if controller.has_spare or x.kind == CABLE]
        with controller.run(folder, 2) as running, _fabric(folder, running, TWO + ports) as fabric:
            _ready(fabric)
            running.tell(1)
            await_that(lambda: _crosses(fabric), f"way through {controller.name}'s switches")
            # Nothing is under way any more: the rules are there.
            _settled(fabric)
            words = [x for port in ("s1", "s2") for x in ("--", "del-port", f"{port}-{CABLE}")]
            if not controller.has_spare:
                for port in CABLES:
                    words += fabric.adding(port) if port.kind == SPARE else []
            return _longest_gap_s(fabric, words) * 1e3


def _fabric(folder: Path, running: Running, ports: list[Any]) -> Fabric:
    return Fabric(folder, ports, f"tcp:127.0.0.1:{running.port}")


def _ready(fabric: Fabric) -> int:
    """Waits for the controller and its first rules; how many."""
    await_that(fabric.connected, "controller at every switch")
    await_that(lambda: fabric.count() > 0, "rule")
    return _settled(fabric)


def _settled(fabric: Fabric) -> int:
    return _grown(fabric, 1_000_000_000, 1.0)[0]


def _grown(fabric: Fabric, wanted: int, silence_s: float = SILENCE_S) -> tuple[int, float]:
    """How many rules there are when there are enough, or when no more come; and since when."""
    count, since_s = fabric.count(), time.monotonic()
    while count < wanted and time.monotonic() - since_s < silence_s:
        now = fabric.count()
        if now != count:
            count, since_s = now, time.monotonic()
    return count, since_s


def _idle_s(running: Running) -> float:
    """Seconds of processor in a second in which nothing is to be done."""
    before_s = cpu_s(running.process.pid)
    time.sleep(IDLE_S)
    return (cpu_s(running.process.pid) - before_s) / IDLE_S


def _until_back_s(fabric: Fabric, rules: int) -> float:
    """How long a switch that is started with nothing takes until it has all of its rules."""
    started_s = time.monotonic()
    fabric.restart()
    count, ended_s = _grown(fabric, rules)
    if count < rules:
        raise Unavailable(f"{count} of {rules} rules are back")
    return ended_s - started_s


def _crosses(fabric: Fabric) -> bool:
    """Whether packets go both ways."""
    arrived = True
    for source, target, one, other in ((1, 2, TWO[0], TWO[1]), (2, 1, TWO[1], TWO[0])):
        before = fabric.sent(other)
        fabric.receive(one, packet(source, target))
        time.sleep(0.05)
        arrived = arrived and fabric.sent(other) > before
    return arrived


def _longest_gap_s(fabric: Fabric, words: list[str]) -> float:
    """The longest time in which no packet arrived, in a stream during which a cable is pulled."""
    arrived_s = [time.monotonic()]
    pulled = None
    deadline_s = time.monotonic() + 120
    in_row = 0
    while pulled is None or pulled.poll() is None or in_row < ARRIVED:
        if pulled is None and len(arrived_s) > ARRIVED:
            pulled, in_row = fabric.changing(*words), 0
        if time.monotonic() > deadline_s:
            raise Unavailable("no way round after 120 s")
        before = fabric.sent(TWO[1])
        fabric.receive(TWO[0], packet(1, 2))
        time.sleep(STREAM_EVERY_S)
        if fabric.sent(TWO[1]) > before:
            arrived_s.append(time.monotonic())
            in_row += 1
        else:
            in_row = 0
    return max(after - before for before, after in itertools.pairwise(arrived_s))
