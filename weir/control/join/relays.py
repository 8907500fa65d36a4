"""Asks relays what the core of joined flows wants asked, and tells it what they answer."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from weir.control.join.core import Joining, Key, Known, Orders, Question
from weir.control.join.segment import end_of
from weir.control.join.steering import Course
from weir.control.topology import View
from weir.errors import WeirError
from weir.relay import control


class Relays:
    """The relays of a core, one question at a time to each.

    Attributes:
        core: what wants them asked.
        on_answer: called when one has answered, or has not: there may be something to send.
    """

    def __init__(self, core: Joining) -> None:
        self.core = core
        self.on_answer: Callable[[], None] = lambda: None
        self._view = View()
        self._tasks: set[asyncio.Task[None]] = set()

    def poll(self, view: View, now_s: float) -> Orders:
        """What to send to switches now; what relays are to be asked is asked."""
        self._view = view
        orders = self.core.poll(view, now_s)
        for key, question in orders.relays.items():
            task = asyncio.create_task(self._ask(key, question))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return orders

    async def close(self) -> None:
        """Asks nothing more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(self, key: Key, question: Question) -> None:
        asked = {
            "announce": [
                [
                    str(course.client),
                    course.uid,
                    str(course.server),
                    str(self.core.source(key, course)),
                    [offered.mss, offered.window_scale, offered.has_sack, offered.has_timestamps],
                ]
                for course, offered in question.announce
            ],
            "forget": [str(client) for client in question.forget],
            "all": question.is_all,
        }
        try:
            answer = await asyncio.to_thread(control.ask, self.core.control(key), asked)
            run, known = str(answer["run"]), [_known(one) for one in answer["announced"]]
        except (WeirError, LookupError, TypeError, ValueError) as error:
            self.core.on_silent(key, str(error), time.monotonic())
        else:
            self.core.on_answer(key, run, known, self._view, time.monotonic())
        self.on_answer()


def _known(told: Any) -> Known:
    client, uid, server, source, stage = told
    return Known(Course(end_of(client), end_of(server), uid, end_of(source).port), stage)
