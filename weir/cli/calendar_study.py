"""`weir calendar study`: policies compared on random requests."""

import argparse
import json
from typing import Any

from weir._core import CalendarFigures, estimate
from weir.cli import output
from weir.cli.parser import option

_FIGURES = (
    "success",
    "reject_rate",
    "utilisation",
    "index",
    "bytes_on_time_share",
    "missed",
    "changes_per_request",
)


def configure(command: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    command.add_argument(
        "network",
        nargs="?",
        default="g-scale",
        help="g-scale, a topohub key, or a .json/.toml file",
    )
    command.add_argument(
        "--policy", action="append", metavar="NAME", help="repeat it for several (default: all)"
    )
    command.add_argument(
        "--rate",
        action="append",
        type=float,
        metavar="N",
        help="requests per second; repeat it for several (default 0.4)",
    )
    command.add_argument(
        "--requests", type=int, default=30_000, metavar="N", help="requests in a run"
    )
    command.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="runs of each, by seeds 1 to N"
    )
    command.add_argument(
        "--epoch", default="180 s", metavar="TIME", help="time between redistributions"
    )
    command.add_argument(
        "--ahead", default="0 s", metavar="TIME", help="how far ahead requests come, in the mean"
    )
    command.add_argument(
        "--published-clock", action="store_true", help="time as in the published simulator"
    )
    command.add_argument(
        "--published-paths",
        action="store_true",
        help="break ties among shortest paths as that simulator (fixed, local-…, global-…)",
    )
    command.add_argument("--json", action="store_true", help="print a list of JSON objects")
    command.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    """Runs each policy at each load and prints means over the seeds."""
    output.is_the_work()
    from weir import Time
    from weir.calendar.study import POLICIES, Load, named_network
    from weir.calendar.study import run as run_study

    network = named_network(args.network)
    epoch_s = option(Time, args.epoch, "--epoch").ns / 1e9
    ahead_s = option(Time, args.ahead, "--ahead").ns / 1e9
    rows = []
    for rate in args.rate or [0.4]:
        load = Load(rate, args.requests, ahead_s=ahead_s)
        for policy in args.policy or POLICIES:
            runs = [
                run_study(
                    network,
                    policy,
                    load,
                    seed,
                    epoch_s=epoch_s,
                    published_clock=args.published_clock,
                    published_paths=args.published_paths,
                )
                for seed in range(1, args.seeds + 1)
            ]
            rows.append({"policy": policy, "rate_per_s": rate} | _means(runs))
    if args.json:
        print(json.dumps(rows, indent=2))
    else:
        _print(rows)
    return 0


def _means(runs: list[CalendarFigures]) -> dict[str, Any]:
    return {name: estimate([float(getattr(run, name)) for run in runs])[0] for name in _FIGURES}


def _print(rows: list[dict[str, Any]]) -> None:
    from weir.terminal import Column, Table, console

    table = Table(*(Column(name.replace("_", " "), name != "policy") for name in rows[0]))
    for row in rows:
        table.add_row(*(x if isinstance(x, str) else f"{x:.4g}" for x in row.values()))
    console().print(table)
