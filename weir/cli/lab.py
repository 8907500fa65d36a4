"""`weir lab`: real hosts and emulated links on this machine."""

import argparse
import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from weir import signals
from weir.cli import output
from weir.errors import BadInput, Unavailable, Unsupported
from weir.lab import Lab, load, rundir
from weir.shipped import scenario

_WATCH_S = 1.0
_EPILOG = """\
Scenario files: docs/lab.md.

exit codes: 0 done; 2 a wrong scenario, name or node; 3 this machine cannot (see weir doctor);
`exec` ends with the code of the command it ran."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the sub-commands."""
    parser.epilog = _EPILOG
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    up = commands.add_parser("up", help="bring up the lab of a scenario file")
    _add_scenario(up)
    up.set_defaults(act=_up)

    inside = commands.add_parser("exec", help="run a command inside a node: exec dtn1 -- bash")
    inside.add_argument("node", metavar="NODE", help="a host or router of the lab")
    inside.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND",
        help="what to run (default: your shell)",
    )
    _add_lab(inside)
    inside.set_defaults(act=_exec)

    status = commands.add_parser("status", help="links, drops, head-room and traffic of a lab")
    _add_lab(status)
    _add_json(status)
    status.add_argument(
        "--watch",
        action="store_true",
        help="again every second until interrupted or the lab is down; queues since the last",
    )
    status.set_defaults(act=_status)

    network = commands.add_parser("network", help="print a lab as the network file of a calendar")
    network.add_argument(
        "--share",
        type=float,
        default=1.0,
        metavar="PART",
        help="part of each link that is the calendar's, above 0 and up to 1",
    )
    _add_lab(network)
    network.set_defaults(act=_describe)

    restart = commands.add_parser(
        "restart", help="kill a switch's programs and start new ones, without the rules it had"
    )
    restart.add_argument("switch", metavar="SWITCH", help="its name")
    _add_lab(restart)
    _add_json(restart)
    restart.set_defaults(act=_restart)

    for verb, what in (
        ("cut", "cut a link's cable: no packet crosses it"),
        ("mend", "put a link's cable in again"),
    ):
        cable = commands.add_parser(verb, help=what)
        cable.add_argument("link", metavar="LINK", help="its name, such as a-b; see status --json")
        _add_lab(cable)
        _add_json(cable)
        cable.set_defaults(act=_cable, verb=verb)

    down = commands.add_parser("down", help="end everything inside a lab and remove it")
    _add_lab(down)
    _add_json(down)
    down.set_defaults(act=_down)

    whole = commands.add_parser("run", help="up, the scenario's traffic to its end, summary, down")
    _add_scenario(whole)
    whole.set_defaults(act=_run)


def run(args: argparse.Namespace) -> int:
    """Clears what dead labs left, then does what was asked."""
    rundir.sweep()
    return int(args.act(args))


def _add_scenario(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="a scenario file (TOML), or one of Weir's: wan"
    )
    parser.add_argument("--name", help="the lab's name (default: the scenario's)")
    parser.add_argument(
        "--controller",
        metavar="HOST:PORT",
        help="where the OpenFlow controller of its switches listens; also unix:PATH",
    )
    _add_json(parser)


def _add_lab(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lab", metavar="NAME", help="which lab, when several are up")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON for machines")


def _up(args: argparse.Namespace) -> int:
    wanted = scenario(args.file)
    with signals.heeded():
        lab = Lab.up(wanted, name=args.name, detached=True, controller=args.controller)
    if args.json:
        nodes = {node: lab.address(node) for node in (*lab.hosts, *lab.routers)}
        print(json.dumps({"name": lab.name, "addresses": nodes}))
        return 0
    switches = f"; switches {', '.join(lab.switches())}" if lab.switches() else ""
    print(f"lab {lab.name} is up: hosts {', '.join(lab.hosts)}{switches}")
    which = f"--lab {lab.name} " if len(rundir.live()) > 1 else ""
    print(f"try: weir lab exec {which}{lab.hosts[0]} -- ping -c 3 {lab.hosts[-1]}")
    return 0


def _exec(args: argparse.Namespace) -> int:
    lab = Lab.attach(args.lab)
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    command = lab.command(args.node, words or [os.environ.get("SHELL", "/bin/sh")])
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise Unsupported(f"cannot run {command[0]}: {error.strerror}; see weir doctor") from None


def _status(args: argparse.Namespace) -> int:
    output.is_the_work()
    lab = Lab.attach(args.lab)
    if not args.watch:
        _print_status(lab.status(), args.json)
        return 0
    with contextlib.suppress(KeyboardInterrupt):
        if args.json:
            for status in _statuses(lab):
                print(json.dumps(status), flush=True)
        else:
            from weir.lab.tables import show_statuses

            show_statuses(_statuses(lab))
    return 0


def _statuses(lab: Lab) -> Iterator[Mapping[str, Any]]:
    """The lab's status now and every second, until it is down."""
    with contextlib.suppress(Unavailable):
        while True:
            yield lab.status()
            time.sleep(_WATCH_S)


def _describe(args: argparse.Namespace) -> int:
    output.is_the_work()
    print(json.dumps(Lab.attach(args.lab).network(args.share), indent=2))
    return 0


def _restart(args: argparse.Namespace) -> int:
    lab = Lab.attach(args.lab)
    lab.restart(args.switch)
    told = {"name": lab.name, "switch": args.switch}
    print(json.dumps(told) if args.json else f"switch {args.switch} of lab {lab.name} is up again")
    return 0


def _cable(args: argparse.Namespace) -> int:
    lab = Lab.attach(args.lab)
    (lab.cut if args.verb == "cut" else lab.mend)(args.link)
    done = {"cut": "cut", "mend": "mended"}[args.verb]
    told = {"name": lab.name, "link": args.link, "carrier": args.verb == "mend"}
    print(json.dumps(told) if args.json else f"link {args.link} of lab {lab.name} is {done}")
    return 0


def _down(args: argparse.Namespace) -> int:
    lab = Lab.attach(args.lab)
    lab.down()
    print(json.dumps({"name": lab.name}) if args.json else f"lab {lab.name} is down")
    return 0


def _run(args: argparse.Namespace) -> int:
    wanted = load(scenario(args.file))
    endless = [flow.name for flow in wanted.traffic if flow.stop is None]
    if endless or not wanted.traffic:
        wanting = f"{', '.join(endless)} has no stop" if endless else "it has no [[traffic]]"
        raise BadInput(f"{args.file}: {wanting}; weir lab run needs traffic that ends")
    with signals.heeded(), Lab.up(wanted, name=args.name, controller=args.controller) as lab:
        status = lab.finish()
    output.is_the_work()  # only now: the lab is taken down whoever reads
    _print_status(status, args.json)
    return 1 if any(flow["state"] == "failed" for flow in status["traffic"]) else 0


def _print_status(status: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(status))
        return
    # Only here, so that `weir lab exec` starts without it.
    from weir.lab.tables import print_status

    print_status(status)
