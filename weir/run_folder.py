"""Where what runs on this machine keeps what others are to find of it: labs, claims of places."""

import fcntl
import os
import stat
from pathlib import Path

from weir.errors import BadInput


def run_folder() -> Path:
    """The folder of this user, made when absent.

    `WEIR_RUNTIME_DIR` wins; then /run/weir for root; then XDG_RUNTIME_DIR; then /tmp.

    Raises:
        BadInput: it cannot be made, or others could lead us astray in it.
    """
    user = os.geteuid()
    if chosen := os.environ.get("WEIR_RUNTIME_DIR"):
        path = Path(chosen).absolute()
    elif user == 0:
        path = Path("/run/weir")
    elif session := os.environ.get("XDG_RUNTIME_DIR"):
        path = Path(session) / "weir"
    else:
        path = Path(f"/tmp/weir-{user}")
    try:
        if not path.is_symlink():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        wrong = _insecure(path.lstat())
    except OSError as error:
        wrong = f": {error.strerror}"
    if wrong:
        raise BadInput(
            f"{path}{wrong}; what runs keeps its state there, set WEIR_RUNTIME_DIR to a folder of "
            "yours"
        )
    return path


def locked(path: Path) -> int | None:
    """A lock on a file that is there, as long as its descriptor is open; None: it is another's.

    The kernel lets go of it, however its process dies. Only whoever may write in the folder, which
    is its user alone, can take it.
    """
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(lock, path):
                return lock
        except BlockingIOError:
            os.close(lock)
            return None
        os.close(lock)  # Whoever had it has just removed it.


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _insecure(about: os.stat_result) -> str | None:
    """Why a folder cannot be trusted: others could change what lies in it."""
    if stat.S_ISLNK(about.st_mode):
        return " is a link, which may lead anywhere"
    if about.st_uid != os.geteuid():
        return " belongs to somebody else"
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f" may be written by others (mode {stat.S_IMODE(about.st_mode):04o}; chmod go-w)"
    return None
