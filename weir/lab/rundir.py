"""Where labs that are up keep their state, how a dead one is told from a live one, and its removal.

Each lab has a directory `ROOT/NAME`. Its supervisor holds an exclusive `flock` on the file `lock`
in it for as long as it lives: the kernel lets go of it however the supervisor dies. Whoever can
take that lock has found a dead lab, and clears what is left of it.

Such a directory carries a mark (`weir.lab.marked`). Whatever else lies in ROOT, which may be a
directory that the user keeps other things in, is never looked into, listed or removed.

Every process inside a lab sees the lab's hosts file, whose name carries the lab's unique id, in
its mount table. That is how leftovers are found: process and namespace numbers are used again by
the kernel, the id is not. A program on its way in (`nsenter`) does not see that file yet; it says
whose descriptors it enters by.
"""

import fcntl
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weir.errors import BadInput, WeirError
from weir.lab import marked
from weir.run_folder import run_folder

_KIND = "lab"
_HOSTS_PREFIX = "weir-hosts-"
_HOSTS_NAME = re.compile(_HOSTS_PREFIX + "[0-9a-f]{16}")
_STAGE = ".weir-lab-stage"  # a lab's directory before it has its name and after it has given it up
_KILL_TIMEOUT_S = 10.0


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
        supervisor = _supervisor(self.path)
        for hosts in self.path.glob(f"{_HOSTS_PREFIX}*"):
            if _HOSTS_NAME.fullmatch(hosts.name):
                end_processes(hosts.name, supervisor)
        marked.empty(self.path, keep={"lock"})

    def release(self) -> None:
        """Gives the name back; the directory, which is clear, goes."""
        with _locked(self.path.parent):
            _remove_stage(self.path.parent)
            self.path.rename(self.path.parent / _STAGE)
            _remove_stage(self.path.parent)
            os.close(self._lock)


def claim(name: str) -> Claim | None:
    """Takes the name for a new lab, clearing a dead one of that name.

    Returns:
        None when it is in use: by a lab that is up, or by something that is not a lab's directory.
    """
    above = run_folder()
    with _locked(above):
        path = above / name
        if not os.path.lexists(path):
            _make(path)
        elif not marked.is_marked(path, _KIND):
            return None
        lock = _open_lock(path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        taken = Claim(path, lock)
        taken.clear()
        return taken


def _make(path: Path) -> None:
    """Makes a lab's directory, which has its mark from the moment that it has its name."""
    _remove_stage(path.parent)
    stage = path.parent / _STAGE
    stage.mkdir(mode=0o700)
    marked.mark(stage, _KIND)
    stage.rename(path)


def _remove_stage(above: Path) -> None:
    """Removes what a killed maker or remover of a lab's directory left."""
    stage = above / _STAGE
    if marked.is_marked(stage, _KIND):
        marked.remove(stage)
    try:
        stage.rmdir()
    except FileNotFoundError:
        return
    except OSError:
        raise BadInput(f"{stage} is in the way of labs being made; move it elsewhere") from None


def claim_free(name: str) -> Claim:
    """Claims the name, with a number behind it when that lab is already up."""
    number = 1
    while True:
        taken = claim(name if number == 1 else f"{name}-{number}")
        if taken:
            return taken
        number += 1


def sweep() -> list[str]:
    """Clears what dead labs left; returns their names. Every `weir lab` command does this first."""
    swept = []
    for name in _names():
        if dead := claim(name):
            dead.release()
            swept.append(name)
    return swept


def live() -> list[str]:
    """The names of the labs that are up, after a sweep."""
    sweep()
    return [name for name in _names() if (run_folder() / name / "state.json").exists()]


def _names() -> list[str]:
    """The names of all labs that are up or dead."""
    return sorted(path.name for path in run_folder().iterdir() if marked.is_marked(path, _KIND))


def is_there(name: str, identity: str | None = None) -> bool:
    """Whether there is a lab of that name, of this unique id if one is given, up or dead."""
    path = run_folder() / name
    if not marked.is_marked(path, _KIND):
        return False
    return identity is None or (path / f"{_HOSTS_PREFIX}{identity}").exists()


def in_the_way(name: str) -> str:
    """What to say of a name that no lab has and no lab can have."""
    return f"{run_folder() / name} is there and is not a lab's"


def wait_until_dead(name: str, timeout_s: float, identity: str | None = None) -> bool:
    """Waits until the lab's supervisor is gone, and clears after it; False when it did not go.

    Args:
        name: of the lab.
        timeout_s: how long.
        identity: of the lab that is meant, whose name another may have taken meanwhile; None for
            whichever has it.
    """
    deadline = time.monotonic() + timeout_s
    while is_there(name, identity) or _is_going(name):
        if dead := claim(name):
            dead.release()
            return True
        if time.monotonic() > deadline:
            return not is_there(name, identity)
        time.sleep(0.02)
    return True


def _is_going(name: str) -> bool:
    """Whether a lab of that name is cleared and not yet removed, or not yet made."""
    path = run_folder() / name
    if not marked.is_marked(path, _KIND):
        return False
    try:
        return not any(item.name.startswith(_HOSTS_PREFIX) for item in path.iterdir())
    except FileNotFoundError:  # it went between the two looks
        return False


def _supervisor(lab: Path) -> int:
    """Whose descriptors lead into a lab that has ended, or is ending: this process, at its own end.

    Where the number is another's by now, it is this process, too, by which nobody enters.
    """
    try:
        number = int(json.loads((lab / "state.json").read_text())["pid"])
    except (OSError, ValueError, LookupError, TypeError):
        return os.getpid()
    try:
        is_used_again = any(Path(f"/proc/{number}/fd").iterdir())
    except OSError:  # it is gone, or a zombie
        is_used_again = False
    return os.getpid() if is_used_again else number


def end_processes(hosts_name: str, supervisor: int) -> None:
    """Kills all that have a hosts file mounted or are about to, and sees them gone.

    Args:
        hosts_name: the file.
        supervisor: of the lab; that its descriptors are closed is what lets nobody follow.
    """
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    inside: list[int] = []
    while time.monotonic() < deadline:
        inside = list(_processes(hosts_name, supervisor))
        if not inside:
            return
        for pid in inside:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)
    raise WeirError(f"processes {inside} of a dead lab do not end; look at them with ps")


def _processes(hosts_name: str, supervisor: int) -> Iterator[int]:
    way_in = f"=/proc/{supervisor}/fd/".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            # In this order: who has come in after the first look is seen by the second.
            command = (entry / "cmdline").read_bytes()
            is_entering = command.startswith(b"nsenter\0") and way_in in command
            if is_entering or hosts_name in (entry / "mountinfo").read_text():
                yield int(entry.name)
        except OSError:
            continue  # it ended meanwhile, or is another user's


@contextmanager
def _locked(above: Path) -> Iterator[None]:
    """Lets one at a time take or clear names, so that nobody clears what another just made."""
    descriptor = _open_lock(above)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open_lock(folder: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    path = folder / "lock"
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise BadInput(
            f"{path}: {error.strerror}; labs hold a lock there, set WEIR_RUNTIME_DIR to an empty "
            "folder of yours"
        ) from None
