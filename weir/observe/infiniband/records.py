"""Answers of ports, as rows of a table: read and written as CSV, a piece of whole rounds at a time.

A row is the work's record (000-spec 2.5, A2 and A3): kind of switch and direction of the port once
they are known, the round's begin, LID and port, when the query was sent and how long its answer
took, and the counter; with the port's tick and what is known against the value.
"""

import csv
import enum
import io
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from weir import files
from weir.errors import BadInput

Rows = npt.NDArray[Any]
"""Rows of `ROW`, a structured array."""

ROW = np.dtype(
    [
        ("kind", "U15"),
        ("way", "U4"),
        ("round_ns", "i8"),
        ("lid", "i4"),
        ("port", "i4"),
        ("asked_ns", "i8"),
        ("took_ns", "i8"),
        ("wait_ticks", "u8"),
        ("tick_ns", "f8"),
        ("flags", "U47"),
    ]
)
_PLAIN = ROW.names[2:8] if ROW.names else ()
"""The columns of equation 2.1, in its order; kind and way stand before them in equation 2.2."""
_PIECE = 200_000
_MOST_LINE = 4096
_LID_MAX, _PORT_MAX = 0xFFFF, 0xFF
_MOST_NS = 1 << 62
"""A time may be so large at most: the sum of two of them is still a number."""
MOST_QUERIES = 1_000_000
"""A round has so many at most: it is kept whole."""
_SHOWN = 200
"""So many characters of what is wrong are shown."""
CLAMPED = 2**32 - 1
"""Where the counter ends: it stays there until somebody resets it."""


class Flag(enum.StrEnum):
    """Why a value says neither that a port waited nor that it did not."""

    MISSING = "missing"
    """Nobody answered."""
    CLAMPED = "clamped"
    """The counter is all ones, where it stays."""
    DOWN = "down"
    """The port has no link, or none that carries data."""
    ETHERNET = "ethernet"
    """The port speaks Ethernet, which knows no credits."""
    UNSUPPORTED = "unsupported"
    """The port does not count, or its switch says that it does not."""
    TICK_ASSUMED = "tick-assumed"
    """The value counts, but its unit is that of the link's speed, not told by the port."""


AGAINST = frozenset(Flag) - {Flag.TICK_ASSUMED}
"""With any of these a value is no value."""


def flagged(flags: "npt.NDArray[np.str_]") -> npt.NDArray[np.bool_]:
    """Which rows have no value, by their flags."""
    bad = np.zeros(len(flags), bool)
    has_some = flags != ""
    for text in np.unique(flags[has_some]):
        if AGAINST & set(str(text).split("+")):
            bad |= flags == text
    return bad


