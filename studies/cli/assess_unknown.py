"""`weir ops assess-unknown`: what the recogniser makes of what it never learned."""

import argparse
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

SUMMARY = "what the recogniser makes of paths and backgrounds that it never learned"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "--count", type=int, default=100, metavar="N", help="windows of each idle path (100)"
    )
    parser.add_argument(
        "--paths", type=int, default=20, metavar="N", help="paths of each stream (20)"
    )
    parser.add_argument(
        "--recogniser", type=Path, metavar="FILE", help="which (default: the one that ships)"
    )
    parser.add_argument(
        "--beyond",
        type=int,
        metavar="N",
        help="instead, paths that are not to be known, beside a grid of N of those that are",
    )
    parser.add_argument("--fast", type=int, metavar="N", help="instead, N paths of 1 to 10 Gbit/s")
    parser.add_argument(
        "--seed", type=int, default=2, metavar="N", help="seed of the grid (2; it learned from 1)"
    )
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="keeps the grid (out/recognition)"
    )


def run(args: argparse.Namespace) -> int:
    """Prints two tables in Markdown."""
    # Only here, so that `weir ops --help` need not wait for numpy.
    from studies.training import beyond, out_of_distribution
    from studies.training.grid import FAST, SEEMING, USUAL_BBR, grid
    from studies.training.train import COUNT_UNKNOWN, FOLDER, FURTHER_BBR, is_learned, simulated
    from weir.congestion.classify.recogniser import SHIPPED, Recogniser

    recogniser = Recogniser.load(args.recogniser or SHIPPED)
    lines: Iterable[str]
    place = args.folder or FOLDER
    if args.fast:
        seen = grid(args.fast, args.seed, place, ranges=FAST)
        kinds = {"1 to 10 Gbit/s": [fast for fast, _ in seen]}
        lines = beyond.answered(recogniser, kinds, args.seed)
    elif args.beyond:
        share = args.beyond / COUNT_UNKNOWN
        recordings = list(simulated(args.beyond, args.seed, place, of_further=share))
        kinds = {
            "to be known": [one for one in recordings if is_learned(one)],
            "elsewhere": [one for one in recordings if not is_learned(one)],
        }
        kinds |= {
            ranges.name: [
                fast
                for fast, _ in grid(
                    round(share * FURTHER_BBR[ranges]), args.seed, place, ranges=ranges
                )
            ]
            for ranges in (USUAL_BBR, *SEEMING)
        }
        lines = chain(
            beyond.report(recogniser, recordings, args.seed),
            beyond.answered(recogniser, kinds, args.seed),
        )
    else:
        lines = out_of_distribution.report(recogniser, args.count, args.paths)
    for line in lines:
        print(line, flush=True)
    return 0
