"""Runs a program with everything it costs: wall time to its exit, CPU time of its whole tree.

CPU time is read from a cgroup of the program's own, so that children, double forks and threads
count, and so does a server that outlives the measurement. `usage_usec` is the scheduler's exact
account, not a sampling by ticks.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from weir.errors import TransferFailed, Unavailable, Unsupported

PREFIX = "weir-bench-"
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """For a child before its exec: killed when the benchmark is, however that happens."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Cgroups:
    """This process's folder of cgroups; the folders of dead benchmarks are swept at entry."""

    def __init__(self) -> None:
        self._mount = _cgroup2_mount()
        self._top = self._mount / f"{PREFIX}{os.getpid()}"

    def __enter__(self) -> Self:
        for stale in self._mount.glob(f"{PREFIX}*"):
            if not Path(f"/proc/{stale.name.removeprefix(PREFIX)}").exists():
                _remove(stale)
        try:
            self._top.mkdir()
        except OSError as error:
            raise Unsupported(
                f"cannot make a cgroup {self._top} ({error.strerror}): run as root"
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _remove(self._top)

    @contextlib.contextmanager
    def group(self, name: str) -> Iterator["Group"]:
        """A fresh cgroup; whatever still runs in it at the end is killed."""
        folder = self._top / name
        folder.mkdir()
        try:
            yield Group(folder)
        finally:
            _remove(folder)


class Group:
    """One cgroup: start programs in it, ask what they have used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Its folder in the cgroup file system."""

    def enter(self) -> None:
        """Moves the calling process in; for a child before its exec."""
        (self.folder / "cgroup.procs").write_text("0")

    def processes(self) -> list[int]:
        """What runs in it."""
        return [int(x) for x in (self.folder / "cgroup.procs").read_text().split()]

    def cpu_s(self) -> float:
        """User and system CPU seconds used so far by everything that ever ran in it."""
        for line in (self.folder / "cpu.stat").read_text().splitlines():
            if line.startswith("usage_usec "):
                return int(line.split()[1]) / 1e6
        raise Unsupported(f"{self.folder}/cpu.stat has no usage_usec")

    def settled_cpu_s(self, quiet_s: float = 0.1, limit_s: float = 5.0) -> float:
        """`cpu_s` once the programs have gone idle for `quiet_s`: a server closing its files."""
        deadline = time.monotonic() + limit_s
        before = self.cpu_s()
        while time.monotonic() < deadline:
            time.sleep(quiet_s)
            now = self.cpu_s()
            # An idle server's timers cost microseconds.
            if now - before < 0.02 * quiet_s:
                return now
            before = now
        return before


@dataclass(frozen=True)
class Command:
    """A program to run: arguments, and files for its input and output where it wants them."""

    argv: list[str]
    stdin: Path | None = None
    stdout: Path | None = None
    environment: tuple[tuple[str, str], ...] = ()


@contextlib.contextmanager
def started(
    command: Command, enter: Callable[[], None], group: Group, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """The command, running in `group` and wherever `enter` moves it; killed at the end."""

    def before_exec() -> None:
        die_with_parent()
        group.enter()
        enter()

    with contextlib.ExitStack() as files:
        stderr = files.enter_context(log.open("ab"))
        process = subprocess.Popen(
            command.argv,
            stdin=_opened(files, command.stdin, "rb") or subprocess.DEVNULL,
            stdout=_opened(files, command.stdout, "wb") or stderr,
            stderr=stderr,
            env=dict(os.environ) | dict(command.environment),
            preexec_fn=before_exec,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _opened(files: contextlib.ExitStack, path: Path | None, mode: str) -> IO[bytes] | None:
    return files.enter_context(path.open(mode)) if path else None


def wait_exit(process: subprocess.Popen[bytes], timeout_s: float, log: Path) -> int:
    """Waits for the process and returns its exit status, without polling.

    `Popen.wait(timeout=…)` looks every 50 ms, which would be in every figure.
    """
    descriptor = os.pidfd_open(process.pid)
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        if not poller.poll(timeout_s * 1000):
            raise Unavailable(f"{process.args!r} ran longer than {timeout_s} s; {tail(log)}")
    finally:
        os.close(descriptor)
    return process.wait()


def expect_success(status: int, command: Command, log: Path) -> None:
    """Raises TransferFailed with the end of the program's messages if it failed."""
    if status != 0:
        raise TransferFailed(f"{' '.join(command.argv)}: exit status {status}; {tail(log)}")


def tail(log: Path) -> str:
    """The last messages of a program, for an error's text."""
    text = log.read_text(errors="replace").strip() if log.exists() else ""
    return f"it said: {text[-600:]}" if text else "it said nothing"


def _cgroup2_mount() -> Path:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            return Path(fields.split()[4])
    raise Unsupported("no cgroup v2 file system is mounted; CPU time cannot be accounted")


def _remove(folder: Path) -> None:
    """Kills what runs in a cgroup and its children, and removes them."""
    if not folder.exists():
        return
    (folder / "cgroup.kill").write_text("1")
    for child in folder.iterdir():
        if child.is_dir():
            _remove(child)
    deadline = time.monotonic() + 10
    while True:
        try:
            folder.rmdir()
            return
        except OSError:
            # Killed processes leave the cgroup only when they have been torn down.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
