"""Which flows are marked as elephants, and until when.

Flows are told or found. Switches count what each marked one carries; by that an elephant which
nobody has ended is known to be over.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from weir.control.elephant import Count, Flow, Told
from weir.control.messages import COUNT_MAX

# Whoever tells of an elephant has so long until it begins, and may pause for so long.
IDLE_S = 60.0
# An elephant that was found is judged over periods of this length: it is over when it carried less
# than this share of the rate at which flows are found. Between the two nothing changes.
QUIET_S = 3.0
KEEP_SHARE = 0.25
# Rules for elephants that were found, in all switches together.
FOUND_MAX = 1_000


@dataclass(slots=True)
class _Marked:
    """An elephant while it is marked.

    `since_s` and `since_bytes` are of the period that it is judged by; for one that was told, this
    begins whenever something of it passes. It begins with no reading up to `after_s`: that was the
    last one when the elephant was told or found, and a switch that is away may be long in giving
    another.
    """

    told: Told
    ids: set[str] = field(default_factory=set)
    carried_bytes: int = 0
    last_bytes: int = 0
    since_s: float | None = None
    since_bytes: int = 0
    after_s: float = -math.inf

    def begin(self, after_s: float) -> None:
        """It is judged anew, by readings later than this one."""
        self.since_s, self.after_s = None, after_s

    def count(self, count: Count) -> None:
        """Takes what its rule has counted; one that was put back counts from nothing."""
        before = self.last_bytes if count.carried_bytes >= self.last_bytes else 0
        self.carried_bytes += count.carried_bytes - before
        self.last_bytes = count.carried_bytes


class Book:
    """All elephants of a network.

    Args:
        find_bps: the rate from which flows are found to be elephants; None where nobody looks.
        idle_s: for so long one that was told of may carry nothing.
    """

    def __init__(self, find_bps: float | None = None, idle_s: float = IDLE_S) -> None:
        self._find_bps = find_bps
        self._idle_s = idle_s
        self._marked: dict[Flow, _Marked] = {}
        # Told ones by their ids, and those of them that are known to be over.
        self._told: dict[str, Flow] = {}
        self._over: dict[str, str] = {}
        # What was counted last, of whatever flow.
        self._counts: Mapping[Flow, Count] = {}

    def begin(self, told: Mapping[str, Told]) -> None:
        """These are told of, by their ids, and no others.

        Any of them may have been told again since it was last heard of.
        """
        self.end([x for x in (*self._told, *self._over) if x not in told])
        for identifier, one in told.items():
            self.tell(identifier, one)

    def tell(self, identifier: str, told: Told) -> None:
        """An application has told of an elephant.

        Told again, it has as long until it begins as when it was told first, over or not.
        """
        self._over.pop(identifier, None)
        if self._told.get(identifier) != told.flow:
            self.end([identifier])
        self._told[identifier] = told.flow
        marked = self._marked.get(told.flow)
        if marked is None:
            marked = self._marked[told.flow] = _Marked(told)
        marked.told = told
        marked.begin(self._read_s(told.flow))
        marked.ids.add(identifier)

    def end(self, identifiers: Iterable[str]) -> None:
        """These are told of no longer."""
        for identifier in identifiers:
            self._over.pop(identifier, None)
            flow = self._told.pop(identifier, None)
            marked = self._marked.get(flow) if flow else None
            if flow is not None and marked is not None:
                marked.ids.discard(identifier)
                if not marked.ids:
                    del self._marked[flow]

    def find(self, flow: Flow) -> bool:
        """A flow was found to be an elephant; whether it is marked now."""
        if flow not in self._marked:
            if sum(not x.ids for x in self._marked.values()) >= FOUND_MAX:
                return False
            marked = self._marked[flow] = _Marked(Told(flow))
            marked.begin(self._read_s(flow))
        return True

    def count(self, counts: Mapping[Flow, Count]) -> None:
        """Takes what switches have counted, and ends what by that is over."""
        self._counts = counts
        for flow, count in counts.items():
            marked = self._marked.get(flow)
            if marked is not None and self._is_over(marked, count):
                self._over |= dict.fromkeys(marked.ids, f"idle for {self._idle_s:g} s")
                for identifier in marked.ids:
                    del self._told[identifier]
                del self._marked[flow]

    def marks(self) -> dict[Flow, Told]:
        """The flows to mark, with what is known of each."""
        return {flow: marked.told for flow, marked in self._marked.items()}

    def is_marked(self, flow: Flow) -> bool:
        """Whether a flow is marked, by itself or with others to or from any port."""
        if not flow.source_port or not flow.port:
            return flow in self._marked
        wider = (replace(flow, source_port=0), replace(flow, port=0))
        widest = replace(flow, source_port=0, port=0)
        return any(one in self._marked for one in (flow, *wider, widest))

    def reports(self) -> list[tuple[Flow | None, dict[str, Any]]]:
        """What to tell the calendar of each marked flow by its ids; None for one that was found.

        Without a flow, why one that was told of is over.
        """
        found: list[tuple[Flow | None, dict[str, Any]]] = []
        for flow, marked in self._marked.items():
            identifiers: list[str | None] = [*sorted(marked.ids)] or [None]
            carried = {"carried_bytes": min(marked.carried_bytes, COUNT_MAX)}
            found += [(flow, {"id": identifier, **carried}) for identifier in identifiers]
        over = [(None, {"id": identifier, "over": why}) for identifier, why in self._over.items()]
        return [*found, *over]

    def _read_s(self, flow: Flow) -> float:
        """When a flow was read last, so far."""
        count = self._counts.get(flow)
        return count.read_s if count else -math.inf

    def _is_over(self, marked: _Marked, count: Count) -> bool:
        moved = count.carried_bytes != marked.last_bytes
        marked.count(count)
        if count.read_s <= marked.after_s:
            return False
        if marked.since_s is None or (marked.ids and moved):
            marked.since_s, marked.since_bytes = count.read_s, marked.carried_bytes
            return False
        lasted_s = count.read_s - marked.since_s
        if marked.ids:
            return lasted_s >= self._idle_s
        if lasted_s < QUIET_S:
            return False
        rate_bps = 8 * (marked.carried_bytes - marked.since_bytes) / lasted_s
        marked.since_s, marked.since_bytes = count.read_s, marked.carried_bytes
        return rate_bps < KEEP_SHARE * (self._find_bps or 0)
