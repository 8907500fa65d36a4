"""TOML with places: reads a table key by key and says which line a wrong value stands on.

`tomllib` keeps no positions, so one pass over the text notes the line of every table header and
of every key at the start of a line. A key inside an inline table gets the line of the key that
holds it, which is where a person looks.
"""

import difflib
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from weir import Bytes, Rate, Time, files
from weir.errors import BadInput

T = TypeVar("T")
D = TypeVar("D")
Quantity = TypeVar("Quantity", Bytes, Rate, Time)
Place = tuple[str | int, ...]

_WORDS = {Bytes: "size", Rate: "rate", Time: "time"}
_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]#]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.\"'-]+)\s*=")
_WHERE = re.compile(r"\(at line (\d+), column \d+\)")
_TWICE = re.compile(r"Cannot (?:declare \((.+)\) twice|overwrite a value)")


class Source:
    """One TOML text and where its parts stand.

    Args:
        text: the TOML document.
        name: what messages call it, normally the file name.

    Raises:
        BadInput: the text is not TOML, with the line.
    """

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self._lines = _lines_of(text)
        try:
            self.document: dict[str, Any] = tomllib.loads(text)
        except ValueError as error:
            raise self._not_toml(str(error)) from None
        except RecursionError:
            raise BadInput(f"{name}: its lists or tables are nested too deeply") from None

    @classmethod
    def load(cls, path: Path) -> "Source":
        """Reads the file at `path`; BadInput when it cannot be read."""
        return cls(files.text(path), str(path))

    def error(self, place: Place, message: str) -> BadInput:
        """A BadInput that begins with the file and the line of the innermost known place."""
        for end in range(len(place), 0, -1):
            if place[:end] in self._lines:
                return BadInput(f"{self.name}:{self._lines[place[:end]]}: {message}")
        return BadInput(f"{self.name}: {message}")

    def _not_toml(self, message: str) -> BadInput:
        line = _WHERE.search(message)
        where = f"{self.name}:{line[1]}" if line else self.name
        what = _WHERE.sub("", message).strip()
        twice = _TWICE.search(message)
        if twice and twice[1]:
            parts = [part.strip(" '\"") for part in twice[1].split(",")]
            what = f"[{'.'.join(filter(None, parts))}] stands twice; a name is used once"
        elif twice:
            what = "this key stands twice; a key is given once"
        return BadInput(f"{where}: {what}")


class Table:
    """One table of a source, whose keys are taken one by one; `close` refuses what is left.

    Args:
        source: the document this table belongs to.
        place: the path to it, such as ("link", 0).
        content: its keys and values.
        title: what messages call it, such as `[[link]] 1`.
    """

    def __init__(self, source: Source, place: Place, content: Any, title: str) -> None:
        if not isinstance(content, dict):
            raise source.error(place, f"{title} is a table, not {_shown(content)}")
        self.source, self.place, self.title = source, place, title
        self._left = dict(content)
        self._known: list[str] = []

    def take(self, key: str, read: Callable[[Any], T], default: D) -> T | D:
        """The value of `key` as `read` understands it, or `default` when it is absent."""
        self._known.append(key)
        return self._read(key, read) if key in self._left else default

    def require(self, key: str, read: Callable[[Any], T]) -> T:
        """Takes a key that must be there."""
        if key not in self._left:
            raise self.error(None, f"{key} is missing")
        self._known.append(key)
        return self._read(key, read)

    def tables(self, key: str, title: str) -> "list[Table]":
        """The array of tables `key`, such as every `[[link]]`; empty when absent."""
        items: list[Any] = self.take(key, _list, [])
        return [
            Table(self.source, (*self.place, key, index), item, f"{title} {index + 1}")
            for index, item in enumerate(items)
        ]

    def table(self, key: str, title: str) -> "Table | None":
        """The inner table `key`, or None when absent."""
        if key in self._left:
            return self.require_table(key, title)
        self._known.append(key)
        return None

    def require_table(self, key: str, title: str) -> "Table":
        """The inner table `key`, which must be there."""
        return Table(self.source, (*self.place, key), self.require(key, _any), title)

    def keys(self) -> list[str]:
        """The keys not taken yet, in the order of the file."""
        return list(self._left)

    def error(self, key: str | None, message: str) -> BadInput:
        """A BadInput at the line of `key` (or of the table), beginning with the table's title."""
        place = self.place if key is None else (*self.place, key)
        return self.source.error(place, f"{self.title}: {message}")

    def close(self) -> None:
        """Refuses the first key that nothing took."""
        for key in self._left:
            near = difflib.get_close_matches(key, self._known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            known = ", ".join(sorted(self._known))
            raise self.error(key, f"{key} is not a key here; {hint}known are {known}")

    def _read(self, key: str, read: Callable[[Any], T]) -> T:
        value = self._left.pop(key)
        try:
            return read(value)
        except BadInput as error:
            raise self.error(key, f"{key} = {_shown(value)}: {error}") from None


def _any(value: Any) -> Any:
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadInput("this is a list of tables, each begun by a double bracket")
    return value


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _lines_of(text: str) -> dict[Place, int]:
    lines: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    current: Place = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            current = _parts(header[2])
            if header[1] == "[[":
                counts[current] = counts.get(current, 0) + 1
            # [link.queue] belongs to the last [[link]] above it.
            for length in range(1, len(current) + 1):
                if current[:length] in counts:
                    current = (*current[:length], counts[current[:length]] - 1, *current[length:])
                    break
            lines.setdefault(current, number)
        elif key := _KEY.match(line):
            lines.setdefault((*current, *_parts(key[1])), number)
    return lines


def _parts(dotted: str) -> Place:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def whole(least: int, most: int) -> Callable[[Any], int]:
    """Reads a whole number within bounds, both included."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise BadInput(f"a whole number from {least} to {most} is allowed")
        return value

    return read


def positive(kind: type[Quantity]) -> Callable[[Any], Quantity]:
    """Reads a size, rate or time above zero."""

    def read(value: Any) -> Quantity:
        quantity = kind(value)
        if not quantity:
            raise BadInput(f"a {_WORDS[kind]} of more than 0 is allowed")
        return quantity

    return read


def one_of(*allowed: str) -> Callable[[Any], str]:
    """Reads one of some words."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise BadInput(f"allowed are {', '.join(allowed)}")
        return value

    return read


def flag(value: Any) -> bool:
    """Reads true or false."""
    if not isinstance(value, bool):
        raise BadInput("true or false are allowed")
    return value
