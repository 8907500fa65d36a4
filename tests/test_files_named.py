"""A file that somebody names may be of any kind: nobody waits for ever, nor fills the memory."""

import os
import resource
import subprocess

import pytest
from rig import WEIR

CALENDAR = ["calendar", "serve", "--listen", "127.0.0.1:0", "--tokens", "tokens.json", "--network"]
READING = [
    ["lab", "up"],
    ["sim"],
    ["compare", "result.json"],
    ["migrate", "plan"],
    ["calendar", "token", "list", "--tokens"],
    CALENDAR,
]
MEMORY_BYTES = 3 << 30
BOUND_S = 100


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a FIFO to which nobody writes."""
    place = tmp_path_factory.mktemp("named")
    os.mkfifo(place / "fifo")
    (place / "result.json").write_text('{"links": [], "flows": []}')
    return place


def said(place, arguments, file):
    """What a command says of a file, in bounded memory."""
    least = resource.getrlimit(resource.RLIMIT_AS)[1]
    done = subprocess.run(
        [WEIR, *arguments, file],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, least)),
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("weir: ") and done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_what_has_no_end_is_no_document(place, arguments):
    """It filled the memory."""
    assert "/dev/zero is larger than" in said(place, arguments, "/dev/zero")


def test_a_pipe_to_which_nobody_writes_is_not_waited_for(place):
    """It was waited for as long as the command lived, by each of them."""
    running = [
        subprocess.Popen([WEIR, *x, "fifo"], cwd=place, stderr=subprocess.PIPE, text=True)
        for x in READING[:2] + READING[3:]
    ]
    try:
        for one in running:
            _, told = one.communicate(timeout=BOUND_S)
            assert one.returncode == 2 and "is a FIFO" in told, told
    finally:
        for one in running:
            one.kill()
            one.wait()


def test_what_comes_through_a_pipe_is_read(place):
    """Such as what `weir lab network <(...)` of a shell hands over."""
    script = '"$0" sim <(printf "[lab]\\nname = 5\\n")'
    done = subprocess.run(
        ["bash", "-c", script, WEIR],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 2 and ":2: " in done.stderr, done.stderr
