"""What a disk tells late of what it could not keep, which it tells once, is no success."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from transfer_world import leftovers, poll, weir

LIMIT = 700_000
DISK = Path(__file__).with_name("late_disk.py")


@pytest.fixture
def disk(tmp_path):
    """A place where each file keeps `LIMIT` bytes, which is told when one is closed."""
    place = tmp_path / "disk"
    place.mkdir()
    command = [sys.executable, DISK, place, str(LIMIT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
        try:
            if not served.stdout.readline():
                pytest.skip("no file system of one's own can be mounted here")
            yield place
        finally:
            subprocess.run(["umount", "-l", place], check=False, capture_output=True)
            served.kill()


@pytest.mark.parametrize("options", [[], ["--hash", "none"], ["--sync"], ["--read-back"]])
@pytest.mark.parametrize("size", [900_000, 3 * 2**20 + 5], ids=["small", "large"])
@pytest.mark.parametrize("way", ["send", "get"])
def test_what_was_not_kept_takes_no_name_however_often_it_is_tried(
    serve, tmp_path, disk, way, size, options
):
    here = tmp_path / "here"
    here.mkdir()
    (here / "kept").write_bytes(os.urandom(LIMIT))
    (here / "lost").write_bytes(os.urandom(size))
    server = serve("--root", disk if way == "send" else here, "--insecure")
    remote = f"{server.listen}/"
    words = ["send", f"{here}/", remote] if way == "send" else ["get", remote, disk]
    for _ in range(2):
        done = weir(*words, "--insecure", "--retry", "0 s", *options)
        assert done.returncode == 5 and "Disk quota exceeded" in done.stderr, done.stderr
        # Nor does a part stay, which would be believed; with `--sync` all ends before the rest.
        poll(lambda: {path.name for path in disk.iterdir()} <= {"kept"})
    (here / "lost").write_bytes(b"enough")
    assert weir(*words, "--insecure").returncode == 0
    assert leftovers(disk) == []
    for name in ("kept", "lost"):
        assert (disk / name).read_bytes() == (here / name).read_bytes()
