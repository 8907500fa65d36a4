"""`weir keys`: what servers and senders know each other by."""

import argparse
from pathlib import Path

from weir.transfer import DEFAULT_KEYS, keys_init, keys_issue


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    init = actions.add_parser("init", help="create an authority, a server's and a client's keys")
    init.add_argument("directory", nargs="?", default=str(DEFAULT_KEYS))
    issue = actions.add_parser("issue", help="issue keys for one more host into DIRECTORY")
    issue.add_argument("name", help="who will hold them, such as a host's name")
    issue.add_argument("directory", help="where to put them; copy it to that host")
    issue.add_argument("--authority", metavar="DIR", default=str(DEFAULT_KEYS))
    issue.add_argument("--server", action="store_true", help="keys for `weir serve`")


def run(args: argparse.Namespace) -> int:
    """Creates keys."""
    directory = Path(args.directory).expanduser()
    if args.action == "init":
        keys_init(directory)
        print(f"created an authority, a server's and a client's keys in {directory}")
        print("`weir serve` and `weir send` on this machine find them if that is the default;")
        print("`weir keys issue NAME DIR` makes keys for another host: copy DIR there.")
    else:
        authority = Path(args.authority).expanduser()
        keys_issue(authority, directory, args.name, args.server)
        kind = "server" if args.server else "client"
        print(f"issued {kind} keys for {args.name} into {directory}")
    return 0
