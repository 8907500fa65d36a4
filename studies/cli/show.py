"""`weir ops show`: what a file of recordings holds."""

import argparse
import json
from pathlib import Path

from weir.cli import output
from weir.errors import BadInput

SUMMARY = "what a file of recordings holds"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="recordings (.npz)")
    parser.add_argument(
        "--plot", type=Path, metavar="DIR", help="also a picture (SVG) of each class"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a recording")


def run(args: argparse.Namespace) -> int:
    """Shows it, and draws it if asked."""
    from studies.training.collecting.format import facts, show
    from weir.congestion.recordings import load_whole

    output.is_the_work()
    recordings, provenance = load_whole(args.file)
    if args.plot:
        from studies.training.collecting.picture import draw

        if not recordings:
            raise BadInput(f"{args.file} has no recording to draw")
        draw(recordings, args.plot)
    if args.json:
        for one in recordings:
            print(json.dumps(facts(one)))
    else:
        show(recordings, provenance)
    return 0
