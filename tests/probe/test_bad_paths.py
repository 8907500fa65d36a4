"""`weir send --cca auto` over paths hard to tell: the file goes, and what is unsure is told."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time

import pytest
from probe_rig import Pair, pair
from rig import WEIR, lab_lacks

from weir.lab import Lab, parse

PORT = 7411
SIZE = 300_000


TWO_WAYS = """
[lab]
name = "two-ways"
[hosts]
a = {}
b = {}
[[link]]
name = "short"
ends = ["a", "b"]
rate = "50 Mbit/s"
delay = "10 ms"
[[link]]
name = "long"
ends = ["a", "b"]
rate = "50 Mbit/s"
delay = "50 ms"
"""
# `weir`, in whose world less time goes by until a change is one.
HASTY = """
import sys
from weir.congestion.cycle import change, cycle
change.SETTLE_S, change.BLOCK_S, cycle._LEAST_STEADY_S = 2.0, 1.0, 6.0
from weir.cli import main
sys.exit(main())
"""


def served(stack, lab, root):
    """Where a server on b has this root, while the stack stands."""
    place = f"{lab.address('b')}:{PORT}"
    serve = ["serve", "--root", root, "--listen", place, "--insecure", "--json"]
    server = lab.popen("b", [WEIR, *map(str, serve)], stdout=subprocess.PIPE, text=True)
    stack.enter_context(server)
    stack.callback(server.terminate)
    assert server.stdout.readline()
    return place


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """A function that sends a file over a link of these keys; what is told of the choice."""
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    source, root = tmp_path / "source", tmp_path / "root"
    source.write_bytes(os.urandom(SIZE))
    root.mkdir()

    def send(name, **keys):
        with contextlib.ExitStack() as stack:
            lab = Pair(stack, pair(name, **keys)).lab
            place = served(stack, lab, root)
            command = ["send", source, f"{place}/copy", "--insecure", "--json"]
            command += ["--cca", "auto", "--steady", "0 s"]  # so that it is probed first
            told = lab.run(
                "a", [WEIR, *map(str, command)], capture_output=True, text=True, timeout=300
            )
            events = [json.loads(line) for line in told.stdout.splitlines()]
        assert events[-1]["event"] == "done"
        assert (root / "copy").read_bytes() == source.read_bytes()
        (event,) = (one for one in events if one["event"] in ("choice", "fallback"))
        return event

    return send


@pytest.mark.alone
def test_a_path_that_is_longer_one_way_is_as_one_that_is_not(chosen, measured):
    keys = {"forward": '{ rate = "100 Mbit/s", delay = "5 ms" }'}
    keys["backward"] = '{ rate = "10 Mbit/s", delay = "45 ms" }'

    def check():
        choice = chosen("askew", **keys)
        assert choice["event"] == "choice"
        assert choice["rtt_ms"]["min"] == pytest.approx(50, abs=1)
        # Nobody is there, unless the machine is so busy that it looks like nothing that is known.
        assert not choice["known"] or choice["bbr"] < 0.5

    measured(check)


def test_a_path_that_loses_much_is_unknown_and_the_control_stays(chosen):
    keys = {"forward": '{ delay = "5 ms" }', "backward": '{ delay = "20 ms", loss = "45 %" }'}
    choice = chosen("lossy", **keys)
    assert choice["event"] == "choice"
    # What the connection has is what its route says: CUBIC, where the scenario says nothing.
    assert (choice["known"], choice["control"]) == (False, "cubic")
    assert "of the samples of 10 s have no reply" in choice["why"]
    assert "cubic is kept" in choice["why"]


def test_a_route_that_changes_is_probed_again_and_the_file_goes_on(tmp_path, monkeypatch):
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    source, root = tmp_path / "source", tmp_path / "root"
    source.write_bytes(os.urandom(18_000_000))
    root.mkdir()
    with contextlib.ExitStack() as stack:
        lab = stack.enter_context(Lab.up(parse(TWO_WAYS)))
        place = served(stack, lab, root)
        # Paced, nobody listens: the kernel's counters have to tell.
        words = [source, f"{place}/copy", "--insecure", "--cca", "auto", "--rate", "8 Mbit/s"]
        command = [sys.executable, "-c", HASTY, "send", *map(str, words), "--json"]
        sender = stack.enter_context(lab.popen("a", command, stdout=subprocess.PIPE, text=True))
        events = map(json.loads, sender.stdout)
        first = next(one for one in events if one["event"] == "choice")
        begin_s = time.monotonic()
        next(one for one in events if time.monotonic() - begin_s > 5)
        for here, there in (("a", "b"), ("b", "a")):
            device = lab.device(here, "long")
            lab.run(here, ["ip", "route", "replace", lab.address(there), "dev", device])
        later = list(events)
    changes = [one["what"] for one in later if one["event"] == "change"]
    choices = [one for one in later if one["event"] == "choice"]
    last = later[-1]
    # On a busy machine the goodput may seem to have changed, before this or by it.
    assert changes
    for times in re.findall("round-trip time is ([0-9.]+) times what it was", " ".join(changes)):
        # A look may fall into the time in which the kernel's smoothed value climbs.
        assert 0.15 < float(times) < 7
    assert first["rtt_ms"]["min"] == pytest.approx(20, abs=2)
    assert choices[-1]["rtt_ms"]["min"] == pytest.approx(100, abs=4)
    assert choices[-1]["next_offset"] > 0
    assert last["event"] == "done"
    assert (root / "copy").read_bytes() == source.read_bytes()
