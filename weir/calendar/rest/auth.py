"""Authentication before every route, and a bound on what is read of a request."""

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weir.calendar.problem import MEDIA_TYPE, Problem
from weir.calendar.rest.tokens import Identity, TokenFile
from weir.errors import BadInput

# The largest honest body is an agent's report of ten thousand transfers.
BODY_BYTES_MAX = 8 * 1024 * 1024
OPEN_PATHS = frozenset({"/healthz"})


class AuthMiddleware:
    """ASGI middleware: answers 401 without a known token and 413 for a body without end."""

    def __init__(self, app: ASGIApp, tokens: TokenFile) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request through, with its caller's identity, or answers it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            if scope["path"] not in OPEN_PATHS:
                scope.setdefault("state", {})["identity"] = identity_of(scope, self._tokens)
        except Problem as problem:
            await _answer(problem, send)
            return
        await self._app(scope, _bounded(receive), send)


def identity_of(scope: Scope, tokens: TokenFile) -> Identity:
    """Who sends a request.

    Raises:
        Problem: 401, it carries no token that is known; 503, the tokens cannot be read.
    """
    headers = [value for name, value in scope["headers"] if name == b"authorization"]
    # A proxy may have looked at the other one.
    header = headers[0].decode("latin-1") if len(headers) == 1 else ""
    scheme, _, token = header.partition(" ")
    try:
        identity = tokens.find(token.strip()) if scheme.lower() == "bearer" else None
    except BadInput as error:
        raise Problem(503, "unavailable", "The calendar cannot answer", str(error)) from None
    if identity is None:
        raise Problem(
            401,
            "unauthorised",
            "A known token is needed",
            "the request carries no bearer token that this calendar knows",
            hint='send the header "Authorization: Bearer TOKEN"',
        )
    return identity


def _bounded(receive: Receive) -> Receive:
    count = 0

    async def bounded() -> Message:
        nonlocal count
        message = await receive()
        count += len(message.get("body", b""))
        if count > BODY_BYTES_MAX:
            # The framework's own kind: it turns any other one here into a 400.
            raise HTTPException(413, f"the body is larger than {BODY_BYTES_MAX} bytes")
        return message

    return bounded


async def _answer(problem: Problem, send: Send) -> None:
    headers: list[tuple[bytes, bytes]] = [(b"content-type", MEDIA_TYPE.encode())]
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    start: dict[str, Any] = {"type": "http.response.start", "status": problem.status}
    await send({**start, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(problem.body()).encode()})
