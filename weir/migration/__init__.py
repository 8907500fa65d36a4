"""Live migration of many virtual machines at once, planned.

    from weir.migration import load, plan

    outcome = plan(load("problem.toml"), planner="weir")
    print(outcome.degradation, outcome.bound, outcome.makespan)

The model is that of 003-spec section 5; docs/migration.md says when to use which planner. The
decisions are in `crates/schedule`, the integer programs here, beside their solver.
"""

from weir.migration.plan import PLANNERS, Outcome, Schedule, plan
from weir.migration.problem import Link, Problem, Vm
from weir.migration.reading import load, parse

__all__ = [
    "PLANNERS",
    "Link",
    "Outcome",
    "Problem",
    "Schedule",
    "Vm",
    "load",
    "parse",
    "plan",
]
