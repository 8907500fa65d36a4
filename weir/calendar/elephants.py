"""Elephants that applications tell of: flows that can wait, and go in what all others leave.

The calendar keeps them, durably, until they are over: by word of who told, at a time that was
named, or because switches see nothing of them. The controller (`weir.control`) marks them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weir.calendar.problem import Problem

# All together: each is a rule in a switch.
TOLD_MAX = 10_000
# Whoever says that an elephant is idle may not know for so long that it was told again: the word
# may have been under way. It is given again if it is still true.
HEARD_WITHIN_NS = 10 * 10**9


@dataclass(frozen=True, slots=True)
class Elephant:
    """A flow that its application calls an elephant. Instants in ns since 1970.

    Attributes:
        source, destination: hosts by name.
        protocol: "tcp" or "udp".
        source_port, destination_port: None for any.
        size_bytes, rate_max_bps: what it will send and how fast at most; None if not told.
        expires_ns: when it is over at the latest; None for no such time.
    """

    id: str
    owner: str
    source: str
    destination: str
    protocol: str
    source_port: int | None
    destination_port: int | None
    size_bytes: int | None
    rate_max_bps: int | None
    told_ns: int
    expires_ns: int | None

    def assignment(self) -> dict[str, Any]:
        """What the controller is told."""
        return {
            "id": self.id,
            "source": self.source,
            "destination": self.destination,
            "protocol": self.protocol,
            "source_port": self.source_port,
            "destination_port": self.destination_port,
            "size_bytes": self.size_bytes,
            "rate_max_bps": self.rate_max_bps,
        }

    @property
    def _key(self) -> tuple[Any, ...]:
        ends = self.source, self.destination, self.source_port, self.destination_port
        return self.owner, self.protocol, *ends


class Elephants:
    """Those that are told of now, each once for each owner."""

    def __init__(self, elephants: Iterable[Elephant], per_owner_max: int) -> None:
        self._per_owner_max = per_owner_max
        self.told = {elephant.id: elephant for elephant in elephants}
        self._ids = {elephant._key: elephant.id for elephant in self.told.values()}
        self._owned = Counter(elephant.owner for elephant in self.told.values())
        self._again_ns: dict[str, int] = {}

    def tell(self, asked: Elephant) -> Elephant:
        """Takes one up. Who tells of the same flow again changes what was told of it.

        Raises:
            Problem: 409, there are too many.
        """
        before = self._ids.get(asked._key)
        if before is not None:
            earlier = self.told[before]
            self._again_ns[before] = asked.told_ns
            asked = replace(asked, id=earlier.id, told_ns=earlier.told_ns)
        elif self._owned[asked.owner] >= self._per_owner_max:
            raise _too_many(f'"{asked.owner}" has told of', self._per_owner_max)
        elif len(self.told) >= TOLD_MAX:
            raise _too_many("all together have told of", TOLD_MAX)
        else:
            self._ids[asked._key] = asked.id
            self._owned[asked.owner] += 1
        self.told[asked.id] = asked
        return asked

    def end(self, identifier: str) -> Elephant | None:
        """Lets go of one; None if it is over already."""
        elephant = self.told.pop(identifier, None)
        if elephant is not None:
            self._again_ns.pop(identifier, None)
            del self._ids[elephant._key]
            self._owned[elephant.owner] -= 1
        return elephant

    def believed_idle(self, identifiers: Iterable[str], now_ns: int) -> list[str]:
        """Those of `identifiers`, said to be idle, that were not told again just now."""
        return [x for x in identifiers if not self._is_told_again(x, now_ns)]

    def _is_told_again(self, identifier: str, now_ns: int) -> bool:
        again_ns = self._again_ns.get(identifier)
        return again_ns is not None and now_ns - again_ns < HEARD_WITHIN_NS

    def expired(self, now_ns: int) -> list[str]:
        """Those whose time has come."""
        return [x.id for x in self.told.values() if x.expires_ns and x.expires_ns <= now_ns]


@dataclass(frozen=True, slots=True)
class Sighting:
    """What the controller has of a marked flow: one that was told (with its id), or found."""

    source: str
    destination: str
    protocol: str
    source_port: int | None
    destination_port: int | None
    carried_bytes: int
    path: tuple[str, ...]


class Sightings:
    """What the controller has told last; measured all the time, and so not stored."""

    def __init__(self) -> None:
        self._told: Mapping[str, Sighting] = {}
        self.found: list[Sighting] = []

    def take(self, told: Mapping[str, Sighting], found: Iterable[Sighting]) -> None:
        """Takes a report."""
        self._told, self.found = told, list(found)

    @property
    def marked(self) -> int:
        """How many of those that were told are marked."""
        return len(self._told)

    def of(self, identifier: str) -> Sighting | None:
        """One that was told; None if it is not marked, or no controller has said so."""
        return self._told.get(identifier)


def _too_many(who: str, count_max: int) -> Problem:
    return Problem(
        409,
        "quota",
        "A quota is reached",
        f"{who} {count_max} elephants, as many as may be at a time",
        hint="wait until one is over, or remove one; flows of any port may go as one",
    )
