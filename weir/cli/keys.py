"""`weir keys`: what servers and senders know each other by."""

import argparse
import shlex
from datetime import UTC, datetime
from pathlib import Path

from weir.cli import output
from weir.home import expanded
from weir.printable import printable
from weir.transfer import DEFAULT_KEYS, keys_init, keys_issue, keys_revoke, keys_show


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    init = actions.add_parser("init", help="create an authority, a server's and a client's keys")
    init.add_argument("directory", nargs="?", default=str(DEFAULT_KEYS), help="where to put them")
    issue = actions.add_parser("issue", help="issue keys for one more host into DIRECTORY")
    issue.add_argument("name", help="who will hold them, such as a host's name")
    issue.add_argument("directory", help="where to put them; copy it to that host")
    issue.add_argument(
        "--authority",
        metavar="DIR",
        default=str(DEFAULT_KEYS),
        help="where `weir keys init` put it",
    )
    issue.add_argument("--server", action="store_true", help="keys for `weir serve`")
    show = actions.add_parser("show", help="show whose keys are in DIRECTORY and when they expire")
    show.add_argument("directory", nargs="?", default=str(DEFAULT_KEYS), help="key directory")
    revoke = actions.add_parser("revoke", help="make a certificate worthless")
    revoke.add_argument("holder", help="the name or serial number that `weir keys show` prints")
    revoke.add_argument(
        "directory",
        nargs="?",
        default=str(DEFAULT_KEYS),
        help="key directory of the host that is to turn it away",
    )


def run(args: argparse.Namespace) -> int:
    """Creates, shows or revokes keys."""
    directory = expanded(args.directory)
    if args.action == "show":
        return _show(directory)
    if args.action == "revoke":
        keys_revoke(directory, args.holder)
        print(printable(f"revoked {args.holder}: who uses {directory} turns it away from now on"))
        return 0
    if args.action == "init":
        keys_init(directory)
        print(printable(f"created an authority, a server's and a client's keys in {directory}"))
        where = (
            ""
            if directory == expanded(DEFAULT_KEYS)
            else f" with --keys {shlex.quote(str(directory))}"
        )
        print(printable(f"`weir serve` and `weir send` on this machine use them{where};"))
        print("`weir keys issue NAME DIR` makes keys for another host: copy DIR there.")
    else:
        authority = expanded(args.authority)
        keys_issue(authority, directory, args.name, args.server)
        kind = "server" if args.server else "client"
        print(printable(f"issued {kind} keys for {args.name} into {directory}"))
    return 0


def _show(directory: Path) -> int:
    output.is_the_work()
    for purpose, name, serial, until_s in keys_show(directory):
        until = datetime.fromtimestamp(until_s, UTC)
        days = (until - datetime.now(UTC)).days
        left = f"{days} days left" if days >= 0 else "expired: issue it anew"
        line = f"{purpose} {name}: until {until:%Y-%m-%d} UTC ({left}), serial {serial}"
        print(printable(line))
    return 0
