"""Results of points on disk, found again by what they are results of.

An entry is a file named by the digest of its point: the function, its arguments and the version of
the code (see `weir.runs.version`). It repeats them and starts with a checksum, so one that was
cut off, damaged or put in another's place is not believed but computed again. Entries appear whole:
they are written under another name first. Deleting any of them, or all, loses nothing but time.
"""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from weir.errors import Unsupported
from weir.home import below
from weir.runs.point import Json, Point
from weir.runs.version import code_version


@dataclass(frozen=True, slots=True)
class Result:
    """What a point gave.

    Attributes:
        value: its result.
        seconds: how long it took on one core.
        code: the version that measured it; empty if that is this one.
    """

    value: Json
    seconds: float
    code: str = ""


def default_folder() -> Path:
    """`weir/reproduce` in the user's cache folder."""
    return below("XDG_CACHE_HOME", ".cache") / "weir" / "reproduce"


def identity(point: Point) -> str:
    """What a result is the result of, as JSON that is the same for equal points."""
    module = point.run.__module__
    facts = {
        "run": f"{module}.{point.run.__qualname__}",
        "arguments": point.arguments,
        "code": code_version(module),
    }
    return json.dumps(facts, sort_keys=True, allow_nan=False)


class Cache:
    """The entries in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, point: Point) -> Result | None:
        """The result, if there is a whole one.

        Raises:
            Unsupported: the entry cannot be read.
        """
        name = identity(point)
        path = self._path(name)
        try:
            checksum, body = path.read_text().split("\n", 1)
        except (FileNotFoundError, ValueError):
            return None
        except OSError as error:
            raise Unsupported(f"cannot read the cached result {path}: {error.strerror}") from None
        if checksum != _digest(body):
            return None
        entry = json.loads(body)
        return Result(entry["value"], entry["seconds"]) if entry["point"] == name else None

    def put(self, point: Point, result: Result) -> None:
        """Keeps a result.

        Raises:
            Unsupported: it cannot be written; nothing of it is left.
        """
        name = identity(point)
        path = self._path(name)
        body = json.dumps({"point": name, "value": result.value, "seconds": result.seconds})
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(f"{_digest(body)}\n{body}")
            partial.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise Unsupported(f"cannot keep a result in {path}: {error.strerror}") from None

    def _path(self, name: str) -> Path:
        digest = _digest(name)
        return self._folder / digest[:2] / digest[2:]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
