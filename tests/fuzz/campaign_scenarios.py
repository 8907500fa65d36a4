"""Mangled scenarios, each put to the command that would use it: done or refused, never a traceback.

    python tests/fuzz/campaign_scenarios.py --count 25800

Every scenario that Weir ships is damaged in one to four places: lines lost, doubled, swapped or
taken from another scenario, values replaced by ones that no sound file has, numbers scaled, bytes
turned, text cut. Those of labs are put to `weir sim` for a simulated millisecond, the others to
what reads them for `weir migrate` and `weir run`. A minute of processor time for one is a hang.

Prints one line of counts and ends with 0, or says the seed, leaves the file and ends with 1.
"""

import argparse
import contextlib
import io
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from studies.demonstration import delivery_plan
from weir import migration
from weir.cli import main as weir
from weir.errors import WeirError

SCENARIOS = Path(__file__).parents[2] / "scenarios"
READERS = {"migration.toml": migration.load, "deadlines.toml": delivery_plan.load}
CPU_S = 60
BATCH = 100
VALUES = [
    *("0", "-1", "1", "3.5", "1e400", "-1e400", "nan", "inf", "1e-300", "18446744073709551616"),
    *("0x7fffffffffffffff", "true", "[]", "{}", "[[[]]]", "{ a = {} }", "1979-05-27T07:32:00Z"),
    *('""', '"x"', '"\\u0000"', '"\\uD7FF"', '"default"', '"lo"', '"../../etc/passwd"'),
    *('"0 s"', '"-1 s"', '"1 ns"', '"1e30 s"', '"inf s"', '"0 bit/s"', '"1 bit/s"', '"1 B"'),
    *('"1e400 Mbit/s"', '"99999999 TB"', '"18446744073709551615 ns"'),
]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, default=25_800)
    arguments.add_argument("--first", type=int, default=1, help="the first seed")
    args = arguments.parse_args()
    counts, began = Counter(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="weir-mangled-") as folder:
        end = args.first + args.count
        for first in range(args.first, end, BATCH):
            wrong = batch(Path(folder), range(first, min(first + BATCH, end)), counts)
            if wrong:
                print(wrong)
                return 1
    print(
        f"{args.count} mangled scenarios: {counts['refused']} refused with a message, "
        f"{counts['done']} done, no traceback, no hang; {time.monotonic() - began:.0f} s"
    )
    return 0


def batch(folder, seeds, counts):
    """Runs some of them in a process of their own; answers what is wrong, if anything."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        # A hang ends by a signal, also inside of the Rust core.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with os.fdopen(writing, "w") as told:
            for seed in seeds:
                told.write(f"{seed} ")
                told.flush()
                used = resource.getrusage(resource.RUSAGE_SELF)
                most = int(used.ru_utime + used.ru_stime) + CPU_S
                resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
                told.write(f"{one(folder, seed)}\n")
                told.flush()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        lines = told.read().splitlines()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for line in lines:
        seed, _, outcome = line.partition(" ")
        if outcome not in {"done", "refused"}:
            path = Path(tempfile.gettempdir()) / f"mangled-{seed}.toml"
            path.write_bytes(mangled(int(seed))[1])
            hang = f"ended by {signal.Signals(-status).name}" if status < 0 else ""
            return f"seed {seed}: {hang}{outcome}\nleft in {path}"
        counts[outcome] += 1
    return "" if status == 0 else f"seeds {seeds}: the process ended with {status}"


def one(folder, seed):
    """Done, refused, or what came instead, in one line."""
    name, data = mangled(seed)
    path = folder / name
    # The demonstration's transfers name their lab.
    lab = SCENARIOS / "four-sites.toml"
    (folder / lab.name).write_bytes(lab.read_bytes())
    path.write_bytes(data)
    said, printed = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
            code = read(name, path)
    except BaseException:
        return repr(traceback.format_exc()[-1500:])
    text = said.getvalue()
    if code == 0:
        return "done"
    clean = code == 2 and text.strip() and "Traceback" not in text
    return "refused" if clean else repr(f"exit code {code}: {text[-500:]}")


def read(name, path):
    """The exit code of what uses it."""
    if name not in READERS:
        return weir(["sim", str(path), "--duration", "1 ms", "--json"])
    try:
        READERS[name](path)
    except WeirError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def mangled(seed):
    """One of the scenarios, by its name, after some changes."""
    dice = random.Random(seed)
    names = sorted(path.name for path in SCENARIOS.glob("*.toml"))
    name = dice.choice(names)
    lines = (SCENARIOS / name).read_text().splitlines()
    other = (SCENARIOS / dice.choice(names)).read_text().splitlines()
    changes = [lost, doubled, swapped, foreign, valued, valued, scaled, scaled, renamed, numbered]
    for _ in range(dice.choice([1, 1, 2, 3, 4])):
        at = dice.randrange(len(lines)) if lines else 0
        dice.choice(changes)(dice, lines, at, other)
    data = bytearray("\n".join(lines).encode())
    if data and dice.random() < 0.2:
        place = dice.randrange(len(data))
        damage = dice.choice(["bit", "cut", "noise"])
        if damage == "bit":
            data[place] ^= 1 << dice.randrange(8)
        elif damage == "cut":
            del data[place : place + dice.randint(1, len(data))]
        else:
            data[place:place] = dice.randbytes(dice.randint(1, 8))
    return name, bytes(data)


def lost(_dice, lines, at, _other):
    del lines[at : at + 1]


def doubled(_dice, lines, at, _other):
    lines[at:at] = lines[at : at + 1]


def swapped(dice, lines, at, _other):
    if lines:
        to = dice.randrange(len(lines))
        lines[at], lines[to] = lines[to], lines[at]


def foreign(dice, lines, at, other):
    lines.insert(at, dice.choice(other))


def valued(dice, lines, at, _other):
    """A value, or one of an array's or inline table's, becomes another."""
    places = [n for n, line in enumerate(lines) if "=" in line and not line.startswith("#")]
    if places:
        at = dice.choice(places)
        found = list(re.finditer(r'"[^"]*"|\b-?[\d.]+\b|\btrue\b|\bfalse\b', lines[at]))
        if found:
            match = dice.choice(found)
            value = dice.choice(VALUES)
            lines[at] = lines[at][: match.start()] + value + lines[at][match.end() :]


def renamed(dice, lines, at, _other):
    if lines:
        word = dice.choice(["x", "name", "rate", '""', "a.b", "queue"])
        lines[at] = re.sub(r"[a-z_]+", word, lines[at], count=1)


def scaled(dice, lines, at, _other):
    """A number is another, and may still make sense."""
    places = [n for n, line in enumerate(lines) if re.search(r"=.*\d", line)]
    if places:
        at = dice.choice(places)
        factor = dice.choice([0.001, 0.1, 0.5, 1.5, 2, 10, 1000])
        lines[at] = re.sub(
            r"(?<![\w.])\d+(\.\d+)?", lambda found: f"{float(found[0]) * factor:g}", lines[at]
        )


def numbered(dice, lines, at, _other):
    if lines:
        lines[at] = re.sub(r"\d+", lambda _: str(dice.choice([0, 1, 7, 10**9, 10**19])), lines[at])


if __name__ == "__main__":
    sys.exit(main())
