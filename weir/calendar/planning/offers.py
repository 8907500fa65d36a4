"""Offers that are held: the room behind a refusal's deadline is kept from others for a while.

A held offer is a flow of the engine's that nobody sends. It needs the offer's rate until after
the offer's end, so whatever the engine decides meanwhile leaves that rate alone, and in one
command the flow makes way for the transfer that was offered. The flow's name says whose the offer
is, and its deadline when it ends: a restart finds it where it finds all flows. A policy that plans
ahead holds the room from the offer's end on, which is then where the flow starts: until then others
send over the links as they like. Of a request that starts later still, the flow starts with it, and
its name says when the offer ends, too.

One submitter holds one offer at a time, and at most the `PAUSE`th part of the time, but for a few
in the beginning: nobody keeps the network from others by asking.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from weir.calendar.clock import NS_PER_S
from weir.calendar.fast_record import changed
from weir.calendar.planning.engine import HELD_PREFIX, RecordedEngine, Verdict, Wanted
from weir.calendar.records import union

# A flow outlasts its offer by so much: what rounding leaves over of it is then less than a bit
# per second to the end, so that nobody can take even that.
TAIL_NS = 10 * NS_PER_S
# As many offers as can be held to their ends one after the other, and after how many times the
# time that one was held there is room for another as long.
AT_ONCE = 3
PAUSE = 10
# Between an owner and the end of the offer in a flow's name; no owner's name has it.
UNTIL = "\n"


@dataclass(frozen=True, slots=True)
class Held:
    """An offer that is held: by which flow, since when, until when, on which links."""

    flow: str
    since_ns: int
    until_ns: int
    links: tuple[str, ...]


class Offers:
    """What is held for whom. Methods return the rates that changed by them."""

    def __init__(self, engine: RecordedEngine, hold_ns: int) -> None:
        self._engine = engine
        self._hold_ns = hold_ns
        # In the order of their ends.
        self._held: dict[str, Held] = {}
        # How much of its time each submitter has used up, and when that was so.
        self._used: dict[str, tuple[int, int]] = {}
        for flow, start_ns, deadline_ns in engine.held():
            owner, _, told = flow.removeprefix(HELD_PREFIX).partition(UNTIL)
            until_ns = int(told) if told else start_ns or deadline_ns - TAIL_NS
            self._held[owner] = self._made(flow, until_ns - hold_ns, until_ns)
        self._held = dict(sorted(self._held.items(), key=lambda x: x[1].until_ns))

    def hold(
        self, now_ns: int, owner: str, ends: tuple[str, str], rate_bps: int
    ) -> tuple[Held, dict[str, int]] | None:
        """Holds a rate between two nodes from now on; None where it may not be or is not there.

        The owner holds nothing else by then.
        """
        if not self._may_hold(now_ns, owner):
            return None
        lasts_ns = self._hold_ns + TAIL_NS
        size_bytes = rate_bps * lasts_ns // (8 * NS_PER_S)
        if not size_bytes:
            return None
        flow, deadline_ns = HELD_PREFIX + owner, now_ns + lasts_ns
        verdict = self._engine.submit(now_ns, flow, Wanted(ends, size_bytes, deadline_ns, rate_bps))
        if not verdict.accepted:
            return None
        held = self._held[owner] = self._made(flow, now_ns, now_ns + self._hold_ns)
        return held, verdict.changes

    def hold_ahead(self, now_ns: int, owner: str, wanted: Wanted) -> tuple[Held, int] | None:
        """Holds room for a request from the offer's end on, and by which deadline.

        From its start on, where that is later. None where it may not be or is not there. The owner
        holds nothing else by then.
        """
        if not self._may_hold(now_ns, owner):
            return None
        flow, until_ns = HELD_PREFIX + owner, now_ns + self._hold_ns
        start_ns = max(until_ns, wanted.start_ns or 0)
        if start_ns > until_ns:
            flow += f"{UNTIL}{until_ns}"
        deadline_ns = self._engine.offer(now_ns, flow, changed(wanted, start_ns=start_ns))
        if deadline_ns is None:
            return None
        held = self._held[owner] = self._made(flow, now_ns, until_ns)
        return held, deadline_ns

    def take_up(self, now_ns: int, owner: str, identifier: str, wanted: Wanted) -> Verdict:
        """Asks with what is held ahead for a submitter, who holds nothing then."""
        held = self._forget(now_ns, owner)
        return self._engine.submit(now_ns, identifier, wanted, held.flow)

    def _may_hold(self, now_ns: int, owner: str) -> bool:
        used_ns = self._time_used(now_ns, owner)
        return bool(self._hold_ns) and used_ns <= (AT_ONCE - 1) * self._hold_ns

    def of(self, owner: str) -> Held | None:
        """What is held for a submitter."""
        return self._held.get(owner)

    def lapsed(self, now_ns: int) -> list[str]:
        """Whose offers have ended."""
        ended = []
        for owner, held in self._held.items():
            if held.until_ns >= now_ns:
                break
            ended.append(owner)
        return ended

    def on(self, links: Iterable[str]) -> list[str]:
        """Whose offers hold any of these links."""
        if not self._held:
            return []
        wanted = set(links)
        return [owner for owner, held in self._held.items() if wanted.intersection(held.links)]

    def ends_ns(self, link: str | None) -> Iterator[int]:
        """When the offers on a link end."""
        return (held.until_ns for held in self._held.values() if link in held.links)

    def release(self, now_ns: int, owner: str) -> dict[str, int]:
        """Gives back what is held for a submitter."""
        held = self._forget(now_ns, owner)
        return self._engine.cancel(now_ns, held.flow)

    def paths(self, owner: str) -> tuple[tuple[str, ...], ...]:
        """The paths on which room is held for a submitter."""
        return self._paths(self._held[owner].flow)

    def _paths(self, flow: str) -> tuple[tuple[str, ...], ...]:
        return tuple(path for path, _ in self._engine.lanes(flow))

    def _made(self, flow: str, since_ns: int, until_ns: int) -> Held:
        return Held(flow, since_ns, until_ns, union(self._paths(flow)))

    def _forget(self, now_ns: int, owner: str) -> Held:
        held = self._held.pop(owner)
        used_ns = self._time_used(now_ns, owner) + min(now_ns, held.until_ns) - held.since_ns
        self._used[owner] = (used_ns, now_ns)
        return held

    def _time_used(self, now_ns: int, owner: str) -> int:
        used_ns, at_ns = self._used.get(owner, (0, now_ns))
        return max(0, used_ns - (now_ns - at_ns) // PAUSE)
