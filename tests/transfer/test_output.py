"""Whoever reads the output of a transfer may go away: it goes on, and says how it ended."""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from rig import PATIENCE_S, WEIR
from transfer_world import poll, weir

from weir.cli import main
from weir.transfer import Transfer, watch

SIZE = 1_500_000
# Longer than a path may be, and than a field of a message.
LONG, LONGER = "a/" * 2_500, "a/" * 40_000
SLOW = ["--insecure", "--rate", "20 Mbit/s"]  # 0.6 s: what is printed later finds nobody


@pytest.fixture
def place(serve, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "file").write_bytes(os.urandom(SIZE))
    return serve("--root", root, "--insecure").listen


def codes(script_words: dict[str, list]) -> dict[str, int]:
    """Runs each script of bash, in which `"$@"` is its weir command, all at the same time."""
    running = {
        name: subprocess.Popen(
            ["bash", "-c", f"code=9; {ENDURED[name]}; exit $code", "bash", WEIR, *map(str, words)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name, words in script_words.items()
    }
    return {name: process.wait(PATIENCE_S) for name, process in running.items()}


# What becomes of the command's streams; `code` is its exit code.
ENDURED = {
    "the reader of events leaves": '"$@" --json | head -1; code=${PIPESTATUS[0]}',
    "nobody reads events": '"$@" --json | true; code=${PIPESTATUS[0]}',
    "the reader of both leaves": '"$@" --json 2>&1 | head -c 1; code=${PIPESTATUS[0]}',
    "the disk is full": '"$@" --json >/dev/full; code=$?',
    "errors have no room": '"$@" --hashes 2>/dev/full; code=$?',
    "no standard output": '"$@" --json >&-; code=$?',
    "no standard error": '"$@" 2>&-; code=$?',
    "no standard stream": '"$@" <&- >&- 2>&-; code=$?',
}


@pytest.mark.parametrize("command", ["send", "get"])
def test_a_transfer_goes_on_when_nobody_reads(place, tmp_path, command):
    here, there = tmp_path / "file", tmp_path / "root" / "there"
    if command == "get":
        assert weir("send", here, f"{place}/there", "--insecure").returncode == 0
    words, arrived = {}, {}
    for number, name in enumerate(ENDURED):
        arrived[name] = tmp_path / f"copy{number}"
        words[name] = ["get", f"{place}/there", arrived[name], *SLOW]
        if command == "send":
            arrived[name] = there.with_name(f"copy{number}")
            words[name] = ["send", here, f"{place}/copy{number}", *SLOW]
    assert codes(words) == dict.fromkeys(ENDURED, 0)
    for copy in arrived.values():
        assert copy.read_bytes() == here.read_bytes()


def test_a_failure_stays_one_when_nobody_reads(place, tmp_path):
    words = ["send", tmp_path / "file", f"{place}/no/../such", "--insecure"]
    said = weir(*words)
    assert said.returncode not in (0, 120)
    assert codes(dict.fromkeys(ENDURED, words)) == dict.fromkeys(ENDURED, said.returncode)


def targets(table):
    """What a process's descriptors are open on."""
    found = []
    for link in table.iterdir():
        with contextlib.suppress(OSError):  # It is closed again.
            found.append(str(link.readlink()))
    return found


def test_a_file_is_never_opened_as_a_standard_stream(place, tmp_path):
    """The kernel's own table of descriptors is the oracle."""
    words = ["send", tmp_path / "file", f"{place}/there", "--insecure", "--rate", "200 kbit/s"]
    closed = 'exec "$@" <&- >&- 2>&-'
    with subprocess.Popen(["bash", "-c", closed, "bash", WEIR, *words]) as process:
        table = Path(f"/proc/{process.pid}/fd")
        poll(lambda: str(tmp_path / "file") in targets(table))
        assert [str((table / str(number)).readlink()) for number in range(3)] == ["/dev/null"] * 3
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130


@pytest.mark.parametrize("command", ["send", "get"])
def test_what_arrives_late_says_so_by_its_exit_code(place, tmp_path, command):
    words = ["send", tmp_path / "file", f"{place}/there"]
    if command == "get":
        assert weir(*words, "--insecure").returncode == 0
        words = ["get", f"{place}/there", tmp_path / "copy"]
    done = weir(*words, *SLOW, "--by", "+0.3 s", "--json")
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, last["event"], last["on_time"]) == (7, "done", False)
    assert -60 < last["slack_s"] < 0
    assert "late" in done.stderr
    arrived = tmp_path / ("copy" if command == "get" else "root/there")
    assert arrived.stat().st_size == SIZE
    in_time = weir(*words, "--insecure", "--by", "+60 s", "--json")
    assert json.loads(in_time.stdout.splitlines()[-1])["on_time"] is True
    assert in_time.returncode == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["send", "/not/there", "127.0.0.1:1/x", "--insecure"], 2),
        (["send", "/etc/hostname", "127.0.0.1:1/x", "--insecure"], 6),
        (["send", "/etc/hostname", "127.0.0.1:1/x", "--insecure", "--rate", "fast"], 2),
        (["send", "/etc/hostname", "127.0.0.1:1/x", "--insecure", "--by", "soon"], 2),
        (["send", "/etc/hostname", "127.0.0.1:1/x", "--insecure", "--fairness", "1"], 2),
        (["send", "/etc/hostname", "127.0.0.1:1/x", "--keys", "/not/there"], 2),
        (["get", "127.0.0.1:1/x", "/tmp/x", "--insecure"], 6),
        (["get", "127.0.0.1:1/x", "/tmp/x", "--insecure", "--cca", "auto"], 2),
        (["send", "/etc/hostname", f"127.0.0.1:1/{LONG}", "--insecure"], 2),
        (["send", "/etc/hostname", f"127.0.0.1:1,127.0.0.1:2/{LONGER}", "--insecure"], 2),
        (["get", f"127.0.0.1:1/{LONG}", "/tmp/x", "--insecure"], 2),
        (["get", f"127.0.0.1:1{'/' * 4097}x", "/tmp/x", "--insecure"], 2),
        (["get", *["127.0.0.1:1/x/"] * 8193, "/tmp/x", "--insecure"], 2),
        (["get", *[f"127.0.0.1:1/{LONG[:3000]}/"] * 400, "/tmp/x", "--insecure"], 2),
        (["get", "127.0.0.1:1/x", "/tmp/x", "--insecure", "--cca", "c" * 16], 2),
        (["get", "127.0.0.1:1/x", "/tmp/x", "--insecure", "--cca", "c" * 70_000], 2),
        (["verify", "/etc/hostname", f"127.0.0.1:1/{LONG}", "--insecure"], 2),
        (["verify", "/etc/hostname", "127.0.0.1:1,127.0.0.1:2/x", "--insecure"], 2),
        (["verify", "dtn1,dtn2:7411/x", "/etc/hostname", "--insecure"], 2),
        (["verify", f"127.0.0.1:1/{LONGER}", "/etc/hostname", "--insecure"], 2),
        (["probe"], 2),
        (["probe", "no.such.host.invalid"], 2),
        (["ops", "show", "/not/there"], 2),
        (["compare", "/not/there", "/nor/there"], 2),
        (["lab", "status", "--lab", "none-of-this-name"], 2),
        (["run", "/not/there"], 2),
    ],
)
def test_every_refusal_is_one_event_under_json(words, code, capsys):
    returned = main([*words, "--json"])
    said = capsys.readouterr()
    events = map(json.loads, said.out.splitlines())
    errors = [event for event in events if event.get("event") == "error"]
    assert [one["exit_code"] for one in errors] == [code] == [returned]
    assert errors[0]["message"]
    assert said.err.startswith("weir: ")


def test_a_cancelled_transfer_says_130_in_its_event_too(place, tmp_path):
    command = ["send", tmp_path / "file", f"{place}/there", "--insecure", "--rate", "200 kbit/s"]
    begun = [WEIR, *map(str, command), "--json"]
    with subprocess.Popen(begun, stdout=subprocess.PIPE, text=True) as process:
        poll(lambda: json.loads(process.stdout.readline())["event"] == "progress")
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=PATIENCE_S)[0]
    assert json.loads(rest.splitlines()[-1])["exit_code"] == process.returncode == 130


def test_what_is_done_before_ctrl_c_comes_is_not_called_cancelled(place, tmp_path, capsys):
    """It said that all was sent, and then that it was cancelled, with 130."""
    transfer = Transfer.send([tmp_path / "file"], f"{place}/there", keys=None)

    class Interrupted:
        pressed = False

        def __getattr__(self, name):
            return getattr(transfer, name)

        def wait(self, _timeout):
            transfer.wait()
            if not self.pressed:
                self.pressed = True
                raise KeyboardInterrupt
            return True

    watch.watch(Interrupted(), watch.Line("sent", None))
    assert capsys.readouterr().err.startswith("sent: 1 file,")
