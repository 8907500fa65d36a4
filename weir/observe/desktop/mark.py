"""Marks when a task begins and ends: by a packet that the tap sees, or in a file."""

import csv
import socket
from pathlib import Path

from weir.errors import BadInput, Unavailable
from weir.observe.desktop.dut import END, MARKER_PORT, START, Task
from weir.printable import printable


def send(host: str, is_end: bool = False, label: str = "", port: int = MARKER_PORT) -> None:
    """Sends a marker packet.

    Args:
        host: one that is reached through the tap, over a path that loses nothing.
        is_end: whether the task under way has ended; otherwise one begins.
        label: the task's name.
        port: which nobody need listen on.

    Raises:
        Unavailable: there is no such host, or no way to it.
    """
    word = END if is_end else START
    content = b" ".join([word, label.encode()] if label else [word])
    try:
        kind, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as out:
            out.sendto(content, where)
    except OSError as error:
        raise Unavailable(f"no marker to {printable(host)}: {error.strerror}") from None


def load(path: Path) -> list[Task]:
    """Tasks of a CSV file with the columns begin_s and, if wanted, label and end_s.

    Times are seconds since 1970, by the clock of whoever captured.

    Raises:
        BadInput: it cannot be read, or a time is wrong; names the line.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if "begin_s" not in (reader.fieldnames or ()):
                raise BadInput(f"{path} has no column begin_s; it may have label and end_s, too")
            found = []
            for row in reader:
                end = row.get("end_s")
                place = f"{path}:{reader.line_num}"
                begin_ns = _nanoseconds(row["begin_s"], place)
                end_ns = _nanoseconds(end, place) if end else None
                found.append(Task(begin_ns, printable(row.get("label") or ""), end_ns))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if not found:
        raise BadInput(f"{path} has no tasks")
    return sorted(found, key=lambda one: one.begin_ns)


def _nanoseconds(text: str | None, place: str) -> int:
    """A time in seconds, exactly: a float has too few digits for today's."""
    whole, _, fraction = (text or "").strip().partition(".")
    if not whole.isdecimal() or (fraction and not fraction.isdecimal()):
        raise BadInput(f"{place}: {printable(str(text))} is no time in seconds since 1970")
    return int(whole) * 10**9 + int((fraction + "0" * 9)[:9])
