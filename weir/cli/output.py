"""What a command prints, kept apart from what it does.

Whoever reads may go away (`weir … | head -1`), the disk under `>` may be full, a stream may have
been closed from the beginning (`2>&-`). None of these ends a command's work, nor changes its exit
code: what can no longer be told is dropped. Only a command whose work *is* what it prints
(`is_the_work`) ends when nobody reads it: quietly with 141 if the reader of a pipe went away, as
a shell reports SIGPIPE, else with 1 and the reason.
"""

import errno
import io
import math
import os
import sys
from datetime import datetime
from typing import Any, Literal

from weir.errors import WeirError
from weir.printable import printable

_READER_GONE = 141  # 128 + SIGPIPE
_HURRIED_MS = 1000
_STREAMS: tuple[tuple[int, Literal["stdin", "stdout", "stderr"]], ...] = (
    (0, "stdin"),
    (1, "stdout"),
    (2, "stderr"),
)


class Lost(Exception):
    """What a command is there to print cannot be printed."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"cannot write to the standard output: {cause.strerror}")
        self.exit_code = _READER_GONE if cause.errno == errno.EPIPE else 1
        self.is_quiet = cause.errno == errno.EPIPE


class _Enduring(io.FileIO):
    """A descriptor that takes whatever is written, also when it goes nowhere any more.

    Attributes:
        is_the_work: the first write that fails raises `Lost`.
        failed: why it goes nowhere.
        is_hurried: a reader who takes nothing for a second is waited for no longer.
    """

    is_the_work = False
    is_hurried = False
    failed: OSError | None = None

    def write(self, data: Any) -> int:
        """Writes, or drops what cannot be written."""
        if self.failed is None:
            try:
                return self._written(data)
            except OSError as error:
                self.failed = error
        if self.is_the_work:
            self.is_the_work = False  # what waits in a buffer is written again while this unwinds
            raise Lost(self.failed)
        return memoryview(data).nbytes

    def _written(self, data: Any) -> int:
        if self.is_hurried:
            data = memoryview(data)[: self._room()]
        while (count := super().write(data)) is None:
            # Another program made the terminal or pipe that we share non-blocking. Imported here:
            # hardly ever needed, and every command waits for what is imported above.
            import select

            select.select((), (self,), ())
        return count

    def _room(self) -> int:
        """How many bytes can be written without waiting, at least."""
        import select

        poll = select.poll()
        poll.register(self, select.POLLOUT)
        if not poll.poll(_HURRIED_MS):
            raise OSError(errno.EAGAIN, "its reader takes nothing")
        return select.PIPE_BUF


def prepare() -> None:
    """Gives this process streams that last; to be called before anything is opened or printed.

    Descriptors that were closed lead to `/dev/null` from here on, so that no file of ours is
    opened as the standard output or error. A stream that a test or caller put in place stays.
    """
    closed = _fill_descriptors()
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 (for as long as the process lasts)
    for number, name in _STREAMS[1:]:
        stream = getattr(sys, name)
        if stream is None or _is_plain(stream, number):
            setattr(sys, name, _lasting(number, stream, number in closed))


def _fill_descriptors() -> set[int]:
    """Leads each standard descriptor that is closed to `/dev/null`; which they were."""
    closed = set()
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
        closed.add(descriptor)
    os.close(descriptor)
    return closed


def _is_plain(stream: Any, number: int) -> bool:
    """Whether it is the interpreter's own stream on this descriptor."""
    if type(stream) is not io.TextIOWrapper or isinstance(_raw(stream), _Enduring):
        return False
    return stream.fileno() == number


def _raw(stream: Any) -> Any:
    return getattr(getattr(stream, "buffer", None), "raw", None)


def _lasting(number: int, before: Any, was_closed: bool) -> io.TextIOWrapper:
    raw = _Enduring(number, "wb", closefd=False)
    if was_closed:
        raw.failed = OSError(errno.EBADF, os.strerror(errno.EBADF))
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=before.encoding if before else "utf-8",
        errors="backslashreplace",  # a name that the terminal's encoding lacks is no reason to end
        line_buffering=before.line_buffering if before else False,
    )


def is_the_work(stands: bool = True) -> None:
    """Says that this command is there to print: it is over when its output is lost."""
    raw = _raw(sys.stdout)
    if isinstance(raw, _Enduring):
        raw.is_the_work = stands


def hurry() -> None:
    """Says that this command is to end: what nobody takes now is dropped, and not waited for."""
    is_the_work(False)
    for stream in (sys.stdout, sys.stderr):
        raw = _raw(stream)
        if isinstance(raw, _Enduring):
            raw.is_hurried = True


def json_line(facts: Any) -> str:
    """Facts as JSON, which knows no infinity and no NaN: what is neither number is null."""
    # Only here: nearly all that is told is told to people.
    import json

    return json.dumps(_finite(facts), allow_nan=False)


def _finite(facts: Any) -> Any:
    if isinstance(facts, dict):
        return {name: _finite(value) for name, value in facts.items()}
    if isinstance(facts, (list, tuple)):
        return [_finite(one) for one in facts]
    return None if isinstance(facts, float) and not math.isfinite(facts) else facts


def tell(error: WeirError, as_json: bool) -> None:
    """Tells an error to a person, and to a machine unless it was told already."""
    if as_json and not error.is_told:
        now = datetime.now().astimezone().isoformat()
        facts = {"message": str(error), "exit_code": error.exit_code}
        print(json_line({"event": "error", "time": now, **facts}), flush=True)
    print(f"weir: {printable(str(error))}", file=sys.stderr)
