"""Whether two places hold the same: names, kinds, contents by hash; nothing is moved.

Each end hashes what it has. Times, permissions and owners are not compared.
"""

import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from weir._core import Bytes, Time, catalogue
from weir.errors import BadInput
from weir.home import expanded
from weir.transfer import SILENCE

_REMOTE = re.compile(r"(\[[^/]+\]|[^/:]+):\d+(/|$)")
_SEVERAL = re.compile(r"[^/]*,[^/]*:\d+(/|$)")
_FILE, _UNREADABLE = "file", "unreadable"
_WAIT_S = 0.2


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look.

    Attributes:
        named: a path, or HOST:PORT/PATH. A path that looks like that is written `./HOST:PORT`.
        keys: key directory of `weir keys`; None for a server without TLS.
        follow_links: compare what symbolic links lead to instead of the links.
    """

    named: str
    keys: str | None
    follow_links: bool = False

    @property
    def is_remote(self) -> bool:
        """Whether a server has it."""
        return _REMOTE.match(self.named) is not None

    @property
    def name(self) -> str:
        """Its last component; empty if it ends with a slash, or has none."""
        path = self.named.partition("/")[2] if self.is_remote else self.named
        return path.rpartition("/")[2]

    def below(self, name: str) -> "Place":
        """The place of that name in it."""
        return Place(f"{self.named.removesuffix('/')}/{name}", self.keys, self.follow_links)


@dataclass(frozen=True, slots=True)
class Thing:
    """What stands under a name: its kind, size and the file's hash or the link's target."""

    kind: str
    size: Bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Listing:
    """All that stands at a place, by path below it; a single file is under the empty path."""

    is_file: bool
    things: Mapping[bytes, Thing]
    unreadable: tuple[str, ...]

    @property
    def files(self) -> list[Thing]:
        """The entries that are regular files."""
        return [thing for thing in self.things.values() if thing.kind == _FILE]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which the places differ.

    Attributes:
        path: below the places; None where `what` says it.
        what: missing (in the second), extra (only there), content, kind, target, or unreadable.
        words: for a person.
    """

    path: bytes | None
    what: str
    words: str


def read(place: Place, silence: Time = SILENCE) -> Listing | None:
    """What stands there; None if nothing does. Hashes every file, which takes its time.

    Raises:
        WeirError: it cannot be read, or the server not be reached.
        BadInput: it names several hosts.
    """
    if _SEVERAL.match(place.named):
        raise BadInput(f'"{place.named}" names several hosts; name the one that is to hash')
    named = os.fsencode(place.named)
    if place.is_remote:
        keys = None if place.keys is None else expanded(place.keys)
        told = catalogue(named, place.follow_links, silence, keys)
    else:
        told = catalogue(named, place.follow_links)
    if told is None:
        return None
    is_file, items = told
    things, unreadable = {}, []
    for path, kind, size, value in items:
        if kind == _UNREADABLE:
            unreadable.append(value.decode("utf-8", "backslashreplace"))
        else:
            things[b"" if is_file else path] = Thing(kind, Bytes.from_count(size), value)
    return Listing(is_file, things, tuple(unreadable))


def read_both(first: Place, second: Place) -> tuple[Place, Listing | None, Place, Listing | None]:
    """What stands at both, read at the same time; the places as they were compared.

    As `weir send FIRST SECOND` puts it: a directory stands in the second place under its name if
    there is such a one, else it is the second place; a file likewise.

    Raises:
        WeirError: one cannot be read.
    """
    seconds = [second]
    if first.name not in ("", ".", ".."):
        seconds.insert(0, second.below(first.name))
    listings: dict[Place, Listing | None] = {}
    faults: list[BaseException] = []

    def look(places: list[Place]) -> None:
        try:
            for place in places:
                listings[place] = read(place)
                if listings[place] is not None:
                    break
        except BaseException as error:
            faults.append(error)

    threads = [
        threading.Thread(target=look, args=(places,), daemon=True) for places in ([first], seconds)
    ]
    for thread in threads:
        thread.start()
    # In turns, so that Ctrl-C is heard.
    while not faults and any(thread.is_alive() for thread in threads):
        threads[0 if threads[0].is_alive() else 1].join(_WAIT_S)
    if faults:
        raise faults[0]
    found = [place for place in seconds if listings.get(place) is not None]
    there = found[0] if found else second
    return first, listings[first], there, listings.get(there)


def differences(first: Listing | None, second: Listing | None) -> Iterator[Difference]:
    """In what they differ, by path; nothing if they are the same.

    Raises:
        BadInput: nothing stands at the first place.
    """
    if first is None:
        raise BadInput("nothing is there to compare with")
    if second is None:
        yield Difference(None, "missing", "nothing stands at the second place")
        return
    for which, listing in (("first", first), ("second", second)):
        for words in listing.unreadable:
            yield Difference(None, _UNREADABLE, f"at the {which} place: {words}")
    if first.is_file != second.is_file:
        yield Difference(None, "kind", "one is a file, the other a directory")
        return
    for path in sorted(first.things.keys() | second.things.keys()):
        one, other = first.things.get(path), second.things.get(path)
        if one != other:
            yield _difference(path, one, other)


def _difference(path: bytes, one: Thing | None, other: Thing | None) -> Difference:
    if one is None or other is None:
        what = "missing" if other is None else "extra"
        return Difference(path, what, what)
    if one.kind != other.kind:
        return Difference(path, "kind", f"a {one.kind}, there a {other.kind}")
    if one.kind != _FILE:
        return Difference(path, "target", "the links lead elsewhere")
    if one.size != other.size:
        return Difference(path, "content", f"{one.size}, there {other.size}")
    return Difference(path, "content", "the contents differ")
