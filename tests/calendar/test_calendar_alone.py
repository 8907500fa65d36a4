"""Two agents at one edge: the second one ends, and has changed nothing."""

import os
import subprocess
import sys

import pytest
from rig import PATIENCE_S, WEIR, free_port

from weir.calendar.agents.alone import alone
from weir.errors import BadInput

HOLDS = """
import sys
from weir.calendar.agents.alone import alone
with alone(sys.argv[1:]):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(*places, before=()):
    """A process that holds places, or what it said of that."""
    command = [*before, sys.executable, "-c", HOLDS, *places]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    return process, process.stdout.readline() == "held\n"


def test_a_place_is_one_agents_until_it_ends_however_it_does():
    first, is_held = holder("wan0", "wan1")
    assert is_held
    with pytest.raises(BadInput, match="another agent enforces rates at wan1"), alone(["wan1"]):
        pass
    with alone(["wan2", "/run/../control"]):
        pass
    first.kill()
    first.communicate(timeout=PATIENCE_S)
    with alone(["wan1"]):
        second, is_held = holder("wan1")
        assert not is_held and "BadInput" in second.communicate(timeout=PATIENCE_S)[1]
        # A device of that name in another network namespace is another device.
        if os.geteuid() == 0:
            other, is_held = holder("wan1", before=["unshare", "--net"])
            assert is_held
            other.communicate("", timeout=PATIENCE_S)


def test_the_command_says_so_before_it_touches_a_device_or_asks_a_calendar():
    command = [WEIR, "agent", "--calendar", f"http://127.0.0.1:{free_port()}", "--token", "x"]
    with alone(["wan0"]):
        for more in (["--device", "wan0"], ["--device", "wan9", "--device", "wan0=1 Gbit/s"]):
            told = subprocess.run(
                [*command, "--host", "west", "--edge", *more],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
            assert told.returncode == 2, told.stderr
            assert "another agent enforces rates at wan0: end that one first" in told.stderr
