"""A client of the calendar's REST interface; every answer is the JSON object of `models`."""

import json
import math
import os
import re
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from weir import Time, deadline, files
from weir.calendar.answering import ASKED_S
from weir.calendar.records import ACTIVE
from weir.calendar.recurrence import Window
from weir.calendar.services import Services
from weir.errors import (
    BadInput,
    Late,
    Refused,
    TransferFailed,
    Unavailable,
    Unsupported,
    WeirError,
)
from weir.printable import printable

URL_VARIABLE = "WEIR_CALENDAR_URL"
TOKEN_VARIABLE = "WEIR_CALENDAR_TOKEN"
TOKEN_BYTES_MAX = 4_096
# How often a transfer is looked at that is waited for, at first and later.
WAIT_FIRST_S = 0.1
WAIT_LAST_S = 2.0
# How long a calendar may be away meanwhile: a restart takes seconds.
AWAY_MAX_S = 60.0
# How long several services of one store are tried in turn, and the pause after all of them.
TAKEOVER_S = 15.0
# The same where one takes requests and does not answer them: another takes the place of one that
# was stopped later than that of one that has died. The one that was stopped is asked twice.
STOPPED_S = 2 * ASKED_S + 3.0
# How long a connection may take.
CONNECT_S = 10.0
ROUND_PAUSE_S = 0.2
# A conflict that is not a refusal of a transfer.
FINISHED_TYPES = {"urn:weir:problem:finished"}
# What the calendar's policy cannot promise to anybody.
UNSUPPORTED_TYPE = "urn:weir:problem:unsupported"
# What may be a key; text that is empty is a mistake, and no request without one.
_KEY = re.compile("[\x21-\x7e]{1,255}")


class RefusedTransfer(Refused):
    """A refusal. `problem` is the service's answer: why, and the earliest deadline if there is one.

    Not for want of capacity alone: another transfer may go to the same place, or a quota be full.
    """

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(_message(problem))
        self.problem = problem


