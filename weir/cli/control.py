"""`weir control`: the controller of OpenFlow switches."""

import argparse
import asyncio
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from weir import Rate, Time, descriptors
from weir.cli.agent import until_told
from weir.cli.parser import option
from weir.errors import BadInput
from weir.logs import to_stderr
from weir.printable import printable

if TYPE_CHECKING:
    from weir.control.listening import Identity
    from weir.control.serve import Headroom

LISTEN = "127.0.0.1:6653"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    summary = "keep switches at what a calendar allots"
    serve = commands.add_parser("serve", help=summary)
    serve.add_argument(
        "--network",
        type=Path,
        required=True,
        metavar="FILE",
        help="the network, with its switches and ports",
    )
    serve.add_argument(
        "--listen",
        default=LISTEN,
        metavar="ADDR",
        help=f"where switches connect: HOST:PORT, ssl:HOST:PORT or unix:PATH (default {LISTEN})",
    )
    tls = serve.add_argument_group("with ssl:HOST:PORT", "files of PEM, as for ovs-vsctl set-ssl")
    tls.add_argument("--private-key", type=Path, metavar="FILE", help="the controller's key")
    tls.add_argument("--certificate", type=Path, metavar="FILE", help="its certificate")
    tls.add_argument("--ca-cert", type=Path, metavar="FILE", help="who has issued the switches'")
    serve.add_argument("--calendar", metavar="URL", help="whose promises the switches are to keep")
    token = serve.add_mutually_exclusive_group()
    token.add_argument("--token-file", type=Path, metavar="FILE", help="a file with the token")
    token.add_argument("--token", help="the token itself (default: $WEIR_CALENDAR_TOKEN)")
    serve.add_argument(
        "--host", metavar="NAME", help="the node that it speaks for (default: the first switch)"
    )
    serve.add_argument(
        "--join",
        type=Path,
        metavar="FILE",
        help="servers whose clients are joined, and by which relays (docs/control.md)",
    )
    _elephants(serve.add_argument_group("elephants", "flows that can wait (docs/elephants.md)"))
    serve.add_argument("-v", "--verbose", action="store_true", help="say what is going on")
    serve.set_defaults(action=_serve)


def _elephants(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--sflow",
        metavar="ADDR",
        help="find them in what switches sample and send there: HOST:PORT or unix:PATH",
    )
    group.add_argument(
        "--find-from", metavar="RATE", default="10 Mbit/s", help="they send so fast (10 Mbit/s)"
    )
    group.add_argument(
        "--find-within", metavar="TIME", default="1 s", help="for about so long (1 s)"
    )
    group.add_argument(
        "--headroom",
        choices=("static", "dynamic", "merged"),
        default="static",
        help="their paths: everybody's (default), those that meet fewest others, or the better",
    )
    group.add_argument(
        "--measure",
        choices=("flows", "rate", "weir"),
        default="flows",
        help="what makes a path better: fewer others (default), its rate, or that and its length",
    )
    group.add_argument(
        "--hops-more", type=int, metavar="N", help="hops more than the shortest path (default any)"
    )
    group.add_argument(
        "--paths-max",
        type=int,
        metavar="N",
        default=1_000,
        help="choose from the N shortest (default 1000: all in networks of ten switches)",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the subcommand."""
    return int(args.action(args))


def _serve(args: argparse.Namespace) -> int:
    from weir.calendar.client import URL_VARIABLE, found_token
    from weir.calendar.network import load_network
    from weir.control.serve import serve

    descriptors.raise_limit()  # each switch has one
    headroom = _headroom(args)

    if args.verbose:
        to_stderr(logging.INFO)
        logging.getLogger("httpx").setLevel(logging.WARNING)
    network = load_network(args.network)
    url = args.calendar or os.environ.get(URL_VARIABLE)
    if not url and (args.token or args.token_file or args.host):
        raise BadInput(f"which calendar? Give --calendar or set {URL_VARIABLE}")
    token = found_token(args.token, args.token_file) if url else ""
    host = args.host or next(iter(network.datapaths), "")
    identity = _identity(args)

    async def work() -> None:
        from weir.calendar.agents.assignments import AssignmentStream

        if not url:
            await serve(network, args.listen, None, _tell, identity, headroom, args.join)
            return
        async with AssignmentStream(url, token, host, role="control") as stream:
            await serve(network, args.listen, stream, _tell, identity, headroom, args.join)

    asyncio.run(until_told(work()))
    return 0


def _identity(args: argparse.Namespace) -> "Identity | None":
    from weir.control.listening import Identity

    files = {
        "--private-key": args.private_key,
        "--certificate": args.certificate,
        "--ca-cert": args.ca_cert,
    }
    missing = [name for name, path in files.items() if path is None]
    if len(missing) == len(files):
        return None
    if missing:
        raise BadInput(f"{' and '.join(missing)}: the three files go together")
    return Identity(*files.values())


def _headroom(args: argparse.Namespace) -> "Headroom":
    from weir.control.headroom.detector import Threshold
    from weir.control.headroom.paths import Service
    from weir.control.serve import Headroom

    rate = option(Rate, args.find_from, "--find-from")
    within = option(Time, args.find_within, "--find-within")
    if rate.bit_per_s == 0 or within.ns == 0:
        raise BadInput("--find-from and --find-within want more than nothing")
    if (args.hops_more or 0) < 0 or args.paths_max < 1:
        raise BadInput("--hops-more wants a number from 0, --paths-max one from 1")
    service = None
    if args.headroom != "static":
        service = Service(args.headroom, args.measure, args.hops_more, args.paths_max)
    return Headroom(args.sflow, Threshold(rate.bit_per_s, within.ns / 1e9), service)


def _tell(line: str) -> None:
    print(printable(line), flush=True)  # switches give their ports any name
