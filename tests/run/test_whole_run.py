"""A whole run in small, on the real kernel: what it writes, how it ends, what it leaves."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

START = [sys.executable, "-m", "weir.cli", "run"]
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


def leftovers():
    """Working folders, labs and processes of small runs."""
    folders = [str(x) for place in ("/dev/shm", "/tmp") for x in Path(place).glob("weir-run-*")]
    processes = []
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = status.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "/weir-run-" in command:
            processes.append(command)
    labs = [str(x) for x in Path("/run/weir").glob("small-run*")]
    return folders + processes + labs


def await_no_more_than(before):
    end = time.monotonic() + 60
    while more := [item for item in leftovers() if item not in before]:
        assert time.monotonic() < end, more
        time.sleep(0.1)


def test_a_run_that_keeps_its_promises(demonstration, tmp_path):
    before = leftovers()
    out = tmp_path / "out"
    argv = [*START, demonstration, "--out", out, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((out / "result.json").read_text())
    for half in HALVES:
        rows = {row["id"]: row for row in result[half]}
        assert set(rows) == {"patient", "eager"}
        assert all(row["verified"] for row in rows.values())
        assert rows["patient"]["bytes"] == 12_000_000
        # 12 MB cannot be there sooner than the link carries them.
        assert rows["patient"]["finish_s"] > 12e6 * 8 / 40e6
        assert 0.3 < result["utilisation"][half] <= 1.02
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
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["kind"] == "result"
    assert "2 of 2 files on time with Weir" in last["headline"]
    await_no_more_than(before)


def test_a_file_that_is_not_delivered_in_time_is_exit_code_1(demonstration, tmp_path):
    demonstration.write_text(DEMONSTRATION + IMPOSSIBLE)
    argv = [*START, demonstration, "--out", tmp_path / "out"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=280)
    assert done.returncode == 1, done.stdout + done.stderr
    rows = {
        row["id"]: row for row in json.loads((tmp_path / "out/result.json").read_text())["weir"]
    }
    assert rows["hopeless"]["finish_s"] is None
    assert rows["hopeless"]["on_time"] is rows["hopeless"]["verified"] is False
    assert rows["patient"]["on_time"]
    assert "2 of 3 files on time with Weir" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(demonstration, tmp_path, number):
    before = leftovers()
    argv = [*START, demonstration, "--out", tmp_path / "deep" / "out"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "patient" in line:
            break
    process.send_signal(number)
    assert process.wait(timeout=60) == 130
    process.stdout.close()
    assert not (tmp_path / "deep").exists()
    await_no_more_than(before)


def test_a_killed_run_takes_its_lab_with_it(demonstration, tmp_path):
    before = leftovers()
    process = subprocess.Popen(
        [*START, demonstration, "--out", tmp_path / "out"], stdout=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if "patient" in line:
            break
    process.kill()
    process.wait(timeout=60)
    process.stdout.close()
    end = time.monotonic() + 60
    while [x for x in leftovers() if x not in before and not x.startswith(("/dev/shm", "/tmp"))]:
        assert time.monotonic() < end, leftovers()
        time.sleep(0.1)
    # What is left of it, its folder, goes with the next run.
    from weir.demonstration import workspace

    with workspace.open_workspace(1):
        pass
    await_no_more_than(before)
