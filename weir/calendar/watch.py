"""Whom the passing of time alone concerns, found without looking at everybody.

Of ten thousand transfers hardly any starts, comes to its deadline or waits for room within one
tick: to look at each would take a tenth of a second out of every two.
"""

import heapq

from weir.calendar.records import Transfer

# Instants that do not count any more which are kept in any case.
STALE_MAX = 1_000


class Watch:
    """Active transfers by the next instant that something is to be done about them."""

    def __init__(self) -> None:
        self._instants: list[tuple[int, str]] = []
        # The instant that counts, of each that has one: others in the heap are past changes.
        self._next_ns: dict[str, int] = {}
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
            self._next_ns.pop(identifier, None)
        elif self._next_ns.get(identifier) != next_ns:
            self._next_ns[identifier] = next_ns
            heapq.heappush(self._instants, (next_ns, identifier))
            self._tidy()
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
        self._next_ns.pop(identifier, None)
        self._restless.discard(identifier)
        self._troubled.discard(identifier)

    @property
    def troubled(self) -> frozenset[str]:
        """Who is at risk, or has missed the deadline."""
        return frozenset(self._troubled)

    def _tidy(self) -> None:
        """Drops what does not count any more, where that is most of it."""
        if len(self._instants) > 2 * len(self._next_ns) + STALE_MAX:
            self._instants = [(at_ns, x) for x, at_ns in self._next_ns.items()]
            heapq.heapify(self._instants)

    def due(self, now_ns: int) -> set[str]:
        """Whom to look at now."""
        due = set(self._restless)
        while self._instants and self._instants[0][0] <= now_ns:
            at_ns, identifier = heapq.heappop(self._instants)
            if self._next_ns.get(identifier) == at_ns:
                del self._next_ns[identifier]
                due.add(identifier)
        return due


def _next_ns(transfer: Transfer) -> int | None:
    """When a transfer starts or, once it has, misses its deadline; None if neither can be."""
    if transfer.state == "scheduled" and transfer.start_ns is not None:
        return transfer.start_ns
    if transfer.missed or transfer.is_rest:
        return None
    return transfer.deadline_ns + 1
