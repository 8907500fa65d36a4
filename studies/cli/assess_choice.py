"""`weir ops assess-choice`: how well the interaction table foretells meetings on other paths."""

import argparse
import sys
from pathlib import Path

from weir.errors import BadInput

SUMMARY = "how well the interaction table foretells what controls get on paths drawn anew"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "count", type=int, nargs="?", default=120, metavar="N", help="paths and backgrounds (120)"
    )
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="which (default: the one that ships)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="by which they are drawn (1)"
    )


def run(args: argparse.Namespace) -> int:
    """Prints the table in Markdown."""
    if args.count < 1:
        raise BadInput(f"{args.count} paths: one at least is needed")
    # Only here, so that `weir ops --help` need not wait for numpy.
    from studies.training.assess_choice import assess
    from weir.congestion.choice import Interaction

    table = Interaction.load(args.table) if args.table else Interaction.shipped()
    lines = assess(
        table,
        args.seed,
        args.count,
        lambda count: print(f"{count} of {args.count}", file=sys.stderr, flush=True),
    )
    for line in lines:
        print(line, flush=True)
    return 0
