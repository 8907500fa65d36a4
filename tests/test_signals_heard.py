"""Ctrl-C at a terminal reaches a command and all that it has started: it ends, without a word."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from rig import WEIR, until

from weir import signals
from weir.errors import BadInput

LINE = """
[hosts]
a = {}
b = {}
[[link]]
ends = ["a", "b"]
rate = "1 Gbit/s"
delay = "5 ms"
[[traffic]]
kind = "iperf3"
from = "a"
to = "b"
stop = "40000 s"
"""
STUDY = ["calendar", "study", "--requests", "1000000", "--policy", "weir"]


def threads_of(process):
    return len(list(Path(f"/proc/{process.pid}/task").iterdir()))


def children_of(process):
    each = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [child for path in each for child in path.read_text().split()]


def interrupted(words, is_begun, folder):
    """The exit code of a command that is interrupted by its terminal, what it says, how long."""
    with subprocess.Popen(
        [WEIR, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            until(lambda: is_begun(process), timeout_s=60)
            time.sleep(0.3)
            begin_s = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)
            told, said = process.communicate(timeout=100)
        finally:
            process.kill()
    return process.returncode, told, said, time.monotonic() - begin_s


def test_a_study_of_minutes_ends_at_once(tmp_path):
    """It was heard when the study was over."""
    *found, took_s = interrupted(STUDY, lambda process: threads_of(process) > 1, tmp_path)
    assert found == [130, "", ""]
    assert took_s < 20


@pytest.mark.parametrize("number", [1, 2])
def test_workers_that_are_being_started_say_nothing(tmp_path, number):
    """Each told how it had been interrupted, and Dask that it could start none."""
    (tmp_path / "line.toml").write_text(LINE)
    words = ["sim", "line.toml", "--seeds", "1-2", "--workers", "2"]

    def is_begun(process):
        return len(children_of(process)) >= number

    *found, _ = interrupted(words, is_begun, tmp_path)
    assert found == [130, "", ""]


def test_what_is_done_beside_answers_or_fails_as_if_it_were_not():
    assert signals.beside(lambda: 5) == 5
    with pytest.raises(BadInput, match="never"):
        signals.beside(lambda: fail(BadInput("never")))
    seen = []
    other = threading.Thread(target=lambda: seen.append(signals.beside(threading.get_ident)))
    other.start()
    other.join()
    assert seen == [other.ident]


def test_a_polite_kill_unwinds_what_is_done_and_in_another_thread_nothing_is_changed():
    left = []

    def other():
        with signals.heeded():
            left.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert left == [before]
    with pytest.raises(SystemExit) as ended, signals.heeded():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        finally:
            left.append("in order")
    assert ended.value.code == 143 and left[1:] == ["in order"]
    assert signal.getsignal(signal.SIGTERM) == before


def fail(error):
    raise error
