"""How requests and transfers, in bytes of files, are put to the engine, in bytes on the wire."""

import math

from weir.calendar.clock import NS_PER_S
from weir.calendar.planning.engine import Verdict, Wanted
from weir.calendar.records import Submission, Transfer

# 1448 of 1500 bytes of a full TCP segment with timestamps are payload; TLS records and framing
# take another 0.2 %; the rest is for acknowledgement-paced gaps.
WIRE_PER_FILE_BYTE = 1.045
# Below this a connection would not even be set up in time.
RATE_FLOOR_BPS = 1_000_000
# No more is planned at once of what has no deadline that binds: until the end of time that takes a
# kilobit per second.
VOID_WIRE_BYTES_MAX = 10**11


def left_bytes(transfer: Transfer) -> int:
    """What is left of a transfer as the engine is to know it, in bytes on the wire."""
    left = wire_bytes(transfer.due_bytes)
    return min(left, VOID_WIRE_BYTES_MAX) if transfer.is_unbound else left


def wanted_of(now_ns: int, asked: Submission | Transfer, plan_ns: int) -> Wanted:
    """What the engine is asked for, of a request or of what is left of a transfer."""
    left = asked.due_bytes if isinstance(asked, Transfer) else asked.size_bytes
    # An empty file takes a connection too, and the engine plans no flow of nothing.
    size_bytes = wire_bytes(max(1, left))
    if isinstance(asked, Transfer) and asked.is_unbound:
        size_bytes = min(size_bytes, VOID_WIRE_BYTES_MAX)
    start_ns = asked.start_ns if (asked.start_ns or 0) > now_ns else None
    # A flow that would take the whole path for a millisecond only gets in others' way until
    # its end is reported: none is given more than ends it in a second, or in half its time.
    least_ns = max(1, min(NS_PER_S, (plan_ns - (start_ns or now_ns)) // 2))
    rate_max_bps = max(RATE_FLOOR_BPS, size_bytes * 8 * NS_PER_S // least_ns)
    if asked.rate_max_bps is not None:
        rate_max_bps = min(rate_max_bps, asked.rate_max_bps)
    least = asked.least_bytes if isinstance(asked, Submission) or asked.answer_ns else None
    return Wanted(
        (asked.source, asked.destination),
        size_bytes,
        max(0, plan_ns),
        min(rate_max_bps, 2**62),
        start_ns,
        None if least is None else min(wire_bytes(least), size_bytes),
        asked.weight,
        _hold_ns(now_ns, asked),
        asked.paths_max,
        promised=isinstance(asked, Transfer) and asked.answer_ns is None,
    )


def _hold_ns(now_ns: int, asked: Submission | Transfer) -> int | None:
    """For how long the answer may still wait, or None."""
    if isinstance(asked, Submission):
        return asked.hold_ns
    return None if asked.answer_ns is None else max(0, asked.answer_ns - now_ns)


def promised(asked: Submission | Transfer, verdict: Verdict) -> int | None:
    """How much of a request is promised, where that is less than all of it."""
    if asked.least_bytes is None or verdict.size_bytes >= wire_bytes(max(1, asked.size_bytes)):
        return None
    return min(asked.size_bytes, max(asked.least_bytes, file_bytes(verdict.size_bytes)))


def wire_bytes(file_bytes: int) -> int:
    """Bytes of packets that carry so many bytes of files, rounded up."""
    return math.ceil(file_bytes * WIRE_PER_FILE_BYTE)


def file_bytes(wire_bytes: int) -> int:
    """Bytes of files that so many bytes of packets carry, rounded down."""
    return int(wire_bytes / WIRE_PER_FILE_BYTE)


def needed_bps(now_ns: int, transfer: Transfer) -> float:
    """The rate on the wire that would just keep the deadline; infinite once it has passed."""
    left_ns = transfer.deadline_ns - now_ns
    if left_ns <= 0:
        return math.inf if transfer.due_bytes else 0.0
    return wire_bytes(transfer.due_bytes) * 8 * NS_PER_S / left_ns
