"""Folders that Weir made, told from all others by a file that it wrote into them.

What clears up after dead labs and runs removes nothing that does not carry this mark: the place
that holds such folders may be anybody's, a home directory or /tmp, and so may be what lies there.
"""

import os
import shutil
import stat
from collections.abc import Collection
from pathlib import Path

FILE = ".made-by-weir"
"""The name of the mark within the folder."""


def mark(folder: Path, kind: str) -> None:
    """Marks a folder that the caller has just made as one of this `kind`, such as "lab"."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(folder / FILE, flags, 0o600)
    try:
        os.write(descriptor, _text(kind))
    finally:
        os.close(descriptor)


def is_marked(folder: Path, kind: str) -> bool:
    """Whether this is a folder of ours, and no link to one, with the mark of `kind` in it."""
    try:
        about = os.lstat(folder)
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
            return False
        descriptor = os.open(folder / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        about = os.fstat(descriptor)
        is_ours = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid()
        return is_ours and os.read(descriptor, 100) == _text(kind)
    finally:
        os.close(descriptor)


def empty(folder: Path, keep: Collection[str] = ()) -> None:
    """Removes what is in a marked folder but its mark and the names to `keep`."""
    for item in folder.iterdir():
        if item.name == FILE or item.name in keep:
            continue
        if item.is_dir() and not item.is_symlink():
            shutil.rmtree(item)
        else:
            item.unlink()


def remove(folder: Path) -> None:
    """Removes a marked folder, its mark last: one that is killed here leaves what can be told."""
    empty(folder)
    (folder / FILE).unlink()
    folder.rmdir()


def _text(kind: str) -> bytes:
    return f"weir {kind}\n".encode()
