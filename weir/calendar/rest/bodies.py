"""Bodies of requests as JSON in which each key stands once.

Where two values have one key, readers take the first or the last, as they like: whoever checks a
request on its way may see another one than the calendar carries out.
"""

import json
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

# No object of a request has nearly as many.
KEYS_MAX = 1_000


def read_once(content: bytes) -> Any:
    """What a body says; raises `json.JSONDecodeError` where that is no JSON, or twice the same."""
    try:
        # Left to itself, it takes UTF-16 and UTF-32, too, which others take for no JSON.
        return json.loads(content.decode("utf-8-sig"), object_pairs_hook=_once)
    except RecursionError:
        raise json.JSONDecodeError("it is nested too deeply", "", 0) from None
    except UnicodeDecodeError:
        raise json.JSONDecodeError("it is not UTF-8", "", 0) from None
    except json.JSONDecodeError:
        raise
    except ValueError:
        # Python's bound against work without end.
        raise json.JSONDecodeError("a number in it has thousands of digits", "", 0) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > KEYS_MAX:
        # Each of those that nobody knows would be an error of its own.
        raise json.JSONDecodeError(f"an object in it has more than {KEYS_MAX} keys", "", 0)
    table = dict(pairs)
    if len(table) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise json.JSONDecodeError(f"the key {twice!r:.60} stands twice", "", 0)
    return table


class _Request(Request):
    async def json(self) -> Any:
        """The body, read once."""
        if not hasattr(self, "_json"):
            self._json = read_once(await self.body())
        return self._json


class Route(APIRoute):
    """A route whose bodies are read so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The framework's, given such a request."""
        handle = super().get_route_handler()

        async def handle_once(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return handle_once
