"""Files that somebody names: nobody waits for ever for one, none fills the memory, none is half."""

import contextlib
import errno
import io
import os
import secrets
import select
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from weir.errors import BadInput

PATIENCE_S = 10.0
"""So long the writer of a FIFO is waited for."""
_LOOK_S = 0.02
LAST_S = 1.0
"""So long whoever reads a pipe may take nothing once all is over."""
_MOST_BYTES = 256 << 20


def opened(path: Path) -> BinaryIO:
    """A file to read from its begin, or a pipe that somebody writes to.

    Raises:
        BadInput: it cannot be opened, is a folder, or a FIFO that nobody writes to.
    """
    try:
        # Opened in any other way, a FIFO waits for a writer that may never come.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except ValueError as error:
        # A file may name another, and no file has this name.
        raise BadInput(f"{str(path)!r}: {error}") from None
    try:
        first = _awaited(descriptor, path) if stat.S_ISFIFO(path.lstat().st_mode) else b""
        os.set_blocking(descriptor, True)
        file = os.fdopen(descriptor, "rb")
    except OSError as error:
        os.close(descriptor)
        raise BadInput(f"{path}: {error.strerror}") from None
    except BadInput:
        os.close(descriptor)
        raise
    return io.BufferedReader(_Begun(first, file)) if first else file


def _awaited(descriptor: int, path: Path) -> bytes:
    """Waits for the writer of a FIFO; what was read of it meanwhile."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            # An end says that there is no writer, yet.
            if first := os.read(descriptor, 1):
                return first
        except BlockingIOError:
            return b""
        if time.monotonic() > end_s:
            raise BadInput(f"{path} is a FIFO, and within {PATIENCE_S:g} s nobody wrote to it")
        time.sleep(_LOOK_S)


class _Begun(io.RawIOBase):
    """A pipe of which something was read before."""

    def __init__(self, first: bytes, rest: io.BufferedReader) -> None:
        self._first, self._rest = first, rest

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, room: Any) -> int:
        """What was read before; then the rest."""
        found = self._first or self._rest.read1(len(room))
        self._first = b""
        room[: len(found)] = found
        return len(found)

    def fileno(self) -> int:
        """The pipe's."""
        return self._rest.fileno()

    def close(self) -> None:
        """Closes the pipe."""
        self._rest.close()
        super().close()


def text(path: Path, errors: str = "strict", most_bytes: int = _MOST_BYTES) -> str:
    """All of a file of text, in UTF-8.

    Args:
        path: of the file.
        errors: what becomes of bytes that are none, as `bytes.decode` has it.
        most_bytes: a larger file is not what it was taken for.

    Raises:
        BadInput: it cannot be read, is too large, or is no text.
    """
    try:
        with opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(most_bytes + 1) if size <= most_bytes else b""
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    if max(size, len(content)) > most_bytes:
        raise BadInput(f"{path} is larger than {most_bytes >> 20} MiB: this is another file")
    try:
        return content.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        why = f"{error.reason} at byte {error.start}"
        raise BadInput(f"{path} is no text in UTF-8: {why}") from None


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write a file, which has its name once it is whole and on the disk.

    Until then, and if writing fails or is interrupted, what had the name has it still. A device, a
    pipe, and what our own output goes to is written itself, as is a file whose folder takes no
    other one.

    Raises:
        OSError: it cannot be written.
    """
    try:
        about = path.stat()
    except FileNotFoundError:
        about = None
    if about is not None and (not stat.S_ISREG(about.st_mode) or _is_standard(about)):
        yield path
        return
    target = Path(os.path.realpath(path))
    # Nobody can know the name before, and lay something there in a folder that is everybody's.
    partial = target.with_name(f".weir-{secrets.token_hex(8)}.partial")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    except PermissionError:
        if about is None:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path)) from None
        yield path
        return
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        if about is not None:
            partial.chmod(stat.S_IMODE(about.st_mode))
        yield partial
        with partial.open("rb") as done:
            os.fsync(done.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _is_standard(about: os.stat_result) -> bool:
    """Whether our standard output or error goes there, as with `/dev/stdout`."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(about, os.fstat(descriptor)):
                return True
    return False


def written(descriptor: int, is_over: Callable[[], bool]) -> io.RawIOBase:
    """A file to write, or a pipe whose reader may take their time until all is over.

    Args:
        descriptor: of it, which is closed with this.
        is_over: whether nothing more is to come; asked while a pipe is full.

    Returns:
        Where to write: `write` raises TimeoutError when all is over and a pipe's reader takes
        nothing.
    """
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return io.FileIO(descriptor, "wb")
    return _Pipe(descriptor, is_over)


class _Pipe(io.RawIOBase):
    """What may be full for a while, or for ever."""

    def __init__(self, descriptor: int, is_over: Callable[[], bool]) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor, self._is_over = descriptor, is_over
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)
        self._is_stuck = False

    def writable(self) -> bool:
        """True."""
        return True

    def fileno(self) -> int:
        """The pipe's."""
        return self._descriptor

    def write(self, content: Any) -> int:
        """Writes as much as there is room for, when there is some."""
        end_s = None
        while True:
            try:
                return os.write(self._descriptor, content)
            except BlockingIOError:
                if self._is_over():
                    now_s = time.monotonic()
                    end_s = now_s + LAST_S if end_s is None else end_s
                    if self._is_stuck or now_s > end_s:
                        self._is_stuck = True
                        why = "whoever reads this pipe takes nothing"
                        raise TimeoutError(errno.ETIMEDOUT, why) from None
                self._room.poll(1000 * _LOOK_S)

    def close(self) -> None:
        """Closes the pipe."""
        if not self.closed:
            super().close()
            os.close(self._descriptor)
