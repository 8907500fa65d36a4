"""`weir observe`: what no host can tell of itself, measured from outside."""

import argparse
import importlib

GROUPS: dict[str, str] = {
    "fabric": "which ports of an InfiniBand fabric wait for credits, and how long",
    "desktop": "when a far desktop's screen was up to date, told by packets; what people think",
}
"""By name, with what each is about; a group's arguments stand in `weir.cli.observe_NAME`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the groups, each with the commands of its own module."""
    groups = parser.add_subparsers(metavar="WHAT", required=True)
    for name, summary in GROUPS.items():
        module = importlib.import_module(f"weir.cli.observe_{name}")
        module.configure(groups.add_parser(name, help=summary))


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    return int(args.action(args))
