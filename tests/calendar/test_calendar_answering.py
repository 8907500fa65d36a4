"""Who asks the calendar waits longer than the calendar waits for its store, and hears why."""

import asyncio
import contextlib

import pytest

from weir.calendar.agents import assignments
from weir.calendar.client import CONNECT_S, STOPPED_S, CalendarClient
from weir.calendar.service import registry, service
from weir.calendar.storage import database, patience
from weir.errors import Unavailable

NOTHING = b'data: {"kind":"snapshot","assign":[]}\n\n'
REASON = b"the store does not answer"
HEAD = b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n"


def test_those_who_ask_wait_longer_than_the_service():
    """Ten seconds were the client's, five an agent's, and fifteen the service's."""
    connecting_s = database._POSTGRES_OPTIONS["connect_timeout"]
    assert patience.SILENCE_S + connecting_s <= service.READ_S
    longest_s = service.READ_S + registry.QUESTION_TIMEOUT_S
    with CalendarClient("http://calendar", "token") as client:
        asked = client._http.timeout
    stream = assignments.AssignmentStream("http://calendar", "token", "dtn1")
    for limits in (asked, stream._http.timeout):
        assert min(limits.read, limits.write, limits.pool) > longest_s
        # Who takes no connection is not waited for as long as that.
        assert limits.connect <= CONNECT_S < longest_s
    assert longest_s < assignments.POST_S
    # One of several that is stopped is asked twice, and another one after that.
    assert 2 * asked.read < STOPPED_S


class Calendar:
    """A calendar whose stream says that it lives; a report is answered once `answers` is set."""

    def __init__(self):
        self.answers, self.ends = asyncio.Event(), asyncio.Event()
        self.asked = asyncio.Event()
        self.serving = set()

    async def serve(self, reader, writer):
        self.serving.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            if (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET"):
                writer.write(HEAD % b"200 OK")
                while not self.ends.is_set():
                    writer.write(NOTHING)
                    await writer.drain()
                    await asyncio.sleep(0.02)
            else:
                self.asked.set()
                await self.answers.wait()
                writer.write(HEAD % b"503 Service Unavailable" + REASON)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def posted(act, patience_s):
    """What a report ends with, while a calendar's stream goes on and `act(calendar)` is done."""

    async def run():
        calendar = Calendar()
        server = await asyncio.start_server(calendar.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        stream = assignments.AssignmentStream(f"http://127.0.0.1:{port}", "token", "dtn1")
        async with stream, asyncio.timeout(patience_s):
            heard = stream.messages()
            await anext(heard)
            following = asyncio.ensure_future(_exhaust(heard))
            posting = asyncio.ensure_future(stream.post("reports", {}))
            await calendar.asked.wait()
            await act(calendar)
            try:
                await posting
            finally:
                following.cancel()
                await asyncio.wait({following})
                calendar.ends.set()
                calendar.answers.set()
                server.close()
                await asyncio.wait(calendar.serving)

    with pytest.raises(Unavailable) as raised:
        asyncio.run(run())
    return str(raised.value)


async def _exhaust(messages):
    async with contextlib.aclosing(messages):
        async for _ in messages:
            pass


def test_an_agent_hears_why_its_report_was_not_taken(monkeypatch):
    """It waits for longer than the stream may be silent, as long as the stream is not."""
    monkeypatch.setattr(assignments, "SILENCE_S", 0.2)

    async def act(calendar):
        await asyncio.sleep(0.8)
        calendar.answers.set()

    assert posted(act, 20) == f"503: {REASON.decode()}"


def test_a_report_does_not_outlive_the_stream_that_it_is_beside():
    async def act(calendar):
        calendar.ends.set()

    # Without that it would wait for as long as a store may take.
    assert "stream broke" in posted(act, service.READ_S)
