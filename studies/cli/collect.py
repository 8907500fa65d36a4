"""`weir ops collect`: recordings of round-trip times beside the kernel's own TCP, in labs."""

import argparse
import json
from pathlib import Path

SUMMARY = "record round-trip times beside the kernel's own TCP, in labs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="an .npz file; runs that it has are not made again",
    )
    parser.add_argument(
        "--classes",
        default="six",
        metavar="NAMES",
        help="classes: names such as B0-C1,Bn, or six, or all (six)",
    )
    parser.add_argument(
        "--path",
        action="append",
        metavar="PATH",
        help='rate, RTT, buffer, queue; may be repeated ("500 Mbit/s, 65 ms, 6 MiB, fifo")',
    )
    parser.add_argument(
        "--pattern",
        action="append",
        metavar="PATTERN",
        help="bursts of our own, such as C5-B5-C5-S5, or passive; may be repeated (passive)",
    )
    parser.add_argument("--seconds", default="600", metavar="S", help="length of a recording (600)")
    parser.add_argument(
        "--runs", type=int, default=1, metavar="N", help="recordings of each setting (1)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of the first run (1)"
    )
    parser.add_argument(
        "--warmup",
        type=float,
        default=20.0,
        metavar="S",
        help="how long the traffic runs before (20)",
    )
    parser.add_argument("--rate", default="20", metavar="HZ", help="samples a second (20)")
    parser.add_argument(
        "--requests", type=int, default=1, metavar="N", help="echo requests a sample (1)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a recording")


def run(args: argparse.Namespace) -> int:
    """Records; 1 if a recording has a flaw."""
    # Only here, so that `weir ops --help` needs no lab.
    from studies.training.collecting import collect
    from studies.training.collecting.format import facts, line
    from studies.training.collecting.settings import Request

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
