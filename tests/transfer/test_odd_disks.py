"""File systems that do what most do not: what they make of a transfer is told as it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
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
