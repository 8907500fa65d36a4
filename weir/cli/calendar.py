"""`weir calendar`: serve the calendar; submit, list, show, cancel transfers; compare policies."""

import argparse
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from weir import Bytes, Rate, Time
from weir._core import calendar_policies
from weir.calendar.records import ACTIVE
from weir.cli import calendar_study, output, why
from weir.cli.calendar_client import client_options, opened
from weir.errors import BadInput, WeirError
from weir.format import mbit_s

_Read = TypeVar("_Read")

# Ranks of the columns that a narrow terminal drops, the highest first.
_RANKS = {"size": 3, "done": 2, "rate": 2, "slack": 2, "from": 3, "address": 2, "direction": 2}
POLICIES = calendar_policies()


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _configure_serve(commands)
    _configure_token(commands)
    _configure_submit(commands)
    for name, summary in (("show", "one transfer in full"), ("cancel", "give a transfer up")):
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument("id")
        client_options(command)
        command.set_defaults(action=_show if name == "show" else _cancel)
    _configure_wait(commands)
    command = commands.add_parser("list", help="transfers, newest first")
    command.add_argument("--state", default="all", help="active, finished, all, or one state")
    command.add_argument("--limit", type=int, default=50, help="how many at most (default 50)")
    client_options(command)
    command.set_defaults(action=_list)
    command = commands.add_parser("why", help=why.SUMMARY, description=why.SUMMARY)
    why.configure(command)
    command.set_defaults(action=why.run)
    command = commands.add_parser("network", help="links and what is on them")
    client_options(command)
    command.set_defaults(action=_network)
    command = commands.add_parser("events", help="follow what happens until Ctrl-C")
    command.add_argument("--after", type=int, help="first everything after this event number")
    command.add_argument("--count", type=int, help="end after so many events")
    client_options(command)
    command.set_defaults(action=_events)
    summary = "compare policies on random requests, by simulation"
    calendar_study.configure(commands.add_parser("study", help=summary, description=summary))


def run(args: argparse.Namespace) -> int:
    """Runs the subcommand."""
    if args.action in (_token_create, _token_list, _list, _show, _network, _events):
        output.is_the_work()
    return int(args.action(args))


