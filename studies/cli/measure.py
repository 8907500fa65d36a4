"""`weir ops measure`: the interaction table, by the packet simulator."""

import argparse
from pathlib import Path

SUMMARY = "make the interaction table that controls are chosen by, in the packet simulator"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="where the table goes (JSON)")


def run(args: argparse.Namespace) -> int:
    """Simulates every meeting, and writes the table."""
    # Only here, so that `weir ops --help` need not wait for numpy.
    from studies.training.interaction import measured

    measured().save(args.file)
    return 0
