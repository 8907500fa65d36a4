"""From a plan to the page: runs both halves, shows them, writes the report."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from studies.demonstration import report, summary, view
from studies.demonstration.delivery_plan import Plan
from studies.demonstration.halves import carry_out
from studies.demonstration.report import format
from studies.demonstration.scaffold import writable


def show(plan: Plan, seed: int | None, out: Path, as_json: bool, stream: TextIO) -> int:
    """Runs the demonstration and reports it.

    Args:
        plan: what to carry.
        seed: in place of the lab's own when given.
        out: the folder of the report, made when absent.
        as_json: whether to speak JSON lines instead of a picture.
        stream: where to.

    Returns:
        The exit code: 0 if every file of the calendar's half was on time and verified, else 1.

    Raises:
        BadInput: `out` cannot be written to.
        Unsupported: this machine or user cannot have the lab.
        Unavailable: a part did not start.
    """
    if seed is not None:
        plan = replace(plan, lab=replace(plan.lab, seed=seed))
    with writable(out):
        with view.choose(as_json, stream) as shown:
            result = carry_out(plan, shown)
        page = report.write(result, out)
    if as_json:
        end = {"kind": "result", "headline": format.headline(result), "page": str(page)}
        print(json.dumps(end), file=stream, flush=True)
    else:
        summary.show(result, stream)
        print(f"\nthe page: {page}", file=stream, flush=True)
    return 0 if result.kept_every_promise else 1