def state_directory() -> Path:
    """Where a calendar keeps its store and tokens unless told otherwise."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "weir"


# --- the operator's side ---


def _configure_serve(commands: Any) -> None:
    command = commands.add_parser("serve", help="run the calendar")
    command.add_argument("--network", required=True, type=Path, help="TOML or JSON file")
    command.add_argument("--store", help="sqlite:///FILE or postgresql://USER@HOST/DATABASE")
    command.add_argument("--tokens", type=Path, help="token file (see: weir calendar token)")
    command.add_argument("--listen", default="127.0.0.1:8470", help="ADDR:PORT")
    command.add_argument("--policy", default="local-ljf", help=" ".join(POLICIES))
    command.add_argument("--epoch", default="180 s", help="how often free capacity is shared out")
    command.add_argument(
        "--margin", default="1 s", help="plan to be done this long before each deadline"
    )
    command.add_argument(
        "--offer", default="60 s", help="how long a refusal's earliest deadline can be asked for"
    )
    command.add_argument(
        "--hold", default="60 s", help="how long of that its room is kept from others (0 s: not)"
    )
    command.add_argument(
        "--standby",
        action="store_true",
        help="while another service holds the store, wait to take its place",
    )
    command.set_defaults(action=_serve)


def _serve(args: argparse.Namespace) -> int:
    from weir.calendar.network import load_network
    from weir.calendar.server import serve
    from weir.calendar.settings import Settings
    from weir.logs import to_stderr

    to_stderr(logging.WARNING)
    if args.policy not in POLICIES:
        raise BadInput(f'"{args.policy}" is not a policy; the policies are {", ".join(POLICIES)}')
    epoch, margin = _option(Time, args.epoch, "--epoch"), _option(Time, args.margin, "--margin")
    if epoch.ns == 0:
        raise BadInput("an epoch of 0 s never ends; give --epoch a time above zero")
    offer, hold = _option(Time, args.offer, "--offer"), _option(Time, args.hold, "--hold")
    settings = Settings(load_network(args.network), args.policy, epoch, margin, offer, hold)
    store = args.store
    if store is None:
        store = f"sqlite:///{state_directory() / 'calendar.db'}"
    tokens = args.tokens or state_directory() / "tokens.json"

    def say(url: str) -> None:
        print(f"calendar: listening on {url}", flush=True)

    def wait(why: str) -> None:
        print(f"calendar: standing by ({why})", flush=True)

    serve(settings, store, tokens, args.listen, say, wait if args.standby else None)
    return 0


def _configure_token(commands: Any) -> None:
    token = commands.add_parser("token", help="who may use the calendar")
    actions = token.add_subparsers(metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make a token and print it, once")
    create.add_argument("name")
    create.add_argument("--role", required=True, help="read, submit, agent or admin")
    create.add_argument("--host", help="the only host that an agent's token may speak for")
    create.set_defaults(action=_token_create)
    revoke = actions.add_parser("revoke", help="make a token worthless, at once")
    revoke.add_argument("name")
    revoke.set_defaults(action=_token_revoke)
    listing = actions.add_parser("list", help="names and roles")
    listing.set_defaults(action=_token_list)
    for action in (create, revoke, listing):
        action.add_argument("--tokens", type=Path, help="token file")
        action.add_argument("--json", action="store_true")


def _token_file(args: argparse.Namespace) -> Any:
    from weir.calendar.tokens import TokenFile

    return TokenFile(args.tokens or state_directory() / "tokens.json")


def _token_create(args: argparse.Namespace) -> int:
    token = _token_file(args).create(args.name, args.role, args.host)
    print(json.dumps({"name": args.name, "token": token}) if args.json else token)
    return 0


def _token_revoke(args: argparse.Namespace) -> int:
    _token_file(args).revoke(args.name)
    return 0


def _token_list(args: argparse.Namespace) -> int:
    entries = [
        {"name": x.name, "role": x.role, "host": x.host} for x in _token_file(args).identities()
    ]
    if args.json:
        print(json.dumps(entries))
    else:
        _table(["name", "role", "host"], [[x["name"], x["role"], x["host"]] for x in entries])
    return 0


# --- the user's side ---


def _configure_submit(commands: Any) -> None:
    command = commands.add_parser("submit", help="ask for a transfer by a deadline")
    command.add_argument("source", metavar="HOST:PATH", help="below the agent's root there")
    command.add_argument("destination", metavar="HOST:PATH")
    command.add_argument(
        "--by", required=True, help='"+90 s", "06:00" (the next one here), or RFC 3339'
    )
    command.add_argument("--size", help='"5 GB"; default: ask the agent on the source host')
    command.add_argument("--rate-max", help='what the end points can do: "200 Mbit/s"')
    command.add_argument("--key", help="idempotency key: the same one never submits twice")
    command.add_argument(
        "--wait", action="store_true", help="wait until the transfer is over; see: wait"
    )
    client_options(command)
    command.set_defaults(action=_submit)


def _submit(args: argparse.Namespace) -> int:
    from weir.calendar.client import deadline_fields

    source, source_path = _place(args.source)
    destination, destination_path = _place(args.destination)
    request: dict[str, Any] = {
        "source": source,
        "source_path": source_path,
        "destination": destination,
        "destination_path": destination_path,
        **deadline_fields(args.by),
    }
    if args.size is not None:
        request["size_bytes"] = _option(Bytes, args.size, "--size").count
    if args.rate_max is not None:
        request["rate_max"] = str(_option(Rate, args.rate_max, "--rate-max"))
    with opened(args) as client:
        transfer = _submitted(client, request, args)
        if transfer["state"] in ACTIVE and not (args.wait and args.json):
            _print_admitted(args, transfer)
        if not args.wait:
            return 0 if transfer["state"] in ACTIVE else _print_outcome(args, transfer)
        return _print_outcome(args, client.wait(transfer["id"]))


def _submitted(client: Any, request: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    from weir.calendar.client import RefusedTransfer

    try:
        transfer: dict[str, Any] = client.submit(request, args.key)
    except RefusedTransfer as error:
        if args.json:
            print(json.dumps(error.problem | {"exit_code": error.exit_code}), flush=True)
            error.is_told = True
        raise
    return transfer


def _print_admitted(args: argparse.Namespace, transfer: dict[str, Any]) -> None:
    if args.json:
        print(json.dumps(transfer))
        return
    rate, path = mbit_s(transfer["rate_bps"]), " ".join(transfer["path"])
    print(f"admitted {transfer['id']}: by {transfer['deadline']} at {rate} over {path}", flush=True)


def _print_outcome(args: argparse.Namespace, transfer: dict[str, Any]) -> int:
    """Prints how a transfer ended; raises the error whose exit code says so."""
    from weir.calendar.client import check_outcome

    if args.json:
        print(json.dumps(transfer), flush=True)
    try:
        check_outcome(transfer)
    except WeirError as error:
        error.is_told = args.json
        raise
    if not args.json:
        size = Bytes.from_count(transfer["size_bytes"])
        print(f"completed {transfer['id']}: {size} at {transfer['finished']}, on time")
    return 0


def _configure_wait(commands: Any) -> None:
    summary = "wait until a transfer is over; the exit code says how it ended"
    command = commands.add_parser("wait", help=summary, description=summary)
    command.add_argument("id")
    command.add_argument("--timeout", metavar="TIME", help="give up after (default: never)")
    client_options(command)
    command.set_defaults(action=_wait)


def _wait(args: argparse.Namespace) -> int:
    timeout = None if args.timeout is None else _option(Time, args.timeout, "--timeout")
    with opened(args) as client:
        return _print_outcome(args, client.wait(args.id, timeout))


def _option(kind: Callable[[str], _Read], text: str, name: str) -> _Read:
    """What an option's text says; raises `BadInput` naming the option."""
    try:
        return kind(text)
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None


