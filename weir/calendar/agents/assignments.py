"""An agent's side of the calendar: its assignments as they come, its reports as they go.

The connection may break at any time; it is opened again with growing pauses, and every opening
begins with a snapshot of all assignments, so nothing that was missed in between matters.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Self
from urllib.parse import quote

import httpx

from weir.calendar.agents.messages import (
    ANSWER_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    read_answer,
    read_detail,
    read_message,
)
from weir.calendar.answering import ASKED_S
from weir.calendar.service.registry import Role
from weir.calendar.services import Services
from weir.errors import BadInput, Unavailable

log = logging.getLogger(__name__)

BACKOFF_FIRST_S = 0.1
BACKOFF_LAST_S = 2.0
# The service says something at least every second.
SILENCE_S = 5.0
# So long a report and its answer may take, however slowly either goes: where the service's store
# stands still, it says so later than the stream may be silent.
POST_S = ASKED_S + 9.0
# So much of a body that ends the stream is read.
PROBLEM_BYTES_MAX = 64 << 10


class Elsewhere(Unavailable):
    """Another agent speaks for the host, and this one has nothing to do meanwhile."""


class AssignmentStream:
    """The connection of one agent, for the node of that name.

    `url` may name the services of one store, with commas between: the one that serves is found.
    Its role says which assignments it is told: those of the host, those that pass the edge router,
    or, for the controller, all.
    """

    def __init__(self, url: str, token: str, host: str, *, role: Role = "host") -> None:
        self._host = host
        self._role = role
        self._path = f"/v1/agents/{quote(host, safe='', errors='surrogateescape')}"
        self._services = Services(url)
        self._broken = asyncio.Event()
        try:
            self._http = httpx.AsyncClient(
                headers={
                    "Authorization": f"Bearer {token}",
                    # Nothing packed: what is small as it comes may fill the memory once unpacked.
                    "Accept-Encoding": "identity",
                    # By which a calendar notices that there are two.
                    "Weir-Agent": secrets.token_hex(8),
                },
                timeout=httpx.Timeout(ASKED_S, connect=2.0),
            )
        except (UnicodeEncodeError, ValueError) as error:
            raise BadInput(f"the token is not one of a calendar: {error}") from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """What the calendar assigns and asks, for ever, over as many connections as it takes.

        Raises:
            BadInput: the calendar answers, and does not know the host or the token.
        """
        pause_s, warned = BACKOFF_FIRST_S, False
        while True:
            was_open = False
            try:
                async for message in self._connection():
                    pause_s, was_open, warned = BACKOFF_FIRST_S, True, False
                    yield message
                reason = "the calendar closed the stream"
            except Elsewhere as error:
                reason = str(error)
                if not warned:
                    log.warning("%s; this one waits until that one is gone", reason)
                warned = True
                yield {"kind": "snapshot", "assign": []}
            except (httpx.HTTPError, Unavailable) as error:
                reason = str(error) or type(error).__name__
            if was_open:
                # What is under way to a service that is gone is not waited for.
                self._broken.set()
                self._broken = asyncio.Event()
            if not self._services.turn():
                continue  # Another service of the same store may have taken its place.
            log.info("assignments for %s: %s; again in %.1f s", self._host, reason, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, BACKOFF_LAST_S)

    async def post(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """Sends a report or an answer; raises `Unavailable` when it was not taken.

        It is waited for as long as the stream of assignments, if there is one, says that the
        service lives.

        Raises:
            BadInput: the calendar says that this agent may not say so.
        """
        address = self._services.address(f"{self._path}/{kind}")
        posting = asyncio.ensure_future(self._posted(address, body))
        broken = asyncio.ensure_future(self._broken.wait())
        try:
            await asyncio.wait({posting, broken}, return_when=asyncio.FIRST_COMPLETED)
            if not posting.done():
                raise Unavailable("the calendar's stream broke before it had answered")
            status, content = posting.result()
        finally:
            posting.cancel()
            broken.cancel()
        if status == 403:
            raise BadInput(f"the calendar turns this agent away: {read_detail(content)}")
        if status >= 300:
            said = content[:300].decode("utf-8", "replace")
            raise Unavailable(f"{status}: {said}")
        return read_answer(content)

    async def _posted(self, address: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """The status and the content of an answer."""
        try:
            async with (
                asyncio.timeout(POST_S),
                self._http.stream("POST", address, json=body) as response,
            ):
                return response.status_code, await _content(response, ANSWER_BYTES_MAX)
        except TimeoutError:
            raise Unavailable(f"no whole answer within {POST_S:g} s") from None
        except httpx.HTTPError as error:
            raise Unavailable(str(error) or type(error).__name__) from None

    async def _connection(self) -> AsyncIterator[dict[str, Any]]:
        address = self._services.address(f"{self._path}/assignments")
        # It is silent for as long as that only where nothing gets through.
        patience = httpx.Timeout(SILENCE_S, connect=2.0)
        asking = self._http.stream("GET", address, params={"role": self._role}, timeout=patience)
        async with asking as response:
            if response.status_code in {401, 403, 404}:
                detail = read_detail(await _content(response, PROBLEM_BYTES_MAX))
                raise BadInput(f"the calendar turns this agent away: {detail}")
            if response.status_code == 409:
                raise Elsewhere(read_detail(await _content(response, PROBLEM_BYTES_MAX)))
            if response.status_code != 200:
                raise Unavailable(f"the calendar answered {response.status_code}")
            async with contextlib.aclosing(_lines(response)) as lines:
                async for line in lines:
                    if line.startswith(b"data: "):
                        yield read_message(line.removeprefix(b"data: "))


async def _content(response: httpx.Response, most_bytes: int) -> bytes:
    """A body; raises `Unavailable` for one that is larger than any of a calendar's."""
    content = bytearray()
    async for piece in response.aiter_raw():
        content += piece
        if len(content) > most_bytes:
            raise Unavailable(f"an answer of more than {most_bytes} bytes")
    return bytes(content)


async def _lines(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The lines of a stream, none larger than any of a calendar's."""
    begun = bytearray()
    async for piece in response.aiter_raw():
        *whole, rest = piece.split(b"\n")
        for part in whole:
            begun += part
            yield bytes(begun)
            begun.clear()
        begun += rest
        if len(begun) > MESSAGE_BYTES_MAX:
            raise Unavailable(f"a message of more than {MESSAGE_BYTES_MAX} bytes")
