"""Whether two places hold the same: names, kinds, contents by hash; nothing is moved.

Each end hashes what it has. Times, permissions and owners are not compared. What is told of a place
is read once, in the order of the paths, so that memory does not grow with it.
"""

import os
import re
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from weir._core import Bytes, Catalogue, Time, catalogue
from weir.errors import BadInput
from weir.home import expanded
from weir.transfer import SILENCE
from weir.transfer.remote import is_remote

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
        return is_remote(self.named)

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
    """What stands under a name: its kind, size and the file's hash or the link's target.

    Attributes:
        kind: file, link, directory or unreadable.
        size: of a file.
        value: the file's hash, the link's target, or why it is unreadable.
    """

    kind: str
    size: Bytes
    value: bytes


class Listing:
    """All that stands at a place. It can be gone through once: see `differences`.

    Attributes:
        is_single: the place itself is a regular file or a link.
        files: how many regular files there are.
        size: the bytes of all of them.
    """

    def __init__(self, told: Catalogue) -> None:
        self.is_single = told.single
        self.files = told.files
        self.size = Bytes.from_count(told.size_bytes)
        self._told = told

    def things(self) -> Iterator[tuple[bytes | None, Thing]]:
        """By path below the place; a single file or link is under the empty path.

        What is unreadable comes first, without a path, its value saying why.
        """
        for path, kind, size, value in self._told:
            below = b"" if self.is_single else path
            thing = Thing(kind, Bytes.from_count(size), value)
            yield (None if kind == _UNREADABLE else below), thing


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
    return None if told is None else Listing(told)


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
    # By side, not by place: one place may stand on both, and a listing is gone through once.
    found: dict[int, tuple[Place, Listing | None]] = {}
    faults: list[BaseException] = []

    def look(side: int, places: list[Place]) -> None:
        try:
            for place in places:
                found[side] = place, read(place)
                if found[side][1] is not None:
                    break
        except BaseException as error:
            faults.append(error)

    threads = [
        threading.Thread(target=look, args=(side, places), daemon=True)
        for side, places in enumerate(([first], seconds))
    ]
    for thread in threads:
        thread.start()
    # In turns, so that Ctrl-C is heard.
    while not faults and any(thread.is_alive() for thread in threads):
        threads[0 if threads[0].is_alive() else 1].join(_WAIT_S)
    if faults:
        raise faults[0]
    return *found[0], *found[1]


def differences(first: Listing | None, second: Listing | None) -> Iterator[Difference]:
    """In what they differ, by path; nothing if they are the same. Goes through both.

    Raises:
        BadInput: nothing stands at the first place.
    """
    if first is None:
        raise BadInput("nothing is there to compare with")
    if second is None:
        yield Difference(None, "missing", "nothing stands at the second place")
        return
    ones, others = first.things(), second.things()
    one = yield from _past_unreadable(ones, "first")
    other = yield from _past_unreadable(others, "second")
    if first.is_single != second.is_single:
        words = "one is a single file or link, the other a directory"
        yield Difference(None, "kind", words)
        return
    while one is not None or other is not None:
        path = min(two[0] for two in (one, other) if two is not None)
        here = one if one is not None and one[0] == path else None
        there = other if other is not None and other[0] == path else None
        if here != there:
            yield _difference(path, here and here[1], there and there[1])
        if here is not None:
            one = _next(ones)
        if there is not None:
            other = _next(others)


def _past_unreadable(
    things: Iterator[tuple[bytes | None, Thing]], which: str
) -> Generator[Difference, None, tuple[bytes, Thing] | None]:
    """Tells what is unreadable; returns the first thing after that."""
    for path, thing in things:
        if path is not None:
            return path, thing
        words = thing.value.decode("utf-8", "backslashreplace")
        yield Difference(None, _UNREADABLE, f"at the {which} place: {words}")
    return None


def _next(things: Iterator[tuple[bytes | None, Thing]]) -> tuple[bytes, Thing] | None:
    for path, thing in things:
        if path is not None:
            return path, thing
    return None


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
