"""An agent's side of the calendar: its assignments as they come, its reports as they go.

The connection may break at any time; it is opened again with growing pauses, and every opening
begins with a snapshot of all assignments, so nothing that was missed in between matters.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any, Self
from urllib.parse import quote

import httpx

from weir.calendar.service.registry import Role
from weir.calendar.services import Services
from weir.errors import BadInput, Unavailable

log = logging.getLogger(__name__)

BACKOFF_FIRST_S = 0.1
BACKOFF_LAST_S = 2.0
# The service says something at least every second.
SILENCE_S = 5.0


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
        try:
            self._http = httpx.AsyncClient(
                headers={"Authorization": f"Bearer {token}"},
                timeout=httpx.Timeout(SILENCE_S, connect=2.0),
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
        pause_s = BACKOFF_FIRST_S
        while True:
            try:
                async for message in self._connection():
                    pause_s = BACKOFF_FIRST_S
                    yield message
                reason = "the calendar closed the stream"
            except (httpx.HTTPError, Unavailable, ValueError) as error:
                reason = str(error) or type(error).__name__
            if not self._services.turn():
                continue  # Another service of the same store may have taken its place.
            log.info("assignments for %s: %s; again in %.1f s", self._host, reason, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, BACKOFF_LAST_S)

    async def post(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """Sends a report or an answer; raises `Unavailable` when it was not taken."""
        try:
            address = self._services.address(f"{self._path}/{kind}")
            response = await self._http.post(address, json=body)
        except httpx.HTTPError as error:
            raise Unavailable(str(error) or type(error).__name__) from None
        if response.status_code >= 300:
            raise Unavailable(f"{response.status_code}: {response.text[:300]}")
        answer: dict[str, Any] = response.json() if response.content else {}
        return answer

    async def _connection(self) -> AsyncIterator[dict[str, Any]]:
        address = self._services.address(f"{self._path}/assignments")
        async with self._http.stream("GET", address, params={"role": self._role}) as response:
            if response.status_code in {401, 403, 404}:
                problem = json.loads(await response.aread())
                raise BadInput(f"the calendar turns this agent away: {problem['detail']}")
            if response.status_code != 200:
                raise Unavailable(f"the calendar answered {response.status_code}")
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))
