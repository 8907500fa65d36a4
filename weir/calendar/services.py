"""The addresses of the services of one store, of which one serves and the others stand by."""

import httpx

from weir.errors import BadInput


class Services:
    """URLs in the order in which they are tried; the one that is tried now stays until `turn`.

    Raises:
        BadInput: something between the commas is not the URL of a calendar.
    """

    def __init__(self, text: str) -> None:
        self._urls = [_url(part.strip()) for part in text.split(",")]
        self._current = 0

    def __len__(self) -> int:
        return len(self._urls)

    def __str__(self) -> str:
        return " or ".join(self._urls)

    def address(self, path: str) -> str:
        """The URL of a path at the service that is tried now."""
        return self._urls[self._current] + path

    def turn(self) -> bool:
        """Tries the next one from now on; whether all have been tried since the first."""
        self._current = (self._current + 1) % len(self._urls)
        return self._current == 0


def _url(text: str) -> str:
    try:
        parsed = httpx.URL(text)
    except (httpx.InvalidURL, UnicodeEncodeError) as error:
        raise BadInput(f'"{text}" is not a URL: {error}') from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise BadInput(f'"{text}" is not a URL of a calendar; write http://HOST:PORT')
    return str(parsed).rstrip("/")
