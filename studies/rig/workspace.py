"""The folder that a run in labs works in: the files it sends and what arrives, gone afterwards.

It lies in memory where there is room, so that the disk's speed does not decide who is on time,
and holds a lock for as long as its process lives: the next run clears what a killed one left.
"""

import fcntl
import hashlib
import os
import random
import shutil
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from weir.errors import Unsupported
from weir.format import size
from weir.lab import marked

_KIND = "run"
_PREFIX = "weir-run-"
_MEMORY = Path("/dev/shm")
_BLOCK = 1 << 22
_choosing = threading.Lock()  # labs that threads bring up at once are to see each other's needs


@contextmanager
def open_workspace(need_bytes: int) -> Iterator[Path]:
    """A fresh folder with room for `need_bytes`, removed on leaving.

    Raises:
        Unsupported: neither memory nor the disk has room.
    """
    with _choosing:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_roomy(need_bytes)))
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, str(need_bytes).encode())
        marked.mark(folder, _KIND)  # and not before it is locked: what is marked may be cleared
    try:
        yield folder
    finally:
        with suppress(OSError):
            marked.remove(folder)
        os.close(lock)


def _roomy(need_bytes: int) -> Path:
    """The place that has room; Unsupported if none has."""
    places = [_MEMORY, Path(tempfile.gettempdir())]
    for place in places:
        _clear_abandoned(place)
    roomy = [place for place in places if _has_room(place, need_bytes)]
    if not roomy:
        names = " nor ".join(str(place) for place in places)
        raise Unsupported(
            f"the run needs {size(need_bytes)} for its files and neither {names} has that "
            "much free; set TMPDIR to a folder that has"
        )
    return roomy[0]


def _has_room(place: Path, need_bytes: int) -> bool:
    try:
        free = shutil.disk_usage(place).free
    except OSError:
        return False
    if place == _MEMORY:
        # A tmpfs promises space that the machine may not have, and others may yet fill theirs.
        free = min(free, _memory_available() // 2 - _promised(place))
    return free >= need_bytes and os.access(place, os.W_OK)


def _promised(place: Path) -> int:
    """Bytes that the folders there may come to hold, all together."""
    needs = 0
    for lock in place.glob(f"{_PREFIX}*/lock"):
        with suppress(OSError, ValueError):  # gone meanwhile, or being made
            needs += int(lock.read_text())
    return needs


def _memory_available() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _clear_abandoned(place: Path) -> None:
    for folder in place.glob(f"{_PREFIX}*"):
        if not marked.is_marked(folder, _KIND):
            continue  # being made this moment, somebody else's, or no run's
        try:
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # going this moment
        with suppress(OSError):  # BlockingIOError: its run is alive
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            marked.remove(folder)
        os.close(lock)


def make_files(sizes: dict[Path, int], seed: int) -> dict[Path, str]:
    """Writes incompressible files that follow from the seed; returns each one's SHA-256."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = pool.map(partial(_make_file, seed), sizes.keys(), sizes.values())
        return dict(zip(sizes, digests, strict=True))


def _make_file(seed: int, path: Path, size: int) -> str:
    # One generator per file, named after it: another file disturbs no other's bytes.
    generator = random.Random(f"{seed}/{path.name}")
    digest = hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for start in range(0, size, _BLOCK):
            block = generator.randbytes(min(_BLOCK, size - start))
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def hash_files(paths: list[Path]) -> list[str | None]:
    """Each file's SHA-256, None where there is no such file."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(_hash_file, paths))


def _hash_file(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
