"""Work 003, tables 5.5 and 5.6, figure 5.7: what is printed without the instance behind it.

The tables show two schedules of the same four machines, one with a choice of paths and one without,
and no bandwidth of any link. What they say of themselves is checked here, and what a choice of
paths is worth is measured on instances of our own. The figure gives the printed model hours on
instances that are not printed either; here it gets seconds, on ours.
"""

import itertools
import statistics
from collections.abc import Sequence
from typing import Any, cast

from studies.works.row import Outcome, Row, Verdict
from studies.works.w003.ch5_migration import changing, full_instance, instance
from studies.works.w003.ch5_models import vmlm
from weir._core import estimate
from weir.migration.programs import Instance
from weir.runs.point import Json, Point

# Memory units by machine and step, as printed.
_FULL = (
    (806, 806, 806, 526, 806),
    (390,),
    (633, 633, 633, 633, 409, 633, 633, 633),
    (191, 191, 76, 471, 191, 997, 997, 997),
)
_SIMPLIFIED = (
    (960, 870, 960, 960),
    (390,),
    (88, 528, 528, 528, 528, 528, 528, 528, 528, 528),
    (609, 609, 609, 609, 609, 609, 457),
)
# As printed beside them.
_MAKESPANS = (8, 10)
_COSTS = range(1, 21)
_READINGS = ("all links random", "host links random")
_VMS, _SEEDS = 4, range(1, 21)

# Figure 5.7: machines, and seconds for the printed model.
_HARD_VMS, _SHORT_S, _LONG_S = 8, 2.0, 30.0


def printed_costs() -> Json:
    """Constant costs of 1 to 20 of the four machines that give both printed degradations."""
    finishes = [[len(steps) for steps in table] for table in (_FULL, _SIMPLIFIED)]
    return [
        list(costs)
        for costs in itertools.product(_COSTS, repeat=len(_FULL))
        if [sum(c * f for c, f in zip(costs, each, strict=True)) for each in finishes] == [225, 232]
    ]


def _same_four(results: Sequence[Json]) -> str:
    sums = [[sum(steps) for steps in table] for table in (_FULL, _SIMPLIFIED)]
    count = len(cast(Sequence[Json], results[0]))
    agree = "agree" if sums[0] == sums[1] else "differ"
    return (
        f"memories of both tables {agree} ({', '.join(map(str, sums[0]))}); {count} choices of "
        "whole costs of 1 to 20 give both degradations"
    )


def _followed(table: Sequence[Sequence[int]], makespan: int, costs: Json) -> Verdict:
    """What can be checked of a schedule without its instance: that it agrees with what it gives."""
    agrees = max(map(len, table)) == makespan and bool(costs)
    return Verdict.CANNOT_FOLLOW if agrees else Verdict.DIFFERS


def _judge_full(results: Sequence[Json]) -> Outcome:
    """The schedule against itself."""
    ours = f"{_same_four(results)}; makespan {max(map(len, _FULL))}"
    verdict = _followed(_FULL, _MAKESPANS[0], results[0])
    return Outcome(ours, verdict, "no link's bandwidth is given")


def _judge_simplified(results: Sequence[Json]) -> Outcome:
    """The printed schedule, and what random paths cost against chosen ones on our instances."""
    found = cast(Sequence[dict[str, Any]], results[1:])
    parts, interval = [], ""
    for name, start in zip(_READINGS, range(0, len(found), len(_SEEDS)), strict=True):
        group = found[start : start + len(_SEEDS)]
        more = [100 * (f["random"]["weir"][0] / f["widest"]["weir"][0] - 1) for f in group]
        longer = statistics.mean(f["random"]["weir"][1] - f["widest"]["weir"][1] for f in group)
        mean, half = estimate(more)
        parts.append(f"{name} {mean:+.1f} ± {half:.1f} % and {longer:+.1f} steps")
        interval = f"{mean:+.1f} ± {half:.1f} %, {name}"
    ours = (
        f"{_same_four(results)}; makespan {max(map(len, _SIMPLIFIED))}; a random path instead of a "
        f"choice costs, at 4 VMs: {'; '.join(parts)} (printed: +3.1 % and 2 steps)"
    )
    verdict = _followed(_SIMPLIFIED, _MAKESPANS[1], results[0])
    return Outcome(ours, verdict, "no link's bandwidth is given", interval)


def program(vms: int, seed: int, time_limit_s: float) -> Json:
    """TPD that the printed full model reaches in the time; none if it has no plan by then."""
    problem = changing(seed, vms)
    engine = problem.engine()
    # Greedy's plan shows that so many steps are enough.
    steps = int(engine.measure(engine.greedy())[1])
    solution = vmlm(Instance.of(problem, engine), steps).solve(time_limit_s)
    return solution.objective if solution.values else None


def _program_points(quick: bool) -> list[Point]:
    seeds = range(1, 4 if quick else 21)
    return [
        point
        for seed in seeds
        for point in (
            Point(full_instance, {"vms": _HARD_VMS, "seed": seed}),
            *(
                Point(program, {"vms": _HARD_VMS, "seed": seed, "time_limit_s": limit})
                for limit in (_SHORT_S, _LONG_S)
            ),
        )
    ]


def _judge_program(results: Sequence[Json]) -> Outcome:
    """What seconds give; hours on instances that are not printed cannot be followed."""
    plans, *programs = (cast(Sequence[Any], results)[start::3] for start in range(3))
    greedy = [plan["greedy"][0] for plan in plans]
    words, reaching = [], []
    for limit, reached in zip((_SHORT_S, _LONG_S), programs, strict=True):
        better = sum(v is not None and v <= g for v, g in zip(reached, greedy, strict=True))
        reaching.append(better)
        changes = [100 * (v / g - 1) for v, g in zip(reached, greedy, strict=True) if v is not None]
        mean = f", {statistics.mean(changes):+.1f} % in the mean of these" if changes else ""
        words.append(
            f"in {limit:g} s a plan for {len(changes)} of {len(greedy)} instances, {better} of "
            f"them no worse than greedy{mean}"
        )
    own = statistics.mean(100 * (plan["weir"][0] / plan["greedy"][0] - 1) for plan in plans)
    return Outcome(
        f"printed model, {_HARD_VMS} VMs: {'; '.join(words)}; weir {own:+.1f} % against greedy",
        # Time must tell: with more of it, no fewer plans reach greedy's.
        Verdict.CANNOT_FOLLOW if reaching[0] <= reaching[1] else Verdict.DIFFERS,
        "the instances are not given: seconds of HiGHS on ours for hours of Gurobi on theirs",
    )


ROWS = [
    Row(
        "003-fig-5.7",
        "VM migration: the integer program with more than five hours",
        "with about six hours it beats greedy, with 30 minutes it does not",
        _program_points,
        _judge_program,
    ),
    Row(
        "003-tab-5.5",
        "VM migration, full model: schedule of 4 VMs",
        "TPD 225, makespan 8 (the instance is not given)",
        lambda quick: [Point(printed_costs, {})],
        _judge_full,
    ),
    Row(
        "003-tab-5.6",
        "VM migration, simplified model: schedule of the same 4 VMs",
        "TPD 232, makespan 10 (the instance is not given)",
        lambda quick: [
            Point(printed_costs, {}),
            *(
                Point(instance, {"reading": reading, "vms": _VMS, "seed": seed})
                for reading in _READINGS
                for seed in _SEEDS
            ),
        ],
        _judge_simplified,
    ),
]
