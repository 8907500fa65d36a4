"""Whom the passing of time alone concerns, found without looking at everybody.

Of ten thousand transfers hardly any starts, comes to its deadline or waits for room within one
tick: to look at each would take a tenth of a second out of every two.
"""

import heapq
from collections.abc import Iterable

from weir.calendar.records import Transfer

# Instants that do not count any more which are kept in any case.
STALE_MAX = 1_000


class Instants:
    """One instant for each name, and for which of them it has come."""

    def __init__(self, come: Iterable[str] = ()) -> None:
        """For some it has come long since."""
        self._at_ns = dict.fromkeys(come, 0)
        # When to look at each name again: at its instant, or earlier, since most that change are
        # put off. Others in the heap are past changes.
        self._looked_at_ns: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        # In the order of their coming.
        self._come = dict.fromkeys(self._at_ns)

    def get(self, name: str, default_ns: int) -> int:
        """Its instant, if it has one."""
        return self._at_ns.get(name, default_ns)

    def put(self, name: str, at_ns: int) -> None:
        """Gives it an instant, in place of one that it may have had."""
        if self._at_ns.get(name) == at_ns:
            return
        self._at_ns[name] = at_ns
        self._come.pop(name, None)
        looked_at_ns = self._looked_at_ns.get(name)
        if looked_at_ns is None or at_ns < looked_at_ns:
            self._look_at(name, at_ns)

    def _look_at(self, name: str, at_ns: int) -> None:
        self._looked_at_ns[name] = at_ns
        heapq.heappush(self._heap, (at_ns, name))
        if len(self._heap) > 2 * len(self._looked_at_ns) + STALE_MAX:
            # Most of it does not count any more.
            self._heap = [(at_ns, x) for x, at_ns in self._looked_at_ns.items()]
            heapq.heapify(self._heap)

    def drop(self, name: str) -> None:
        """It has none any more."""
        self._at_ns.pop(name, None)
        self._looked_at_ns.pop(name, None)
        self._come.pop(name, None)

    def clear(self) -> None:
        """None has any."""
        self._at_ns.clear()
        self._looked_at_ns.clear()
        self._heap.clear()
        self._come.clear()

    def come(self, now_ns: int) -> list[str]:
        """Whose instants have come, longest ago first, as long as they stay so."""
        while self._heap and self._heap[0][0] <= now_ns:
            looked_at_ns, name = heapq.heappop(self._heap)
            if self._looked_at_ns.get(name) != looked_at_ns:
                continue
            del self._looked_at_ns[name]
            at_ns = self._at_ns[name]
            if at_ns == looked_at_ns:
                self._come[name] = None
            else:
                self._look_at(name, at_ns)
        return list(self._come)


class Watch:
    """Active transfers by the next instant that something is to be done about them."""

    def __init__(self) -> None:
        self._instants = Instants()
        # Who is looked at every time: without capacity, or planned too late for the deadline.
        self._restless: set[str] = set()
        # Who is at risk, or has missed the deadline.
        self._troubled: set[str] = set()

    def note(self, transfer: Transfer, latest_ns: int | None = None) -> None:
        """Takes up a transfer as it is now, and an instant that comes beside its own."""
        identifier, next_ns = transfer.id, _next_ns(transfer)
        if latest_ns is not None:
            next_ns = latest_ns if next_ns is None else min(next_ns, latest_ns)
        if next_ns is None:
            self._instants.drop(identifier)
        else:
            self._instants.put(identifier, next_ns)
        if not transfer.planned or transfer.plan_ns > transfer.deadline_ns:
            self._restless.add(identifier)
        else:
            self._restless.discard(identifier)
        if transfer.risk or transfer.missed:
            self._troubled.add(identifier)
        else:
            self._troubled.discard(identifier)

    def forget(self, identifier: str) -> None:
        """Lets go of a transfer that is over."""
        self._instants.drop(identifier)
        self._restless.discard(identifier)
        self._troubled.discard(identifier)

    @property
    def troubled(self) -> frozenset[str]:
        """Who is at risk, or has missed the deadline."""
        return frozenset(self._troubled)

    def due(self, now_ns: int) -> set[str]:
        """Whom to look at now."""
        due = set(self._restless)
        for identifier in self._instants.come(now_ns):
            self._instants.drop(identifier)
            due.add(identifier)
        return due


def _next_ns(transfer: Transfer) -> int | None:
    """When a transfer starts or, once it has, misses its deadline; None if neither can be."""
    if transfer.state == "scheduled" and transfer.start_ns is not None:
        return transfer.start_ns
    if transfer.missed or transfer.is_rest:
        return None
    return transfer.deadline_ns + 1
