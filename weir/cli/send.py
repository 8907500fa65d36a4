"""`weir send`: files and directories to a server."""

import argparse

from weir.transfer import Transfer
from weir.transfer.request import add_options, carry_out, choices


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("source", nargs="+", help="file or directory; DIR/ sends DIR's content")
    parser.add_argument("destination", help="HOST:PORT/REMOTE/PATH")
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Sends; the exit code is that of `weir.errors`."""
    transfer = Transfer.send(args.source, args.destination, **choices(args))
    return carry_out(transfer, args, "sent")
