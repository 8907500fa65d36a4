"""`weir relay`: many TCP connections joined into one and split again, or relayed one by one."""

import argparse
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from weir import descriptors, signals
from weir.cli import output
from weir.errors import BadInput, Unavailable
from weir.format import size
from weir.listener import port_of
from weir.printable import printable
from weir.relay import GONE_AFTER_S, HEARD_WITHIN_S, Relay, allowed, control, hold, weights
from weir.relay.signs import Signs

_LOOK_S = 0.2
_ANSWER_S = 1.9  # after 2 s a relay says what it has said before (weir-relay, control.rs)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    join = _runs(commands, "join", "accept clients and join them into one connection", _join)
    join.add_argument("--split", required=True, metavar="ADDR:PORT", help="the split end")
    _server(join)
    join.add_argument(
        "--weight",
        action="append",
        default=[],
        metavar="NETWORK=N",
        help="how much its clients send beside others (1 to 1000; 1 where nothing is said)",
    )
    join.add_argument(
        "--linked-ack",
        choices=("told", "literal", "strict"),
        help="strict: clients are acknowledged what servers have acknowledged, and nothing else; "
        "literal: all together, one for the other; told: `weir relay status` says how much it is",
    )
    _announced(join)
    _heard_within(join)
    _bounds(join)
    split = _runs(commands, "split", "take joined connections apart, towards their servers", _split)
    split.add_argument(
        "--from",
        action="append",
        required=True,
        dest="origins",
        metavar="NETWORK",
        help="where join ends may be",
    )
    split.add_argument(
        "--to",
        action="append",
        required=True,
        metavar="NETWORK[:PORT]",
        help="servers that may be reached",
    )
    _as_client(split)
    _announced(split)
    _heard_within(split)
    proxy = _runs(commands, "proxy", "end each client's connection, and open another one", _proxy)
    _server(proxy)
    _as_client(proxy)
    status = commands.add_parser("status", help="what a relay does")
    status.add_argument("control", type=Path, metavar="PATH", help="the relay's --control")
    status.add_argument("--json", action="store_true", help="one JSON object")
    status.set_defaults(action=_status)
    clear = commands.add_parser(
        "clear",
        help="take back what a killed join end has left in the kernel",
        description="With --linked-ack strict a filter holds acknowledgements, also of a join end "
        "that was killed. The next one on that port replaces it; this takes it back.",
    )
    clear.add_argument("port", type=int, metavar="PORT", help="where it listened")
    clear.set_defaults(action=_clear)
    weight = commands.add_parser("weight", help="give clients weights, while a relay runs")
    weight.add_argument("control", type=Path, metavar="PATH", help="the relay's --control")
    weight.add_argument("weights", nargs="*", metavar="NETWORK=N", help="all that is to hold")
    weight.set_defaults(action=_weight)


def _runs(commands: Any, name: str, summary: str, action: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary)
    parser.add_argument("--listen", required=True, metavar="ADDR:PORT", help="where to listen")
    parser.add_argument("--cca", metavar="NAME", help="congestion control (this host's default)")
    parser.add_argument(
        "--control", type=Path, metavar="PATH", help="a socket for `weir relay status` and `weight`"
    )
    parser.add_argument(
        "--gone-after",
        type=_whole("seconds", GONE_AFTER_S),
        metavar="SECONDS",
        help="who is silent for so long, and not there when asked, is given up (100)",
    )
    parser.add_argument("--json", action="store_true", help="say where it listens as JSON")
    parser.set_defaults(action=action)
    return parser


def _bounds(parser: argparse.ArgumentParser) -> None:
    for option, summary in (
        ("--each-at-most", "connections that a client's address may have at a time (16384)"),
        ("--at-most", "connections that are joined at a time (65532)"),
    ):
        whole = _whole("connections", (1, control.UID_MAX))
        parser.add_argument(option, type=whole, metavar="N", help=summary)


def _whole(what: str, bounds: tuple[int, int]) -> Callable[[str], int]:
    least, most = bounds

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r}: wanted whole {what}, {least} to {most}")
        return int(text)

    return read


def _heard_within(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--heard-within",
        type=_whole("seconds", HEARD_WITHIN_S),
        metavar="SECONDS",
        help="without a sign of the other end for so long, all of an aggregate is reset (40)",
    )


def _server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server",
        metavar="ADDR:PORT",
        help="where all clients go (default: where each was going, by TPROXY)",
    )


def _as_client(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--as-client", action="store_true", help="servers see the clients' addresses (TPROXY)"
    )


def _announced(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--announced",
        action="store_true",
        help="only clients that `weir control serve --join` announces over --control",
    )


def run(args: argparse.Namespace) -> int:
    """Runs a subcommand."""
    code: int = args.action(args)
    return code


