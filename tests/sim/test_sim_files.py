"""What a simulation leaves in its folder: all of it, or what was there before."""

import resource
import signal
import subprocess
import time

import pytest
from rig import WEIR, until

from weir.cli import main
from weir.lab import parse
from weir.sim import Run
from weir.sim.run import run

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
stop = "%s"
"""
FOR_HOURS = "40000 s"
WHOLE = ["a.pcapng", "connections.parquet", "queues.parquet", "result.json"]


def held(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def kept(tmp_path):
    """A folder with what a short run left."""
    run(Run(parse(LINE % "20 ms"), out=tmp_path / "kept", captures=("a", "a")))
    assert sorted(held(tmp_path / "kept")) == WHOLE
    return tmp_path / "kept"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_a_simulation_of_hours_ends_when_it_is_told_to(tmp_path, kept, number, code):
    """Ctrl-C was heard when all was simulated, and a kill left files of no bytes."""
    before = held(kept)
    (tmp_path / "long.toml").write_text(LINE % FOR_HOURS)
    words = ["sim", tmp_path / "long.toml", "--out", kept, "--capture", "a"]
    with subprocess.Popen([WEIR, *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: list(kept.glob(".weir-sim-*/a.pcapng")))
            time.sleep(0.2)  # well within the simulation
            process.send_signal(number)
            assert process.wait(60) == code
            assert process.stderr.read() == ""
        finally:
            process.kill()
    assert held(kept) == before


def test_a_full_disk_leaves_what_a_run_before_has_kept(tmp_path, kept):
    """A result of one run stood beside traces of another, which were cut."""
    before = held(kept)
    (tmp_path / "line.toml").write_text(LINE % "1 s")
    done = subprocess.run(
        [WEIR, "sim", tmp_path / "line.toml", "--out", kept, "--capture", "a"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000,) * 2),
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"weir: {kept}/a.pcapng: ") and done.stderr.count("\n") == 1
    assert held(kept) == before


@pytest.mark.parametrize("name", WHOLE)
def test_a_folder_in_a_files_place_is_told_before_anything_is_simulated(tmp_path, capsys, name):
    (tmp_path / "long.toml").write_text(LINE % FOR_HOURS)
    (tmp_path / "out" / name).mkdir(parents=True)
    out = str(tmp_path / "out")
    assert main(["sim", str(tmp_path / "long.toml"), "--out", out, "--capture", "a"]) == 2
    assert f"{name}: cannot be written: Is a directory" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]


def test_a_capture_at_no_node_touches_no_file(tmp_path, capsys):
    """The file was made, or emptied, wherever that name led."""
    (tmp_path / "line.toml").write_text(LINE % "20 ms")
    (tmp_path / "mine.pcapng").write_text("mine")
    words = ["sim", str(tmp_path / "line.toml"), "--out", str(tmp_path / "out")]
    assert main([*words, "--capture", "../mine"]) == 2
    assert 'there is no node "../mine"' in capsys.readouterr().err
    assert (tmp_path / "mine.pcapng").read_text() == "mine"
