"""`weir send --cca auto` as it is typed, over the loopback interface."""

import contextlib
import json
import os
import re
import subprocess

import pytest
from rig import WEIR

from weir import kernel_controls
from weir.cli import main
from weir.transfer import Server


@pytest.fixture
def place(tmp_path):
    (tmp_path / "root").mkdir()
    with Server([tmp_path / "root"], listen="127.0.0.1:0", keys=None) as server:
        yield "{}:{}/copy".format(*server.address)


def test_a_file_goes_once_the_path_was_listened_to_and_all_is_told(place, tmp_path):
    source, log = tmp_path / "source", tmp_path / "ops.log"
    source.write_bytes(b"weir" * 100_000)
    command = [WEIR, "send", source, place, "--insecure", "--cca", "auto", "--steady", "0 s"]
    done = subprocess.run(
        [*command, "--json", "--ops-log", log], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (choice,) = (event for event in events if event["event"] == "choice")
    assert choice["control"] in kernel_controls.offered()
    assert choice["probed_s"] >= 5
    assert sum(choice["probabilities"].values()) == pytest.approx(1, abs=0.01)
    assert 0 <= choice["bbr"] <= 1  # a busy machine may look like somebody
    assert events[-1]["event"] == "done"
    assert events[-1]["seconds"] > 5
    logged, steady = map(json.loads, log.read_text().splitlines())
    assert steady["event"] == "steady"
    assert {**choice, "time": None} == {**logged, "time": None}
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()


def test_a_small_file_is_not_held_up(place, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"weir" * 1000)
    command = [WEIR, "send", source, place, "--insecure", "--cca", "auto", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {event["event"] for event in events} <= {"start", "progress", "file", "done"}
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()


def test_a_log_on_a_full_disk_is_told_and_the_file_goes(place, tmp_path, capsys):
    source = tmp_path / "source"
    source.write_bytes(b"weir" * 1000)
    words = ["--insecure", "--cca", "auto", "--udp", "9", "--ops-log", "/dev/full"]
    words += ["--steady", "0 s"]  # so that it probes first
    assert main(["send", str(source), place, *words]) == 0
    told = capsys.readouterr().err
    assert "is weir probe --serve 9 running there" in told
    assert "/dev/full: No space left on device; nothing more is written there" in told
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()


def test_who_looks_on_sees_that_it_probes_and_what_it_chose(place, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"weir" * 1_000_000)
    words = ["--insecure", "--cca", "auto", "--rate", "20 Mbit/s", "--steady", "0 s"]
    shown = on_terminal([WEIR, "send", source, place, *words])
    assert re.search(r"0 bit/s  ETA \?  probing the path", shown)
    control = re.search(r"weir: (\w+) after [0-9.]+ s of probing", shown)[1]
    assert re.search(rf"Mbit/s  ETA [0-9.]+ s  {control}\b", shown)


def on_terminal(command):
    """What a command shows on a terminal; it has to succeed."""
    ours, theirs = os.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # EIO: the other end is gone
            while part := os.read(ours, 65_536):
                shown += part
    os.close(ours)
    assert running.returncode == 0, shown
    return shown.decode()


def test_a_pattern_that_nothing_was_learned_beside_is_told_and_the_file_goes(
    place, tmp_path, capsys
):
    source = tmp_path / "source"
    source.write_bytes(b"weir" * 1000)
    words = ["--insecure", "--cca", "auto", "--pattern", "B5-S5"]
    assert main(["send", str(source), place, *words]) == 0
    told = capsys.readouterr().err
    assert (
        "no recordings to recognise B5-S5 by: kernel-active.npz has C5-B5-C5-S5, S5-C5-S5-B5"
        in told
    )
    assert "weir ops collect --pattern B5-S5 makes them" in told
    assert f"the transfer goes on with {kernel_controls.default()}" in told
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--fairness", "0"], "--fairness is for --cca auto"),
        (["--fairness", "2"], "fairness 2: 0 (own goodput only)"),
        (["--steady", "9 s", "--cca", "cubic"], "--steady is for --cca auto"),
        (["--fallback", "cubic"], "--fallback is for --cca auto"),
        (["--streams", "auto", "--rate", "9 Mbit/s"], "while one stream sends all it can"),
        (["--streams", "auto", "--cca", "auto", "--steady", "9 s"], "while one stream sends"),
        (["--ops-log", "x"], "--ops-log is for --cca auto"),
        (["--pattern", "C5"], "--pattern is for --cca auto"),
        (["--ops-label", "x"], "--ops-label is for --cca auto"),
        (["--cca", "auto", "--probe", "loud"], "probe loud: there are passive and active"),
        (["--cca", "auto", "--probe", "passive", "--pattern", "C5"], "is for active probing"),
        (["--cca", "auto", "--neighbours", "3"], "neighbours is for classifier k-nn"),
        (["--cca", "auto", "--pattern", "C5", "--classifier", "weir"], "active probing has k-nn"),
        (["--cca", "auto", "--pattern", "C5", "--neighbours", "0"], "1 or more"),
        (["--cca", "auto", "--pattern", "C5", "--window", "1.5 s"], "whole seconds"),
        (["--cca", "auto", "--udp", "70000"], "udp 70000: a port is needed"),
        (["--cca", "auto", "--fairness", "2"], "fairness 2: 0 (own goodput only)"),
        (["--cca", "auto", "--steady", "soon"], "soon"),
        (["--cca", "auto", "--ops-log", "/none/x"], "/none/x: No such file"),
    ],
)
def test_bad_input_is_one_message(words, told, tmp_path, capsys):
    (tmp_path / "x").write_bytes(b"x")
    assert main(["send", str(tmp_path / "x"), "127.0.0.1:9/", "--insecure", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("cca", [[], ["--cca", "reno"]])
def test_the_number_of_streams_alone_may_be_chosen(place, tmp_path, cca):
    source = tmp_path / "source"
    source.write_bytes(b"weir" * 1000)
    words = ["--insecure", "--streams", "auto", *cca]
    assert main(["send", str(source), place, *words]) == 0
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()


def test_fetching_does_not_choose(capsys):
    for words in (["--cca", "auto"], ["--streams", "auto"]):
        assert main(["get", "127.0.0.1:9/x", "here", "--insecure", *words]) == 2
        assert "it is the sending host that chooses" in capsys.readouterr().err
