"""A whole run in small, on the real kernel: what it writes, how it ends, what it leaves."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
from pathlib import Path

import pytest
from rig import PATIENCE_S, WEIR, opened_by, until

from studies.rig import workspace

START = [WEIR, "run"]
HALVES = ("weir", "plain")
LAB = """
[lab]
name = "small-run"
seed = 5
[hosts.a]
[hosts.b]
[hosts.c]
[routers.r]
[routers.s]
[[link]]
ends = ["a", "r"]
rate = "1 Gbit/s"
delay = "1 ms"
[[link]]
ends = ["c", "r"]
rate = "1 Gbit/s"
delay = "1 ms"
[[link]]
name = "core"
ends = ["r", "s"]
rate = "40 Mbit/s"
delay = "3 ms"
[[link]]
ends = ["s", "b"]
rate = "1 Gbit/s"
delay = "1 ms"
[[traffic]]
kind = "udp"
from = "c"
to = "b"
rate = "4 Mbit/s"
"""
DEMONSTRATION = """
lab = "lab.toml"
bottleneck = "core"
calendar_share = "80 %"
calendar_host = "c"
epoch = "500 ms"
[[transfer]]
id = "patient"
from = "a"
to = "b"
size = "12 MB"
deadline = "40 s"
[[transfer]]
id = "eager"
from = "a"
to = "b"
size = "4 MB"
at = "500 ms"
deadline = "1 s"
if_refused = "earliest"
"""
# More than the link could carry in time, and no leave to take another deadline.
IMPOSSIBLE = """
[[transfer]]
id = "hopeless"
from = "a"
to = "b"
size = "9 MB"
at = "1 s"
deadline = "1500 ms"
"""


@pytest.fixture
def demonstration(tmp_path):
    (tmp_path / "lab.toml").write_text(LAB)
    path = tmp_path / "demonstration.toml"
    path.write_text(DEMONSTRATION)
    return path


class Run:
    """A `weir run` of its own, and what there is of it on this machine at any moment."""

    def __init__(self, tmp_path, demonstration, *options):
        # Its labs are here, and the name in their environment tells its processes from others'.
        self.labs = tmp_path / f"labs-{secrets.token_hex(4)}"
        environment = os.environ | {"WEIR_RUNTIME_DIR": str(self.labs)}
        argv = [*START, demonstration, "--out", tmp_path / "deep" / "out", *options]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)
        self.printed = [self.process.stdout.readline()]
        assert "making" in self.printed[0]
        held = opened_by(self.process.pid)
        (self.folder,) = (x.parent for x in held if x.match("weir-run-*/lock"))

    def until_said(self, words):
        while words not in self.printed[-1]:
            self.printed.append(self.process.stdout.readline())
            assert self.printed[-1], "it ended"

    def end(self):
        """The exit code; what it printed is complete."""
        self.printed += self.process.stdout
        self.process.stdout.close()
        return self.process.wait(timeout=PATIENCE_S)

    def left(self):
        """Processes, labs and folders of this run."""
        marks = str(self.labs).encode(), str(self.folder).encode()
        found = [path for path in (self.folder,) if path.exists()]
        found += [path for path in self.labs.glob("*") if path.name != "lock"]
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                told = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
                found += [process] if any(mark in told for mark in marks) else []
        return found


def test_a_run_that_keeps_its_promises(demonstration, tmp_path, measured):
    out = tmp_path / "deep" / "out"

    def check():
        run = Run(tmp_path, demonstration, "--json")
        assert run.left()
        assert run.end() == 0, run.printed
        result = json.loads((out / "result.json").read_text())
        assert all(0.3 < result["utilisation"][half] <= 1.02 for half in HALVES)
        return run, result

    run, result = measured(check)
    for half in HALVES:
        rows = {row["id"]: row for row in result[half]}
        assert set(rows) == {"patient", "eager"}
        assert all(row["verified"] for row in rows.values())
        assert rows["patient"]["bytes"] == 12_000_000
        # 12 MB cannot be there sooner than the link carries them.
        assert rows["patient"]["finish_s"] > 12e6 * 8 / 40e6
        moved = sum(result["timelines"][half]["flows_bps"]["patient"])
        assert moved * result["timelines"][half]["step_s"] / 8 == pytest.approx(12e6, rel=0.02)
    # The refusal, its offer, and the acceptance of that offer, the same in both halves.
    kinds = [x["kind"] for x in result["decisions"] if x["id"] == "eager" and x["kind"] != "rate"]
    assert kinds == ["refused", "accepted"]
    offers = {next(x for x in result[half] if x["id"] == "eager")["deadline_s"] for half in HALVES}
    assert len(offers) == 1
    assert offers.pop() > 1.0
    assert result["seed"] == 5
    assert (out / "index.html").read_text().startswith("<!doctype html>")
    last = json.loads(run.printed[-1])
    assert last["kind"] == "result"
    assert "2 of 2 files on time with Weir" in last["headline"]
    until(lambda: not run.left())


def test_a_file_that_is_not_delivered_in_time_is_exit_code_1(demonstration, tmp_path):
    demonstration.write_text(DEMONSTRATION + IMPOSSIBLE)
    run = Run(tmp_path, demonstration)
    assert run.end() == 1, run.printed
    result = json.loads((tmp_path / "deep" / "out" / "result.json").read_text())
    rows = {row["id"]: row for row in result["weir"]}
    assert rows["hopeless"]["finish_s"] is None
    assert rows["hopeless"]["on_time"] is rows["hopeless"]["verified"] is False
    assert rows["patient"]["on_time"]
    on_time = sum(row["on_time"] for row in rows.values())
    assert f"{on_time} of 3 files on time with Weir" in "".join(run.printed)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(demonstration, tmp_path, number):
    run = Run(tmp_path, demonstration)
    run.until_said("patient")
    assert len(run.left()) > 5
    run.process.send_signal(number)
    assert run.end() == 130
    assert not (tmp_path / "deep").exists()
    until(lambda: not run.left())


@pytest.mark.alone
def test_a_killed_run_takes_its_lab_with_it(demonstration, tmp_path):
    run = Run(tmp_path, demonstration)
    run.until_said("patient")
    run.process.kill()
    run.end()
    until(lambda: run.left() == [run.folder])
    # What is left of it, its folder, goes with the next run.
    with workspace.open_workspace(1):
        pass
    assert run.left() == []
