"""Where what runs on this machine keeps what others are to find of it: labs, claims of relays."""

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


def _insecure(about: os.stat_result) -> str | None:
    """Why a folder cannot be trusted: others could change what lies in it."""
    if stat.S_ISLNK(about.st_mode):
        return " is a link, which may lead anywhere"
    if about.st_uid != os.geteuid():
        return " belongs to somebody else"
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f" may be written by others (mode {stat.S_IMODE(about.st_mode):04o}; chmod go-w)"
    return None
