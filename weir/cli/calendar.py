"""`weir calendar`: serve the calendar; submit, list, show, cancel transfers; compare policies."""

import argparse
import json
import logging
from pathlib import Path
from typing import Any

from weir import Bytes, Time
from weir._core import calendar_policies
from weir.calendar.planning.split import words
from weir.cli import calendar_elephant, calendar_link, calendar_study, calendar_submit, output, why
from weir.cli.calendar_client import client_options, opened
from weir.cli.parser import option
from weir.errors import BadInput
from weir.format import mbit_s
from weir.home import below

# Ranks of the columns that a narrow terminal drops, the highest first.
_RANKS = {"size": 3, "done": 2, "rate": 2, "slack": 2, "from": 3, "address": 2, "direction": 2}
POLICIES = calendar_policies()
_STATE = "~/.local/state/weir"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _configure_serve(commands)
    _configure_token(commands)
    submit = commands.add_parser("submit", help=calendar_submit.SUMMARY)
    calendar_submit.configure(submit)
    for name, summary in (("show", "one transfer in full"), ("cancel", "give a transfer up")):
        command = commands.add_parser(name, help=summary)
        command.add_argument("id", help="the transfer's")
        client_options(command)
        command.set_defaults(action=_show if name == "show" else _cancel)
    _configure_wait(commands)
    command = commands.add_parser("list", help="transfers, newest first")
    command.add_argument(
        "--state",
        default="all",
        metavar="STATE",
        help="active, finished, all (default), or one state",
    )
    command.add_argument("--limit", type=int, default=50, metavar="N", help="how many at most")
    client_options(command)
    command.set_defaults(action=_list)
    command = commands.add_parser("why", help=why.SUMMARY)
    why.configure(command)
    command.set_defaults(action=why.run)
    command = commands.add_parser("network", help="links and what is on them")
    client_options(command)
    command.set_defaults(action=_network)
    link = commands.add_parser("link", help=calendar_link.SUMMARY)
    calendar_link.configure(link)
    elephant = commands.add_parser("elephant", help=calendar_elephant.SUMMARY)
    calendar_elephant.configure(elephant)
    command = commands.add_parser("events", help="follow what happens until Ctrl-C")
    command.add_argument(
        "--after", type=int, metavar="N", help="first everything after event number N"
    )
    command.add_argument("--count", type=int, metavar="N", help="end after N events")
    client_options(command)
    command.set_defaults(action=_events)
    summary = "compare policies on random requests, by simulation"
    calendar_study.configure(commands.add_parser("study", help=summary))


def run(args: argparse.Namespace) -> int:
    """Runs the subcommand."""
    if args.action in (_token_create, _token_list, _list, _show, _network, _events):
        output.is_the_work()
    return int(args.action(args))


def state_directory() -> Path:
    """Where a calendar keeps its store and tokens unless told otherwise."""
    return below("XDG_STATE_HOME", ".local/state") / "weir"  # told as _STATE


# --- the operator's side ---


def _configure_serve(commands: Any) -> None:
    command = commands.add_parser("serve", help="run the calendar")
    command.add_argument(
        "--network",
        required=True,
        type=Path,
        metavar="FILE",
        help="hosts, links and what they carry (TOML or JSON; docs/calendar.md)",
    )
    command.add_argument(
        "--store",
        metavar="URL",
        help="sqlite:///FILE or postgresql://USER@HOST/DATABASE (default: calendar.db in "
        f"{_STATE})",
    )
    _tokens(command)
    command.add_argument(
        "--listen", default="127.0.0.1:8470", metavar="ADDR:PORT", help="where to listen"
    )
    command.add_argument(
        "--policy",
        metavar="NAME",
        help=f"{' '.join(POLICIES)} (default: the one that the store has, else weir)",
    )
    command.add_argument(
        "--epoch", default="180 s", metavar="TIME", help="how often free capacity is shared out"
    )
    command.add_argument(
        "--margin",
        default="1 s",
        metavar="TIME",
        help="plan to be done this long before each deadline",
    )
    command.add_argument(
        "--offer",
        default="60 s",
        metavar="TIME",
        help="how long a refusal's earliest deadline can be asked for",
    )
    command.add_argument(
        "--hold",
        default="60 s",
        metavar="TIME",
        help="how long of that its room is kept from others; 0 s: not at all",
    )
    command.add_argument(
        "--spare",
        default="off",
        metavar="CLASS",
        help="transfers send what the path has left beside their rates, as le or cs1 (default off)",
    )
    command.add_argument(
        "--paths",
        type=int,
        default=1,
        metavar="N",
        help="send a transfer over up to N paths (default 1; with --policy weir or weir-all)",
    )
    command.add_argument(
        "--standby",
        action="store_true",
        help="while another service holds the store, wait to take its place",
    )
    command.set_defaults(action=_serve)


