"""The words of a refusal, and what an event keeps of one."""

from collections.abc import Sequence
from typing import Any

from weir import Bytes
from weir.calendar.clock import NS_PER_S, format_instant
from weir.calendar.planning.engine import Verdict
from weir.calendar.planning.split import words as of_lanes
from weir.calendar.problem import Problem
from weir.calendar.records import Submission
from weir.format import mbit_s


def instead(largest: int | None, latest: str | None, lanes: Sequence[dict[str, Any]]) -> str:
    """What could be asked for instead of a later deadline, as of now."""
    words = ""
    if largest is not None:
        words += f"; up to {Bytes.from_count(largest)} could be there by the deadline asked for"
    if latest is not None:
        words += f"; all of it could, with a start at {latest} or before"
    if lanes:
        words += f"; all of it could, over up to {len(lanes)} paths: {of_lanes(lanes)}"
    return words


def reason(verdict: Verdict) -> str:
    """What stands in the way of a request."""
    if verdict.link is not None and verdict.needed_bps is None:
        return f'link "{verdict.link}" is in demand for what is worth more'
    if verdict.needed_bps is None or verdict.available_bps is None:
        return "it is too near to connect, send and verify anything"
    needed, available = mbit_s(verdict.needed_bps), mbit_s(verdict.available_bps)
    if verdict.link is None:
        return f"that takes {needed}, and its own maximum is {available}"
    return f'that takes {needed} on link "{verdict.link}", which can give {available}'


def kept(held_ns: int, offer_ns: int) -> str:
    """For how long of an offer nobody else can take its room."""
    if not held_ns:
        return "others may take the room before you do"
    span = "so long" if held_ns >= offer_ns else f"{held_ns / NS_PER_S:g} s"
    return f"the room is held for you for {span}, unless you ask for something else"


def refused_data(asked: Submission, refusal: Problem) -> dict[str, object]:
    """What the event of a refusal holds."""
    return {
        "request": asked.id,
        "source": asked.source,
        "destination": asked.destination,
        "size_bytes": asked.size_bytes,
        "deadline": format_instant(asked.deadline_ns),
        "link": refusal.extra["link"],
        "earliest_deadline": refusal.extra["earliest_deadline"],
        "offer_valid_s": refusal.extra["offer_valid_s"],
        "type": refusal.kind,
        "reason": refusal.detail,
    }
