"""Files that somebody names: nobody waits for ever for one, and none fills the memory."""

import os
import select
import stat
from pathlib import Path
from typing import BinaryIO

from weir.errors import BadInput

PATIENCE_S = 10.0
"""So long the writer of a FIFO is waited for."""
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
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        if is_pipe and not select.select([descriptor], [], [], PATIENCE_S)[0]:
            raise BadInput(f"{path} is a pipe, and nothing came out of it for {PATIENCE_S:g} s")
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except OSError as error:
        os.close(descriptor)
        raise BadInput(f"{path}: {error.strerror}") from None
    except BadInput:
        os.close(descriptor)
        raise


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
