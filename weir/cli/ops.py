"""`weir ops`: who is on a path, by hand; recordings of known traffic, and learning from them."""

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import TypeAlias

from weir.cli import output
from weir.errors import BadInput

_EPILOG = """\
exit codes: 0 done; 1 a recording has a flaw, and the same command makes it again; 2 a wrong
argument or file; 3 this machine has no labs, or lacks a congestion control (see weir doctor), or
scikit-learn, which train needs.
What is recorded, and what a file holds: docs/recordings.md."""


_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the sub-commands."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_collect(commands)

    shell = commands.add_parser("shell", help="probing, choosing and sending by hand")
    shell.add_argument("to", nargs="?", default="", metavar="HOST:PORT", help="of weir serve")
    shell.add_argument(
        "words", nargs="*", metavar="COMMAND", help="carried out instead, as in: -- probe 5"
    )
    shell.set_defaults(act=_shell)

    show = commands.add_parser("show", help="what a file of recordings holds")
    show.add_argument("file", type=Path, metavar="FILE")
    show.add_argument("--plot", type=Path, metavar="DIR", help="also a picture (SVG) of each class")
    _add_json(show)
    show.set_defaults(act=_show)
    _add_train(commands)


def _add_collect(commands: _Commands) -> None:
    collect = commands.add_parser(
        "collect", help="record round-trip times beside the kernel's own TCP, in labs"
    )
    collect.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help=".npz; what it has is not made anew"
    )
    collect.add_argument(
        "--classes", default="six", metavar="NAMES", help="such as B0-C1,Bn; six; all (six)"
    )
    collect.add_argument(
        "--path",
        action="append",
        metavar="PATH",
        help='rate, RTT, buffer, queue; several times ("500 Mbit/s, 65 ms, 6 MiB, fifo")',
    )
    collect.add_argument(
        "--pattern",
        action="append",
        metavar="PATTERN",
        help="of bursts of our own, such as C5-B5-C5-S5, or passive; several times (passive)",
    )
    collect.add_argument("--seconds", default="600", metavar="S", help="of a recording (600)")
    collect.add_argument("--runs", type=int, default=1, metavar="N", help="of each (1)")
    collect.add_argument("--seed", type=int, default=1, metavar="N", help="of the first run (1)")
    collect.add_argument(
        "--warmup", type=float, default=20.0, metavar="S", help="of the traffic before (20)"
    )
    collect.add_argument("--rate", default="20", metavar="HZ", help="samples a second (20)")
    collect.add_argument(
        "--requests", type=int, default=1, metavar="N", help="echo requests a sample (1)"
    )
    _add_json(collect)
    collect.set_defaults(act=_collect)


def _add_train(commands: _Commands) -> None:
    train = commands.add_parser(
        "train", help="make a recogniser, from simulated paths and recordings of the kernel's TCP"
    )
    train.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help="of it, .npz (the one that Weir uses)"
    )
    train.add_argument("--count", type=int, metavar="N", help="simulated paths (1102)")
    train.add_argument("--seed", type=int, metavar="N", help="of paths and of learning (1)")
    train.add_argument(
        "--recordings",
        type=Path,
        nargs="*",
        metavar="FILE",
        help="to learn from beside the simulator, none at all if none is named (those that ship)",
    )
    train.add_argument(
        "--folder", type=Path, metavar="DIR", help="keeps what was simulated (out/recognition)"
    )
    train.set_defaults(act=_train)


def run(args: argparse.Namespace) -> int:
    """Does what was asked."""
    return int(args.act(args))


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object a recording")


def _collect(args: argparse.Namespace) -> int:
    # Only here, so that showing a file needs no lab.
    from weir.ops.collecting import collect
    from weir.ops.collecting.request import Request
    from weir.ops.collecting.words import facts, line

    settings = Request(
        classes=args.classes,
        paths=args.path,
        patterns=args.pattern,
        seconds=args.seconds,
        runs=args.runs,
        seed=args.seed,
        warmup_s=args.warmup,
        rate_hz=args.rate,
        requests=args.requests,
    ).settings()
    flawed = 0
    for number, done in enumerate(collect(settings, args.out), 1):
        flawed += bool(done.recording.flaws)
        if args.json:
            print(json.dumps(facts(done.recording) | {"is_new": done.is_new}), flush=True)
        else:
            known = "" if done.is_new else " (was there)"
            print(f"[{number}/{len(settings)}] {line(done.recording)}{known}", flush=True)
    if flawed and not args.json:
        print(f"{flawed} of {len(settings)} are flawed; the same command makes those again")
    return int(flawed > 0)


def _shell(args: argparse.Namespace) -> int:
    from weir.cli import main
    from weir.ops.shell import Shell

    shell = Shell(lambda request: request.recogniser(), main, args.to)
    if args.words:
        shell.onecmd(shlex.join(args.words))
    else:
        shell.cmdloop()
    return shell.exit_code


def _show(args: argparse.Namespace) -> int:
    from weir.ops.collecting.words import facts, show
    from weir.ops.recordings import load_whole

    output.is_the_work()
    recordings, provenance = load_whole(args.file)
    if args.plot:
        from weir.ops.collecting.picture import draw

        if not recordings:
            raise BadInput(f"{args.file} has no recording to draw")
        draw(recordings, args.plot)
    if args.json:
        for one in recordings:
            print(json.dumps(facts(one)))
    else:
        show(recordings, provenance)
    return 0


def _train(args: argparse.Namespace) -> int:
    from weir.ops.recognition.recogniser import SHIPPED
    from weir.ops.recognition.train import make

    given = {"count": args.count, "seed": args.seed, "folder": args.folder}
    chosen = {name: value for name, value in given.items() if value is not None}
    if args.recordings is not None:
        chosen["files"] = args.recordings
    out = args.file or SHIPPED
    make(out, progress=lambda told: print(told, file=sys.stderr, flush=True), **chosen)
    print(f"{out} ({out.stat().st_size / 1e6:.1f} MB)")
    return 0
