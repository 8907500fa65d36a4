"""The calendar and its agents under seeded faults, in virtual time; `make soak` runs more seeds.

A failure names its seed, and the command that shows the smallest form of it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parent / "soak_calendar.py"
# What the tests of several parts share.
SHARED = str(SOAK.parents[1])


def soak(*options):
    environment = {**os.environ, "PYTHONPATH": SHARED}
    command = [sys.executable, SOAK, *options]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_whatever_goes_wrong_the_calendar_keeps_its_word():
    ran = soak("--count", "6")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout == "6 seeds, nothing found\n"


@pytest.mark.parametrize(
    ("fault", "faults", "seeds", "words"),
    [
        ("wall-clock", ["kill_every_s", "step_every_s"], "1-9", "time goes back"),
        ("answered-before-stored", ["kill_every_s"], "1-2", "not known any more|no transfer"),
        ("made-and-not-told", ["commit"], "2-9", "came after event"),
    ],
)
def test_a_fault_that_is_put_back_is_found(fault, faults, seeds, words):
    first, last = map(int, seeds.split("-"))
    which = ["--first", str(first), "--count", str(last - first + 1)]
    ran = soak(*which, "--quick", "--put-back", fault, "--only", *faults)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert re.search(words, ran.stdout)


def test_a_seed_gives_the_same_run_again():
    runs = {
        soak("--first", "5", "--count", "1", "--trouble", "15", "--trace").stdout for _ in range(2)
    }
    assert len(runs) == 1
    assert "accepted" in runs.pop()
