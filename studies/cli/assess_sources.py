"""`weir ops assess-sources`: what learning from the simulator, the kernel or both is worth."""

import argparse
import sys
from pathlib import Path

SUMMARY = "what learning from the simulator, from the kernel, or from both is worth"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("--count", type=int, metavar="N", help="recordings of the grid (1102)")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="keeps the grid (out/recognition)"
    )


def run(args: argparse.Namespace) -> int:
    """Learns three times, and prints the table in Markdown."""
    # Only here, so that `weir ops --help` need not wait for numpy.
    from studies.training.matrix import matrix, sources

    given = {"count": args.count, "folder": args.folder}
    chosen = {name: value for name, value in given.items() if value is not None}
    for line in matrix(sources(**chosen), lambda told: print(told, file=sys.stderr, flush=True)):
        print(line, flush=True)
    return 0
