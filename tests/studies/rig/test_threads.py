"""Runs in labs that go on at once: Ctrl-C and a polite kill end them, and leave nothing."""

import os
import signal
import subprocess
import threading
import time

import pytest
from rig import WEIR, lab_lacks, until

from studies.rig.threads import at_once
from weir.errors import Unavailable
from weir.kernel_controls import available
from weir.lab import Lab, ending, parse

LINE = """
[lab]
name = "line"
[hosts]
a = {}
b = {}
[[link]]
ends = ["a", "b"]
"""


@pytest.fixture
def run_dir(tmp_path, monkeypatch):
    """A folder for the labs of one test, in which nothing is at its end."""
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    yield tmp_path / "run"
    assert left(tmp_path / "run") == []


def left(folder):
    return sorted({path.name for path in folder.iterdir()} - {"lock", ".relays"})


def test_an_interrupted_thread_does_not_wait_for_its_lab(run_dir):
    """It waited until what ran in the lab had ended by itself."""
    is_up = threading.Event()

    def wait_inside():
        with Lab.up(parse(LINE)) as lab, lab.popen("a", ["sleep", "90"]) as sleeper:
            is_up.set()
            return sleeper.wait()

    def interrupted():
        with at_once(1) as pool:
            begun.extend(pool.submit(wait_inside) for _ in range(2))
            assert is_up.wait(60)
            raise KeyboardInterrupt

    begun = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert begun[0].result(0) != 0, "killed, or never let in"
    assert begun[1].cancelled()


def test_an_error_lets_what_has_begun_go_on_to_its_end():
    is_over = threading.Event()

    def failed():
        with at_once(1) as pool:
            begun.append(pool.submit(is_over.wait, 60))
            begun.append(pool.submit(is_over.wait, 60))
            until(begun[0].running)
            threading.Timer(0.1, is_over.set).start()
            raise Unavailable("no more")

    begun = []
    with pytest.raises(Unavailable):
        failed()
    assert begun[0].result(0) is True
    assert begun[1].cancelled()


def test_no_lab_comes_up_while_all_go_down(run_dir):
    with Lab.up(parse(LINE), detached=True) as apart:
        with ending.given_up(), pytest.raises(Unavailable, match="ending"):
            Lab.up(parse(LINE))
        assert left(run_dir) == [apart.name], "a lab that outlives this process stays"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_demonstration_ends_when_it_is_told_to(run_dir, tmp_path, number, code):
    """Ctrl-C was waited for until all had been shown, and a kill left folders and tracebacks."""
    if "bbr" not in available():
        pytest.skip("this kernel has no BBR")
    with subprocess.Popen(
        [WEIR, "demo", "ops", "--json", "--out", tmp_path / "out"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as process:
        try:
            until(lambda: run_dir.exists() and list(run_dir.glob("demo-*/state.json")))
            begin_s = time.monotonic()
            os.killpg(process.pid, number)  # as a terminal does
            told, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, told, said) == (code, "", "")
    assert time.monotonic() - begin_s < 20, "which is less than a case takes"
    assert not (tmp_path / "out").exists()
