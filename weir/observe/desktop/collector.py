"""A form on which people rate what they have just seen, and the file that keeps it.

A script on the desktop opens `/rate?subject=7&activity=images&condition=b&iteration=2` when an
iteration has ended. The page names a condition by a letter: what it means stands in the file only.
"""

import csv
import errno
import io
import logging
import os
import re
import threading
from collections.abc import Mapping
from html import escape
from pathlib import Path
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

from weir.errors import BadInput
from weir.printable import printable

_log = logging.getLogger(__name__)
SCALE = {5: "excellent", 4: "good", 3: "fair", 2: "poor", 1: "bad"}
"""ITU-T P.800's words, absolute category rating."""
_COLUMNS = ("subject", "activity", "loss_percent", "iteration", "rating")
_WORD = re.compile(r"[\w-]{1,40}")
_MOST_BYTES = 1000
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Your opinion</title><style>
body {{ font: 1.3em sans-serif; max-width: 30em; margin: 3em auto; padding: 0 1em }}
button {{ display: block; width: 100%; font: inherit; margin: .4em 0; padding: .6em }}
</style></head><body>{content}</body></html>"""


def app(path: Path, conditions: Mapping[str, float]) -> FastAPI:
    """The form's service.

    Args:
        path: a CSV file that ratings are added to, as `weir observe desktop ratings` reads it.
        conditions: loss in percent by the name that the form is opened with.

    Raises:
        BadInput: the file cannot be written, or is another.
    """
    _begin(path)
    service = FastAPI(openapi_url=None, redirect_slashes=False)
    lock = threading.Lock()

    @service.get("/rate")
    def ask(request: Request) -> HTMLResponse:
        told = {name: request.query_params.get(name, "") for name in _asked()}
        wrong = _wrong(told, conditions)
        if wrong:
            return _page(f"<p>{escape(wrong)}</p>", 422)
        kept = "".join(
            f'<input type="hidden" name="{name}" value="{escape(value)}">'
            for name, value in told.items()
        )
        buttons = "".join(
            f'<button name="rating" value="{number}">{number} {word}</button>'
            for number, word in SCALE.items()
        )
        return _page(
            f'<h1>How was it?</h1><form method="post" action="/rate">{kept}{buttons}</form>'
        )

    @service.post("/rate")
    async def take(request: Request) -> HTMLResponse:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > _MOST_BYTES:
                return _page("<p>too long</p>", 413)
        told = {
            name: values[-1] for name, values in parse_qs(body.decode(errors="replace")).items()
        }
        wrong = _wrong(told, conditions)
        if not wrong and told.get("rating", "") not in map(str, SCALE):
            wrong = "a rating is a number from 1 to 5"
        if wrong:
            return _page(f"<p>{escape(wrong)}</p>", 422)
        row = told | {"loss_percent": f"{conditions[told['condition']]:g}"}
        try:
            with lock:
                _add(path, [row[name] for name in _COLUMNS])
        except OSError as error:
            why = error.strerror or str(error)
            _log.error("%s: %s", printable(str(path)), why)
            said = f"It could not be kept: {escape(why)}. Please tell whoever asked you."
            return _page(f"<p>{said}</p>", 507)
        return _page("<h1>Thank you.</h1><p>Go on with what you do.</p>")

    return service


def _asked() -> tuple[str, ...]:
    return "subject", "activity", "condition", "iteration"


def _wrong(told: Mapping[str, str], conditions: Mapping[str, float]) -> str:
    """What is wrong with an address of the form; empty if nothing."""
    for name in _asked():
        if not _WORD.fullmatch(told.get(name, "")):
            return f"the address needs {name}: letters, digits and - only"
    return "" if told["condition"] in conditions else "there is no such condition"


def _page(content: str, status: int = 200) -> HTMLResponse:
    # A form that another page shows in a frame could be clicked without being seen.
    headers = {
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
        "form-action 'self'; frame-ancestors 'none'"
    }
    return HTMLResponse(_PAGE.format(content=content), status, headers)


def _begin(path: Path) -> None:
    head = ",".join(_COLUMNS) + "\n"
    try:
        if path.exists() and not path.is_file():
            raise BadInput(f"{path} is no plain file")
        if path.exists() and path.stat().st_size:
            with path.open("rb") as file:
                if file.read(len(head)) != head.encode():
                    raise BadInput(f"{path} is another file: its first line is not {head.strip()}")
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":
                    raise BadInput(f"{path} is cut: its last line has no end; mend that first")
        else:
            path.write_text(head, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None


def _add(path: Path, row: list[str]) -> None:
    """One line, whole and on the disk before the person is thanked, or nothing of it."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(row)
    with path.open("ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            content = line.getvalue().encode()
            if file.write(content) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise


def conditions_of(texts: list[str]) -> dict[str, float]:
    """Conditions of words such as `b=0.5`, a name and a loss in percent.

    Raises:
        BadInput: one is not so.
    """
    found = {}
    for text in texts:
        name, _, loss = text.partition("=")
        try:
            value = float(loss)
        except ValueError:
            value = -1.0
        if not _WORD.fullmatch(name) or not 0 <= value <= 100:
            raise BadInput(f"a condition of {text}: NAME=PERCENT, such as b=0.5")
        if name in found:
            raise BadInput(f"a condition of {text}: {name} has a loss already")
        found[name] = value
    return found
