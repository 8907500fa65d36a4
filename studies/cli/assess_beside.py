"""`weir ops assess-beside`: how well others are heard beside a stream of our own."""

import argparse
from pathlib import Path

SUMMARY = "how well the recogniser hears others beside a stream of our own"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "runs", type=int, nargs="?", default=10, metavar="RUNS", help="runs of each case (10)"
    )
    parser.add_argument(
        "--recogniser", type=Path, metavar="FILE", help="which (default: the one that ships)"
    )
    parser.add_argument(
        "--begin",
        action="store_true",
        help="instead, what is chosen where it begins beside streams of CUBIC",
    )
    parser.add_argument(
        "--several",
        action="store_true",
        help="instead, whether BBR is heard beside one to eight streams of our own",
    )


def run(args: argparse.Namespace) -> int:
    """Prints the table in Markdown."""
    # Only here, so that `weir ops --help` need not wait for numpy.
    from studies.training.assess_beside import begun_table, several_table, table
    from weir.congestion.classify.recogniser import SHIPPED, Recogniser

    recogniser = Recogniser.load(args.recogniser or SHIPPED)
    made = begun_table if args.begin else several_table if args.several else table
    for line in made(recogniser, args.runs):
        print(line, flush=True)
    return 0
