"""`weir migrate`: plan the live migration of many virtual machines, and carry the plan out."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weir import Bytes, Time, files
from weir.cli import output
from weir.cli.parser import option
from weir.errors import BadInput, TransferFailed
from weir.kinds import PROBLEM
from weir.migration import PLANNERS, Outcome, Problem, load, plan
from weir.migration.carry import Event, carry
from weir.migration.links import Load, by_link
from weir.migration.plot import draw
from weir.printable import printable
from weir.shipped import scenario
from weir.terminal import Column, Table, console

# What a plan to compare with may take: the machines wait.
_PLAN_S = 2.0

_EPILOG = """\
Problem files and planners: docs/migration.md.

exit codes: 0 planned, or all have arrived; 2 a wrong problem file or option; 4 the plan does not
fit the horizon; 5 a machine's connection was broken; 6 no relay answers."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the sub-commands."""
    parser.epilog = _EPILOG
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    command = commands.add_parser("plan", help="who sends when, on which path, at which rate")
    command.add_argument("file", metavar="FILE", help="a problem file (TOML), or Weir's: migration")
    command.add_argument("--planner", default="weir", metavar="NAME", help=_planners())
    command.add_argument("--time-limit", default="10 s", metavar="TIME", help="time for planning")
    command.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the search")
    command.add_argument(
        "--json", action="store_true", help="print the whole plan as one JSON object"
    )
    command.add_argument("--plot", metavar="FILE", type=Path, help="draw the plan as SVG")
    command.set_defaults(act=_plan)
    carried = commands.add_parser("run", help="carry the plan out, by the weights of a relay")
    carried.add_argument("file", metavar="FILE", help="a problem file whose VMs have addresses")
    carried.add_argument(
        "--relay", type=Path, required=True, metavar="PATH", help="--control of a weir relay join"
    )
    carried.add_argument("--planner", default="greedy", metavar="NAME", help="as for plan")
    carried.add_argument("--json", action="store_true", help="one JSON object for each event")
    carried.set_defaults(act=_run)


def run(args: argparse.Namespace) -> int:
    """Runs the sub-command."""
    output.is_the_work()
    return int(args.act(args))


def _planners() -> str:
    return "; ".join(f"{name}: {summary}" for name, summary in PLANNERS.items())


def _plan(args: argparse.Namespace) -> int:
    if args.seed < 0 or args.seed >= 2**64:
        raise BadInput(f"a seed of {args.seed}; 0 to 2^64 - 1 are allowed")
    problem = load(scenario(args.file, PROBLEM))
    limit_s = option(Time, args.time_limit, "--time-limit").ns / 1e9
    outcome = plan(problem, args.planner, time_limit_s=limit_s, seed=args.seed)
    loads = by_link(outcome)
    if args.plot:
        try:
            with files.whole(args.plot) as partial:
                partial.write_text(draw(problem, outcome), encoding="utf-8")
        except OSError as error:
            raise BadInput(f"{args.plot}: {error.strerror}") from None
    if args.json:
        print(json.dumps(_document(problem, outcome, loads), indent=2))
    else:
        _print(problem, outcome, loads)
    return 0


def _run(args: argparse.Namespace) -> int:
    problem = load(args.file)
    planned = plan(problem, args.planner, time_limit_s=_PLAN_S)
    finishes = {schedule.vm: schedule.finish for schedule in planned.schedules}
    broken = 0
    for event in carry(problem, args.relay, args.planner):
        broken += event.kind == "broken"
        if args.json:
            told = asdict(event) | {"planned_step": finishes[event.vm]}
            print(json.dumps(told), flush=True)
        else:
            print(_words(event, finishes[event.vm]), flush=True)
    if broken:
        raise TransferFailed(f"{broken} of {len(problem.vms)} machines have not arrived")
    return 0


def _words(event: Event, finish: int) -> str:
    sent = f"after {event.step:.2f} steps, {Bytes.from_count(event.bytes)}"
    match event.kind:
        case "come":
            return f"{event.vm} has come after {event.step:.2f} steps"
        case "arrived":
            return f"{event.vm} has arrived {sent}; planned for step {finish}"
        case _:
            return f"{event.vm} is broken {sent}: {printable(event.reason or '')}"


def _document(problem: Problem, outcome: Outcome, loads: dict[str, list[Load]]) -> dict[str, Any]:
    vms = [
        {
            "vm": schedule.vm,
            "path": schedule.path,
            "finish_step": schedule.finish,
            "pieces": [
                {"first_step": first, "last_step": last, "bytes_per_step": amount}
                for first, last, amount in schedule.pieces
            ],
        }
        for schedule in outcome.schedules
    ]
    links = {
        name: [
            {"first_step": part.first, "last_step": part.last, "bytes_per_step": part.amounts}
            for part in intervals
        ]
        for name, intervals in loads.items()
    }
    return {
        "planner": outcome.planner,
        "step_s": problem.step.ns / 1e9,
        "degradation": outcome.degradation,
        "bound": outcome.bound,
        "gap": outcome.gap,
        "makespan_steps": outcome.makespan,
        "seconds": round(outcome.seconds, 3),
        "vms": vms,
        "links": links,
    }


def _print(problem: Problem, outcome: Outcome, loads: dict[str, list[Load]]) -> None:
    shown = console()
    machines = Table("VM", "arrives in step", Column("sends", folds=True), Column("path", rank=2))
    for schedule in outcome.schedules:
        sends = ", ".join(
            f"{_steps(first, last)}: {_amount(amount)}" for first, last, amount in schedule.pieces
        )
        machines.add_row(schedule.vm, str(schedule.finish), sends, " ".join(schedule.path))
    shown.print(machines)
    links = Table("link", "steps", Column("bytes a step", folds=True))
    for name, intervals in loads.items():
        for index, part in enumerate(intervals):
            shares = ", ".join(f"{vm} {_amount(amount)}" for vm, amount in part.amounts.items())
            links.add_row("" if index else name, _steps(part.first, part.last), shares)
    shown.print()
    shown.print(links)
    shown.print(
        f"\ntotal performance degradation {outcome.degradation}, "
        f"at least {outcome.bound} for any plan (gap {100 * outcome.gap:.2f} %)"
    )
    ends = Time.from_ns(problem.step.ns * outcome.makespan)
    shown.print(
        f"makespan {outcome.makespan} steps of {problem.step} ({ends}); "
        f"planned by {outcome.planner} in {outcome.seconds:.2f} s"
    )


def _steps(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


def _amount(count: int) -> str:
    return str(Bytes.from_count(count))
