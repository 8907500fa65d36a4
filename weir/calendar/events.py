"""Server-sent events: one writer, many readers, none of whom can hold up the rest."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, TypeVar

from weir.calendar.clock import format_instant
from weir.calendar.records import Event

# What a reader may fall behind by before it is dropped; it may come back with Last-Event-ID.
BACKLOG_MAX = 1_000
# A comment this often tells both ends that the connection lives.
KEEPALIVE_S = 5.0


Item = TypeVar("Item")


class Dropped(Exception):
    """The reader fell too far behind, or the service is closing."""


class Subscription(Generic[Item]):
    """One reader's bounded queue."""

    def __init__(self, length_max: int = BACKLOG_MAX) -> None:
        self._queue: asyncio.Queue[Item | None] = asyncio.Queue(length_max)
        self.dropped = False

    def put(self, item: Item) -> None:
        """Hands an item over, or drops the reader if its queue is full."""
        if self.dropped:
            return
        try:
            self._queue.put_nowait(item)
        except asyncio.QueueFull:
            self.drop()

    def drop(self) -> None:
        """Ends the subscription; the reader is told at its next `take`."""
        self.dropped = True
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    async def take(self, timeout_s: float) -> Item | None:
        """The next item, or None when there is none in time; raises `Dropped` at the end."""
        try:
            item = await asyncio.wait_for(self._queue.get(), timeout_s)
        except TimeoutError:
            return None
        if item is None:
            raise Dropped
        return item


class EventHub:
    """Hands every durable event to every subscriber."""

    def __init__(self, last_number: int) -> None:
        self.last_number = last_number
        self._subscriptions: set[Subscription[Event]] = set()

    @property
    def readers(self) -> int:
        """How many subscribers there are."""
        return len(self._subscriptions)

    def publish(self, events: list[Event]) -> None:
        """Hands on events that are durable."""
        for event in events:
            self.last_number = event.number
            for subscription in self._subscriptions:
                subscription.put(event)

    def close(self) -> None:
        """Ends every subscription."""
        for subscription in self._subscriptions:
            subscription.drop()

    async def follow(
        self, after: int | None, history: Callable[[int], list[Event]]
    ) -> AsyncIterator[bytes]:
        """The event stream after event `after`, or from now on, as bytes to send.

        `history` reads stored events after a number, oldest first; it may block.
        """
        subscription: Subscription[Event] = Subscription()
        self._subscriptions.add(subscription)
        try:
            # The subscription comes first, so no event can fall between history and now.
            seen = self.last_number if after is None else min(after, self.last_number)
            yield b": connected\n\n"
            while seen < self.last_number and not subscription.dropped:
                past = await asyncio.to_thread(history, seen)
                for event in past:
                    yield event_bytes(event)
                if not past:
                    break
                seen = past[-1].number
            while True:
                live = await subscription.take(KEEPALIVE_S)
                if live is None:
                    yield b": alive\n\n"
                elif live.number > seen:
                    yield event_bytes(live)
        except Dropped:
            return
        finally:
            self._subscriptions.discard(subscription)


def event_json(event: Event) -> dict[str, Any]:
    """An event as subscribers read it."""
    return {
        "id": event.number,
        "at": format_instant(event.at_ns),
        "kind": event.kind,
        "transfer": event.transfer,
        **event.data,
    }


def event_bytes(event: Event) -> bytes:
    """An event as it travels: its number is the id to come back with."""
    return sse_bytes(event.kind, event_json(event), event.number)


def sse_bytes(kind: str, data: dict[str, Any], number: int | None = None) -> bytes:
    """One server-sent event; JSON keeps it to a single data line."""
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
