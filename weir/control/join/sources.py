"""What each address of a client has begun, so that none keeps others from beginning.

An address may begin so many connections a second. Only a few of them are set up at a time, the
next ones wait; and only so many are kept whose client was let go and has not come to the join end
yet. All of this is counted by address, and an address is at one port of one switch: whoever floods
has what comes from the same host wait, and nothing else.
"""

import math
from collections.abc import Iterator
from typing import Generic, TypeVar

from weir.control.join.segment import End

# What an address may begin: so many a second, and so many at once.
SYN_RATE, SYN_BURST = 200.0, 400.0
# So many of an address are set up at a time: what relays and switches are told of others is behind
# no more than that, however long they take.
BEGIN_MAX = 64
# First packets of an address that wait until then; of more, the oldest is forgotten: its client
# sends it again.
WAIT_MAX = 400
# Clients of an address that were let go and have not come. Who has come is known within a second.
AWAIT_MAX = 800

T = TypeVar("T")


class Source(Generic[T]):
    """What one address has begun.

    Attributes:
        beginning: clients whose flows are being set up.
        awaited: clients that were let go and have not come, the oldest first.
    """

    def __init__(self) -> None:
        self.beginning: set[End] = set()
        self.awaited: dict[End, None] = {}
        self._waiting: dict[End, T] = {}
        self._left, self._at_s = SYN_BURST, -math.inf

    def may_begin(self, now_s: float) -> bool:
        """Takes one of what it may begin; False: it has begun too much."""
        gained = (now_s - self._at_s) * SYN_RATE
        self._left, self._at_s = min(SYN_BURST, self._left + gained), now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def wait(self, client: End, what: T) -> None:
        """A first packet waits for its turn; one that comes again takes its own place."""
        if client not in self._waiting and len(self._waiting) >= WAIT_MAX:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[client] = what

    def next(self) -> T | None:
        """The first packet that is to be dealt with now; None: none waits, or may go."""
        if not self._waiting or len(self.beginning) >= BEGIN_MAX:
            return None
        return self._waiting.pop(next(iter(self._waiting)))

    def has_waiting(self) -> bool:
        """Whether any first packet waits."""
        return bool(self._waiting)

    def given_up(self) -> End | None:
        """Who is to be given up before one more is let go: who was for longest, and never came."""
        if len(self.beginning) + len(self.awaited) < AWAIT_MAX or not self.awaited:
            return None
        return next(iter(self.awaited))


class Sources(Generic[T]):
    """All addresses, each by itself."""

    def __init__(self) -> None:
        self._of: dict[str, Source[T]] = {}
        # Those of which something waits.
        self._waiting: dict[str, Source[T]] = {}

    def of(self, client: End) -> Source[T]:
        """What a client's address has begun."""
        return self._of.setdefault(client.address, Source())

    def wait(self, client: End, what: T) -> None:
        """A first packet waits for its turn."""
        source = self.of(client)
        source.wait(client, what)
        self._waiting[client.address] = source

    def awaited(self) -> list[tuple[Source[T], End]]:
        """All clients that were let go and have not come, each with its address's source."""
        return [(source, client) for source in self._of.values() for client in source.awaited]

    def due(self) -> Iterator[T]:
        """What is to be dealt with now, one of each address in turns."""
        is_any = True
        while is_any:
            is_any = False
            for address, source in [*self._waiting.items()]:
                if (one := source.next()) is not None:
                    is_any = True
                    yield one
                if not source.has_waiting():
                    self._waiting.pop(address, None)
