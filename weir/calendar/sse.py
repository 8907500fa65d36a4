"""Server-sent events: an event as it travels, made now or read from the store."""

from weir.calendar.clock import format_instant
from weir.calendar.compact import compact_json
from weir.calendar.records import Event


def event_bytes(event: Event) -> bytes:
    """An event as it travels: its number is the id to come back with."""
    return stored_event_bytes(event.number, event.at_ns, event.kind, event.transfer, event.text)


def stored_event_bytes(
    number: int, at_ns: int, kind: str, transfer: str | None, data: str
) -> bytes:
    """A server-sent event from a stored one, whose data is the text of a JSON object."""
    head = {"id": number, "at": format_instant(at_ns), "kind": kind, "transfer": transfer}
    text = compact_json(head)
    if data != "{}":
        text = f"{text[:-1]},{data[1:]}"
    return f"id: {number}\nevent: {kind}\ndata: {text}\n\n".encode()


def sse_text(kind: str, data: str) -> bytes:
    """One server-sent event without a number, of JSON, which has no line ends."""
    return f"event: {kind}\ndata: {data}\n\n".encode()
