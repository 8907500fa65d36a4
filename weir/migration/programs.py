"""Migration planning as integer programs, solved by HiGHS.

`compact` is the equivalent of 003-spec section 5.4.1; `literal` holds the printed models.

Volumes are scaled so that the widest link carries 1000 units a step, which keeps the solver's
tolerances far below a packet.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from weir._core import MigrationProblem
from weir.migration.problem import Problem, Vm
from weir.milp import Model


@dataclass(frozen=True, slots=True)
class Instance:
    """The numbers of a problem that every model needs, volumes in units of the solver."""

    vms: tuple[Vm, ...]
    routes: list[list[list[int]]]
    room: list[float]
    capacities: list[int]
    bytes_per_unit: float

    @classmethod
    def of(cls, problem: Problem, engine: MigrationProblem) -> "Instance":
        """Reads them from the checked problem."""
        capacities = engine.capacities()
        unit = max(capacities) / 1000
        room = [capacity / unit for capacity in capacities]
        return cls(problem.vms, engine.pools(), room, capacities, unit)

    def width(self, vm: int, route: int) -> float:
        """Units a step on a route."""
        return min(self.room[pool] for pool in self.routes[vm][route])

    def volume(self, vm: int) -> float:
        """Units of memory at the start."""
        return self.vms[vm].size.count / self.bytes_per_unit

    def growth(self, vm: int, step: int) -> float:
        """Units of memory to be sent again in `step`."""
        profile = self.vms[vm].growth
        return profile[min(step, len(profile)) - 1].count / self.bytes_per_unit

    def grown(self, vm: int, steps: int) -> int:
        """Bytes of memory to be sent again in steps 1 to `steps`."""
        profile = self.vms[vm].growth
        given = min(len(profile), steps)
        return sum(x.count for x in profile[:given]) + (steps - given) * profile[-1].count

    def cost(self, vm: int, step: int) -> int:
        """Degradation in `step`."""
        profile = self.vms[vm].cost
        return profile[min(step, len(profile)) - 1]


@dataclass(frozen=True, slots=True)
class Compact:
    """The compact model: `sent[vm][route][step - 1]`, `chosen[vm][route]`, `waits[vm][step - 1]`.

    A machine's steps end at its own last one.
    """

    model: Model
    sent: list[list[list[int]]]
    chosen: list[list[int]]
    waits: list[list[int]]


Windows = Sequence[Sequence[tuple[int, int] | None]]


def compact(instance: Instance, windows: Windows) -> Compact:
    """The compact model in which a machine finishes in the window of its route, if it has one."""
    built = Compact(Model(), [], [], [])
    model = built.model
    on: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for vm, routes in enumerate(instance.routes):
        open_ = [window for window in windows[vm] if window]
        first = min((window[0] for window in open_), default=1)
        steps = range(1, max((window[1] for window in open_), default=1) + 1)
        waits = [
            model.column(instance.cost(vm, step), float(step <= first), whole=True)
            for step in steps
        ]
        for early, late in itertools.pairwise(waits):
            model.row([(late, 1.0), (early, -1.0)], most=0.0)
        chosen = [model.column(upper=float(bool(window)), whole=True) for window in windows[vm]]
        model.row([(column, 1.0) for column in chosen], least=1.0, most=1.0)
        volume = instance.volume(vm)
        grown = [instance.growth(vm, step) for step in steps]
        sent = []
        used: list[list[tuple[int, float]]] = [[] for _ in steps]
        for route, window in enumerate(windows[vm]):
            width = instance.width(vm, route)
            columns = [model.column(upper=width) for _ in range(window[1] if window else 0)]
            model.row(
                [*((x, 1.0) for x in columns), (chosen[route], -volume - sum(grown))], most=0.0
            )
            for index, column in enumerate(columns):
                used[index].append((column, 1.0 / width))
                for pool in routes[route]:
                    on.setdefault((pool, index), []).append((column, 1.0))
            sent.append(columns)
        for terms, wait in zip(used, waits, strict=True):
            model.row([*terms, (wait, -1.0)], most=0.0)
        moved = [(x, 1.0) for columns in sent for x in columns]
        moved += [(z, -more) for z, more in zip(waits, grown, strict=True) if more]
        model.row(moved, least=volume, most=volume)
        built.sent.append(sent)
        built.chosen.append(chosen)
        built.waits.append(waits)
    for (pool, _), terms in on.items():
        if sum(model.upper[column] for column, _ in terms) > instance.room[pool]:
            model.row(terms, most=instance.room[pool])
    return built


def whole_plan(
    instance: Instance, routes: Sequence[int], finishes: Sequence[int], sent: Sequence[list[float]]
) -> list[dict[int, int]]:
    """Bytes by step of every machine from a solver's units: whole, and no link over its capacity.

    What rounding leaves over is sent where there is room, by the machine's finish if possible.
    """
    room: dict[tuple[int, int], int] = {}

    def fits(vm: int, step: int, most: int) -> int:
        pools = instance.routes[vm][routes[vm]]
        free = min(room.get((pool, step), instance.capacities[pool]) for pool in pools)
        taken = min(free, most)
        for pool in pools:
            room[pool, step] = room.get((pool, step), instance.capacities[pool]) - taken
        return taken

    plans: list[dict[int, int]] = []
    for vm, units in enumerate(sent):
        wanted = [round(value * instance.bytes_per_unit) for value in units[: finishes[vm]]]
        plans.append({step: fits(vm, step, most) for step, most in enumerate(wanted, start=1)})
    for vm, plan in enumerate(plans):
        due = instance.vms[vm].size.count + instance.grown(vm, finishes[vm])
        over, step = sum(plan.values()) - due, finishes[vm]
        while over > 0:
            less = min(over, plan.get(step, 0))
            plan[step] = plan.get(step, 0) - less
            fits(vm, step, -less)
            over, step = over - less, step - 1
        step = 1
        while over < 0:
            more = fits(vm, step, -over)
            plan[step] = plan.get(step, 0) + more
            over, step = over + more, step + 1
            if step > finishes[vm] + 1:  # it is late by a step, and has grown in that step
                over -= instance.grown(vm, step - 1) - instance.grown(vm, step - 2)
    return plans
