"""`weir demo`: what a part of Weir does, shown in small."""

import argparse
import sys
from pathlib import Path

SUMMARY = "what a part of Weir does, in small: ops, path, headroom, join, desktop, fabric"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the demonstrations."""
    shows = parser.add_subparsers(metavar="WHAT", required=True)
    ops = shows.add_parser(
        "ops",
        help="a file beside CUBIC and beside BBR: fixed congestion controls, and a chosen one",
        epilog="Exit code 0 when the fair control was chosen beside both, 1 when not.",
    )
    _common(ops, "a case")
    ops.set_defaults(show=_ops)
    path = shows.add_parser(
        "path",
        help="a file over a long path with a little loss: plain, rsync, --cca auto, fixed settings",
        epilog="Exit code 0 when what was chosen took at most half of the time of plain sending, "
        "1 when not. Without rsync on this machine its bar is left out.",
    )
    _common(path, "a way to send")
    path.set_defaults(show=_path)
    headroom = shows.add_parser(
        "headroom",
        help="elephants as best effort, in spare capacity and on chosen paths, over switches",
        epilog="Exit code 0 when both services spared best effort and chosen paths carried more "
        "than default ones, 1 when not.",
    )
    _common(headroom, "a run")
    headroom.set_defaults(show=_headroom)
    join = shows.add_parser(
        "join",
        help="a hundred clients over a narrow line: each by itself, joined into one, by weights",
        epilog="Exit code 0 when the joined ones filled the line as well and shared it as their "
        "weights are, 1 when not.",
    )
    _common(join, "a way to send")
    join.set_defaults(show=_join)
    desktop = shows.add_parser(
        "desktop",
        help="pictures on a far desktop over a lossy line: the server's timer, packets, the screen",
        epilog="Exit code 0 when packets told when the screen was up to date and grew with loss "
        "while the server's timer did not, 1 when not.",
    )
    _common(desktop, "a picture")
    desktop.set_defaults(show=_desktop)
    fabric = shows.add_parser(
        "fabric",
        help="which ports of an InfiniBand fabric wait: 4 000 asked at once, and who is a victim",
        epilog="Exit code 0 when the work's example is met, a victim's port is found to wait, and "
        "all ports are asked sooner than by perfquery; without ibsim only the first two.",
    )
    _common(fabric, "a part")
    fabric.set_defaults(show=_fabric)


def _common(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/demo"),
        metavar="DIR",
        help="folder for the figures and the plot (%(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of all random choices (1)"
    )
    parser.add_argument("--json", action="store_true", help=f"print one JSON object {what}")


def run(args: argparse.Namespace) -> int:
    """Shows what was asked for."""
    return int(args.show(args))


def _ops(args: argparse.Namespace) -> int:
    from studies.demonstration import scaffold
    from studies.demonstration.ops import Ops

    return scaffold.show(Ops(args.seed), args.out, args.json, sys.stdout)


def _path(args: argparse.Namespace) -> int:
    from studies.demonstration import scaffold
    from studies.demonstration.path import LongPath

    return scaffold.show(LongPath(args.seed), args.out, args.json, sys.stdout)


def _join(args: argparse.Namespace) -> int:
    from studies.demonstration import scaffold
    from studies.demonstration.join import Join

    return scaffold.show(Join(args.seed), args.out, args.json, sys.stdout)


def _desktop(args: argparse.Namespace) -> int:
    from studies.demonstration import scaffold
    from studies.demonstration.desktop import Desktop

    return scaffold.show(Desktop(args.seed), args.out, args.json, sys.stdout)


def _fabric(args: argparse.Namespace) -> int:
    from studies.demonstration import scaffold
    from studies.demonstration.fabric import StalledFabric

    return scaffold.show(StalledFabric(args.seed), args.out, args.json, sys.stdout)


def _headroom(args: argparse.Namespace) -> int:
    from studies.demonstration import scaffold
    from studies.demonstration.headroom import Headroom

    return scaffold.show(Headroom(args.seed), args.out, args.json, sys.stdout)
