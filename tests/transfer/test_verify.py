"""`weir verify`: what it says of two trees, against `diff -r` and the bytes themselves."""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
from pathlib import Path

import pytest
from rig import PATIENCE_S, WEIR, free_port
from transfer_world import flip, poll, weir
from wire_peer import links, message, offer

from weir.transfer import Server, keys_init
from weir.transfer.verify import Place, differences, read_both

CHUNK = 2**20


@pytest.fixture
def tree(tmp_path):
    """Files of all sizes that matter, links, names that are not text; 80 files make two batches."""
    top = tmp_path / "tree"
    (top / "deep" / "er").mkdir(parents=True)
    (top / "empty").mkdir()
    for size in (0, 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5):
        (top / f"of-{size}").write_bytes(os.urandom(size))
    for number in range(80):
        (top / "deep" / f"{number}").write_bytes(os.urandom(number))
    (top / "deep" / "er" / os.fsdecode(b"n\xff\x1b\n")).write_text("odd")
    (top / "link").symlink_to("deep/7")
    (top / "dangling").symlink_to("nowhere")
    return top


@pytest.fixture
def served(tmp_path, tree):
    """A server's copy of the tree, and the address."""
    root = tmp_path / "root"
    root.mkdir()
    shutil.copytree(tree, root / "tree", symlinks=True)
    with Server([root], listen="127.0.0.1:0", keys=None) as server:
        yield root / "tree", "{}:{}".format(*server.address)


def told(first, second):
    """(path, what) of each difference, from the library."""
    _, one, _, other = read_both(Place(str(first), None), Place(str(second), None))
    return [(found.path, found.what) for found in differences(one, other)]


def test_equal_trees_are_equal_wherever_they_are(tree, served, tmp_path):
    copy, address = served
    for first, second in (
        (tree, f"{address}/tree"),
        (tree, f"{address}/"),
        (f"{tree}/", f"{address}/tree/"),
        (f"{address}/tree", tree),
        (f"{address}/tree", f"{address}/tree/"),
        (tree, copy),
    ):
        assert told(first, second) == []
    # Neither times nor permissions are content.
    os.utime(copy / "of-1", (1, 1))
    (copy / "of-1").chmod(0o600)
    assert told(tree, f"{address}/tree") == []


# What is done to the copy, and what is then said of which name.
CHANGES = {
    "a byte in the middle": ("of-3145733", "content", lambda it: flip(it, 2 * CHUNK + 7)),
    "the last byte": ("of-1048577", "content", lambda it: flip(it, CHUNK)),
    "the only byte": ("of-1", "content", lambda it: flip(it, 0)),
    "a byte more": ("of-0", "content", lambda it: it.write_bytes(b"x")),
    "a file gone": ("deep/79", "missing", lambda it: it.unlink()),
    "a file more": ("deep/er/more", "extra", lambda it: it.write_text("x")),
    "a directory gone": ("empty", "missing", lambda it: it.rmdir()),
    "a directory more": ("empty/more", "extra", lambda it: it.mkdir()),
    "a link instead": ("of-1", "kind", lambda it: (it.unlink(), it.symlink_to("of-0"))),
    "another target": ("link", "target", lambda it: (it.unlink(), it.symlink_to("deep/8"))),
    "a name with escapes": ("n\x1b[2J", "extra", lambda it: it.write_text("x")),
}


@pytest.mark.parametrize(("name", "what", "change"), CHANGES.values(), ids=CHANGES.keys())
def test_each_difference_is_found_and_named(tree, served, name, what, change):
    copy, address = served
    change(copy / name)
    same = subprocess.run(["diff", "-rq", "--no-dereference", tree, copy], capture_output=True)
    assert same.returncode == 1  # the oracle sees it too
    assert told(tree, f"{address}/tree") == [(name.encode(), what)]
    swapped = {"missing": "extra", "extra": "missing"}.get(what, what)
    assert told(f"{address}/tree", tree) == [(name.encode(), swapped)]


def test_the_command_says_it_by_lines_events_and_codes(tree, served):
    copy, address = served
    words = ["verify", tree, f"{address}/tree", "--insecure"]
    same = weir(*words)
    assert (same.returncode, same.stderr) == (0, "")
    assert same.stdout.startswith("the same: 86 files")
    flip(copy / "of-1", 0)
    (copy / "n\x1b[2J\n").write_text("x")
    differs = weir(*words)
    assert differs.returncode == 5
    assert differs.stdout.splitlines() == ["n\\x1b[2J\\n: extra", "of-1: the contents differ"]
    events = [json.loads(line) for line in weir(*words, "--json").stdout.splitlines()]
    assert [one["event"] for one in events] == ["difference", "difference", "done"]
    assert [one["what"] for one in events[:-1]] == ["extra", "content"]
    assert events[-1]["differences"] == 2


