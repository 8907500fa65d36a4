"""`weir get`: files and directories from a server."""

import argparse

from weir.cli.transfers import add_options, carry_out, check_direction, choices
from weir.congestion.options import AUTO
from weir.errors import BadInput
from weir.transfer import Transfer


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "source",
        nargs="+",
        help="HOST:PORT/REMOTE/PATH; DIR/ fetches its content; HOST:PORT,HOST:PORT/REMOTE/PATH "
        "where several hosts that have the same there send large files together",
    )
    parser.add_argument("destination", help="local directory, or the name for a single file")
    add_options(parser)
    parser.add_argument(
        "--unsafe-links",
        action="store_true",
        help="take symbolic links that lead out of what was asked for",
    )


def run(args: argparse.Namespace) -> int:
    """Fetches; the exit code is that of `weir.errors`."""
    check_direction([args.destination], args.source, "send")
    if args.cca == AUTO:
        raise BadInput("--cca auto is for weir send: it is the sending host that chooses")
    if args.streams == AUTO:
        raise BadInput("--streams auto is for weir send: it is the sending host that chooses")
    chosen = {**choices(args), "unsafe_links": args.unsafe_links}
    transfer = Transfer.get(args.source, args.destination, **chosen)
    return carry_out(transfer, args, "received")
