"""A plan carried out: whose memory goes through a relay next, as it is planned.

The machines' migrations are clients of `weir relay join`. Whenever one comes, has arrived, or a
step is over, what is left is planned anew; in the step that follows the relay has each send in
turns as the plan has it send, and holds whom the plan has send nothing (003-spec section 6).
"""

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weir import Bytes
from weir.errors import BadInput, WeirError
from weir.migration.plan import Outcome, plan
from weir.migration.problem import Problem, Vm
from weir.relay import control

WEIGHT_MOST = 32
"""A turn is up to 64 KiB for each unit of weight: with more, turns would take too long."""
LOOK_S = 0.05
RENEW_S = 1.0
LEASE_S = 5.0
"""Should the carrier die, the relay holds nobody any longer than this."""
# A plan is made while the machines send: nobody waits for it longer than this.
_PLAN_S = 0.2


@dataclass(frozen=True, slots=True)
class Event:
    """Something that became of a machine.

    Attributes:
        kind: "come", "arrived", or "broken": its connection was, or the relay was.
        vm: its name.
        step: steps since the first machine came, with fractions.
        bytes: what it had sent into the aggregate when it was last seen.
        reason: why it is broken.
    """

    kind: str
    vm: str
    step: float
    bytes: int
    reason: str | None = None


@dataclass(slots=True)
class _Machine:
    """One machine as the relay tells of it.

    Attributes:
        flows: its connections, and what each has sent.
        here: those that were there when the relay was last asked.
        is_over: whether it has arrived, or is broken.
        path: the links that it takes, once it is planned.
    """

    vm: Vm
    flows: dict[str, int] = field(default_factory=dict)
    here: set[str] = field(default_factory=set)
    is_over: bool = False
    path: tuple[str, ...] = ()

    @property
    def sent(self) -> int:
        return sum(self.flows.values())


class Carrier:
    """What the machines have sent, and what they may send next. Time is given, in seconds.

    Args:
        problem: every machine has an address.
        planner: one of `PLANNERS` but "tcp", which plans nothing.

    Raises:
        BadInput: a machine has no address, or two have one; or the planner plans nothing.
    """

    def __init__(self, problem: Problem, planner: str = "greedy") -> None:
        if planner == "tcp":
            raise BadInput("tcp is no plan: without weights all send at once")
        self._problem = problem
        self._planner = planner
        self._machines = {_address(vm): _Machine(vm) for vm in problem.vms}
        # What the relay has counted of connections that ended in order, and of broken ones.
        self._ended = self._broken = 0
        if len(self._machines) < len(problem.vms):
            raise BadInput("two machines have one address: the relay cannot tell them apart")
        self._begun_s: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether every machine has arrived, or is broken."""
        return all(machine.is_over for machine in self._machines.values())

    def hear(self, status: Mapping[str, Any], now_s: float) -> list[Event]:
        """What is new in what the relay tells of itself."""
        here: dict[str, dict[str, int]] = {}
        for flow in status["flows"]:
            address = control.host(flow["client"])
            here.setdefault(address, {})[flow["client"]] = flow["bytes_sent"]
        reasons = self._reasons(status, {client for flows in here.values() for client in flows})
        events = []
        for address, machine in self._machines.items():
            flows = here.get(address, {})
            if machine.is_over or not (flows or machine.here):
                continue
            if self._begun_s is None:
                self._begun_s = now_s
            is_new = not machine.here
            broken = [reasons[x] for x in machine.here - flows.keys() if x in reasons]
            machine.flows |= flows
            machine.here = set(flows)
            if is_new:
                events.append(self._event("come", machine, now_s))
            if broken:
                machine.is_over = True
                events.append(self._event("broken", machine, now_s, broken[0]))
            elif not flows:
                machine.is_over = True
                events.append(self._event("arrived", machine, now_s))
        return events

    def _reasons(self, status: Mapping[str, Any], here: set[str]) -> dict[str, str]:
        """Why connections that are gone since the last look are broken, by their clients.

        The relay keeps few reasons, and a new one knows nothing of those before it: a connection
        has ended in order only where the relay's own counts leave no doubt of it.
        """
        ended, broken = status["ended"] - self._ended, status["broken"] - self._broken
        self._ended, self._broken = status["ended"], status["broken"]
        gone = {x for machine in self._machines.values() for x in machine.here} - here
        new = status["reasons"][-broken:] if broken > 0 else []
        told = {why.partition(": ")[0]: why for why in new}
        named = {client: told[client] for client in gone & told.keys()}
        if broken in range(len(new) + 1) and ended >= len(gone) - len(named):
            return named
        doubt = "the relay does not say how it ended"
        return {client: f"{client}: {doubt}" for client in gone} | named

    def shares(self, now_s: float) -> dict[str, int]:
        """What each machine that is here may send in the next step, in bytes, by address."""
        sending = {x: y for x, y in self._machines.items() if y.here and not y.is_over}
        if not sending or self._begun_s is None:
            return {}
        passed = math.floor(self._steps(now_s))
        vms = tuple(_rest(machine, passed) for machine in sending.values())
        left = replace(self._problem, vms=vms, horizon=None)
        # Greedy's answer is there at once: what it would take longer for is the bound.
        limit_s = 0.0 if self._planner == "greedy" else _PLAN_S
        outcome = plan(left, self._planner, time_limit_s=limit_s)
        shares = {}
        for (address, machine), schedule in zip(sending.items(), outcome.schedules, strict=True):
            machine.path = tuple(_undirected(self._problem, name) for name in schedule.path)
            first = schedule.pieces[0] if schedule.pieces else (0, 0, 0)
            shares[address] = first[2] if first[0] == 1 else 0
        return shares

    def weights(self, now_s: float) -> list[tuple[str, int]]:
        """The relay's weights for the next step; who is not here yet is held."""
        held = {x: 0 for x, machine in self._machines.items() if not machine.is_over}
        return list((held | in_small_numbers(self.shares(now_s))).items())

    def _steps(self, now_s: float) -> float:
        begun_s = now_s if self._begun_s is None else self._begun_s
        return (now_s - begun_s) / (self._problem.step.ns / 1e9)

    def _event(self, kind: str, machine: _Machine, now_s: float, why: str | None = None) -> Event:
        return Event(kind, machine.vm.name, self._steps(now_s), machine.sent, why)


