"""Programs inside a lab: how they are called, and when they are ready."""

import subprocess
import sys

import pytest

from studies.rig.processes import started, weir_command
from weir.errors import Unavailable


class NoLab:
    """A host that is this one."""

    def popen(self, node, command, **options):
        return subprocess.Popen(command, **options)


def test_a_program_that_said_a_line_is_ready_and_has_gone_in_the_end():
    program = "print('ready', flush=True); import time; time.sleep(600)"
    with started(NoLab(), "a", [sys.executable, "-c", program]) as process:
        assert process.poll() is None
    assert process.returncode < 0


def test_a_program_that_ends_without_a_word_was_never_ready():
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    with pytest.raises(Unavailable, match=r"on a ended with 3"), started(NoLab(), "a", command):
        pass


def test_weir_is_called_by_this_interpreter():
    said = subprocess.run(weir_command("--version"), capture_output=True, text=True, check=True)
    assert said.stdout.startswith("weir ")
