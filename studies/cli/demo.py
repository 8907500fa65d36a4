"""`weir demo`: what a part of Weir does, shown in small."""

import argparse
import sys
from pathlib import Path

SUMMARY = "what a part of Weir does, in small: ops"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the demonstrations."""
    shows = parser.add_subparsers(metavar="WHAT", required=True)
    ops = shows.add_parser(
        "ops",
        help="a file beside CUBIC and beside BBR: fixed congestion controls, and a chosen one",
        epilog="Exit code 0 when the fair control was chosen beside both, 1 when not.",
    )
    ops.add_argument(
        "--out",
        type=Path,
        default=Path("out/demo"),
        metavar="DIR",
        help="folder for the figures and the plot (%(default)s)",
    )
    ops.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of all random choices (1)"
    )
    ops.add_argument("--json", action="store_true", help="print one JSON object a case")
    ops.set_defaults(show=_ops)


def run(args: argparse.Namespace) -> int:
    """Shows what was asked for."""
    return int(args.show(args))


def _ops(args: argparse.Namespace) -> int:
    from studies.demonstration import scaffold
    from studies.demonstration.ops import Ops

    return scaffold.show(Ops(args.seed), args.out, args.json, sys.stdout)