def carry(problem: Problem, relay: Path, planner: str = "greedy") -> Iterator[Event]:
    """Carries out a problem's plan by a relay's weights, until every machine has arrived.

    While it goes on, other weights of the relay do not hold; afterwards all are 1.

    Args:
        problem: every machine has an address.
        relay: the control socket of a `weir relay join`.
        planner: one of `PLANNERS` but "tcp".

    Raises:
        BadInput: as `Carrier` and `plan` do, or the relay has no weights.
        Unavailable: the relay does not answer.
    """
    carrier = Carrier(problem, planner)
    weights: list[tuple[str, int]] = []
    step_s = problem.step.ns / 1e9
    renew_s = plan_s = 0.0
    try:
        while not carrier.is_over:
            now_s = time.monotonic()
            events = carrier.hear(control.ask(relay, {}), now_s)
            yield from events
            if events or now_s >= plan_s:
                weights, plan_s, renew_s = carrier.weights(now_s), now_s + step_s, 0.0
            if now_s >= renew_s:
                control.ask(relay, {"weights": weights, "lease_s": LEASE_S})
                renew_s = now_s + RENEW_S
            time.sleep(LOOK_S)
    finally:
        with contextlib.suppress(WeirError):  # If it is gone, it holds nobody.
            control.ask(relay, {"weights": []})


def in_small_numbers(shares: Mapping[str, int]) -> dict[str, int]:
    """Whole numbers in the same proportions, within 1 % where 32 allows; only 0 becomes 0."""
    most = max(shares.values(), default=0)
    if most == 0:
        return dict.fromkeys(shares, 0)
    best: tuple[float, dict[str, int]] | None = None
    for top in range(1, WEIGHT_MOST + 1):
        found = {x: max(1, round(top * y / most)) if y else 0 for x, y in shares.items()}
        off = max(abs(found[x] * most / (top * y) - 1) for x, y in shares.items() if y)
        if best is None or off < best[0]:
            best = off, found
        if off <= 0.01:
            break
    return best[1] if best else {}


def deviation(event: Event, planned: Outcome) -> float:
    """By what part of its planned step a machine arrived later; negative if a step earlier or more.

    A machine that is planned for step 7 arrives at some instant of that step: from 6 to 7 is 0.
    """
    finish = next(x.finish for x in planned.schedules if x.vm == event.vm)
    late, early = event.step - finish, event.step - (finish - 1)
    return (max(0.0, late) + min(0.0, early)) / finish


def _address(vm: Vm) -> str:
    if not vm.address:
        raise BadInput(f"the VM {vm.name} has no address: the relay does not know whom to hold")
    return vm.address


def _rest(machine: _Machine, passed: int) -> Vm:
    """What is left of a machine after so many steps: its path is kept."""
    vm = machine.vm
    grown = sum(_at(vm.growth, step).count for step in range(passed))
    left = max(1, vm.size.count + grown - machine.sent)
    return replace(
        vm,
        size=Bytes.from_count(left),
        cost=vm.cost[min(passed, len(vm.cost) - 1) :],
        growth=vm.growth[min(passed, len(vm.growth) - 1) :],
        path=machine.path or vm.path,
    )


def _at(profile: Sequence[Bytes], step: int) -> Bytes:
    return profile[min(step, len(profile) - 1)]


def _undirected(problem: Problem, name: str) -> str:
    """The link of a direction: links of one way are called as their direction is."""
    if any(link.name == name for link in problem.links):
        return name
    return name.rpartition(".")[0]
