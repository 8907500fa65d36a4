"""`weir calendar elephant`: flows that can wait, told of by their applications."""

import argparse
import json
from collections.abc import Callable
from typing import Any

from weir import Bytes, Rate, Time
from weir.cli import output
from weir.cli.calendar_client import client_options, opened
from weir.cli.parser import option
from weir.format import size
from weir.terminal import Column, Table, console

SUMMARY = "flows that can wait: they go in what all others leave"


def configure(command: argparse.ArgumentParser) -> None:
    """Adds the subcommands."""
    actions = command.add_subparsers(metavar="ACTION", required=True)
    adding = _action(actions, "add", "tell of a flow; prints its id", _add)
    adding.add_argument("source", help="the host that it comes from")
    adding.add_argument("destination", help="the host that it goes to")
    adding.add_argument(
        "--port", type=int, metavar="N", help="the destination's port (default: any)"
    )
    adding.add_argument(
        "--source-port", type=int, metavar="N", help="the source's port (default: any)"
    )
    adding.add_argument("--protocol", default="tcp", choices=("tcp", "udp"), help="the flow's")
    adding.add_argument("--size", help="how much it will send, if that is known")
    adding.add_argument("--rate-max", metavar="RATE", help="the most that its ends can do")
    adding.add_argument("--for", dest="lasts", metavar="TIME", help='over after so long: "2 h"')
    _action(actions, "list", "those that are told of, and those that were found", _list)
    removing = _action(actions, "remove", "say that one is over", _remove)
    removing.add_argument("id", help="that `add` printed")


def _action(actions: Any, name: str, summary: str, act: Callable[..., int]) -> Any:
    command = actions.add_parser(name, help=summary)
    client_options(command)
    command.set_defaults(action=act)
    return command


def _add(args: argparse.Namespace) -> int:
    request: dict[str, Any] = {
        "source": args.source,
        "destination": args.destination,
        "protocol": args.protocol,
        "source_port": args.source_port,
        "destination_port": args.port,
        "rate_max": None,
    }
    if args.size is not None:
        request["size_bytes"] = option(Bytes, args.size, "--size").count
    if args.rate_max is not None:
        request["rate_max"] = str(option(Rate, args.rate_max, "--rate-max"))
    if args.lasts is not None:
        request["expires_s"] = option(Time, args.lasts, "--for").ns / 1e9
    with opened(args) as client:
        told = client.tell_elephant(request)
    print(json.dumps(told) if args.json else told["id"])
    return 0


def _list(args: argparse.Namespace) -> int:
    output.is_the_work()
    with opened(args) as client:
        elephants = client.elephants()
    if args.json:
        print(json.dumps(elephants))
        return 0
    table = Table(
        *("id", Column("owner", rank=3), "flow", "state"),
        Column("carried", right=True, rank=2),
        Column("path", rank=4),
    )
    for one in elephants:
        table.add_row(*_row(one))
    console().print(table)
    return 0


def _row(one: dict[str, Any]) -> list[str]:
    ports = (one["source_port"] or "*", one["destination_port"] or "*")
    flow = f"{one['protocol']} {one['source']}:{ports[0]} > {one['destination']}:{ports[1]}"
    state = "marked" if one["marked"] else "told"
    carried, path = size(one["carried_bytes"]), " ".join(one["path"]) or "-"
    return [one["id"] or "-", one["owner"] or "found", flow, state, carried, path]


def _remove(args: argparse.Namespace) -> int:
    with opened(args) as client:
        over = client.end_elephant(args.id)
    if args.json:
        print(json.dumps(over))
    return 0