class CalendarClient:
    """Speaks to one calendar. Errors are those of `weir.errors`; a context manager closes it.

    `url` may name the services of one store, with commas between: the one that serves is found, and
    while one takes another's place it is waited for. An answer may take `timeout_s`: longer than
    the service waits for its store. With `for_people` all text in answers is fit to print: others
    name files as they like.
    """

    def __init__(
        self, url: str, token: str, timeout_s: float = ASKED_S, *, for_people: bool = False
    ) -> None:
        self._services = Services(url)
        self._for_people = for_people
        if not (token.isascii() and token.isprintable()):
            raise BadInput("the token has characters that no token can have")
        headers = {"Authorization": f"Bearer {token}"}
        connect_s = min(timeout_s, CONNECT_S)
        self._http = httpx.Client(
            headers=headers, timeout=httpx.Timeout(timeout_s, connect=connect_s)
        )

    @classmethod
    def from_environment(
        cls,
        url: str | None = None,
        token: str | None = None,
        token_file: Path | None = None,
        *,
        for_people: bool = False,
    ) -> Self:
        """A client for what is given, or else for what the environment names."""
        url = url or os.environ.get(URL_VARIABLE)
        if not url:
            raise BadInput(f"which calendar? Give --url or set {URL_VARIABLE}")
        return cls(url, found_token(token, token_file), for_people=for_people)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def submit(self, request: dict[str, Any], key: str | None = None) -> dict[str, Any]:
        """Asks for a transfer (`models.TransferRequest`); raises `RefusedTransfer` if refused.

        With `hold_s` it may be "waiting" for its answer: see `wait_answer`.
        """
        headers = _keyed(key)
        answer: dict[str, Any] = self._call("POST", "/v1/transfers", json=request, headers=headers)
        return answer

    def submit_series(
        self, request: dict[str, Any], windows: Sequence[Window], key: str | None = None
    ) -> dict[str, Any]:
        """Asks for the same in several windows (`models.SeriesView`), each by itself."""
        headers = _keyed(key)
        body = request | {"occurrences": [window.fields() for window in windows]}
        answer: dict[str, Any] = self._call("POST", "/v1/series", json=body, headers=headers)
        return answer

    def precheck(self, request: dict[str, Any]) -> dict[str, Any]:
        """What `submit` would answer (`models.PrecheckView`); nothing is changed."""
        answer: dict[str, Any] = self._call("POST", "/v1/prechecks", json=request)
        return answer

    def list(self, state: str = "all", limit: int = 100) -> list[dict[str, Any]]:
        """Transfers, newest first."""
        parameters = {"state": state, "limit": limit}
        answer: list[dict[str, Any]] = self._call("GET", "/v1/transfers", params=parameters)
        return answer

    def show(self, identifier: str) -> dict[str, Any]:
        """One transfer."""
        answer: dict[str, Any] = self._call("GET", f"/v1/transfers/{_quoted(identifier)}")
        return answer

    def why(self, identifier: str | None = None) -> dict[str, Any]:
        """Why a transfer stands as it does or a request was refused, by its id or one's own key.

        Without either, why the caller's last refusal was one.
        """
        answer: dict[str, Any]
        if identifier is None:
            answer = self._call("GET", "/v1/why")
            return answer
        try:
            answer = self._call("GET", f"/v1/transfers/{_quoted(identifier)}/why")
        except BadInput as error:
            try:
                answer = self._call("GET", "/v1/why", params={"key": identifier})
            except BadInput:
                raise error from None
        return answer

    def wait(self, identifier: str, timeout: Time | None = None) -> dict[str, Any]:
        """A transfer once it is over, however it ended; a calendar that restarts is waited for.

        Raises:
            Unavailable: it is not over within `timeout`, or the calendar is away for long.
        """
        return self._wait(identifier, ACTIVE, "over", timeout)

    def wait_answer(self, identifier: str, timeout: Time | None = None) -> dict[str, Any]:
        """A transfer once it is answered, if it had to wait for that; see `wait`."""
        return self._wait(identifier, ("waiting",), "answered", timeout)

    def _wait(
        self, identifier: str, states: Collection[str], what: str, timeout: Time | None
    ) -> dict[str, Any]:
        """A transfer once it is in none of these states."""
        end_s = math.inf if timeout is None else time.monotonic() + timeout.ns / 1e9
        pause_s, heard_s = WAIT_FIRST_S, time.monotonic()
        while True:
            try:
                transfer = self.show(identifier)
                heard_s = time.monotonic()
            except Unavailable:
                if time.monotonic() - heard_s > AWAY_MAX_S:
                    raise
            else:
                if transfer["state"] not in states:
                    return transfer
            if time.monotonic() + pause_s > end_s:
                raise Unavailable(f"transfer {identifier} is not {what} after {timeout}")
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, WAIT_LAST_S)

    def cancel(self, identifier: str) -> dict[str, Any]:
        """Gives a transfer up."""
        answer: dict[str, Any] = self._call("DELETE", f"/v1/transfers/{_quoted(identifier)}")
        return answer

    def network(self) -> dict[str, Any]:
        """Nodes, links, and what is on the links."""
        answer: dict[str, Any] = self._call("GET", "/v1/network")
        return answer

    def timetable(self, link: str) -> Any:
        """What a link, or each direction of it, carries when (a list of `models.TimetableView`)."""
        return self._link("GET", link, "timetable")

    def add_entry(self, link: str, entry: dict[str, Any]) -> Any:
        """Adds an entry (`models.TimetableEntry`) to the timetable of a link."""
        return self._link("POST", link, "timetable", json=entry)

    def clear_timetable(self, link: str) -> Any:
        """Removes every entry from the timetable of a link."""
        return self._link("DELETE", link, "timetable")

    def set_up(self, link: str, up: bool) -> Any:
        """Tells that a link is up, or down."""
        return self._link("PUT", link, "state", json={"up": up})

    def _link(self, method: str, link: str, what: str, **options: Any) -> Any:
        return self._call(method, f"/v1/links/{_quoted(link)}/{what}", **options)

    def tell_elephant(self, request: dict[str, Any]) -> dict[str, Any]:
        """Tells of an elephant (`models.ElephantRequest`): its view (`models.ElephantView`)."""
        answer: dict[str, Any] = self._call("POST", "/v1/elephants", json=request)
        return answer

    def elephants(self) -> Any:
        """The elephants that are told of, and those found (a list of `models.ElephantView`)."""
        return self._call("GET", "/v1/elephants")

    def end_elephant(self, identifier: str) -> dict[str, Any]:
        """An elephant is over; its view as it last was."""
        answer: dict[str, Any] = self._call("DELETE", f"/v1/elephants/{_quoted(identifier)}")
        return answer

    def metrics(self) -> str:
        """The Prometheus exposition."""
        return self._request("GET", "/metrics").text

    def events(self, after: int | None = None) -> Iterator[dict[str, Any]]:
        """Every event after number `after`, or from now on, for as long as the service lives.

        Raises:
            Unavailable: the service broke off; go on with the last event's "id".
        """
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        timeout = httpx.Timeout(ASKED_S, connect=CONNECT_S)
        end_s = time.monotonic() + TAKEOVER_S
        while True:
            place = self._services.address("/v1/events")
            try:
                with self._http.stream("GET", place, headers=headers, timeout=timeout) as response:
                    if response.status_code != 200:
                        response.read()
                        raise _error(response)
                    for line in response.iter_lines():
                        if line.startswith("data: "):
                            yield self._read(line.removeprefix("data: "))
                break
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                self._turn(end_s, self._unreachable(error))
            except httpx.HTTPError as error:
                raise self._unreachable(error) from None
        raise Unavailable(f"the calendar at {self._services} ended the stream of events")

    def _call(self, method: str, path: str, **options: Any) -> Any:
        return self._read(self._request(method, path, **options).content)

    def _read(self, text: str | bytes) -> Any:
        try:
            answer = json.loads(text)
            return _fit_to_print(answer) if self._for_people else answer
        except (ValueError, RecursionError):
            raise Unavailable(f"{self._services} does not answer like a calendar") from None

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        began_s = time.monotonic()
        end_s = began_s + TAKEOVER_S
        while True:
            # Another one is asked only where nothing was carried out, or nothing is by asking
            # twice: one that was stopped takes requests and answers none.
            try:
                response = self._http.request(method, self._services.address(path), **options)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                self._turn(end_s, self._unreachable(error))
                continue
            except httpx.HTTPError as error:
                if not _may_be_asked_twice(method, options):
                    raise self._unreachable(error) from None
                end_s = began_s + STOPPED_S
                self._turn(end_s, self._unreachable(error))
                continue
            except UnicodeEncodeError as error:
                wrong = str(error.object)[error.start :]
                raise BadInput(f"{wrong!r:.60} is not UTF-8, as names at a calendar are") from None
            if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            self._turn(end_s, _error(response))
        if response.is_error:
            raise _error(response)
        return response

    def _turn(self, end_s: float, failure: WeirError) -> None:
        """Tries the next service from now on; one that stood by needs a moment to start.

        Raises:
            WeirError: `failure`, as there is only one, or all were tried until `end_s`.
        """
        if len(self._services) == 1 or time.monotonic() > end_s:
            raise failure from None
        if self._services.turn():
            time.sleep(ROUND_PAUSE_S)

    def _unreachable(self, error: Exception) -> Unavailable:
        return Unavailable(f"no answer from the calendar at {self._services}: {error}")


