"""What `weir send` and `weir get` share: their options, and a transfer in front of a person."""

import argparse
import signal
import sys
from typing import Any, cast

from weir import deadline
from weir._core import Rate, Time
from weir.cli.parser import Parser, option
from weir.congestion.options import AUTO, HOST
from weir.errors import BadInput, Late, WeirError
from weir.transfer import DEFAULT_KEYS, Transfer, watch
from weir.transfer.line import duration
from weir.transfer.remote import is_remote

_EPILOG = """\
The other end runs weir serve. Interrupt this in any way: the same command goes on where it was.

exit codes: 0 all is there and verified; 2 a wrong argument; 3 this machine cannot (see weir
doctor); 4 refused; 5 it stopped, or some files failed; 6 nobody answers there; 7 all is there, but
late; 130 Ctrl-C. More: docs/transfer.md."""

UNPACED = "unlimited"
RETRY_S = 30.0
_RETRY_MAX_S = 1e9
"""Thirty years; a deadline may be thousands ahead."""

_FAMILIAR = {
    **dict.fromkeys(("-r", "-R", "--recursive"), "a directory goes with all that is below it"),
    **dict.fromkeys(("-a", "-p", "-t", "--archive"), "times and permissions are always kept"),
    **dict.fromkeys(
        ("-v", "-P", "--progress", "--partial"),
        "progress is always shown, and the same command goes on with what was interrupted",
    ),
    **dict.fromkeys(("-z", "--compress"), "nothing is compressed"),
    **dict.fromkeys(("-n", "--dry-run"), "weir verify tells what differs, and moves nothing"),
    **dict.fromkeys(("-b", "--bwlimit"), '--rate "500 Mbit/s" paces'),
    **dict.fromkeys(("--transfers", "--parallel"), "--streams 4 is for four connections"),
    "-c": "--checksum compares by content",
    "-L": "--copy-links sends what links lead to",
    "--delete": "nothing is deleted; weir verify names what is extra there",
}
"""What rsync, rclone, scp and iperf3 call what is always so here, or is called otherwise."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that both directions take."""
    cast(Parser, parser).familiar = _FAMILIAR
    parser.epilog = _EPILOG
    parser.add_argument("--rate", default=UNPACED, metavar="R", help='pace, such as "500 Mbit/s"')
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
    parser.add_argument("--hash", default="blake3", metavar="NAME", help="blake3 (default) or none")
    parser.add_argument("--by", metavar="DEADLINE", help='deadline: "06:00", RFC 3339, or "+90 s"')
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
        "--server-name", metavar="NAME", help="the name that the server's certificate must have"
    )
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--keys", metavar="DIR", default=str(DEFAULT_KEYS), help="key directory")
    keys.add_argument("--insecure", action="store_true", help="no TLS, no authentication")


def _streams(text: str) -> int | str:
    try:
        return text if text == AUTO else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is neither a number nor {AUTO}") from None


def check_direction(here: list[str], there: list[str], other: str) -> None:
    """Refuses a request whose ends stand the wrong way round.

    Args:
        here: what should be local.
        there: what should be at a server.
        other: the command that takes them so.

    Raises:
        BadInput: they do; the message names that command.
    """
    remote = [place for place in here if is_remote(place)]
    if remote and not any(map(is_remote, there)):
        raise BadInput(f'"{remote[0]}" is at a server: is weir {other} meant?')


def choices(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments as `Transfer.send` and `Transfer.get` take them."""
    args.deadline, args.clock = None, deadline.wall
    if args.by is not None:
        now = deadline.wall()
        args.deadline = deadline.parse(args.by, now)
        args.clock = deadline.clock_for(args.by, now)
    return {
        "keys": None if args.insecure else args.keys,
        "rate": None if args.rate == UNPACED else option(Rate, args.rate, "--rate"),
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


def _patience(args: argparse.Namespace) -> Time:
    """How long to try again without progress: with a deadline, until it."""
    if args.retry is not None:
        return option(Time, args.retry, "--retry")
    left_s = 0.0
    if args.deadline is not None:
        left_s = (args.deadline - args.clock()).total_seconds()
    return Time.from_ns(int(min(max(RETRY_S, left_s), _RETRY_MAX_S) * 1e9))


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
