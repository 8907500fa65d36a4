"""What the kernel tells in files, which a cage may lack."""

from pathlib import Path

from weir.errors import Unsupported


def text_of(path: Path) -> str:
    """What a file below `/proc` or `/sys` says.

    Raises:
        Unsupported: it cannot be read here.
    """
    try:
        return path.read_text()
    except OSError as error:
        raise Unsupported(f"{path}: {error.strerror}, which is needed here") from None


def text_if_any(path: Path) -> str:
    """The same, and nothing where it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
