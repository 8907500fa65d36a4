"""File systems that do what most do not: what they make of a transfer is told as it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rig import WEIR
from transfer_world import leftovers, weir

MIB = 2**20


@pytest.fixture
def disk(request, tmp_path):
    """A place on a disk with an oddity."""
    place = tmp_path / "disk"
    place.mkdir()
    program = Path(__file__).with_name("odd_disk.py")
    command = [sys.executable, program, place, request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
        try:
            if not served.stdout.readline():
                pytest.skip("no file system of one's own can be mounted here")
            yield place
        finally:
            subprocess.run(["umount", "-l", place], check=False, capture_output=True)
            served.kill()


def made(place, files):
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)
    return place


def arrived(place):
    return {path.name for path in place.iterdir()} - {path.name for path in leftovers(place)}


@pytest.mark.parametrize("disk", ["spellings"], indirect=True)
@pytest.mark.parametrize("size", [5, 2 * MIB], ids=["small", "large"])
@pytest.mark.parametrize(
    "names",
    [("\u00e9", "e\u0301"), ("\uac00", "\u1100\u1161"), ("A", "\u00e9", "e\u0301")],
    ids=["accents", "hangul", "where-case-is-told"],
)
def test_two_spellings_that_are_one_name_there_are_no_success(serve, tmp_path, disk, size, names):
    here = made(tmp_path / "here", {name: os.urandom(size) for name in names})
    server = serve("--root", disk, "--insecure")
    for _ in range(2):
        done = weir("send", f"{here}/", f"{server.listen}/", "--insecure", "--retry", "0 s")
        assert done.returncode == 5, done.stderr
        assert "another name of this transfer leads to the same file here" in done.stderr
        assert len(arrived(disk)) == len(names) - 1
    assert weir("send", here / names[-1], f"{server.listen}/", "--insecure").returncode == 0


@pytest.mark.parametrize("disk", ["ends"], indirect=True)
@pytest.mark.parametrize("size", [5, 2 * MIB], ids=["small", "large"])
@pytest.mark.parametrize("names", [("1", "1."), ("1.", "2 .")], ids=["two", "each"])
def test_a_name_whose_end_is_left_out_there_is_no_success(serve, tmp_path, disk, size, names):
    here = made(tmp_path / "here", {name: os.urandom(size) for name in names})
    server = serve("--root", disk, "--insecure")
    for _ in range(2):
        done = weir("send", f"{here}/", f"{server.listen}/", "--insecure", "--retry", "0 s")
        assert done.returncode == 5, done.stderr
        assert "dots and blanks at the end of a name are left out here" in done.stderr
        if "1" in names:
            assert (disk / "1").read_bytes() == (here / "1").read_bytes()


@pytest.mark.parametrize("disk", ["uncounted"], indirect=True)
def test_files_that_have_no_number_of_names_arrive(serve, tmp_path, disk):
    here = made(tmp_path / "here", {"small": b"content", "large": os.urandom(3 * MIB)})
    server = serve("--root", disk, "--insecure")
    for _ in range(2):
        done = weir("send", f"{here}/", f"{server.listen}/", "--insecure")
        assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in disk.iterdir()} == {
        path.name: path.read_bytes() for path in here.iterdir()
    }


@pytest.mark.parametrize("disk", ["damaged"], indirect=True)
@pytest.mark.parametrize("options", [[], ["--hash", "none"]], ids=["hashed", "unhashed"])
def test_a_file_of_which_some_cannot_be_read_fails_alone(serve, tmp_path, disk, options):
    """Without hashes and keys the kernel sends by itself, and does not say what failed."""
    (disk / "damaged").write_bytes(os.urandom(5 * MIB))
    for name in ("after", "before"):
        (disk / name).write_bytes(os.urandom(MIB + 1))
    there = tmp_path / "there"
    there.mkdir()
    server = serve("--root", there, "--insecure")
    words = ["send", f"{disk}/", f"{server.listen}/", "--insecure", "--retry", "0 s"]
    done = weir(*words, *options)
    assert done.returncode == 5, done.stderr
    assert f'cannot read "{disk}/damaged": Input/output error' in done.stderr
    assert arrived(there) == {"after", "before"}


@pytest.mark.parametrize("way", ["send", "get"])
@pytest.mark.parametrize(
    ("disk", "told"),
    [("modeless", {"permissions"}), ("timeless", {"times"}), ("bare", {"permissions", "times"})],
    indirect=["disk"],
)
def test_what_lets_no_attributes_be_set_takes_all_files_and_that_is_told_once(
    serve, tmp_path, disk, told, way
):
    """Each file failed, a large one after all of it was sent, with a bare "not permitted"."""
    here = made(tmp_path / "here", {f"{number}": os.urandom(number) for number in range(1, 9)})
    (here / "large").write_bytes(os.urandom(3 * MIB))
    made(here / "below", {"script": b"#!/bin/sh"})
    for path in here.rglob("*"):
        path.chmod(0o751 if path.is_dir() else 0o640)
        os.utime(path, (10**9, 10**9))
    server = serve("--root", disk if way == "send" else here, "--insecure")
    remote = f"{server.listen}/"
    words = ["send", f"{here}/", remote] if way == "send" else ["get", remote, disk]
    content = sum(path.stat().st_size for path in here.rglob("*") if path.is_file())
    first = []
    for options in (first, [], ["--checksum"]):
        done = weir(*words, "--insecure", *options, "--json")
        events = [json.loads(line) for line in done.stdout.splitlines()]
        notices = [event["message"] for event in events if event["event"] == "notice"]
        assert done.returncode == 0, done.stderr
        kinds = {kind for kind in ("permissions", "times") if f"no {kind} be set" in str(notices)}
        assert kinds == told and len(notices) == len(told), notices
        assert "Operation not permitted" in notices[0]
        known = options or (options is not first and "times" not in told)
        assert events[-1]["bytes_resumed"] == (content if known else 0)
    assert leftovers(disk) == []
    for path in (path for path in here.rglob("*") if path.is_file()):
        copy = disk / path.relative_to(here)
        assert copy.read_bytes() == path.read_bytes()
        if "times" not in told:
            assert copy.stat().st_mtime == 10**9
        if "permissions" not in told:
            assert copy.stat().st_mode & 0o777 == 0o640


def test_permissions_and_times_are_set_where_nothing_is_mounted_at_proc(serve, tmp_path):
    """A handle that is good for nothing else leads to what was there before."""
    here = made(tmp_path / "here", {"file": b"content"})
    there = made(tmp_path / "there", {"file": b"content"})
    (here / "file").chmod(0o640)
    os.utime(here / "file", (10**9, 10**9))
    server = serve("--root", here, "--insecure")
    bare = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if subprocess.run([*bare, "true"], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    words = ["get", f"{server.listen}/", there, "--insecure", "--checksum", "--json"]
    done = subprocess.run([*bare, WEIR, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert '"event": "notice"' not in done.stdout
    after = (there / "file").stat()
    assert (after.st_mode & 0o777, after.st_mtime) == (0o640, 10**9)
