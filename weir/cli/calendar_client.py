"""What every command that asks a calendar has: its options, and a client made of them."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir.calendar.client import CalendarClient


def client_options(command: argparse.ArgumentParser) -> None:
    """Adds which calendar is asked, with which token, and how the answer is printed."""
    command.add_argument("--url", help="the calendar's address (default: $WEIR_CALENDAR_URL)")
    token = command.add_mutually_exclusive_group()
    token.add_argument("--token-file", type=Path, metavar="FILE", help="a file with the token")
    token.add_argument("--token", help="the token itself (default: $WEIR_CALENDAR_TOKEN)")
    command.add_argument("--json", action="store_true", help="print JSON for machines")


def opened(args: argparse.Namespace) -> "CalendarClient":
    """A client for what `client_options` was given, or what the environment names."""
    from weir.calendar.client import CalendarClient

    return CalendarClient.from_environment(
        args.url, args.token, args.token_file, for_people=not args.json
    )
