"""`weir ops assess-beside`: how well others are heard beside a stream of our own."""

import argparse

SUMMARY = "how well the recogniser hears others beside a stream of our own"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "runs", type=int, nargs="?", default=10, metavar="RUNS", help="runs of each case (10)"
    )


def run(args: argparse.Namespace) -> int:
    """Prints the table in Markdown."""
    # Only here, so that `weir ops --help` need not wait for numpy.
    from studies.training.assess_beside import table
    from weir.congestion.classify.recogniser import Recogniser

    for line in table(Recogniser.shipped(), args.runs):
        print(line, flush=True)
    return 0
