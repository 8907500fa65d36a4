"""The routes that nearly all requests take, without the framework's layers around them.

Which cost more than what is done for a request. Only a plain request is answered here: the right
is there, the body is one piece of valid JSON, the query is one that clients send. Whatever is
unusual about a request, wrong or not, goes on to the framework as it came, so that there is one
place that says what is wrong with it.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from weir.calendar.problem import Problem, unavailable
from weir.calendar.rest.auth import identity_of
from weir.calendar.rest.bodies import read_once
from weir.calendar.rest.tokens import Identity, TokenFile
from weir.calendar.service.models import TransferRequest
from weir.calendar.service.service import Service
from weir.errors import Unavailable

TRANSFERS = "/v1/transfers"
_ONE = f"{TRANSFERS}/"
_ID = re.compile("[0-9a-z]{1,40}", re.ASCII)
_KEY = re.compile(rb"[\x21-\x7e]{1,255}")
_LIMIT = re.compile("[1-9][0-9]{0,2}", re.ASCII)
_STATE = re.compile("[a-z]{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What answers a request that has been read; as the framework calls them, by position."""

    submit: Callable[[TransferRequest, Service, Identity, str | None], Awaitable[Response]]
    show: Callable[[str, Service, Identity], Awaitable[Response]]
    list_transfers: Callable[[Service, Identity, str, int, None], Awaitable[Response]]
    refuse: Callable[[Problem], Response]


class QuickRoutes:
    """Plain requests for transfers."""

    def __init__(self, service: Service, tokens: TokenFile, endpoints: Endpoints) -> None:
        self._service = service
        self._tokens = tokens
        self._endpoints = endpoints

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> Receive | None:
        """Answers a request; or what is to be read of it by whoever answers it instead."""
        try:
            identity = identity_of(scope, self._tokens)
        except Problem:
            return receive
        asked, unread = await self._asked(scope, receive, identity)
        if asked is None:
            return unread
        response = await self._response(asked)
        await response(scope, unread, send)
        return None

    async def _asked(
        self, scope: Scope, receive: Receive, identity: Identity
    ) -> tuple[Awaitable[Response] | None, Receive]:
        """What answers a request, or None where it is not plain; and what is to be read of it."""
        method, path = scope["method"], scope["path"]
        if method == "POST" and path == TRANSFERS and identity.may("submit"):
            return await self._submission(scope, receive, identity)
        if method != "GET" or not identity.may("read"):
            return None, receive
        if path == TRANSFERS:
            return self._page(scope, identity), receive
        identifier = path.removeprefix(_ONE)
        if not scope["query_string"] and _ID.fullmatch(identifier):
            return self._endpoints.show(identifier, self._service, identity), receive
        return None, receive

    async def _submission(
        self, scope: Scope, receive: Receive, identity: Identity
    ) -> tuple[Awaitable[Response] | None, Receive]:
        plain, key = _key(scope)
        if not plain:
            return None, receive
        message = await receive()
        again = _again(message, receive)
        if message["type"] != "http.request" or message.get("more_body"):
            return None, again
        try:
            read_once(message["body"])
            body = TransferRequest.model_validate_json(message["body"])
        except ValueError:
            return None, again
        return self._endpoints.submit(body, self._service, identity, key), receive

    def _page(self, scope: Scope, identity: Identity) -> Awaitable[Response] | None:
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        query = dict(pairs)
        state, limit = query.pop("state", "all"), query.pop("limit", "100")
        is_plain = not query and len(pairs) <= 2 and _STATE.fullmatch(state)
        if not (is_plain and _LIMIT.fullmatch(limit)):
            return None
        return self._endpoints.list_transfers(self._service, identity, state, int(limit), None)

    async def _response(self, asked: Awaitable[Response]) -> Response:
        try:
            return await asked
        except Problem as problem:
            return self._endpoints.refuse(problem)
        except Unavailable as error:
            return self._endpoints.refuse(unavailable(str(error)))


def _key(scope: Scope) -> tuple[bool, str | None]:
    """Whether the headers are plain, and the key among them."""
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    keys = [value for name, value in scope["headers"] if name == b"idempotency-key"]
    if kinds != [b"application/json"] or len(keys) > 1:
        return False, None
    if not keys:
        return True, None
    return _KEY.fullmatch(keys[0]) is not None, keys[0].decode("latin-1")


def _again(message: Message, receive: Receive) -> Receive:
    """What is read of a request of which one message was read already."""
    waiting = [message]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
