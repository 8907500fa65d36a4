"""Which client may do what below which root, as `weir serve` is told it."""

import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from weir import files
from weir._core import Bytes
from weir.errors import BadInput

_ACCESS = {"ro": True, "rw": False}


class Grant(NamedTuple):
    """What one client may do below one root.

    Attributes:
        client: the name in its certificate.
        read_only: it may fetch and not store.
        root: the root's name; empty for the only one.
        prefix: only what is below this path of the root.
        quota: what that may hold; None is the server's.
    """

    client: str
    read_only: bool
    root: str = ""
    prefix: str = ""
    quota: Bytes | None = None

    def as_core(self) -> tuple[str, str, bool, bytes, int | None]:
        """As the core takes it."""
        most = None if self.quota is None else self.quota.count
        return self.client, self.root, self.read_only, os.fsencode(self.prefix), most


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

    `quota` is a size: what each path of `rw` may hold.

    Raises:
        BadInput: the file cannot be read or says something else.
    """
    # Only here: most servers have no such file.
    import tomllib

    try:
        table = tomllib.loads(files.text(Path(file)))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file}: {error}") from None
    grants = []
    for client, rights in table.items():
        if not isinstance(rights, dict) or not rights.keys() <= {*_ACCESS, "quota"}:
            raise BadInput(
                f'{file}: [{client}] has "rw" and "ro", lists of paths, "quota", a size, and '
                "nothing else"
            )
        quota = _size(file, client, rights.pop("quota", None))
        for access, paths in rights.items():
            listed = [_grant(client, access, path, roots) for path in _listed(file, client, paths)]
            grants += [grant._replace(quota=quota) for grant in listed]
    return grants


def _size(file: str | PathLike[str], client: str, size: Any) -> Bytes | None:
    if size is None:
        return None
    if not isinstance(size, str):
        raise BadInput(f'{file}: [{client}]: a quota is a size, such as "500 GB"')
    try:
        return Bytes(size)
    except BadInput as error:
        raise BadInput(f"{file}: [{client}]: {error}") from None


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