def check_outcome(transfer: dict[str, Any]) -> None:
    """Accepts a transfer that is under way, or was completed on time.

    Raises:
        RefusedTransfer: the answer that it waited for was no.
        TransferFailed: it failed or was cancelled, so nothing more will be moved.
        Late: it was completed after its deadline.
    """
    name, state = f"transfer {transfer['id']}", transfer["state"]
    if state == "refused":
        raise RefusedTransfer(transfer["refusal"])
    if state == "failed":
        raise TransferFailed(f"{name} failed: {transfer['error'] or 'the agent said no reason'}")
    if state == "cancelled":
        raise TransferFailed(f"{name} was cancelled; nothing more of it is moved")
    if state == "completed" and not transfer["on_time"]:
        late = f"finished {transfer['finished']}, due by {transfer['deadline']}"
        raise Late(f"{name} was completed late: {late}")


def found_token(token: str | None, token_file: Path | None) -> str:
    """The token that is given, stands in the file, or is in the environment: the first of these.

    Raises:
        BadInput: there is no token, or the file holds something else.
    """
    if token_file is not None and not token:
        token = _read_token(token_file)
    token = token or os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise BadInput(f"the calendar wants a token: give --token-file or set {TOKEN_VARIABLE}")
    return token


def _read_token(path: Path) -> str:
    try:
        with files.opened(path) as file:
            text = file.read(TOKEN_BYTES_MAX + 1).decode("ascii").strip()
    except BadInput as error:
        raise BadInput(f"token file {error}") from None
    except OSError as error:
        raise BadInput(f"token file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable() or " " in text or len(text) > TOKEN_BYTES_MAX:
        raise BadInput(f"token file {path} holds no token: it should be one line with nothing else")
    return text


def deadline_fields(text: str, now: datetime | None = None) -> dict[str, Any]:
    """The request's fields for a deadline as people write it (`weir.deadline`).

    "+90 s" is from now, by the service's clock; all else is an instant, by this machine's zone
    where it names none.
    """
    meant = deadline.read(text, now or datetime.now().astimezone())
    if isinstance(meant, timedelta):
        return {"deadline_s": meant / timedelta(seconds=1)}
    return {"deadline": meant.isoformat()}


def start_fields(start: str, by: str, now: datetime | None = None) -> dict[str, Any]:
    """The request's fields for a start and a deadline as people write them (`weir.deadline`).

    Spans are from now, by the service's clock. A time of day in the deadline is the next one after
    the start.
    """
    now = now or datetime.now().astimezone()
    begins = deadline.read(start, now, what="start")
    if isinstance(begins, timedelta):
        first: dict[str, Any] = {"start_s": begins / timedelta(seconds=1)}
        begins = now + begins
    else:
        first = {"start": begins.isoformat()}
    if by.startswith("+"):
        return first | deadline_fields(by, now)
    ends = deadline.end_of(by, start, begins)
    assert isinstance(ends, datetime), "a span begins with a plus"
    return first | {"deadline": ends.isoformat()}


def _fit_to_print(answer: Any) -> Any:
    """A part of an answer with the text in it as a terminal may have it."""
    if isinstance(answer, str):
        return printable(answer)
    if isinstance(answer, list):
        return [_fit_to_print(one) for one in answer]
    if isinstance(answer, dict):
        return {printable(name): _fit_to_print(one) for name, one in answer.items()}
    return answer


def _keyed(key: str | None) -> dict[str, str]:
    """The header with a key; raises `BadInput` for what is no key, nothing included."""
    if key is None:
        return {}
    if not _KEY.fullmatch(key):
        raise BadInput(
            f"{key!r:.60} is not a key: 1 to 255 letters, digits and signs of ASCII, without spaces"
        )
    return {"Idempotency-Key": key}


def _may_be_asked_twice(method: str, options: dict[str, Any]) -> bool:
    """Whether a request does no more than once what it says, however often it arrives."""
    return method == "GET" or bool(options.get("headers"))


def _quoted(identifier: str) -> str:
    from urllib.parse import quote

    return quote(identifier, safe="", errors="surrogateescape")


def _error(response: httpx.Response) -> WeirError:
    try:
        problem = response.json()
        message = _message(problem)
    except (ValueError, KeyError, TypeError, RecursionError):
        return Unavailable(
            f"{response.url} answered {response.status_code}, not as a calendar does"
        )
    if problem.get("type") == UNSUPPORTED_TYPE:
        return Unsupported(message)
    if response.status_code == 409 and problem.get("type") not in FINISHED_TYPES:
        return RefusedTransfer(problem)
    return Unavailable(message) if response.status_code >= 500 else BadInput(message)


def _message(problem: dict[str, Any]) -> str:
    message: str = problem["detail"]
    if problem.get("field") and problem["field"] not in message:
        message = f"{problem['field']}: {message}"
    return f"{message}; {problem['hint']}" if problem.get("hint") else message
