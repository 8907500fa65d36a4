"""Programs of ours inside a lab: how each is called; started, watched, ended."""

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from weir import python
from weir.errors import Unavailable
from weir.lab import Lab

_END_S = 5.0
_TAIL_LINES = 5


def weir_command(*arguments: str | Path) -> list[str | Path]:
    """The command line of a `weir` command, by this very interpreter and package."""
    return module_command("weir.cli", *arguments)


def module_command(module: str, *arguments: str | Path) -> list[str | Path]:
    """The command line of a module that is a program, by this very interpreter."""
    return [*python.program(module), *arguments]


@contextlib.contextmanager
def started(
    lab: Lab, node: str, command: Sequence[str | Path], **options: Any
) -> Iterator["subprocess.Popen[str]"]:
    """A program that has said its first line, and with it that it is ready; at the end it has gone.

    Args:
        lab: where it runs.
        node: on which of its hosts.
        command: of which the standard output is a pipe of text.
        options: of `subprocess.Popen`.

    Raises:
        Unavailable: it ended before it said anything.
    """
    # In a session of its own, whom Ctrl-C at a terminal does not reach: it is ended here.
    apart = {"start_new_session": True, **options}
    with lab.popen(node, command, stdout=subprocess.PIPE, text=True, **apart) as process:
        try:
            assert process.stdout, "a pipe"
            if not process.stdout.readline():
                program = " ".join(map(str, command[2:4]))
                raise Unavailable(f"{program} on {node} ended with {process.wait()}")
            yield process
        finally:
            process.terminate()


def json_lines(said: IO[str]) -> Iterator[dict[str, Any]]:
    """What a program says, an object a line.

    It ends with the program, in the middle of a line if that was ended, or when the pipe is closed
    under the reader.
    """
    with contextlib.suppress(ValueError):
        for line in said:
            yield json.loads(line)


@dataclass(frozen=True)
class _Member:
    name: str
    node: str
    process: "subprocess.Popen[Any]"
    log: Path


class Processes:
    """Programs inside a lab, each with a log. A context manager: at its end all of them have ended.

    Args:
        lab: where they run.
        logs: the folder of what they print to standard error.
    """

    def __init__(self, lab: Lab, logs: Path) -> None:
        self._lab = lab
        self._logs = logs
        self._members: list[_Member] = []

    def start(
        self, name: str, node: str, argv: Sequence[str | Path], **options: Any
    ) -> "subprocess.Popen[Any]":
        """Starts a program on a node; `options` are those of `subprocess.Popen`."""
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._log(name, node)
        with log.open("ab") as errors:
            options = {"stdin": subprocess.DEVNULL, "stdout": errors, "stderr": errors} | options
            process = self._lab.popen(node, argv, **options)
        self._members.append(_Member(name, node, process, log))
        return process

    def check(self) -> None:
        """Raises Unavailable, with the program's last words, if one has ended."""
        for member in self._members:
            code = member.process.poll()
            if code is not None:
                raise Unavailable(
                    f"{member.name} on {member.node} ended with {code}{_last(member)}"
                )

    def wait_until(self, what: str, ready: Callable[[], bool], limit_s: float = 60.0) -> None:
        """Polls until `ready`; Unavailable when a program ends or the time is over."""
        end_s = time.monotonic() + limit_s
        while not ready():
            self.check()
            if time.monotonic() > end_s:
                said = "".join(f"\n{x.name} on {x.node}{_last(x)}" for x in self._members)
                raise Unavailable(f"{what} was not ready within {limit_s:.0f} s{said}")
            time.sleep(0.05)

    def wait_until_said(self, name: str, node: str, words: str) -> None:
        """Polls until the program called `name` on `node` has printed `words`."""
        log = self._log(name, node)
        self.wait_until(f"the {name} on {node}", lambda: words in log.read_text(errors="replace"))

    def _log(self, name: str, node: str) -> Path:
        return self._logs / f"{name}-{node}.log"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self._members:
            if member.process.stdin:
                member.process.stdin.close()
            member.process.terminate()
        end_s = time.monotonic() + _END_S
        for member in self._members:
            try:
                member.process.wait(max(end_s - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
            if member.process.stdout:
                member.process.stdout.close()


def _last(member: _Member) -> str:
    lines = member.log.read_text(errors="replace").strip().splitlines()
    return ": " + "\n".join(lines[-_TAIL_LINES:] or ["it said nothing"])
