"""`weir ops assess-unknown`: what the recogniser makes of what it never learned."""

import argparse

SUMMARY = "what the recogniser makes of paths and backgrounds that it never learned"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("--count", type=int, default=100, help="windows of each idle path (100)")
    parser.add_argument("--paths", type=int, default=20, help="paths of each stream (20)")


def run(args: argparse.Namespace) -> int:
    """Prints two tables in Markdown."""
    # Only here, so that `weir ops --help` need not wait for numpy.
    from studies.training.out_of_distribution import report
    from weir.congestion.classify.recogniser import Recogniser

    for line in report(Recogniser.shipped(), args.count, args.paths):
        print(line, flush=True)
    return 0
