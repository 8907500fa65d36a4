"""`--read-back`: what the storage does not give back as it was written takes no final name.

The storage that damages is the C library's `pwrite`, replaced by one that turns a bit; what was
read from the device is the kernel's own count.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from transfer_world import leftovers, weir

from weir.errors import BadInput
from weir.transfer import Transfer

MIB = 2**20
DAMAGES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Content is damaged; the records of journals, which are short, are not. */
ssize_t pwrite64(int fd, const void *from, size_t count, off64_t at) {
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    if (count < 1000) return real(fd, from, count, at);
    char *other = malloc(count);
    memcpy(other, from, count);
    other[count / 2] ^= 1;
    ssize_t written = real(fd, other, count, at);
    free(other);
    return written;
}
"""


@pytest.fixture(scope="module")
def damaging(tmp_path_factory):
    """The environment of a process whose storage damages what it is given."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("damaging")
    (folder / "damage.c").write_text(DAMAGES)
    library = folder / "damage.so"
    command = ["cc", "-shared", "-fPIC", "-o", library, folder / "damage.c", "-ldl"]
    subprocess.run(command, check=True)
    return {**os.environ, "LD_PRELOAD": str(library)}


def moved(serve, here: Path, there: Path, way: str, options: list[str], environment=None):
    """Moves a folder's content; the process that receives has the environment given."""
    there.mkdir()
    receiver = {} if environment is None else {"env": environment}
    if way == "send":
        server = serve("--root", there, "--insecure", **receiver)
        return weir("send", f"{here}/", f"{server.listen}/", "--insecure", *options)
    server = serve("--root", here, "--insecure")
    return weir("get", f"{server.listen}/", there, "--insecure", *options, **receiver)


@pytest.mark.parametrize("way", ["send", "get"])
def test_what_the_storage_damaged_takes_no_name(serve, tmp_path, damaging, way):
    here = tmp_path / "here"
    here.mkdir()
    for size in (1, 5000, MIB, 3 * MIB + 5):
        (here / f"{size}").write_bytes(os.urandom(size))
    with (here / "holes").open("wb") as file:
        file.truncate(9 * MIB)
    contents = {path.name: path.read_bytes() for path in here.iterdir()}

    def stands(place: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in place.iterdir()}

    # One byte is too little for this storage to damage, and holes are not written.
    read, blind, sound = (tmp_path / name for name in ("read", "blind", "sound"))
    done = moved(serve, here, read, way, ["--read-back"], damaging)
    assert done.returncode == 5 and "3 of 5 files failed" in done.stderr, done.stderr
    assert done.stderr.count("what was read back from the storage is not what was written") >= 3
    assert stands(read) == {name: contents[name] for name in ("1", "holes")}
    assert leftovers(read) == []
    # Without it nobody looks, so the test can fail; and a sound storage passes.
    assert moved(serve, here, blind, way, [], damaging).returncode == 0
    assert sum(stands(blind)[name] != content for name, content in contents.items()) == 3
    assert moved(serve, here, sound, way, ["--read-back"]).returncode == 0
    assert stands(sound) == contents


def read_from_devices(process: int | str) -> int:
    text = Path(f"/proc/{process}/io").read_text()
    return int(text.partition("read_bytes: ")[2].split()[0])


def reads_reach_a_device(folder: Path) -> bool:
    """Whether the kernel counts here what is read after it was told to forget it."""
    path = folder / "probe"
    path.write_bytes(os.urandom(MIB))
    before = read_from_devices("self")
    with path.open("rb") as file:
        os.fsync(file)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.read()
    return read_from_devices("self") >= before + MIB


def test_the_device_is_asked_not_the_memory(serve, tmp_path):
    if not reads_reach_a_device(tmp_path):
        pytest.skip("the temporary folder's storage is memory")
    here = tmp_path / "here"
    here.mkdir()
    sizes = [8 * MIB] + 8 * [MIB]
    for number, size in enumerate(sizes):
        (here / f"{number}").write_bytes(os.urandom(size))
    counts = []
    for name, options in (("without", []), ("with", ["--read-back"])):
        (tmp_path / name).mkdir()
        server = serve("--root", tmp_path / name, "--insecure")
        before = read_from_devices(server.process.pid)
        done = weir("send", f"{here}/", f"{server.listen}/", "--insecure", *options)
        assert done.returncode == 0, done.stderr
        counts.append(read_from_devices(server.process.pid) - before)
    assert counts[0] < max(sizes) < sum(sizes) <= counts[1]


def test_it_needs_hashes(tmp_path):
    (tmp_path / "f").write_text("content")
    with pytest.raises(BadInput, match="compared by its hash"):
        Transfer.send([tmp_path / "f"], "h:1/f", keys=None, hash="none", read_back=True)
