"""`weir calendar link`: what links carry when, and links that are down."""

import argparse
import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from weir import Rate
from weir.cli import output
from weir.cli.calendar_client import client_options, opened
from weir.cli.parser import option
from weir.errors import BadInput
from weir.format import mbit_s

_LOCALTIME = "/etc/localtime"
SUMMARY = "what links carry when: timetables, maintenance, links that are down"


def configure(command: argparse.ArgumentParser) -> None:
    """Adds the subcommands."""
    actions = command.add_subparsers(metavar="ACTION", required=True)
    adding = _action(actions, "set", "add an entry to a link's timetable", _set)
    adding.add_argument(
        "--capacity", required=True, metavar="R", help='"4 Gbit/s"; "0 bit/s": maintenance'
    )
    adding.add_argument(
        "--from", dest="start", metavar="TIME", help='"22:00" or RFC 3339 (default: now)'
    )
    adding.add_argument(
        "--to", dest="until", required=True, metavar="TIME", help='"06:00", "+2 h" or RFC 3339'
    )
    adding.add_argument("--daily", action="store_true", help="every day between these times")
    adding.add_argument("--zone", help="whose clocks --daily means (default: this machine's)")
    _action(actions, "list", "what a link carries when", _list)
    _action(actions, "clear", "remove every entry: the network's capacity again", _clear)
    _action(actions, "down", "the link carries nothing from now on", _down)
    _action(actions, "up", "the link carries again what its timetable says", _up)


def _action(actions: Any, name: str, summary: str, act: Callable[..., int]) -> Any:
    command = actions.add_parser(name, help=summary)
    command.add_argument("link", help="a link's name; that of two directions means both")
    client_options(command)
    command.set_defaults(action=act)
    return command


def _set(args: argparse.Namespace) -> int:
    from weir.calendar.recurrence import window_of

    entry: dict[str, Any] = {"capacity": str(option(Rate, args.capacity, "--capacity"))}
    if args.daily:
        if args.start is None:
            raise BadInput("--daily wants --from")
        entry |= {"from": args.start, "to": args.until, "daily": True}
        entry["zone"] = args.zone or _zone()
    elif args.zone is not None:
        raise BadInput("--zone goes with --daily")
    else:
        now = datetime.now().astimezone()
        window = window_of(args.start, args.until, now)
        entry["from"] = (window.start or now).isoformat("T", "seconds")
        entry["to"] = window.deadline.isoformat("T", "seconds")
    with opened(args) as client:
        return _print(args, client.add_entry(args.link, entry))


def _zone() -> str:
    """The name of this machine's time zone."""
    named = os.environ.get("TZ", "").removeprefix(":")
    place = Path(named or _LOCALTIME)
    if place.is_absolute():
        if not named and not place.exists():
            return "UTC"
        named = str(place.resolve()).partition("/zoneinfo/")[2]
    if not named:
        # A copy of the zone's file, as containers have it, does not tell its name.
        raise BadInput("--daily: by whose clocks? Give --zone, such as Europe/Berlin or UTC")
    return named


def _list(args: argparse.Namespace) -> int:
    output.is_the_work()
    with opened(args) as client:
        return _print(args, client.timetable(args.link))


def _clear(args: argparse.Namespace) -> int:
    with opened(args) as client:
        return _print(args, client.clear_timetable(args.link))


def _down(args: argparse.Namespace) -> int:
    with opened(args) as client:
        return _print(args, client.set_up(args.link, False))


def _up(args: argparse.Namespace) -> int:
    with opened(args) as client:
        return _print(args, client.set_up(args.link, True))


def _print(args: argparse.Namespace, timetables: list[dict[str, Any]]) -> int:
    if args.json:
        print(json.dumps(timetables))
        return 0
    for one in timetables:
        state = "" if one["up"] else ", down"
        nominal = mbit_s(one["nominal_bps"])
        print(f"{one['link']}: {mbit_s(one['capacity_bps'])} now of {nominal}{state}")
        for entry in one["entries"]:
            daily = f" daily ({entry['zone']})" if entry["daily"] else ""
            rate = mbit_s(entry["capacity_bps"])
            fixed = ", by the network file" if entry["fixed"] else ""
            print(f"  {rate} from {entry['from']} to {entry['to']}{daily}{fixed}")
    return 0
