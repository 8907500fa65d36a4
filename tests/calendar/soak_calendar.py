"""Runs the simulated calendar under many seeds, and makes the first failure small.

    export PYTHONPATH=tests
    python tests/calendar/soak_calendar.py --first 1 --count 20
    python tests/calendar/soak_calendar.py --first 4 --count 1 --only commit --trouble 15

A failure is run again with fewer kinds of faults and for a shorter time as long as it still
fails; the last line is the command that shows the smallest one. `--put-back NAME` first puts a
fault back into the code, to see that it is found.
"""

import argparse
import hashlib
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest
from put_back import PUT_BACK
from simulated_calendar import TROUBLE_S, Mix, simulate


def main():
    args = arguments()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order in sets of text is part of a run.
        os.execve(
            sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"}
        )
    end_s = time.perf_counter() + args.minutes * 60
    ran = 0
    for seed in range(args.first, args.first + args.count):
        if time.perf_counter() > end_s:
            break
        ran += 1
        mix = Mix().only(args.only) if args.only else Mix()
        found, ledger = run(seed, mix, args.trouble, args.put_back, args.policy)
        if args.trace:
            print(trace(seed, ledger))
        if found is not None:
            print(f"seed {seed}: {found[:600]}")
            if args.quick:
                return 1
            mix, trouble_s, found = shrunk(seed, mix, args.trouble, args.put_back, args.policy)
            print(f"smallest: {found[:600]}")
            print(f"again: {command(seed, mix, trouble_s, args.put_back, args.policy)}")
            return 1
    print(f"{ran} seeds, nothing found")
    return 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=10, help="how many")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--only", nargs="*", help="kinds of faults, of those of `Mix`")
    parser.add_argument("--trouble", type=float, default=TROUBLE_S, help="seconds of faults")
    parser.add_argument("--trace", action="store_true", help="print a digest of each run")
    parser.add_argument("--quick", action="store_true", help="do not make a failure smaller")
    parser.add_argument("--policy", default="local-ljf", help="which one the calendar has")
    parser.add_argument("--put-back", choices=PUT_BACK, help="a fault to find")
    return parser.parse_args()


def trace(seed, ledger):
    """A line that differs where two runs do."""
    events = hashlib.sha256(repr(sorted(ledger.events.items())).encode()).hexdigest()[:16]
    return f"seed {seed}: {len(ledger.accepted)} accepted, {len(ledger.events)} events, {events}"


def failure(seed, mix, trouble_s, put_back, policy):
    """What was found under this seed, or None."""
    return run(seed, mix, trouble_s, put_back, policy)[0]


def run(seed, mix, trouble_s, put_back, policy):
    """What was found under this seed, or None; and what happened."""
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with (
        tempfile.TemporaryDirectory(dir=shared) as directory,
        pytest.MonkeyPatch.context() as patch,
    ):
        if put_back is not None:
            PUT_BACK[put_back](patch)
        return simulate(seed, Path(directory), patch, mix, trouble_s, policy)


def shrunk(seed, mix, trouble_s, put_back, policy):
    """The fewest faults, for the shortest time, under which this seed still fails."""
    found = failure(seed, mix, trouble_s, put_back, policy)
    for name in vars(mix):
        fewer = mix.without(name)
        if fewer != mix and (again := failure(seed, fewer, trouble_s, put_back, policy)):
            mix, found = fewer, again
    while trouble_s > 2 and (again := failure(seed, mix, trouble_s / 2, put_back, policy)):
        trouble_s, found = trouble_s / 2, again
    return mix, trouble_s, found or "it does not fail again: a run depends on more than its seed"


def command(seed, mix, trouble_s, put_back, policy):
    only = " ".join(name for name, value in vars(mix).items() if value)
    mutated = f" --put-back {put_back}" if put_back else ""
    mutated += f" --policy {policy}"
    script = "PYTHONPATH=tests python tests/calendar/soak_calendar.py"
    return f"{script} --first {seed} --count 1 --trouble {trouble_s:g} --only {only}{mutated}"


if __name__ == "__main__":
    sys.exit(main())
