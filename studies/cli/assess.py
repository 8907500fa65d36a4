"""`weir ops assess`: how good a recogniser is, on paths that it did not learn from."""

import argparse
from pathlib import Path

SUMMARY = "how good the recogniser is, on simulated paths or on recordings"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "--recogniser", type=Path, metavar="FILE", help="which (default: the one that ships)"
    )
    parser.add_argument(
        "--count", type=int, metavar="N", help="recordings of the grid (1102; 384 with --kinds)"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="seed of the grid (1; 12 with --kinds)"
    )
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="keeps the grid (out/recognition)"
    )
    parser.add_argument(
        "--recordings",
        type=Path,
        nargs="*",
        metavar="FILE",
        help="files to assess by, instead of the simulated grid",
    )
    parser.add_argument(
        "--unseen", action="store_true", help="recordings of even seeds only, never learned from"
    )
    parser.add_argument(
        "--kinds", action="store_true", help="instead, how well it tells of what kind others are"
    )
    parser.add_argument("--neighbours", action="store_true", help="also 1-NN as in work 001")


def run(args: argparse.Namespace) -> int:
    """Prints the tables in Markdown."""
    # Only here, so that `weir ops --help` need not wait for numpy.
    from studies.training.assess import assess, unseen
    from studies.training.assess_kinds import assess_kinds
    from weir.congestion.classify.recogniser import SHIPPED, Recogniser
    from weir.congestion.recordings import load

    recordings = None
    if args.recordings is not None:
        every = (one for file in args.recordings for one in load(file))
        recordings = unseen(args.recordings) if args.unseen else list(every)
    given = {"count": args.count, "seed": args.seed, "folder": args.folder}
    chosen = {name: value for name, value in given.items() if value is not None}
    recogniser = Recogniser.load(args.recogniser or SHIPPED)
    lines = (
        assess_kinds(recogniser, recordings, **chosen)
        if args.kinds
        else assess(recogniser, recordings, neighbours=args.neighbours, **chosen)
    )
    for line in lines:
        print(line, flush=True)
    return 0
