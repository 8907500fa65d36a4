"""Commands that installed packages add, found as entry points.

The group `weir.commands` holds further commands of `weir`, the group `weir.ops` those of
`weir ops`; an entry point's name is the command's, and its value the command's module. So
`weir run` and `weir reproduce` come from `studies`, which the product never imports.
"""

import argparse
from collections.abc import Callable
from typing import Protocol, cast


class Command(Protocol):
    """A module that is a command.

    Attributes:
        SUMMARY: what `--help` says of it, in a line.
    """

    SUMMARY: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds its arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Does the work; returns the exit code."""


def found(group: str) -> dict[str, Callable[[], Command]]:
    """The commands of a group by name, in alphabetical order; each is loaded when called."""
    # Only here: most commands are ours, and need not wait for this module.
    from importlib.metadata import entry_points

    points = sorted(entry_points(group=group), key=lambda point: point.name)
    return {point.name: cast(Callable[[], Command], point.load) for point in points}
