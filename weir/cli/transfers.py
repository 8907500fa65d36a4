"""What `weir send` and `weir get` share: their options, and a transfer in front of a person."""

import argparse
import signal
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from weir import deadline
from weir._core import Rate, Time
from weir.congestion.options import AUTO, HOST
from weir.errors import BadInput, Late, WeirError
from weir.transfer import DEFAULT_KEYS, Transfer, watch
from weir.transfer.line import duration

UNPACED = "unlimited"
RETRY_S = 30.0
_RETRY_MAX_S = 1e9
"""Thirty years; a deadline may be thousands ahead."""

_Read = TypeVar("_Read")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that both directions take."""
    parser.add_argument("--rate", default=UNPACED, help='pace, such as "500 Mbit/s"')
    parser.add_argument(
        "--streams",
        type=_streams,
        default=1,
        metavar="N",
        help=f"parallel TCP connections; {AUTO}: as many as an otherwise idle path takes (send)",
    )
    parser.add_argument(
        "--cca",
        metavar="NAME",
        help=f"congestion control of the sending host; {HOST}: its default, and nothing is chosen",
    )
    parser.add_argument("--hash", default="blake3", help="blake3 (default) or none")
    parser.add_argument("--by", metavar="DEADLINE", help='"06:00", RFC 3339, or "+90 s"')
    parser.add_argument("--sync", action="store_true", help="confirm only what is on the disk")
    parser.add_argument(
        "--checksum",
        action="store_true",
        help="what is there is the same by its content, not by its size and time",
    )
    parser.add_argument(
        "--read-back",
        action="store_true",
        help="the receiver reads each file back from the storage before it takes its name",
    )
    parser.add_argument(
        "--copy-links", action="store_true", help="send what symbolic links lead to"
    )
    parser.add_argument(
        "--retry",
        metavar="TIME",
        help="how long to try again without progress (default 30 s; with --by, until then)",
    )
    parser.add_argument("--hashes", action="store_true", help="print each file's BLAKE3 hash")
    parser.add_argument("--json", action="store_true", help="one JSON event per line")
    parser.add_argument(
        "--server-name", metavar="NAME", help="that the server's certificate must have"
    )
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--keys", metavar="DIR", default=str(DEFAULT_KEYS), help="key directory")
    keys.add_argument("--insecure", action="store_true", help="no TLS, no authentication")


def _streams(text: str) -> int | str:
    try:
        return text if text == AUTO else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is neither a number nor {AUTO}") from None


def choices(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments as `Transfer.send` and `Transfer.get` take them."""
    args.deadline, args.clock = None, deadline.wall
    if args.by is not None:
        now = deadline.wall()
        args.deadline = deadline.parse(args.by, now)
        args.clock = deadline.clock_for(args.by, now)
    return {
        "keys": None if args.insecure else args.keys,
        "rate": None if args.rate == UNPACED else rate_option(args.rate, "--rate"),
        "streams": 1 if args.streams == AUTO else args.streams,
        "congestion": None if args.cca == HOST else args.cca,
        "hash": args.hash,
        "sync": args.sync,
        "checksum": args.checksum,
        "read_back": args.read_back,
        "follow_links": args.copy_links,
        "retry": _patience(args),
        "server_name": args.server_name,
    }


def rate_option(text: str, name: str) -> Rate:
    """The rate that an option of that name was given."""
    return _option(Rate, text, name)


def _patience(args: argparse.Namespace) -> Time:
    """How long to try again without progress: with a deadline, until it."""
    if args.retry is not None:
        return _option(Time, args.retry, "--retry")
    left_s = 0.0
    if args.deadline is not None:
        left_s = (args.deadline - args.clock()).total_seconds()
    return Time.from_ns(int(min(max(RETRY_S, left_s), _RETRY_MAX_S) * 1e9))


def _option(kind: Callable[[str], _Read], text: str, name: str) -> _Read:
    try:
        return kind(text)
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None


def carry_out(
    transfer: Transfer,
    args: argparse.Namespace,
    done: str,
    companion: watch.Companion | None = None,
    began: float | None = None,
) -> int:
    """Runs the transfer in front of a person or a machine; returns the exit code.

    `done` is the word for it afterwards, such as "sent"; `began` is when it was started, on the
    monotonic clock, if it was.

    Raises:
        WeirError: the transfer failed.
        Late: it arrived after its deadline.
    """
    view: watch.View
    if args.json:
        request = {"sources": args.source, "destination": args.destination}
        view = watch.Events(request, args.deadline, args.clock)
    else:
        view = watch.Line(done, args.deadline, show_hashes=args.hashes, clock=args.clock)
    # A polite kill is a Ctrl-C: the transfer ends in order and says how to resume.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        ending = watch.watch(transfer, view, companion, began, args.clock)
    except KeyboardInterrupt:
        if not args.json:
            watch.say(sys.stderr, "weir: cancelled; the same command resumes it\n")
        return watch.CANCELLED
    except WeirError as error:
        error.is_told = args.json
        raise
    if args.deadline is not None and ending.slack_s(args.deadline) < 0:
        late = Late(f"{done} and verified, but {duration(-ending.slack_s(args.deadline))} late")
        late.is_told = args.json
        raise late
    return 0
