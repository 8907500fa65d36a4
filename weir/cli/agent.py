"""`weir agent`: carry out a calendar's assignments on this host, or enforce them at its edge."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir import Bytes, kernel_controls
from weir.calendar.lanes import LANES_MAX
from weir.cli.parser import option
from weir.errors import BadInput, WeirError
from weir.home import expanded
from weir.listener import port_of
from weir.logs import to_stderr

if TYPE_CHECKING:
    from weir.calendar.agents.enforcer import Enforcer


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "--calendar", metavar="URL", help="its address (default: $WEIR_CALENDAR_URL)"
    )
    token = parser.add_mutually_exclusive_group()
    token.add_argument("--token-file", type=Path, metavar="FILE", help="a file with the token")
    token.add_argument("--token", help="the token itself (default: $WEIR_CALENDAR_TOKEN)")
    parser.add_argument(
        "--host", required=True, metavar="NAME", help="this host's name in the network file"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say what is going on")
    mover = parser.add_argument_group("on a host with files")
    mover.add_argument(
        "--root", type=Path, metavar="DIR", help="the directory that paths are below"
    )
    mover.add_argument("--data-listen", metavar="ADDR:PORT", help="receive files there")
    mover.add_argument(
        "--data-ports",
        type=int,
        default=1,
        metavar="N",
        help="receive at N ports, from that one on, so that a transfer can take several paths",
    )
    mover.add_argument(
        "--advertise", metavar="ADDR:PORT", help="where others reach it, if not the same"
    )
    security = mover.add_mutually_exclusive_group()
    security.add_argument("--keys", type=Path, metavar="DIR", help="key directory (see: weir keys)")
    security.add_argument("--insecure", action="store_true", help="no TLS, no authentication")
    mover.add_argument(
        "--streams", type=int, default=1, metavar="N", help="connections per transfer"
    )
    mover.add_argument(
        "--cca",
        metavar="NAME",
        help="congestion control; auto: chosen for each transfer by who is on its path",
    )
    mover.add_argument(
        "--spare-cca",
        metavar="NAME",
        help="congestion control of what is sent beside promises, as in weir send",
    )
    mover.add_argument(
        "--spare-packet",
        metavar="SIZE",
        help="the largest packet of what is sent beside promises, as in weir send",
    )
    edge = parser.add_argument_group("on a router, with --pace on a source, or at a relay")
    edge.add_argument("--edge", action="store_true", help="enforce the rates of what passes")
    edge.add_argument(
        "--pace", action="store_true", help="hold this host's own connections, where no router can"
    )
    edge.add_argument(
        "--device",
        action="append",
        metavar="NAME[=RATE[,DEFAULT]]",
        help="toward the shared network; its rate, and what unplanned traffic may take",
    )
    edge.add_argument(
        "--relay",
        metavar="PATH=RATE",
        help="the --control of a weir relay join, whose clients have weights by what is promised "
        "to them, and the rate of its aggregate on the wire",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the agent until SIGINT or SIGTERM."""
    from weir.calendar.client import URL_VARIABLE, found_token

    if args.verbose:
        to_stderr(logging.INFO)
        logging.getLogger("httpx").setLevel(logging.WARNING)
    url = args.calendar or os.environ.get(URL_VARIABLE)
    if not url:
        raise BadInput(f"which calendar? Give --calendar or set {URL_VARIABLE}")
    token = found_token(args.token, args.token_file)
    work = _edge(args, url, token) if args.edge else _host(args, url, token)
    asyncio.run(until_told(work))
    return 0


def _host(args: argparse.Namespace, url: str, token: str) -> Coroutine[Any, Any, None]:
    from weir.calendar.agents.agent import DataServer, HostAgent, MoverOptions
    from weir.calendar.agents.assignments import AssignmentStream
    from weir.listener import await_free
    from weir.transfer import DEFAULT_KEYS, YIELDING

    if args.device:
        raise BadInput("--device is for --edge")
    if args.pace:
        raise BadInput("--pace is for --edge")
    if args.relay:
        raise BadInput("--relay is for --edge")
    if args.root is None:
        raise BadInput("which directory? Give --root, or --edge on a router")
    if not args.root.is_dir():
        raise BadInput(f"--root {args.root} is not a directory")
    if not os.access(args.root, os.R_OK | os.X_OK | (os.W_OK if args.data_listen else 0)):
        raise BadInput(f"--root {args.root}: Permission denied")
    if args.streams < 1:
        raise BadInput(f"--streams {args.streams}: at least 1")
    keys = None if args.insecure else expanded(args.keys or DEFAULT_KEYS)
    if keys is not None and not keys.is_dir():
        raise BadInput(f"no keys in {keys}: make them with weir keys, or give --insecure")
    data_address = _data_address(args)
    ports = _data_ports(args, data_address)
    if args.spare_cca not in {None, YIELDING}:
        kernel_controls.require(args.spare_cca)
    options = MoverOptions(
        args.root, keys, args.streams, args.cca, args.spare_cca, _spare_packet(args)
    )

    async def work() -> None:
        if args.data_listen:
            host, _, first = args.data_listen.rpartition(":")
            for further in range(args.data_ports):
                await await_free(f"{host}:{int(first) + further}")
        async with AssignmentStream(url, token, args.host) as stream, asyncio.TaskGroup() as group:
            group.create_task(HostAgent(stream, options, data_address, ports).run())
            if args.data_listen:
                server = DataServer(args.root, args.data_listen, keys, args.data_ports)
                group.create_task(server.run())

    return work()