def _place(text: str) -> tuple[str, str]:
    host, colon, path = text.partition(":")
    if not (host and colon and path):
        raise BadInput(f'"{text}" is not HOST:PATH')
    return host, path


def _list(args: argparse.Namespace) -> int:
    with opened(args) as client:
        transfers = client.list(args.state, args.limit)
    if args.json:
        print(json.dumps(transfers))
        return 0
    columns = ["id", "state", "from", "to", "size", "done", "rate", "deadline", "slack", ""]
    _table(columns, [_list_row(transfer) for transfer in transfers])
    return 0


def _list_row(transfer: dict[str, Any]) -> list[str]:
    done = 100 * transfer["bytes_durable"] // max(1, transfer["size_bytes"])
    slack = transfer["slack_s"]
    remark = transfer["risk"] or ""
    if transfer["on_time"] is not None:
        remark = "on time" if transfer["on_time"] else "late"
    return [
        transfer["id"],
        transfer["state"],
        f"{transfer['source']}:{transfer['source_path']}",
        f"{transfer['destination']}:{transfer['destination_path']}",
        str(Bytes.from_count(transfer["size_bytes"])),
        f"{done} %",
        mbit_s(transfer["rate_bps"]) if transfer["rate_bps"] else "-",
        transfer["deadline"],
        "-" if slack is None else f"{slack:+.1f} s",
        remark,
    ]


def _show(args: argparse.Namespace) -> int:
    with opened(args) as client:
        return _print_transfer(args, client.show(args.id))


def _cancel(args: argparse.Namespace) -> int:
    with opened(args) as client:
        return _print_transfer(args, client.cancel(args.id))


def _print_transfer(args: argparse.Namespace, transfer: dict[str, Any]) -> int:
    if args.json:
        print(json.dumps(transfer))
        return 0
    width = max(len(key) for key in transfer)
    for key, value in transfer.items():
        shown = " ".join(value) if isinstance(value, list) else value
        print(f"{key:<{width}}  {'-' if shown is None else shown}")
    return 0


def _network(args: argparse.Namespace) -> int:
    with opened(args) as client:
        network = client.network()
    if args.json:
        print(json.dumps(network))
        return 0
    rows = []
    for link in network["links"]:
        capacity = link["capacity_bps"]
        rows.append(
            [
                link["name"],
                f"{link['source']} > {link['target']}",
                mbit_s(capacity),
                f"{100 * link['allotted_bps'] / capacity:.1f} %",
                f"{100 * link['measured_bps'] / capacity:.1f} %",
            ]
        )
    _table(["link", "direction", "capacity", "allotted", "measured"], rows)
    print()
    _table(
        ["host", "address", "agent"],
        [[node["name"], node["address"], node["agent"]] for node in network["nodes"]],
    )
    return 0


def _events(args: argparse.Namespace) -> int:
    with opened(args) as client:
        for count, event in enumerate(client.events(args.after), 1):
            if args.json:
                print(json.dumps(event), flush=True)
            else:
                rest = {k: v for k, v in event.items() if k not in ("id", "at", "kind", "transfer")}
                details = "  ".join(f"{key}={_brief(value)}" for key, value in rest.items())
                name = event["transfer"] or "-"
                print(f"{event['at']}  {event['kind']:<10}  {name:<16}  {details}", flush=True)
            if count == args.count:
                break
    return 0


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _table(columns: list[str], rows: list[list[Any]]) -> None:
    from weir.terminal import Column, Table, console

    table = Table(*(Column(title, rank=_RANKS.get(title, 1)) for title in columns))
    for row in rows:
        table.add_row(*("-" if cell is None else str(cell) for cell in row))
    console().print(table)