def _serve(args: argparse.Namespace) -> int:
    from weir.calendar.network import load_network
    from weir.calendar.rest.server import serve
    from weir.calendar.settings import DEFAULT_POLICY, Settings
    from weir.logs import to_stderr

    to_stderr(logging.WARNING)
    policy = DEFAULT_POLICY if args.policy is None else args.policy
    if policy not in POLICIES:
        raise BadInput(f'"{policy}" is not a policy; the policies are {", ".join(POLICIES)}')
    epoch, margin = (
        option(Time, args.epoch, "--epoch"),
        option(Time, args.margin, "--margin"),
    )
    if epoch.ns == 0:
        raise BadInput("an epoch of 0 s never ends; give --epoch a time above zero")
    offer, hold = (
        option(Time, args.offer, "--offer"),
        option(Time, args.hold, "--hold"),
    )
    if args.spare not in ("off", "le", "cs1"):
        raise BadInput(f'--spare "{args.spare}": it is off, le or cs1')
    spare = None if args.spare == "off" else args.spare
    network = load_network(args.network)
    settings = Settings(network, policy, epoch, margin, offer, hold, spare, args.paths)
    if args.policy is not None:
        settings.check_paths()
    store = args.store
    if store is None:
        store = f"sqlite:///{state_directory() / 'calendar.db'}"
    tokens = args.tokens or state_directory() / "tokens.json"

    def say(url: str) -> None:
        print(f"calendar: listening on {url}", flush=True)

    def wait(why: str) -> None:
        print(f"calendar: standing by ({why})", flush=True)

    standby = wait if args.standby else None
    serve(settings, store, tokens, args.listen, say, standby, goes_on=args.policy is None)
    return 0


def _configure_token(commands: Any) -> None:
    token = commands.add_parser("token", help="who may use the calendar")
    actions = token.add_subparsers(metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make a token and print it, once")
    create.add_argument("name", help="who will hold it: transfers are told as this owner's")
    create.add_argument(
        "--role", required=True, metavar="ROLE", help="read, submit, agent or admin"
    )
    create.add_argument(
        "--host", metavar="NAME", help="the only host that an agent's token may speak for"
    )
    create.set_defaults(action=_token_create)
    revoke = actions.add_parser("revoke", help="make a token worthless, at once")
    revoke.add_argument("name", help="as it was made for")
    revoke.set_defaults(action=_token_revoke)
    listing = actions.add_parser("list", help="names and roles")
    listing.set_defaults(action=_token_list)
    for action in (create, revoke, listing):
        _tokens(action)
        action.add_argument("--json", action="store_true", help="print JSON for machines")


def _tokens(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--tokens",
        type=Path,
        metavar="FILE",
        help=f"the service's token file (default: tokens.json in {_STATE})",
    )


def _token_file(args: argparse.Namespace) -> Any:
    from weir.calendar.rest.tokens import TokenFile

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


def _configure_wait(commands: Any) -> None:
    summary = "wait until a transfer is over; the exit code says how it ended"
    command = commands.add_parser("wait", help=summary)
    command.add_argument("id", help="the transfer's")
    command.add_argument("--timeout", metavar="TIME", help="give up after (default: never)")
    command.add_argument(
        "--answer", action="store_true", help="only until it is answered, if it waits for that"
    )
    client_options(command)
    command.set_defaults(action=_wait)


def _wait(args: argparse.Namespace) -> int:
    timeout = None if args.timeout is None else option(Time, args.timeout, "--timeout")
    with opened(args) as client:
        if args.answer:
            return calendar_submit.print_answer(args, client.wait_answer(args.id, timeout))
        return calendar_submit.print_outcome(args, client.wait(args.id, timeout))


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
        shown = value
        if key == "lanes":
            shown = words(value)
        elif isinstance(value, list):
            shown = " ".join(value)
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
                f"{100 * link['allotted_bps'] / max(1, capacity):.1f} %",
                f"{100 * link['measured_bps'] / max(1, capacity):.1f} %",
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
    if args.count is not None and args.count < 1:
        raise BadInput(f"--count {args.count}: at least 1")
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