def _spare_packet(args: argparse.Namespace) -> Bytes | None:
    """The largest packet of spare connections; refused here, and not with the first transfer."""
    from weir.transfer import SPARE_PACKET_BYTES

    if args.spare_packet is None:
        return None
    packet = option(Bytes, args.spare_packet, "--spare-packet")
    if packet.count not in SPARE_PACKET_BYTES:
        least, most = SPARE_PACKET_BYTES[0], SPARE_PACKET_BYTES[-1]
        raise BadInput(f"--spare-packet {args.spare_packet}: {least} to {most} B")
    return packet


def _data_address(args: argparse.Namespace) -> str | None:
    address: str | None = args.advertise or args.data_listen
    if address is None:
        return None
    for one in (args.data_listen, address):
        if one is not None and not port_of(one.rpartition(":")[2]):
            raise BadInput(f'"{one}" is not ADDR:PORT')
    host = address.rpartition(":")[0]
    if host.strip("[]") in {"", "0.0.0.0", "::"}:
        raise BadInput(f'nobody can send to "{address}": say where others reach it (--advertise)')
    return address


def _data_ports(args: argparse.Namespace, data_address: str | None) -> list[int]:
    """The ports at which others reach it, if there are several."""
    if not 1 <= args.data_ports <= LANES_MAX:
        raise BadInput(f"--data-ports {args.data_ports}: 1 to {LANES_MAX}")
    if args.data_ports == 1 or data_address is None:
        return []
    first = int(data_address.rpartition(":")[2])
    if first + args.data_ports > 65_536:
        raise BadInput(f"--data-ports {args.data_ports}: there are not so many above {first}")
    return list(range(first, first + args.data_ports))


def _edge(args: argparse.Namespace, url: str, token: str) -> Coroutine[Any, Any, None]:
    from weir.calendar.agents.alone import alone
    from weir.calendar.agents.assignments import AssignmentStream
    from weir.calendar.agents.edge import EdgeAgent

    if args.root or args.data_listen:
        raise BadInput("--edge moves no files; run another agent for --root and --data-listen")
    enforcer = _enforcer(args)

    async def work() -> None:
        with alone(_places(args)):
            async with AssignmentStream(url, token, args.host, role="edge") as stream:
                await EdgeAgent(stream, enforcer).run()

    return work()


def _enforcer(args: argparse.Namespace) -> "Enforcer":
    from weir.calendar.agents.htb import Shaper, parse_device
    from weir.calendar.agents.pacing import Pacer
    from weir.calendar.agents.weighing import Weigher, parse_aggregate

    if bool(args.device) + args.pace + bool(args.relay) > 1:
        raise BadInput("either --device, on a router, or --pace, on a source, or --relay")
    if args.pace:
        return Pacer()
    if args.relay:
        return Weigher(parse_aggregate(args.relay))
    if not args.device:
        raise BadInput(
            "which devices? Give --device for each one toward the shared network, or --relay"
        )
    return Shaper([parse_device(text) for text in args.device])


def _places(args: argparse.Namespace) -> list[str]:
    """Where rates are enforced, each the business of one agent."""
    if args.relay:
        return [os.path.realpath(args.relay.rpartition("=")[0])]
    devices = [text.partition("=")[0] for text in args.device or ()]
    return devices or ["the connections of this host"]


async def until_told(work: Coroutine[Any, Any, None]) -> None:
    """Runs work until it ends, or SIGINT or SIGTERM ends it."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    except* WeirError as errors:
        raise _first(errors) from None


def _first(error: BaseException) -> BaseException:
    """The first error of a group, also of a group in it."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
