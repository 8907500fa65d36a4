"""`weir calendar submit`: ask for a transfer, for a series of them, or what would be answered."""

import argparse
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from weir import Bytes, Rate, Time
from weir.calendar.records import ACTIVE
from weir.cli.calendar_client import client_options, opened
from weir.cli.parser import option
from weir.errors import BadInput, Refused, Unavailable, WeirError
from weir.format import mbit_s

if TYPE_CHECKING:
    from weir.calendar.client import CalendarClient

SUMMARY = "ask for a transfer by a deadline"
# How long an answer may wait where nobody says.
HOLD = "60 s"


def configure(command: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    command.add_argument(
        "source", metavar="FROM_HOST:PATH", help="a file or folder, below the agent's root there"
    )
    command.add_argument("destination", metavar="TO_HOST:PATH", help="where it is to be, likewise")
    times = command.add_mutually_exclusive_group(required=True)
    times.add_argument(
        "--by", metavar="DEADLINE", help='"+90 s", "06:00" (the next one here), or RFC 3339'
    )
    times.add_argument(
        "--window", metavar="TIMES", help='not before and by: "22:00-06:00", or FROM/UNTIL'
    )
    command.add_argument("--start", metavar="TIME", help='not before: "02:00", "+1 h" or RFC 3339')
    command.add_argument("--every", metavar="PERIOD", help='again: day, week or "6 h"')
    command.add_argument("--times", type=int, metavar="N", help="how often in all")
    command.add_argument(
        "--size", metavar="SIZE", help='"5 GB" (default: what the agent on the source host says)'
    )
    command.add_argument(
        "--least", metavar="SIZE", help='take a part of it if no less than this: "3 GB"'
    )
    command.add_argument(
        "--weight", type=int, metavar="N", help="how much it is worth beside others (1)"
    )
    command.add_argument(
        "--hold",
        nargs="?",
        const=HOLD,
        metavar="TIME",
        help=f"the answer may wait so long (default {HOLD}); it is sent meanwhile",
    )
    command.add_argument("--rate-max", help='what the end points can do: "200 Mbit/s"')
    command.add_argument(
        "--paths", type=int, metavar="N", help="over N paths at most (default: all it may take)"
    )
    command.add_argument("--key", help="idempotency key: the same one never submits twice")
    command.add_argument(
        "--dry-run", action="store_true", help="only say what would be answered, and at whose cost"
    )
    command.add_argument(
        "--wait", action="store_true", help="wait until the transfer is over; see: wait"
    )
    client_options(command)
    command.set_defaults(action=submit)


def submit(args: argparse.Namespace) -> int:
    """Asks; the exit code says what was answered, or how the transfer ended."""
    request = _request(args)
    if args.every is not None or args.times is not None:
        return _submit_series(args, request)
    request |= _times(args)
    with opened(args) as client:
        if args.dry_run:
            return _precheck(args, client.precheck(request))
        transfer = _submitted(client, request, args)
        if transfer["state"] in ACTIVE and not (args.wait and args.json):
            _print_admitted(args, transfer)
        if not args.wait:
            return 0 if transfer["state"] in ACTIVE else print_outcome(args, transfer)
        return print_outcome(args, client.wait(transfer["id"]))


def _request(args: argparse.Namespace) -> dict[str, Any]:
    """The request but for its times."""
    source, source_path = _place(args.source)
    destination, destination_path = _place(args.destination)
    request: dict[str, Any] = {
        "source": source,
        "source_path": source_path,
        "destination": destination,
        "destination_path": destination_path,
    }
    if args.size is not None:
        request["size_bytes"] = option(Bytes, args.size, "--size").count
    if args.least is not None:
        request["least_bytes"] = option(Bytes, args.least, "--least").count
    if args.weight is not None:
        request["weight"] = args.weight
    if args.paths is not None:
        request["paths"] = args.paths
    if args.hold is not None:
        request["hold_s"] = option(Time, args.hold, "--hold").ns / 1e9
    if args.rate_max is not None:
        request["rate_max"] = str(option(Rate, args.rate_max, "--rate-max"))
    return request


def _times(args: argparse.Namespace) -> dict[str, Any]:
    from weir.calendar.client import deadline_fields, start_fields
    from weir.calendar.recurrence import read_window

    now = datetime.now().astimezone()
    if args.window is not None:
        if args.start is not None:
            raise BadInput("give --window, or --start and --by")
        return read_window(args.window, now).fields()
    if args.start is None:
        return deadline_fields(args.by)
    return start_fields(args.start, args.by, now)


def _submit_series(args: argparse.Namespace, request: dict[str, Any]) -> int:
    from weir.calendar.recurrence import occurrences, read_window, window_of

    if args.every is None or args.times is None:
        raise BadInput("give --every and --times together")
    if args.wait or args.dry_run:
        raise BadInput("--every goes with neither --wait nor --dry-run")
    now = datetime.now().astimezone()
    if args.window is not None:
        window = read_window(args.window, now)
    else:
        window = window_of(args.start, args.by, now)
    windows = occurrences(window, args.every, args.times, now)
    with opened(args) as client:
        answer = client.submit_series(request, windows, args.key)
    if args.json:
        print(json.dumps(answer), flush=True)
    for number, occurrence in enumerate(answer["occurrences"], 1):
        if args.json:
            break
        print(f"{number}: ", end="")
        if occurrence["transfer"] is not None:
            _print_admitted(args, occurrence["transfer"])
        else:
            refusal = occurrence["refusal"]
            word = "not answered" if _is_away(refusal) else "refused"
            print(f"{word}, by {occurrence['deadline']}: {_reason(refusal)}")
    refused = len(answer["occurrences"]) - answer["admitted"]
    unanswered = sum(_is_away(x["refusal"]) for x in answer["occurrences"])
    if unanswered:
        missing = Unavailable(f"{unanswered} of {len(answer['occurrences'])} were not answered")
        missing.is_told = args.json
        raise missing
    if refused:
        error = Refused(f"{refused} of {len(answer['occurrences'])} were refused")
        error.is_told = args.json
        raise error
    return 0


def _is_away(refusal: dict[str, Any] | None) -> bool:
    """Whether a problem says no more than that the calendar could not answer just then."""
    return refusal is not None and refusal["status"] >= 500


def _reason(refusal: dict[str, Any]) -> str:
    hint = f"; {refusal['hint']}" if refusal["hint"] else ""
    return f"{refusal['detail']}{hint}"


def _precheck(args: argparse.Namespace, forecast: dict[str, Any]) -> int:
    """Prints what would be answered; the exit code is that of a refusal where it would be one."""
    refusal = forecast["refusal"]
    if args.json:
        print(json.dumps(forecast))
    elif refusal is None:
        size = Bytes.from_count(forecast["promised_bytes"])
        path = _over(forecast)
        print(f"would be admitted: {size} at {mbit_s(forecast['rate_bps'])} at first over {path}")
        for cost in forecast["costs"]:
            rates = f"from {mbit_s(cost['rate_bps'])} to {mbit_s(cost['new_rate_bps'])}"
            print(f"  {cost['id']} of {cost['owner']} would go {rates}, and be on time")
        if forecast["costs_count"] > len(forecast["costs"]):
            print(f"  and {forecast['costs_count'] - len(forecast['costs'])} more")
    if refusal is None:
        return 0
    error = Refused(f"would be refused: {_reason(refusal)}")
    error.is_told = args.json
    raise error


def _submitted(
    client: "CalendarClient", request: dict[str, Any], args: argparse.Namespace
) -> dict[str, Any]:
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
    rate, path = mbit_s(transfer["rate_bps"]), _over(transfer)
    if transfer["state"] == "waiting":
        by = f"by {transfer['answer_by']} at the latest"
        print(f"waiting {transfer['id']}: its answer comes {by}, at {rate} until then", flush=True)
        return
    if transfer["state"] == "scheduled":
        how = f"from {transfer['start']} over {path}"
    else:
        how = f"at {rate} over {path}"
    promised = transfer["promised_bytes"]
    part = "" if promised >= transfer["declared_bytes"] else f"{Bytes.from_count(promised)} "
    print(f"admitted {transfer['id']}: {part}by {transfer['deadline']} {how}", flush=True)


def _over(transfer: dict[str, Any]) -> str:
    """Every path that a transfer may take; services from before there were several tell one."""
    return " and ".join(" ".join(lane["path"]) for lane in transfer.get("lanes", [transfer]))


def print_answer(args: argparse.Namespace, transfer: dict[str, Any]) -> int:
    """Prints what was answered to a transfer that waited; how it ended, if it is over."""
    if transfer["state"] not in ACTIVE:
        return print_outcome(args, transfer)
    _print_admitted(args, transfer)
    return 0


def print_outcome(args: argparse.Namespace, transfer: dict[str, Any]) -> int:
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


def _place(text: str) -> tuple[str, str]:
    host, colon, path = text.partition(":")
    if not (host and colon and path):
        raise BadInput(f'"{text}" is not HOST:PATH')
    return host, path
