"""Places below the user's home, on a machine that need not know where that is."""

import os
from pathlib import Path

from weir.errors import BadInput


def expanded(path: str | os.PathLike[str]) -> Path:
    """The path with a `~` or `~NAME` at its beginning led to that home.

    Raises:
        BadInput: nobody knows where it is.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise BadInput(
            f"{os.fspath(path)}: that home is not known here; write the whole path, or set HOME"
        ) from None


def below(variable: str, otherwise: str) -> Path:
    """The folder that an environment variable names, else the one called so in the user's home.

    Raises:
        BadInput: the variable is not set, and nobody knows where the home is.
    """
    named = os.environ.get(variable)
    return Path(named) if named else expanded(f"~/{otherwise}")
