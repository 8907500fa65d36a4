"""Planning a problem by one of the planners, with a proven lower bound for the answer."""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weir._core import MigrationProblem, MigrationSearch
from weir.errors import BadInput, Refused
from weir.migration.problem import Problem
from weir.migration.programs import Compact, Instance, Windows, compact, whole_plan

PLANNERS = {
    "weir": "Weir's own: greedy, improved by search, prices on the links, and HiGHS if small",
    "greedy": "highest cost per byte first, each on its widest path (003-spec 5.9)",
    "milp": "the integer program, by HiGHS, however large (003-spec 5.4.1)",
    "tcp": "no plan: all at once, links shared fairly (003-spec 5.10)",
}

# A call into the engine takes about this long, so that a time limit is kept.
_TURN_S = 0.1
# The bound beside a planner that does not need one.
_BOUND_S = 1.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """What one machine does.

    Attributes:
        vm: its name.
        path: the directed links it takes.
        finish: the step in which it has arrived.
        pieces: first step, last step, bytes in each of them.
    """

    vm: str
    path: tuple[str, ...]
    finish: int
    pieces: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A plan and what is known of it.

    Attributes:
        planner: which one made it.
        schedules: one for every machine, in the problem's order.
        degradation: total performance degradation (TPD), summed cost until each finish.
        makespan: the step in which the last machine arrives.
        bound: no plan on the machines' shortest paths has less degradation.
        seconds: how long planning took.
    """

    planner: str
    schedules: tuple[Schedule, ...]
    degradation: int
    makespan: int
    bound: int
    seconds: float

    @property
    def gap(self) -> float:
        """How far the plan can be above the optimum at most, as a part of the bound."""
        return (self.degradation - self.bound) / self.bound if self.bound else 0.0


def plan(
    problem: Problem, planner: str = "weir", *, time_limit_s: float = 10.0, seed: int = 1
) -> Outcome:
    """Plans `problem`; stops early once the answer is proven to be the best.

    Raises:
        BadInput: the problem cannot be right, or there is no such planner.
        Refused: the plan does not fit the problem's horizon.
    """
    begin = time.monotonic()
    if planner not in PLANNERS:
        raise BadInput(f'"{planner}" is not a planner; the planners are {", ".join(PLANNERS)}')
    engine = problem.engine()
    search = MigrationSearch(engine, seed)
    if effort := _EFFORTS.get(planner):
        text, bound = _exact(problem, engine, search, begin + time_limit_s, effort)
    else:
        text = engine.greedy() if planner == "greedy" else engine.fair_sharing()
        _tighten(search, begin + min(_BOUND_S, time_limit_s))
        bound = search.bound
    engine.check(text, 0)
    degradation, makespan = engine.measure(text)
    if problem.horizon is not None and makespan > problem.horizon:
        raise Refused(f"the plan needs {makespan} steps and the horizon is {problem.horizon}")
    schedules = tuple(
        Schedule(vm.name, tuple(entry["path"]), entry["finish"], tuple(map(tuple, entry["pieces"])))
        for vm, entry in zip(problem.vms, json.loads(text), strict=True)
    )
    seconds = time.monotonic() - begin
    return Outcome(planner, schedules, degradation, makespan, bound, seconds)


def _search(search: MigrationSearch, end: float) -> None:
    """Moves and bound in turn, about as long each."""
    moves, steps = 50, 2
    while search.bound < search.degradation and (now := time.monotonic()) < end:
        search.improve(moves)
        middle = time.monotonic()
        search.tighten(steps)
        after = time.monotonic()
        turn = min(_TURN_S, max(end - after, 0.005))
        moves = _next(moves, middle - now, turn)
        steps = _next(steps, after - middle, turn)


def _tighten(search: MigrationSearch, end: float) -> None:
    steps = 2
    while search.bound < search.degradation and (now := time.monotonic()) < end:
        search.tighten(steps)
        steps = _next(steps, time.monotonic() - now, _TURN_S)


def _next(count: int, seconds: float, turn: float) -> int:
    """How often to do next time what took `seconds` for `count` times, at most ten times more."""
    return max(1, min(int(count * turn / max(seconds, 1e-6)), 10 * count, 1_000_000))


# --- the integer program ---


def _exact(
    problem: Problem,
    engine: MigrationProblem,
    search: MigrationSearch,
    end: float,
    effort: "_Effort",
) -> tuple[str, int]:
    """The best plan and bound of search and compact model, which begins from what is found."""
    begin = time.monotonic()
    _search(search, begin + effort.search * (end - begin))
    known = json.loads(search.plan())
    fits = problem.horizon is None or engine.measure(search.plan())[1] <= problem.horizon
    if fits and search.bound == search.degradation:
        return search.plan(), search.bound
    longest = 4 * (max(engine.earliest()) + sum(engine.earliest()))
    limit = longest if problem.horizon is None else min(longest, problem.horizon)
    windows: Windows = search.windows(limit)
    if not fits:
        # A plan that does not fit says nothing about how late the machines of a fitting one are.
        windows = [[(1, limit)] * len(routes) for routes in windows]
    instance = Instance.of(problem, engine)
    last = [max((window[1] for window in routes if window), default=1) for routes in windows]
    columns = sum(last) + sum(window[1] for routes in windows for window in routes if window)
    if columns > effort.columns:
        _search(search, end)
        return search.plan(), search.bound
    built = compact(instance, windows)
    start = _start(built, known, engine.routes()) if fits else None
    solution = built.model.solve(end - time.monotonic(), start)
    bound = search.bound
    if max(last) < longest:
        # A plan outside the windows is worse than the known one, so this holds for all plans;
        # unless a machine that costs next to nothing had its window cut short.
        proven = _up(solution.bound)
        bound = max(bound, min(proven, search.degradation) if fits else proven)
    if solution.values is None:
        return search.plan(), bound
    text = _text(problem, engine, instance, built, solution.values)
    if fits:
        search.offer(text)
        text = search.plan()
    return text, bound


@dataclass(frozen=True, slots=True)
class _Effort:
    """What part of the time is searched first, and from how many columns on all of it."""

    search: float
    columns: int


_EFFORTS = {"weir": _Effort(0.3, 20_000), "milp": _Effort(0.02, 400_000)}


def _up(bound: float) -> int:
    """The next whole number, less the solver's tolerance; 0 where the solver has none yet."""
    if not math.isfinite(bound):
        return 0
    return math.ceil(bound - 1e-6 * max(1.0, abs(bound)))


