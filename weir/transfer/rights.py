"""Which client may do what below which root, as `weir serve` is told it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from weir.errors import BadInput

_ACCESS = {"ro": True, "rw": False}


@dataclass(frozen=True, slots=True)
class Grant:
    """What one client may do below one root.

    Attributes:
        client: the name in its certificate.
        read_only: it may fetch and not store.
        root: the root's name; empty for the only one.
        prefix: only what is below this path of the root.
    """

    client: str
    read_only: bool
    root: str = ""
    prefix: str = ""

    def as_core(self) -> tuple[str, str, bool, bytes]:
        """As the core takes it."""
        return self.client, self.root, self.read_only, os.fsencode(self.prefix)


def parse(text: str, roots: Sequence[str]) -> Grant:
    """Reads `NAME=ro` or `NAME=rw`, with `:PATH` behind it where it is not all.

    `PATH` begins with a root's name where roots have names.

    Raises:
        BadInput: it is not written so, or there is no such root.
    """
    client, _, what = text.partition("=")
    access, _, path = what.partition(":")
    if not client or access not in _ACCESS:
        raise BadInput(f'rights "{text}": write NAME=ro or NAME=rw, with :PATH where it is not all')
    return _grant(client, access, path, roots)


def read(file: str | PathLike[str], roots: Sequence[str]) -> list[Grant]:
    """Reads a TOML file: a table for each client, `rw` and `ro` lists of paths ("" is all).

    Raises:
        BadInput: the file cannot be read or says something else.
    """
    # Only here: most servers have no such file.
    import tomllib

    try:
        table = tomllib.loads(Path(file).read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"{file}: {error}") from None
    grants = []
    for client, rights in table.items():
        if not isinstance(rights, dict) or not rights.keys() <= _ACCESS.keys():
            raise BadInput(
                f'{file}: [{client}] has "rw" and "ro", lists of paths, and nothing else'
            )
        for access, paths in rights.items():
            grants += [_grant(client, access, path, roots) for path in _listed(file, client, paths)]
    return grants


def _listed(file: str | PathLike[str], client: str, paths: Any) -> list[str]:
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise BadInput(f"{file}: [{client}]: paths are a list of texts")
    return paths


def _grant(client: str, access: str, path: str, roots: Sequence[str]) -> Grant:
    path = path.strip("/")
    if list(roots) == [""]:
        return Grant(client, _ACCESS[access], "", path)
    root, _, prefix = path.partition("/")
    if root not in roots:
        names = ", ".join(roots)
        raise BadInput(f'rights of {client}: no root is called "{root}"; there are {names}')
    return Grant(client, _ACCESS[access], root, prefix)
