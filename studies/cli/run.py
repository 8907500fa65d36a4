"""`weir run`: files with deadlines, with the calendar and with plain TCP, side by side."""

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

from weir.errors import BadInput
from weir.kinds import DEMONSTRATION
from weir.shipped import FOLDER, scenario

SUMMARY = "the demonstration: files with deadlines, with Weir and with plain TCP, side by side"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `weir run`."""
    parser.add_argument(
        "demonstration",
        nargs="?",
        type=Path,
        default=FOLDER / "deadlines.toml",
        metavar="FILE",
        help="what to carry over which lab (default: deadlines, which comes with Weir)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/run"),
        metavar="DIR",
        help="folder for index.html and result.json (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="seed of all random choices (default: the lab's)"
    )
    parser.add_argument(
        "--routers",
        choices=("classes", "plain"),
        help="whether the shared link's router keeps promises and knows a lower class, or is a "
        "plain FIFO (default: the demonstration's, or classes)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.epilog = (
        "Exit code 0 when every file of the calendar's half was on time and verified, 1 when not."
    )


def run(args: argparse.Namespace) -> int:
    """Runs both halves; 0 if every file of the calendar's half was on time and verified."""
    from studies.demonstration import delivery_plan, outcome

    if args.seed is not None and not 0 <= args.seed < 2**64:
        raise BadInput(f"--seed {args.seed}: a whole number from 0 to 2^64 - 1 is allowed")
    wanted = delivery_plan.load(scenario(args.demonstration, DEMONSTRATION))
    if args.routers is not None:
        wanted = delivery_plan.with_routers(wanted, args.routers)
    # A run that is terminated cleans up as one that is interrupted.
    signal.signal(signal.SIGTERM, _terminated)
    return outcome.show(wanted, args.seed, args.out, args.json, sys.stdout)


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
