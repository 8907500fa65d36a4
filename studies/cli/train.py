"""`weir ops train`: a recogniser, from simulated paths and recordings of the kernel's TCP."""

import argparse
import sys
from pathlib import Path

SUMMARY = "make a recogniser, from simulated paths and recordings of the kernel's TCP"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        metavar="FILE",
        help="the recogniser's .npz file (the one that Weir uses)",
    )
    parser.add_argument(
        "--count",
        type=int,
        metavar="N",
        help="usual paths to simulate (1102; 114 with --unknown-only, 38 with --bbr-only; slow "
        "ones with --wide-only, 1600 of any kind with --kinds-only, 1400 runs with --beside)",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of paths and of learning (1)")
    parser.add_argument(
        "--recordings",
        type=Path,
        nargs="*",
        metavar="FILE",
        help="files to learn from beside the simulator; none if no FILE follows (those that ship)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        help="where simulated paths are kept (out/recognition)",
    )
    part = parser.add_mutually_exclusive_group()
    part.add_argument(
        "--unknown-only",
        action="store_const",
        const="unknown",
        dest="part",
        help="keep the recogniser in FILE, and learn anew only what it calls unknown",
    )
    part.add_argument(
        "--bbr-only",
        action="store_const",
        const="bbr",
        dest="part",
        help="likewise, only where what it takes for BBR is unknown",
    )
    part.add_argument(
        "--wide-only",
        action="store_const",
        const="wide",
        dest="part",
        help="likewise, only the second opinion, of a wide range of paths",
    )
    part.add_argument(
        "--kinds-only",
        action="store_const",
        const="kinds",
        dest="part",
        help="likewise, only of what kind it is: BBR of version 3, or held by its application",
    )
    parser.add_argument(
        "--beside",
        action="store_true",
        help="instead, who else is there beside one stream of our own, in a file of its own",
    )


def run(args: argparse.Namespace) -> int:
    """Learns, and says where the recogniser is."""
    from studies.training import train, train_beside
    from weir.congestion.classify import company, recogniser
    from weir.errors import BadInput

    given = {"count": args.count, "seed": args.seed, "folder": args.folder}
    chosen = {name: value for name, value in given.items() if value is not None}
    if args.beside:
        if args.part:
            raise BadInput(f"--beside is no part of the recogniser: leave out --{args.part}-only")
        if args.recordings is not None:
            raise BadInput("--beside learns from the simulator alone: leave out --recordings")
        out = args.file or company.SHIPPED
        train_beside.make(out, progress=_say, **chosen)
    else:
        chosen |= {"part": args.part} if args.part else {}
        chosen |= {"files": args.recordings} if args.recordings is not None else {}
        out = args.file or recogniser.SHIPPED
        train.make(out, progress=_say, **chosen)
    print(f"{out} ({out.stat().st_size / 1e6:.1f} MB)")
    return 0


def _say(told: str) -> None:
    print(told, file=sys.stderr, flush=True)