def _join(args: argparse.Namespace) -> int:
    wanted = weights(args.weight)
    _check_reachable("--split", args.split)
    _check_reachable("--server", args.server)
    if args.server is not None and args.announced:
        raise BadInput("--server and --announced: a client that is announced has its own server")
    _check_announced(args)
    ends = (args.listen, args.split, args.server, wanted, args.cca)
    if args.linked_ack not in ("literal", "strict"):
        return _serve(args, lambda: _joined(args, ends, None))
    with hold.held(_port(args.listen)) as held:
        return _serve(args, lambda: _joined(args, ends, held))


def _joined(
    args: argparse.Namespace,
    ends: tuple[str, str, str | None, list[tuple[str, int]], str | None],
    held: tuple[int, int, int, int] | None,
) -> Relay:
    is_told = args.linked_ack is not None
    asked = (is_told, held, args.announced, args.gone_after, args.heard_within)
    bounds = (args.each_at_most, args.at_most)
    return Relay.join(*ends, *asked, *bounds, args.linked_ack == "literal")


def _check_announced(args: argparse.Namespace) -> None:
    if args.announced and args.control is None:
        raise BadInput("--announced: give --control, over which a controller announces clients")


def _check_reachable(option: str, place: str | None) -> None:
    """Refuses the port that stands for any: nobody can be connected to there."""
    if place is not None and port_of(place.rpartition(":")[2]) == 0:
        raise BadInput(f"{option} {place}: 0 is no port that can be connected to")


def _port(listen: str) -> int:
    port = port_of(listen.rpartition(":")[2])
    if port is None:
        raise BadInput(f'"{listen}": wanted ADDRESS:PORT')
    return port


def _split(args: argparse.Namespace) -> int:
    servers = allowed(args.to)
    if args.as_client and args.announced:
        raise BadInput("--as-client and --announced: switches give servers the clients' addresses")
    _check_announced(args)
    ends = (args.listen, args.origins, servers, args.as_client, args.cca)
    asked = (args.announced, args.gone_after, args.heard_within)
    return _serve(args, lambda: Relay.split(*ends, *asked))


def _proxy(args: argparse.Namespace) -> int:
    _check_reachable("--server", args.server)
    ends = (args.listen, args.server, args.as_client, args.cca, args.gone_after)
    return _serve(args, lambda: Relay.proxy(*ends))


def _serve(args: argparse.Namespace, start: Any) -> int:
    descriptors.raise_limit()  # Each connection takes one or two.
    signs = Signs(os.environ)
    with signals.awaited(), contextlib.ExitStack() as stack:
        relay: Relay = start()
        if args.control is not None:
            stack.enter_context(control.served(relay, args.control))
        host, port = relay.address()
        if args.json:
            print(json.dumps({"event": "listening", "host": host, "port": port}), flush=True)
        else:
            print(f"listening on {f'[{host}]' if ':' in host else host}:{port}", flush=True)
        signs.ready()
        while not relay.is_over() and not signals.came_within(_LOOK_S):
            signs.running(lambda: _answers(relay))
        if (reason := relay.stop()) is not None:
            raise Unavailable(reason)
    return 0


def _answers(relay: Relay) -> bool:
    """Whether its threads do what they are asked to."""
    begun_s = time.monotonic()
    relay.status()
    return time.monotonic() < begun_s + _ANSWER_S


def _status(args: argparse.Namespace) -> int:
    output.is_the_work()
    told = control.ask(args.control, {})
    try:
        lines = [*_told(told)]
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
        raise Unavailable(f"{args.control}: who answers there is no relay") from None
    if args.json:
        print(json.dumps(told))
        return 0
    for line in lines:
        print(printable(line))
    return 0


def _told(told: dict[str, Any]) -> Iterator[str]:
    aggregates = told.get("aggregates", ())
    # The split end itself only accepts aggregates: what it turned away is all that it has to say.
    for one in aggregates or (told,):
        where = f"aggregate from {one['from']}" if "from" in one else "relay"
        yield (
            f"{where}: {'connected' if one['is_connected'] else 'not connected'}, "
            f"{len(one['flows'])} flows, {one['ended']} ended, {one['broken']} broken, "
            f"{size(one['bytes_sent'])} sent, {size(one['bytes_received'])} received"
        )
        for flow in one["flows"]:
            yield (
                f"  {flow['client']}  weight {flow['weight']}  "
                f"{size(flow['bytes_sent'])} sent  "
                f"{size(flow['bytes_received'])} received  "
                f"{size(flow['bytes_waiting'])} waiting{_acknowledged(flow)}"
            )
    for one in (told, *aggregates):
        yield from map(str, one["reasons"])


def _acknowledged(flow: dict[str, Any]) -> str:
    told = flow.get("bytes_acknowledged")
    return "" if told is None else f"  {size(told)} acknowledged by the server"


def _clear(args: argparse.Namespace) -> int:
    if not 0 < args.port < 65_536:
        raise BadInput(f"{args.port} is no port")
    hold.clear(args.port)
    return 0


def _weight(args: argparse.Namespace) -> int:
    if not args.weights:
        raise BadInput("no weights: give all that are to hold, as NETWORK=N")
    control.ask(args.control, {"weights": weights(args.weights)})
    return 0
