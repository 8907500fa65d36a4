"""`weir serve`: receives and offers files under given roots."""

import argparse
import json
import logging
import sys

from weir import signals
from weir._core import Time
from weir.errors import BadInput
from weir.transfer import DEFAULT_KEYS, Server


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="[NAME=]DIR",
        help="directory to store into and fetch from; several need names",
    )
    parser.add_argument(
        "--read-only", action="append", default=[], metavar="[NAME=]DIR", help="only to fetch from"
    )
    parser.add_argument("--listen", required=True, metavar="ADDR:PORT", help="where to listen")
    parser.add_argument("--sync", action="store_true", help="confirm only what is on the disk")
    parser.add_argument(
        "--silence", metavar="TIME", default="20 s", help="a client silent for this long is gone"
    )
    parser.add_argument("--json", action="store_true", help="one JSON event per line")
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--keys", metavar="DIR", default=str(DEFAULT_KEYS), help="key directory")
    keys.add_argument("--insecure", action="store_true", help="no TLS: anyone may do all this")


def run(args: argparse.Namespace) -> int:
    """Serves until it is interrupted."""
    if not args.root and not args.read_only:
        raise BadInput("nothing to serve: give --root DIR or --read-only DIR")
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    with signals.awaited() as until_ended, _server(args) as server:
        host, port = server.address
        if args.json:
            print(json.dumps({"event": "listening", "host": host, "port": port}), flush=True)
        else:
            print(f"listening on {host}:{port}", flush=True)
        if args.insecure:
            print("weir: insecure: no TLS, anyone who can connect is trusted", file=sys.stderr)
        until_ended()
    return 0


def _server(args: argparse.Namespace) -> Server:
    return Server(
        roots=[_root(text) for text in args.root],
        read_only=[_root(text) for text in args.read_only],
        listen=args.listen,
        keys=None if args.insecure else args.keys,
        sync=args.sync,
        silence=Time(args.silence),
    )


def _root(text: str) -> tuple[str, str]:
    name, equals, directory = text.partition("=")
    return (name, directory) if equals else ("", text)
