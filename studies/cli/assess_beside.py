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
        "--recogniser",
        type=Path,
        metavar="FILE",
        help="which, and nothing learned beside ours (default: what ships)",
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
    parser.add_argument(
        "--turns",
        type=int,
        metavar="SEED",
        help="instead, how late changes are followed on RUNS paths drawn by this seed",
    )


def run(args: argparse.Namespace) -> int:
    """Prints the table in Markdown."""
    # Only here, so that `weir ops --help` need not wait for numpy.
    from studies.training.assess_beside import begun_table, several_table, table, turns_table
    from weir.congestion.classify.recogniser import Recogniser

    file = args.recogniser
    recogniser = Recogniser.load(file) if file else Recogniser.shipped()
    made = begun_table if args.begin else several_table if args.several else table
    lines = made(recogniser, args.runs)
    if args.turns is not None:
        lines = turns_table(recogniser, args.runs, args.turns)
    for line in lines:
        print(line, flush=True)
    return 0
