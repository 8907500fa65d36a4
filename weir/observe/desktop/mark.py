"""Marks when a task begins and ends: by a packet that the tap sees, or in a file."""

import csv
import io
import re
import socket
from pathlib import Path

from weir import files
from weir.errors import BadInput, Unavailable
from weir.observe.desktop.capture import PAYLOAD_KEPT
from weir.observe.desktop.dut import END, MARKER_PORT, MOST_TASKS, START, Task
from weir.printable import printable

_PORT_MAX = 65_535
_SHOWN = 60
"""So many characters of what is wrong are shown."""
# Today's seconds have ten digits; a clock has nine behind the point at most.
_TIME = re.compile(r"([0-9]{1,12})(?:\.([0-9]{0,30}))?")


def send(host: str, is_end: bool = False, label: str = "", port: int = MARKER_PORT) -> None:
    """Sends a marker packet.

    Args:
        host: one that is reached through the tap, over a path that loses nothing.
        is_end: whether the task under way has ended; otherwise one begins.
        label: the task's name.
        port: which nobody need listen on.

    Raises:
        BadInput: there can be no such port, or host, or a label longer than is read.
        Unavailable: there is no such host, or no way to it.
    """
    if not 1 <= port <= _PORT_MAX:
        raise BadInput(f"port {port}: 1 to {_PORT_MAX}")
    word = END if is_end else START
    # What is typed may be no UTF-8: it is sent as it was typed.
    content = b" ".join([word, label.encode(errors="surrogateescape")] if label else [word])
    if len(content) > PAYLOAD_KEPT:
        most = PAYLOAD_KEPT - len(word) - 1
        raise BadInput(f"a label of {len(content) - len(word) - 1} bytes: {most} are read at most")
    if not host:
        raise BadInput("a host is needed, one that is reached through the tap")
    try:
        kind, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as out:
            out.sendto(content, where)
    except UnicodeError:
        raise BadInput(f"{printable(host[:_SHOWN])} cannot be a host's name") from None
    except OSError as error:
        raise Unavailable(f"no marker to {printable(host)}: {error.strerror}") from None


def load(path: Path) -> list[Task]:
    """Tasks of a CSV file with the columns begin_s and, if wanted, label and end_s.

    Times are seconds since 1970, by the clock of whoever captured.

    Raises:
        BadInput: it cannot be read, or a time is wrong; names the line.
    """
    reader = csv.DictReader(io.StringIO(files.text(path), newline=""))
    found = list[Task]()
    try:
        if "begin_s" not in (reader.fieldnames or ()):
            raise BadInput(f"{path} has no column begin_s; it may have label and end_s, too")
        for row in reader:
            if len(found) == MOST_TASKS:
                raise BadInput(f"{path} has more than {MOST_TASKS} tasks")
            end = row.get("end_s")
            place = f"{path}:{reader.line_num}"
            begin_ns = _nanoseconds(row["begin_s"], place)
            end_ns = _nanoseconds(end, place) if end else None
            if end_ns is not None and end_ns < begin_ns:
                raise BadInput(f"{place}: a task that ends before it begins")
            found.append(Task(begin_ns, printable(row.get("label") or ""), end_ns))
    except csv.Error as error:
        raise BadInput(f"{path}: {error}") from None
    if not found:
        raise BadInput(f"{path} has no tasks")
    return sorted(found, key=lambda one: one.begin_ns)


def _nanoseconds(text: str | None, place: str) -> int:
    """A time in seconds, exactly: a float has too few digits for today's."""
    found = _TIME.fullmatch((text or "").strip())
    if not found:
        shown = printable(str(text)[:_SHOWN])
        raise BadInput(f"{place}: {shown} is no time in seconds since 1970")
    return int(found[1]) * 10**9 + int(((found[2] or "") + "0" * 9)[:9])