class Writer:
    """Rows into a CSV file, the header first."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._csv = csv.writer(stream, lineterminator="\n")
        self._csv.writerow(ROW.names or ())

    def write(self, rows: Rows) -> None:
        """Appends rows; they are in the file once this has returned."""
        self._csv.writerows(rows.tolist())
        self._stream.flush()


def read(
    path: Path, piece: int = _PIECE, told_cut: Callable[[str], None] | None = None
) -> Iterator[Rows]:
    """The rows of a CSV file, in pieces that end where a round does.

    A file with a header has its columns by their names. One without has those of equation 2.1 or
    2.2, and no ticks: they are NaN.

    Args:
        path: of the file.
        piece: so many rows are read at a time.
        told_cut: is told that the last line is cut, as it is when whoever wrote it was killed or
            the disk was full; the lines before it are read. Without it that is an error.

    Raises:
        BadInput: the file cannot be read, has no records, or a line is none.
    """
    try:
        with files.opened(path) as file, io.TextIOWrapper(file, "utf-8", newline="") as stream:
            yield from _whole_rounds(_pieces(stream, path, piece, told_cut), path)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path}: this is no table of records, but binary") from None


def _pieces(
    stream: TextIO, path: Path, piece: int, told_cut: Callable[[str], None] | None
) -> Iterator[Rows]:
    first = stream.readline(_MOST_LINE)
    columns, has_header = _columns(first, path)
    dtype = np.dtype([(name, ROW[name]) for name in columns])
    done = int(has_header)
    # A file without line ends would be read as a whole otherwise, however large it is.
    rest = iter(lambda: stream.readline(_MOST_LINE), "")
    lines = rest if has_header else itertools.chain([first], rest)
    count = 0
    while taken := list(itertools.islice(lines, piece)):
        if max(map(len, taken)) == _MOST_LINE:
            raise BadInput(f"{path}: after line {done}: a line is longer than any record")
        if not taken[-1].endswith("\n"):
            is_cut = f"{path}: line {done + len(taken)} is cut: the file ends within it"
            if told_cut is None:
                raise BadInput(is_cut)
            told_cut(is_cut)
            taken.pop()
        if not "".join(taken).strip():
            done += len(taken)
            continue
        try:
            found = np.loadtxt(taken, dtype, delimiter=",", ndmin=1, comments=None, quotechar='"')
        except (ValueError, OverflowError) as error:
            # What stands behind a semicolon is advice to programmers.
            why = str(error).partition(";")[0][:_SHOWN]
            raise BadInput(f"{path}: after line {done}: {why}") from None
        done += len(taken)
        count += len(found)
        rows = np.zeros(len(found), ROW)
        rows["tick_ns"] = np.nan
        for name in columns:
            rows[name] = found[name]
        _check(rows, path, done)
        yield rows
    if not count:
        raise BadInput(f"{path}: no records are in it")


def _check(rows: Rows, path: Path, line: int) -> None:
    """Sees that times are times, and that there can be such ports."""
    for name in ("round_ns", "asked_ns", "took_ns"):
        wrong = (rows[name] < 0) | (rows[name] >= _MOST_NS)
        if wrong.any():
            raise BadInput(f"{path}: up to line {line}: {name} of {rows[name][wrong][0]}")
    for name, most in (("lid", _LID_MAX), ("port", _PORT_MAX)):
        wrong = (rows[name] < 0) | (rows[name] > most)
        if wrong.any():
            raise BadInput(f"{path}: up to line {line}: {name} {rows[name][wrong][0]}: 0 to {most}")
    ticks = rows["tick_ns"]
    wrong = ~np.isnan(ticks) & ~((ticks > 0) & np.isfinite(ticks))
    if wrong.any():
        raise BadInput(f"{path}: up to line {line}: a tick of {ticks[wrong][0]:g} ns")


def _columns(first: str, path: Path) -> tuple[tuple[str, ...], bool]:
    """The columns of a file by its first line, and whether that is a header."""
    names = tuple(first.strip().split(","))
    known = ROW.names or ()
    if "wait_ticks" in names:
        missing = [name for name in _PLAIN if name not in names]
        unknown = [name for name in names if name not in known]
        if missing or unknown:
            wrong = f"lacks {missing[0]}" if missing else f"has {unknown[0]!r}, which is unknown"
            raise BadInput(f"{path}: the header {wrong}; columns are {', '.join(known)}")
        return names, True
    by_count = {len(_PLAIN): _PLAIN, len(_PLAIN) + 2: known[:8]}
    if len(names) not in by_count:
        raise BadInput(
            f"{path}: the first line has {len(names)} columns; a header, or the 6 or 8 of the "
            "work's records, is needed"
        )
    return by_count[len(names)], False


def round_starts(rows: Rows) -> npt.NDArray[np.intp]:
    """Where each round begins: rows of one begin, LID and port that follow one another."""
    if not len(rows):
        return np.zeros(0, np.intp)
    change = np.ones(len(rows), bool)
    change[1:] = False
    for name in ("round_ns", "lid", "port"):
        change[1:] |= rows[name][1:] != rows[name][:-1]
    return np.flatnonzero(change)


def _whole_rounds(pieces: Iterator[Rows], path: Path) -> Iterator[Rows]:
    """The same rows, cut anew where rounds end."""
    rest: Rows | None = None
    for rows in pieces:
        joined = rows if rest is None else np.concatenate([rest, rows])
        last = round_starts(joined)[-1]
        if last:
            yield joined[:last]
        rest = joined[last:]
        if len(rest) > MOST_QUERIES:
            raise BadInput(
                f"{path}: more than {MOST_QUERIES} records of one port follow one another; give "
                "each round a time of its own (round_ns)"
            )
    if rest is not None:
        yield rest
