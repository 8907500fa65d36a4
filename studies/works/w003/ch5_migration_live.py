"""Work 003, chapter 5: greedy's plans of the worked cases, carried out by the relay.

Real TCP connections in the lab are held and let go as greedy plans them, by the weights of the one
connection that carries all of them over the shared line (003-spec sections 5.7 and 6, T-D6).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from studies.rig import migrated
from studies.rig.migrated import Case
from studies.works.row import Outcome, Row, Verdict
from weir.chart import charts
from weir.migration import plan
from weir.migration.carry import deviation
from weir.runs.point import Json, Point

CASES = {
    "1": Case((10, 8, 4), (40, 40, 40), (10, 10, 10)),
    "2": Case((10, 10, 10), (30, 40, 50), (10, 10, 10)),
    "3": Case((10, 10, 10), (40, 40, 40), (10, 8, 4)),
    "4": Case((10, 8, 6), (40, 50, 30), (6, 8, 7)),
}
"""003-spec section 5.7, with the readings D-6 and D-7."""
_STEP_S, _QUICK_STEP_S = 2.0, 1.0
_SEEDS = (1, 2)
_WITHIN = 0.1


def run(*, case: str, step_s: float, seed: int) -> Json:
    """What greedy plans, and what became of it.

    Returns:
        By machine: the planned step, the steps until it had arrived, by what part of its planned
        step that is later, and the bytes that its server lacked in the end.
    """
    known = CASES[case]
    carried = migrated.carry_out(known, step_s, seed)
    addresses = [f"10.0.0.{place + 1}" for place in range(len(known.sizes))]
    planned = plan(migrated.problem(known, step_s, addresses), "greedy", time_limit_s=0.0)
    lacks = zip(migrated.sizes(known, step_s), carried.received, strict=True)
    found: list[Json] = []
    arrived = {event.vm: event for event in carried.events if event.kind == "arrived"}
    for schedule, (size, received) in zip(planned.schedules, lacks, strict=True):
        event = arrived.get(schedule.vm)
        steps = None if event is None else event.step
        off = None if event is None else deviation(event, planned)
        found.append([schedule.finish, steps, off, size - received])
    return found


def _points(quick: bool) -> list[Point]:
    names, step_s = list(CASES), _STEP_S
    seeds: tuple[int, ...] = _SEEDS
    if quick:
        names, seeds, step_s = ["4"], (1,), _QUICK_STEP_S
    return [
        Point(run, {"case": name, "step_s": step_s, "seed": seed})
        for name in names
        for seed in seeds
    ]


Machine = tuple[int, float | None, float | None, int]


def _machines(results: Sequence[Json]) -> list[list[Machine]]:
    return cast(list[list[Machine]], list(results))


def _judge(results: Sequence[Json]) -> Outcome:
    runs = _machines(results)
    said, worst, lost, missing = [], 0.0, 0, 0
    for machines in runs:
        steps = [0.0 if steps is None else steps for _, steps, _, _ in machines]
        plans = [finish for finish, _, _, _ in machines]
        said.append(
            f"{' / '.join(f'{step:.2f}' for step in steps)} (planned {' / '.join(map(str, plans))})"
        )
        missing += sum(steps is None for _, steps, _, _ in machines)
        lost += sum(lack for _, _, _, lack in machines)
        worst = max([worst, *(abs(off) for _, _, off, _ in machines if off is not None)])
    holds = not missing and not lost and worst <= _WITHIN
    return Outcome(
        f"steps in which the machines of the worked cases had arrived: {'; '.join(said)}; "
        f"{worst:.1%} off the planned step at most; {lost} bytes lacked",
        Verdict.OURS if holds else Verdict.DIFFERS,
        "the work leaves it to others to carry a plan out; a tenth of the planned step is allowed",
    )


def _draw(results: Sequence[Json], path: Path) -> None:
    pairs = [
        (float(finish), steps, 0.0)
        for machines in _machines(results)
        for finish, steps, _, _ in machines
        if steps is not None
    ]
    most = max((finish for finish, _, _ in pairs), default=1.0)
    series = [
        charts.Series("arrived", sorted(pairs)),
        charts.Series("as planned", [(0.0, 0.0, 0.0), (most, most, 0.0)]),
    ]
    charts.lines(path, "Machines through the relay", "planned step", "steps", series)


ROWS = [
    Row(
        "003-own-5.9-live",
        "VM migration: greedy's plans of the worked cases, carried out by the relay's weights",
        "not published: the work plans, and leaves carrying out to others",
        _points,
        _judge,
        _draw,
        live=1,
    )
]
