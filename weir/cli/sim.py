"""`weir sim`: the scenario of a lab in the packet simulator."""

import argparse
import json
from pathlib import Path

from weir import Time, signals
from weir.cli import output
from weir.cli.parser import option
from weir.errors import BadInput
from weir.lab import load
from weir.shipped import scenario

_EPILOG = """\
Scenario files: docs/lab.md; what is simulated and what the result says: docs/packet.md.

exit codes: 0 done; 2 a wrong scenario or argument."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "file", metavar="FILE", help="a scenario file (TOML), or one of Weir's: home"
    )
    parser.add_argument(
        "--duration", metavar="TIME", help="how long (default: until the last traffic stops)"
    )
    parser.add_argument(
        "--warmup", default="0 s", metavar="TIME", help="time at the start that is not measured"
    )
    seed = parser.add_mutually_exclusive_group()
    seed.add_argument("--seed", type=int, metavar="N", help="seed, instead of the scenario's")
    seed.add_argument(
        "--seeds",
        metavar="LIST",
        help="several seeds, such as 1-5, run in parallel: means with 95 %% intervals",
    )
    parser.add_argument(
        "--workers", metavar="N", type=int, help="worker processes (default: one a core)"
    )
    parser.add_argument(
        "--scheduler", metavar="URL", help="a Dask cluster's address: tcp://HOST:PORT"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep result.json and traces here")
    parser.add_argument(
        "--capture",
        action="append",
        default=[],
        metavar="NODE",
        help="write the packets of a node to DIR/NODE.pcapng; repeat",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")


def run(args: argparse.Namespace) -> int:
    """Simulates and prints."""
    output.is_the_work()
    if args.seeds is not None:
        return _run_seeds(args)
    if args.workers is not None or args.scheduler:
        raise BadInput("--workers and --scheduler are for several runs: give --seeds, such as 1-5")
    from weir.sim.run import Run
    from weir.sim.run import run as simulate

    duration = None if args.duration is None else option(Time, args.duration, "--duration")
    warmup = option(Time, args.warmup, "--warmup")
    wanted, captures = load(scenario(args.file)), tuple(args.capture)
    order = Run(wanted, duration, warmup, args.seed, args.out, captures)
    with signals.heeded():
        result = simulate(order)
    if args.json:
        print(json.dumps(result))
        return 0
    # Only here, so that --json starts without it.
    from weir.sim.tables import print_result

    print_result(result)
    return 0


def _run_seeds(args: argparse.Namespace) -> int:
    from weir.sim.seeds import Seeds, read_seeds, run_seeds

    if args.out or args.capture:
        raise BadInput("--out and --capture keep one run: give --seed, not --seeds")
    duration = None if args.duration is None else option(Time, args.duration, "--duration")
    seeds, warmup = read_seeds(args.seeds), option(Time, args.warmup, "--warmup")
    order = Seeds(scenario(args.file), seeds, duration, warmup, args.scheduler, args.workers)
    answer = run_seeds(order)
    if args.json:
        print(json.dumps(answer))
        return 0
    from weir.sim.tables import print_summary

    print_summary(answer)
    return 0