def test_a_sent_file_is_verified_under_its_own_and_another_name(served, tmp_path):
    copy, address = served
    file = tmp_path / "file"
    file.write_bytes(os.urandom(3 * CHUNK))
    for place in (f"{address}/", f"{address}/renamed"):
        assert weir("send", file, place, "--insecure").returncode == 0
        assert told(file, place) == []
    flip(copy.parent / "file", 2 * CHUNK)
    assert told(file, f"{address}/") == [(b"", "content")]
    assert told(file, f"{address}/renamed") == []
    assert told(file, f"{address}/tree") == [(None, "kind")]
    assert told(file, f"{address}/nothing/here") == [(None, "missing")]


def test_with_keys_it_is_for_those_who_have_them(tree, served, tmp_path):
    copy, _ = served
    keys_init(tmp_path / "keys")
    keys_init(tmp_path / "others")
    with Server([copy.parent], listen="127.0.0.1:0", keys=tmp_path / "keys") as server:
        words = ["verify", tree, "{}:{}/tree".format(*server.address)]
        assert weir(*words, "--keys", tmp_path / "keys").returncode == 0
        assert weir(*words, "--keys", tmp_path / "others").returncode == 4
        assert weir(*words, "--insecure").returncode in (2, 6)


def test_what_cannot_be_read_is_a_difference(tree, served):
    copy, address = served
    os.mkfifo(copy / "fifo")
    ((path, what),) = told(tree, f"{address}/tree")
    assert (path, what) == (None, "unreadable")


def test_nothing_outside_the_root_is_read(tree, served):
    copy, address = served
    (copy.parent / "out").symlink_to("/etc")
    for place in (f"{address}/../tree", f"{address}/out/"):
        done = weir("verify", tree, place, "--insecure")
        assert done.returncode in (2, 4, 5)
        assert "passwd" not in done.stdout + done.stderr


def test_who_cannot_be_reached_is_told_with_six(tree):
    assert weir("verify", tree, f"127.0.0.1:{free_port()}/x", "--insecure").returncode == 6
    assert weir("verify", "/not/there", tree).returncode == 2


READY, BEGIN = message(18), message(32, b"\0")
ANSWERS = {
    "it knows no such request": (b"", 6, "older than weir verify"),
    "it ends in the middle": (READY + BEGIN, 6, "broke"),
    "a hash of nothing": (
        READY + BEGIN + message(37, struct.pack(">IQ", 1, 0) + bytes(32)),
        5,
        "the hash of no file",
    ),
    "a file without its hash": (
        READY + BEGIN + offer(0, [(b"a", 1)]) + message(44),
        5,
        "no part of a catalogue",
    ),
    "a way out": (READY + BEGIN + links([(b"../a", b"/etc")]), 5, "path"),
}


@pytest.mark.parametrize(("answer", "code", "said"), ANSWERS.values(), ids=ANSWERS.keys())
def test_a_server_that_answers_wrongly_is_never_taken_for_the_same(tree, answer, code, said):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(message(2, struct.pack(">H16xH", 1, 64)))
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        place = f"127.0.0.1:{listener.getsockname()[1]}/x/"
        done = weir("verify", f"{tree}/", place, "--insecure")
        thread.join()
    assert done.returncode == code
    assert said in done.stderr


def test_it_ends_at_ctrl_c(tmp_path):
    (tmp_path / "sparse").write_bytes(b"")
    os.truncate(tmp_path / "sparse", 2**42)  # hours of zeros
    with subprocess.Popen([WEIR, "verify", tmp_path / "sparse", tmp_path / "sparse"]) as process:
        counters = Path(f"/proc/{process.pid}/io")
        poll(lambda: int(counters.read_text().split()[1]) > 50_000_000)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130


def test_what_is_compared_with_itself_is_the_same(tree, served):
    """However it is named at the second place: itself, or by the folder that it stands in."""
    _, address = served
    for top in (tree, f"{address}/tree"):
        for first, second in (
            (f"{top}/of-1", f"{top}/of-1"),
            (f"{top}/of-1", top),
            (f"{top}/of-1", f"{top}/"),
            (f"{top}/deep", top),
            (f"{top}/deep/", f"{top}/deep"),
            (top, top),
        ):
            assert told(first, second) == [], (first, second)


def test_a_single_link_is_the_same_under_any_name(served, tmp_path):
    copy, address = served
    link = tmp_path / "link"
    link.symlink_to("deep/7")
    assert told(link, f"{address}/tree/link") == []
    (copy / "renamed").symlink_to("deep/7")
    assert told(link, f"{address}/tree/renamed") == []
    assert told(copy / "renamed", link) == []
    (copy / "aside").symlink_to("deep/8")
    assert told(link, f"{address}/tree/aside") == [(b"", "target")]
    assert told(link, f"{address}/tree/of-1") == [(b"", "kind")]
    assert told(link, f"{address}/tree/deep") == [(None, "kind")]


def test_an_older_server_that_has_a_single_link_is_understood(tmp_path):
    """It says neither that it is a file nor that it is a link, and names it."""
    link = tmp_path / "link"
    link.symlink_to("aim")
    answers = [READY + message(44), READY + BEGIN + links([(b"link", b"aim")]) + message(44)]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            # First it is asked for a link of that name below the place.
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(message(2, struct.pack(">H16xH", 6, 64)))
                    connection.recv(4096)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert told(link, f"127.0.0.1:{listener.getsockname()[1]}/link") == []
        thread.join()
