"""`weir ops measure`: the interaction table, by the packet simulator."""

import argparse
import sys
from pathlib import Path

SUMMARY = "make the interaction table that controls are chosen by, in the packet simulator"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="where the table goes (JSON); what it holds is not simulated again",
    )


def run(args: argparse.Namespace) -> int:
    """Simulates every meeting, and writes the table."""
    # Only here, so that `weir ops --help` need not wait for numpy.
    from studies.training.interaction import measure

    measure(args.file, lambda words: print(words, file=sys.stderr, flush=True))
    return 0
