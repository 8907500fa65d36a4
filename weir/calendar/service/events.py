"""Server-sent events: one writer, many readers, none of whom can hold up the rest.

An event is encoded once, for all. A reader has nothing but its place in the history: it takes
what follows from the newest events, which are kept in memory, or else a page at a time from the
store, read and encoded in a thread; and it takes the next piece only when the connection has room
for it. So a reader that stands still costs one piece of memory and no time, wherever it stands,
and however much one command brings at once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

from weir.calendar.records import Event
from weir.calendar.sse import event_bytes

# Messages that an agent may fall behind by before it is cut off, to begin anew with a snapshot.
BACKLOG_MAX = 1_000
# A comment this often tells both ends that the connection lives.
KEEPALIVE_S = 5.0
# A reader is given at most so much at a time.
PIECE_BYTES = 32 * 1024
# The newest events, and pages of older ones, that are kept encoded.
RECENT_BYTES_MAX = 4 * 1024 * 1024
PAGES_BYTES_MAX = 16 * 1024 * 1024
PAGE_EVENTS = 128
# How many readers may read their past at one time.
PAST_READERS_MAX = 4
# Readers are woken together, no sooner after the last time than this for each of them.
WAKE_S = 0.01
WAKE_PER_READER_S = 0.0005

Item = TypeVar("Item")
# An event's number, and the event as it travels.
Sent = tuple[int, bytes]
History = Callable[[int, int], list[Sent]]


class Dropped(Exception):
    """The reader fell too far behind, may not read any more, or the service is closing."""


class Subscription(Generic[Item]):
    """A bounded queue for one agent."""

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
            # What is there is taken without the cost of a timeout.
            item = self._queue.get_nowait()
        except asyncio.QueueEmpty:
            try:
                item = await asyncio.wait_for(self._queue.get(), timeout_s)
            except TimeoutError:
                return None
        if item is None:
            raise Dropped
        return item


class Reader:
    """One reader's place in the history. `identity` is what its token may do."""

    def __init__(self, seen: int, identity: str) -> None:
        self.seen = seen
        self.identity = identity
        self.ended = False
        self.wake = asyncio.Event()

    def end(self) -> None:
        """Gives it nothing more."""
        self.ended = True
        self.wake.set()


class EventHub:
    """Hands every durable event to every reader."""

    def __init__(self, last_number: int) -> None:
        self.last_number = last_number
        self._readers: set[Reader] = set()
        self._recent: list[Sent] = []
        self._recent_bytes = 0
        self._pages: OrderedDict[int, list[Sent]] = OrderedDict()
        self._pages_bytes = 0
        self._past = asyncio.Semaphore(PAST_READERS_MAX)
        self._waking = False

    @property
    def readers(self) -> int:
        """How many readers there are."""
        return len(self._readers)

    def readers_of(self, identity: str) -> int:
        """How many of them have one token."""
        return sum(reader.identity == identity for reader in self._readers)

    def publish(self, events: list[Event]) -> None:
        """Hands on events that are durable."""
        for event in events:
            sent = (event.number, event_bytes(event))
            self._recent.append(sent)
            self._recent_bytes += len(sent[1])
            self.last_number = event.number
        if self._recent_bytes > RECENT_BYTES_MAX:
            self._shorten()
        if events and self._readers and not self._waking:
            self._waking = True
            pause_s = max(WAKE_S, WAKE_PER_READER_S * len(self._readers))
            asyncio.get_running_loop().call_later(pause_s, self._wake)

    def skip_to(self, number: int) -> None:
        """Goes on after an event that was not published here: readers take it from the store."""
        if number != self.last_number:
            self.last_number, self._recent, self._recent_bytes = number, [], 0
            self._pages.clear()
            self._pages_bytes = 0
            for reader in self._readers:
                # A store that was put back has other events under the numbers after this.
                reader.seen = min(reader.seen, number)
            self._wake()

    def keep(self, known: Callable[[str], bool]) -> None:
        """Ends the readers whose token is not known any more."""
        for reader in self._readers:
            if not known(reader.identity):
                reader.end()

    def close(self) -> None:
        """Ends every reader."""
        for reader in self._readers:
            reader.end()

    async def follow(
        self, after: int | None, history: History, identity: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """The event stream after event `after`, or from now on, as bytes to send.

        `history` reads so many stored events after a number, oldest first; it may block.
        """
        seen = self.last_number if after is None else min(after, self.last_number)
        reader = Reader(seen, identity)
        self._readers.add(reader)
        try:
            yield b": connected\n\n"
            while not reader.ended:
                reader.wake.clear()
                if reader.seen < self.last_number:
                    piece = self._piece(reader, self._recent)
                    yield piece or await self._past_piece(reader, history)
                    # The connection may have room for all of it: others come first.
                    await asyncio.sleep(0)
                elif not await _woken(reader):
                    yield b": alive\n\n"
        finally:
            self._readers.discard(reader)

    def _wake(self) -> None:
        self._waking = False
        for reader in self._readers:
            reader.wake.set()

    def _shorten(self) -> None:
        """Drops the older half of what is kept in memory, but never the newest event."""
        kept = self._recent[max(1, len(self._recent) // 2) :] or self._recent[-1:]
        self._recent, self._recent_bytes = kept, sum(len(data) for _, data in kept)

    def _piece(self, reader: Reader, events: list[Sent]) -> bytes:
        """What follows in `events` after a reader's place, which moves on; empty if not there."""
        if not events or events[0][0] > reader.seen + 1:
            return b""
        first = reader.seen + 1 - events[0][0]
        size, chosen = 0, []
        for number, data in events[first : first + PAGE_EVENTS]:
            chosen.append(data)
            size += len(data)
            reader.seen = number
            if size > PIECE_BYTES:
                break
        return b"".join(chosen)

    async def _past_piece(self, reader: Reader, history: History) -> bytes:
        async with self._past:
            start = reader.seen // PAGE_EVENTS * PAGE_EVENTS
            page = self._pages.get(start)
            if page is None:
                last = self.last_number
                page = await asyncio.to_thread(history, start, PAGE_EVENTS)
                if last >= start + PAGE_EVENTS:
                    self._keep_page(start, page)
            await asyncio.sleep(0)
        newer = [sent for sent in page if sent[0] > reader.seen]
        if not newer:
            # Nothing is kept of this any more.
            reader.seen = self.last_number
            return b": nothing older is kept\n\n"
        if newer[0][0] > reader.seen + 1:
            skipped = newer[0][0] - 1
            reader.seen = skipped
            return f": events up to {skipped} are not kept any more\n\n".encode()
        return self._piece(reader, newer)

    def _keep_page(self, start: int, page: list[Sent]) -> None:
        self._pages[start] = page
        self._pages_bytes += sum(len(data) for _, data in page)
        while self._pages_bytes > PAGES_BYTES_MAX:
            _, oldest = self._pages.popitem(last=False)
            self._pages_bytes -= sum(len(data) for _, data in oldest)


async def _woken(reader: Reader) -> bool:
    """Whether there is something for a reader within the time of a keepalive."""
    try:
        await asyncio.wait_for(reader.wake.wait(), KEEPALIVE_S)
    except TimeoutError:
        return False
    return True
