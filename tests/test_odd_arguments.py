"""Whatever stands in an argument, a command says what is wrong with it, and never how it broke."""

import json
import os
import subprocess
import sys

import pytest
from rig import WEIR

from weir.cli import main
from weir.errors import BadInput
from weir.home import below, expanded

LONG = "9" * 5000
NETWORK = {
    "nodes": {"a": {"address": "10.0.0.1"}, "s": {"datapath": "1"}},
    "links": [{"ends": ["a", "s"], "capacity": "1 Gbit/s"}],
}
CONTROL = ["control", "serve", "--network", "network.json"]
AGENT = ["agent", "--calendar", "http://127.0.0.1:9", "--token", "t", "--host", "a"]
SPLIT = ["--from", "127.0.0.1", "--to", "127.0.0.1"]
HOST = [*AGENT, "--root", ".", "--insecure"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*CONTROL, "--listen", "127.0.0.1:²"], "127.0.0.1:²"),
        ([*CONTROL, "--listen", f"127.0.0.1:{LONG}"], "HOST:PORT"),
        ([*CONTROL, "--listen", f"{'a' * 70}:6653"], "cannot listen"),
        ([*CONTROL, "--listen", "127.0.0.1:0", "--sflow", "127.0.0.1:²"], "127.0.0.1:²"),
        ([*CONTROL, "--listen", "127.0.0.1:0", "--sflow", f"{'a' * 70}:6343"], "cannot listen"),
        ([*HOST, "--advertise", "h:²"], "h:²"),
        ([*HOST, "--data-listen", "nowhere", "--advertise", "h:7411"], '"nowhere"'),
        ([*HOST, "--data-listen", "127.0.0.1:²", "--advertise", "h:7411"], "127.0.0.1:²"),
        ([*AGENT, "--root", ".", "--keys", "~nobody-is-called-so/keys"], "~nobody-is-called-so"),
        (["send", "network.json", "127.0.0.1:9/x", "--insecure", "--route", "²=1 Mbit/s"], "²"),
        (["keys", "show", "~nobody-is-called-so/keys"], "~nobody-is-called-so"),
        (["get", "127.0.0.1:9/x", ".", "--keys", "~nobody-is-called-so"], "~nobody-is-called-so"),
        ([*AGENT, "--insecure", "--root", "a" * 300], "File name too long"),
        (["relay", "proxy", "--listen", "\udcff"], "is not UTF-8 text"),
        (["send", "network.json", "127.0.0.1:9/x", "--hash", "\udcff"], "is not UTF-8 text"),
        (["get", "127.0.0.1:9/x", "y", "--cca", "\udcff"], "is not UTF-8 text"),
        (["relay", "split", *SPLIT, "--listen", "\udcff:1"], "is not UTF-8 text"),
        (["lab", "exec", "--lab", "\udcff", "a"], "no lab called"),
        (["probe", "\udcff"], "unknown host"),
        (["sim", "a" * 300], "nor one of Weir's scenarios"),
        (["sim", f"{'a' * 300}.toml"], "nor one of Weir's scenarios"),
        (["sim", f"folder/{'a' * 300}.toml"], "too long"),
        (["lab", "up", "a" * 300], "nor one of Weir's scenarios"),
        (["migrate", "plan", "a" * 300], "nor one of Weir's scenarios"),
        (["sim", "wan", "--seeds", LONG], "1-5"),
        (["sim", "wan", "--seeds", f"1-{LONG}"], "1-5"),
        (["sim", "wan", "--seeds", "\u0661-\u0663"], "1-5"),
    ],
)
def test_it_is_one_message_that_says_it_and_exit_code_2(tmp_path, monkeypatch, capfd, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "network.json").write_text(json.dumps(NETWORK))
    assert main(words) == 2
    told = capfd.readouterr()
    assert said in told.err
    assert told.err.startswith("weir: ") and told.err.count("\n") == 1 and len(told.err) < 6_000


def test_a_deadline_in_thousands_of_years_is_one_as_any(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    for by in ("9999-12-30T00:00:00Z", "+7900 years", "+2000000000 s"):
        code = main(["send", "file", "127.0.0.1:1/x", "--by", by, "--insecure"])
        said = capfd.readouterr().err
        assert (code, said.count("\n")) in {(2, 1), (6, 1)} and "weir: " in said, said


@pytest.mark.parametrize("as_json", [False, True])
def test_what_nobody_has_foreseen_is_one_line_too(tmp_path, as_json):
    """Put in place of a command: a fault of ours, and one of the system's."""
    code = """
import sys
from weir.cli import doctor, main
def run(args):
    raise {error}
doctor.run = run
sys.exit(main())
"""
    for error, said in (
        ("KeyError('a\\nb')", "a fault of this program: KeyError:"),
        ("OSError(5, 'Input/output error', '/disk/x')", "/disk/x: Input/output error"),
        ("MemoryError()", "a fault of this program: MemoryError"),
    ):
        command = [sys.executable, "-c", code.format(error=error), "doctor"]
        command += ["--json"] * as_json
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert said in done.stderr and done.stderr.startswith("weir: ")
        if as_json:
            assert json.loads(done.stdout)["exit_code"] == 1
        shown = {**os.environ, "WEIR_TRACEBACK": "1"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=shown)
        assert done.returncode == 1 and "Traceback" in done.stderr


def test_a_system_that_allows_no_more_threads_is_no_fault_of_this_program():
    """In Python's own words, for a thread that no address space has room for."""
    code = """
import sys, threading
from weir.cli import doctor, main
def run(args):
    threading.stack_size(1 << 47)
    threading.Thread(target=print).start()
doctor.run = run
sys.exit(main())
"""
    command = [sys.executable, "-c", code, "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stderr == "weir: this system allows no more threads; try again later\n"
    assert done.returncode == json.loads(done.stdout)["exit_code"] == 6


def test_a_home_that_nobody_knows_is_named(monkeypatch):
    with pytest.raises(BadInput, match="set HOME"):
        expanded("~nobody-is-called-so/x")
    monkeypatch.setenv("XDG_STATE_HOME", "/srv/state")
    assert str(below("XDG_STATE_HOME", ".local/state")) == "/srv/state"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/srv/home")
    assert str(below("XDG_STATE_HOME", ".local/state")) == "/srv/home/.local/state"


def test_a_picture_of_files_with_any_name_is_drawn(tmp_path):
    result = {"links": [], "flows": [{"name": "f", "goodput_bps": 1e6, "streams": []}]}
    name = os.fsencode(tmp_path) + b"/\xff\x01.json"
    with open(name, "w") as file:  # noqa: PTH123 (a name that is no text)
        json.dump(result, file)
    command = [WEIR, "compare", name, name, "--plot", tmp_path / "plot.svg"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "\\xff\\x01.json" in (tmp_path / "plot.svg").read_text(encoding="utf-8")