def _start(
    built: Compact, known: list[dict[str, Any]], routes: list[list[list[str]]]
) -> dict[int, float]:
    """The known plan as values of the model's whole columns."""
    values: dict[int, float] = {}
    for vm, entry in enumerate(known):
        route = routes[vm].index(entry["path"])
        for index, column in enumerate(built.chosen[vm]):
            values[column] = float(index == route)
        for step, column in enumerate(built.waits[vm], start=1):
            values[column] = float(step <= entry["finish"])
    return values


def _text(
    problem: Problem,
    engine: MigrationProblem,
    instance: Instance,
    built: Compact,
    values: Sequence[float],
) -> str:
    """The solver's values as a plan in whole bytes, in the engine's form."""
    routes: list[int] = []
    finishes: list[int] = []
    sent: list[list[float]] = []
    for vm, chosen in enumerate(built.chosen):
        route = max(enumerate(chosen), key=lambda pair: values[pair[1]])[0]
        routes.append(route)
        finishes.append(round(sum(values[column] for column in built.waits[vm])))
        sent.append([values[column] for column in built.sent[vm][route]])
    names, entries = engine.routes(), []
    for vm, plan in enumerate(whole_plan(instance, routes, finishes, sent)):
        pieces: list[list[int]] = []
        for step, amount in sorted(plan.items()):
            if pieces and pieces[-1][1:] == [step - 1, amount]:
                pieces[-1][1] = step
            elif amount:
                pieces.append([step, step, amount])
        grows = any(growth.count for growth in problem.vms[vm].growth)
        last = pieces[-1][1]
        finish = max(last, finishes[vm]) if grows else last
        entries.append({"path": names[vm][routes[vm]], "finish": finish, "pieces": pieces})
    return json.dumps(entries)
