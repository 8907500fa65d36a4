"""Where labs that are up keep their state, how a dead one is told from a live one, and its removal.

Each lab has a directory `ROOT/NAME`. Its supervisor holds an exclusive `flock` on the file `lock`
in it for as long as it lives: the kernel lets go of it however the supervisor dies. Whoever can
take that lock has found a dead lab, and clears what is left of it.

Every process inside a lab sees the lab's hosts file, whose name carries the lab's unique id, in
its mount table. That is how leftovers are found: process and namespace numbers are used again by
the kernel, the id is not.
"""

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weir.errors import BadInput, WeirError

_HOSTS_PREFIX = "weir-hosts-"
_KILL_TIMEOUT_S = 10.0


def root() -> Path:
    """The directory of this user's labs, made when absent.

    `WEIR_RUNTIME_DIR` wins; then /run/weir for root; then XDG_RUNTIME_DIR; then /tmp.
    """
    user = os.geteuid()
    if chosen := os.environ.get("WEIR_RUNTIME_DIR"):
        path = Path(chosen)
    elif user == 0:
        path = Path("/run/weir")
    elif session := os.environ.get("XDG_RUNTIME_DIR"):
        path = Path(session) / "weir"
    else:
        path = Path(f"/tmp/weir-{user}")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"{path}: {error.strerror}; labs keep their state there, set WEIR_RUNTIME_DIR to a "
            "folder of yours"
        ) from None
    if path.stat().st_uid != user:
        raise BadInput(
            f"{path} belongs to somebody else; set WEIR_RUNTIME_DIR to a folder of yours"
        )
    return path


class Claim:
    """The right to be the lab called `name`, held until the process ends or `release`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @property
    def name(self) -> str:
        """The lab's name."""
        return self.path.name

    def hosts_path(self, identity: str) -> Path:
        """Where the hosts file of the lab with this unique id belongs."""
        return self.path / f"{_HOSTS_PREFIX}{identity}"

    def clear(self) -> None:
        """Ends every process inside the lab and empties its directory."""
        for hosts in self.path.glob(f"{_HOSTS_PREFIX}*"):
            end_processes(hosts.name)
        for item in self.path.iterdir():
            if item.name == "lock":
                continue
            if item.is_dir():
                shutil.rmtree(item)
            else:
                item.unlink()

    def release(self) -> None:
        """Gives the name back; the directory goes."""
        with _locked(self.path.parent):
            shutil.rmtree(self.path)
            os.close(self._lock)


def claim(name: str) -> Claim | None:
    """Takes the name for a new lab, clearing a dead one of that name; None when it is in use."""
    above = root()
    with _locked(above):
        path = above / name
        path.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        taken = Claim(path, lock)
        taken.clear()
        return taken


def claim_free(name: str) -> Claim:
    """As `claim`, with a number behind the name when that lab is already up."""
    number = 1
    while True:
        taken = claim(name if number == 1 else f"{name}-{number}")
        if taken:
            return taken
        number += 1


def sweep() -> list[str]:
    """Clears what dead labs left; returns their names. Every `weir lab` command does this first."""
    swept = []
    for name in sorted(path.name for path in root().iterdir() if path.is_dir()):
        if dead := claim(name):
            dead.release()
            swept.append(name)
    return swept


def live() -> list[str]:
    """The names of the labs that are up, after a sweep."""
    sweep()
    return sorted(path.name for path in root().iterdir() if (path / "state.json").exists())


def is_there(name: str, identity: str | None = None) -> bool:
    """Whether there is a lab of that name, of this unique id if one is given, up or dead."""
    path = root() / name
    return (path if identity is None else path / f"{_HOSTS_PREFIX}{identity}").exists()


def wait_until_dead(name: str, timeout_s: float, identity: str | None = None) -> bool:
    """Waits until the lab's supervisor is gone, and clears after it; False when it did not go.

    Args:
        name: of the lab.
        timeout_s: how long.
        identity: of the lab that is meant, whose name another may have taken meanwhile; None for
            whichever has it.
    """
    deadline = time.monotonic() + timeout_s
    while is_there(name, identity):
        if dead := claim(name):
            dead.release()
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def end_processes(hosts_name: str) -> None:
    """Kills every process that has the hosts file `hosts_name` mounted, and sees them gone."""
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    inside: list[int] = []
    while time.monotonic() < deadline:
        inside = list(_processes(hosts_name))
        if not inside:
            return
        for pid in inside:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)
    raise WeirError(f"processes {inside} of a dead lab do not end; look at them with ps")


def _processes(hosts_name: str) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if hosts_name in (entry / "mountinfo").read_text():
                yield int(entry.name)
        except OSError:
            continue  # it ended meanwhile, or is another user's


@contextmanager
def _locked(above: Path) -> Iterator[None]:
    """One taker or clearer of names at a time, so that nobody clears what another just made."""
    descriptor = os.open(above / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
