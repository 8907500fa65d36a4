"""Weir's own programs beside the one that runs: what starts them."""

import sys


def program(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of Weir by this interpreter.

    `-P` keeps the working directory out of where modules are found. A lab is brought up by root,
    in whatever directory that is, and a file `json.py` there would be run as root.

    Args:
        module: its name, such as `weir.lab.supervisor`.
        arguments: what it is told.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def script(text: str, *arguments: str) -> list[str]:
    """The command that runs a few lines of Python, as `program` runs a module."""
    return [sys.executable, "-P", "-c", text, *arguments]
