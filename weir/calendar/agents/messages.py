"""What a calendar may say to an agent, checked before anything of it is carried out.

An agent does what it is told with the files of its host, for weeks. So whatever answers under the
calendar's address, a proxy with a page of its own or somebody who means harm, is held to what a
calendar says: a message that is none is refused whole, in bounded time and memory.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from weir.calendar.clock import LAST_NS
from weir.calendar.lanes import LANES_MAX
from weir.errors import Unavailable

# Ten thousand transfers take 10 MB.
MESSAGE_BYTES_MAX = 64 << 20
# An answer to a report names what is to stop; any other is shorter still.
ANSWER_BYTES_MAX = 4 << 20
# What a problem may say that is told to people.
DETAIL_MAX = 500
COUNT_MAX = 2**63 - 1
_PORT = re.compile(r"[^\s\0]+:[0-9]{1,5}")
# No name of a file has these, and no text can be sent on with them.
_NO_NAME = re.compile("[\0\ud800-\udfff]")

Check = Callable[[Any], bool]


def read_message(line: bytes) -> dict[str, Any]:
    """A message of the stream of assignments.

    Raises:
        Unavailable: it is not one.
    """
    message = _object(line)
    kind = message.get("kind")
    if kind == "question":
        _require(message, "the question", {"ticket": _text, "path": _text})
        return message
    if kind == "elephants":
        _require(message, "the message", {"add": _list_of(_elephant), "remove": _list_of(_text)})
        return message
    if not _text(kind):
        raise _unlike(f"its kind is {kind!r:.40}")
    _require(message, "the message", {"assign": lambda value: isinstance(value, list)})
    _require_if_there(message, "the message", _MORE)
    for index, assignment in enumerate(message["assign"]):
        where = f"assign[{index}]"
        if not isinstance(assignment, dict):
            raise _unlike(f"{where} is {assignment!r:.40}")
        _require(assignment, where, _REQUIRED)
        _require_if_there(assignment, where, _OPTIONAL)
    return message


def read_answer(content: bytes) -> dict[str, Any]:
    """What a report is answered with; nothing is an answer, too.

    Raises:
        Unavailable: it is not one.
    """
    answer = _object(content) if content else {}
    if not _list_of(_text)(answer.get("stop", [])):
        raise _unlike(f"stop = {answer['stop']!r:.40}")
    return answer


def read_detail(content: bytes) -> str:
    """Why an agent is turned away.

    Raises:
        Unavailable: whoever answers says nothing that a calendar would.
    """
    detail = _object(content).get("detail")
    if not isinstance(detail, str):
        raise _unlike(f"detail = {detail!r:.40}")
    return detail[:DETAIL_MAX]


def _object(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise _unlike("it is no JSON") from None
    if not isinstance(value, dict):
        raise _unlike(f"it is {value!r:.40}")
    return value


def _require(table: dict[str, Any], where: str, checks: dict[str, Check]) -> None:
    for name, is_right in checks.items():
        if not is_right(table.get(name)):
            raise _unlike(f"{where}: {name} = {table.get(name)!r:.40}")


def _require_if_there(table: dict[str, Any], where: str, checks: dict[str, Check]) -> None:
    _require(table, where, {name: checks[name] for name in checks if name in table})


def _unlike(why: str) -> Unavailable:
    return Unavailable(f"whoever answers does not speak as a calendar does: {why}")


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != "" and not _NO_NAME.search(value)


def _maybe_text(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not _NO_NAME.search(value))


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= COUNT_MAX


def _port(value: Any) -> bool:
    return type(value) is int and 1 <= value <= 65_535


def _instant(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LAST_NS


def _data_address(value: Any) -> bool:
    # Empty while it is not known.
    return not value or (isinstance(value, str) and _PORT.fullmatch(value) is not None)


def _list_of(is_right: Check, most: int | None = None) -> Check:
    def check(value: Any) -> bool:
        is_list = isinstance(value, list) and (most is None or len(value) <= most)
        return is_list and all(map(is_right, value))

    return check


def _lane(value: Any) -> bool:
    is_table = isinstance(value, dict)
    return is_table and _list_of(_text)(value.get("path")) and _count(value.get("rate_bps"))


def _elephant(value: Any) -> bool:
    return isinstance(value, dict) and _text(value.get("id"))


# Beside what is assigned.
_MORE: dict[str, Check] = {"release": _list_of(_text), "elephants": _list_of(_elephant)}
_REQUIRED: dict[str, Check] = {
    "id": _text,
    "source": _text,
    "source_path": _text,
    "destination": _text,
    "destination_path": _text,
    "data_address": _data_address,
    "deadline_ns": _instant,
    "rate_bps": _count,
}
# What calendars of earlier versions do not say, or not always.
_OPTIONAL: dict[str, Check] = {
    "source_address": _maybe_text,
    "source_address6": _maybe_text,
    "destination_address": _maybe_text,
    "destination_address6": _maybe_text,
    "data_ports": lambda value: value is None or _list_of(_port, LANES_MAX)(value),
    "size_bytes": _count,
    "path": lambda value: value is None or _list_of(_text)(value),
    "lanes": lambda value: value is None or _list_of(_lane, LANES_MAX)(value),
    "spare": _maybe_text,
}
