"""What waits for the writer, so that no report of an agent stands in the way of requests.

Each batch takes every request that waits, and few pieces of reports: whoever asks waits for the
piece that is under way, not for all that arrived before. And each batch takes some, so reports
come to their turn however many requests there are.

A batch costs about as much with one request in it as with five: who comes right after another waits
a moment for others, and twice as long where the last ones did not come alone either.
"""

import asyncio
import math
from collections import deque
from typing import Generic, TypeVar

# Requests, and pieces of reports, in one batch.
REQUESTS_MAX = 256
REPORTS_MAX = 1
# Batches are no closer to each other than this: a fifth of what a commit may take on a slow disk.
APART_S = 0.004
# So many of each kind may wait.
WAITING_MAX = 4_096

Item = TypeVar("Item")


class Backlog(Generic[Item]):
    """Two queues, taken from together."""

    def __init__(self) -> None:
        self._requests: deque[Item] = deque()
        self._reports: deque[Item] = deque()
        self._filled = asyncio.Event()
        self._taken_s = -math.inf
        self._apart_s = APART_S

    def put(self, item: Item, is_report: bool) -> bool:
        """Queues it; False where too many wait already."""
        queue = self._reports if is_report else self._requests
        if len(queue) >= WAITING_MAX:
            return False
        queue.append(item)
        self._filled.set()
        return True

    async def batch(self) -> list[Item]:
        """What is to be taken together; waits until there is something."""
        await self._filled.wait()
        loop = asyncio.get_running_loop()
        pause_s = self._taken_s + self._apart_s - loop.time()
        if pause_s > 0:
            await asyncio.sleep(pause_s)
        self._taken_s = loop.time()
        requests = _taken(self._requests, REQUESTS_MAX)
        self._apart_s = APART_S if len(requests) < 2 else 2 * APART_S
        batch = requests + _taken(self._reports, REPORTS_MAX)
        if not (self._requests or self._reports):
            self._filled.clear()
        return batch

    def empty(self) -> list[Item]:
        """Takes everything."""
        items = [*self._requests, *self._reports]
        self._requests.clear()
        self._reports.clear()
        self._filled.clear()
        return items


def _taken(queue: "deque[Item]", count_max: int) -> list[Item]:
    return [queue.popleft() for _ in range(min(count_max, len(queue)))]
