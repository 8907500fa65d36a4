"""What a request may name on a host: files and directories below the agent's root, and their size.

A question about a place on a sick disk or network file system may never be answered by the
kernel. So questions are asked by threads that nobody waits for: neither the agent's loop nor its
end.
"""

import asyncio
import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from weir.errors import BadInput, Unavailable

# A question is answered within this, or not: whoever asked is not waiting any longer.
ANSWER_S = 2.5
# Questions that may be under way; those that hang count until the kernel lets them go.
QUESTIONS_MAX = 64

_Answer = TypeVar("_Answer")
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def source_place(root: Path, path: str) -> Path:
    """The file or directory of that name below the root.

    Raises:
        BadInput: it is not there, is neither a file nor a directory with something in it, or is
            not below the root once links are followed.
        OSError: it cannot be looked at.
    """
    try:
        place = (root / path).resolve()
    except RuntimeError:
        raise BadInput(f'"{path}" is a link that leads to itself') from None
    if not place.is_relative_to(root.resolve()):
        raise BadInput(f'"{path}" leads out of the root of this agent')
    try:
        mode = place.stat().st_mode
    except FileNotFoundError:
        raise BadInput(f'"{path}" is not there') from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise BadInput(f'"{path}" is {kind}: only files and directories can be sent')
    if stat.S_ISDIR(mode) and _is_empty(place):
        # The mover sends a directory's content, so that nothing would come of it.
        raise BadInput(f'"{path}" is an empty directory: there is nothing to send')
    return place


def _is_empty(directory: Path) -> bool:
    with os.scandir(directory) as entries:
        return next(entries, None) is None


def tree_bytes(place: Path, seconds_max: float = ANSWER_S) -> int:
    """Bytes in a file, or in all regular files below a directory.

    Raises:
        OSError: something cannot be read.
        BadInput: there is so much in it that counting takes longer than `seconds_max`.
    """
    if not place.is_dir():
        # Without waiting for anybody: the place may have become a FIFO since it was looked at.
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
    end_s = time.monotonic() + seconds_max
    total = 0
    for size in _sizes(place):
        total += size
        if time.monotonic() > end_s:
            raise BadInput(f"{place.name} holds too much to be counted now: give the size")
    return total


def _sizes(place: Path) -> Iterator[int]:
    """The sizes of the regular files below a directory, and a 0 for everything else."""

    def fail(error: OSError) -> None:
        raise error

    for directory, _, names in os.walk(place, onerror=fail):
        yield 0
        for name in names:
            status = (Path(directory) / name).lstat()
            yield status.st_size if stat.S_ISREG(status.st_mode) else 0


class Questions:
    """Asks the file system in threads that nobody waits for, only so many at a time."""

    def __init__(self, count_max: int = QUESTIONS_MAX) -> None:
        self._left = count_max
        self._lock = threading.Lock()

    @property
    def is_full(self) -> bool:
        """Whether as many are under way as may be."""
        return self._left <= 0

    def _take(self) -> bool:
        with self._lock:
            taken = self._left > 0
            self._left -= taken
        return taken

    def _give_back(self) -> None:
        with self._lock:
            self._left += 1

    async def ask(self, call: Callable[[], _Answer], seconds_max: float = ANSWER_S) -> _Answer:
        """What `call` returns or raises.

        Raises:
            Unavailable: it did not return in time, or too many others have not.
        """
        if not self._take():
            raise Unavailable("the file system here does not answer")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Answer] = loop.create_future()

        def settle(answer: _Answer | None, error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(answer)  # type: ignore[arg-type]
            else:
                future.set_exception(error)

        def work() -> None:
            answer, failure = None, None
            try:
                answer = call()
            except Exception as error:  # it is raised again where it was asked for
                failure = error
            finally:
                self._give_back()
            # An agent that has ended has closed its loop, and waits for no answer.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, answer, failure)

        threading.Thread(target=work, name="weir-question", daemon=True).start()
        try:
            return await asyncio.wait_for(future, seconds_max)
        except TimeoutError:
            raise Unavailable("the file system here does not answer in time") from None
