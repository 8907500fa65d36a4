"""When a background has changed, as one's own connection tells: TCP_INFO, without a packet sent.

The work probes again every Y seconds (001-spec 6.4), which costs silence where nothing happened and
is late where something did. Here what the kernel counts anyway is compared with what it has been:
goodput and smoothed round-trip time, in blocks of five seconds, against their running means. Two
blocks in a row beyond a factor of 1.5, on the same side, are a change; slow drift, such as a stream
that still grows towards its share, moves the mean along instead.
"""

import math
from collections.abc import Sequence

from weir.probe.tcp_info import TcpInfo

BLOCK_S = 5.0
SETTLE_S = 10.0
"""After a decision, in which the new control finds its place."""
_FACTOR = math.log(1.5)
_REFERENCE_BLOCKS = 2  # that make the first mean
_WEIGHT = 0.2  # of a new block in the running mean
_IN_A_ROW = 2
EARLIEST_S = SETTLE_S + (_REFERENCE_BLOCKS + _IN_A_ROW) * BLOCK_S
"""After a decision, for anything to be seen."""


class _Level:
    """The logarithm of one quantity, block by block."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._mean = 0.0
        self._blocks = 0
        self._strange: list[float] = []

    def add(self, value: float) -> str | None:
        """Takes the next block's value; the change in words when it is one."""
        level = math.log(max(value, 1e-9))
        if self._blocks < _REFERENCE_BLOCKS:
            self._blocks += 1
            self._mean += (level - self._mean) / self._blocks
            return None
        away = level - self._mean
        if abs(away) < _FACTOR:
            self._mean += _WEIGHT * away
            self._strange.clear()
            return None
        if self._strange and (self._strange[-1] > 0) != (away > 0):
            self._strange.clear()
        self._strange.append(away)
        if len(self._strange) < _IN_A_ROW:
            return None
        least = min(self._strange, key=abs)
        return f"{self._name} is {math.exp(least):.2g} times what it was"


class ChangeDetector:
    """Told of the connections again and again, says when something has changed."""

    def __init__(self) -> None:
        self._begin_s: float | None = None
        self._block: tuple[float, int] | None = None  # its beginning, and what was acked by then
        self._srtts_ns: list[int] = []
        self._goodput = _Level("goodput")
        self._rtt = _Level("round-trip time")

    def sees(self, at_s: float, connections: Sequence[TcpInfo]) -> str | None:
        """What changed, in words, or None.

        Args:
            at_s: when, on any clock that only goes forward.
            connections: all that carry the transfer, as the kernel sees them.
        """
        acked = sum(info.acked_bytes or 0 for info in connections)
        srtts = [info.srtt_ns for info in connections if info.srtt_ns]
        if not srtts:
            return None
        if self._begin_s is None:
            self._begin_s = at_s
        if at_s - self._begin_s < SETTLE_S:
            return None
        # Other connections count anew.
        if self._block is None or acked < self._block[1]:
            self._start_block(at_s, acked)
            return None
        self._srtts_ns.append(sum(srtts) // len(srtts))
        span_s = at_s - self._block[0]
        if span_s < BLOCK_S:
            return None
        goodput = (acked - self._block[1]) / span_s
        rtt = sum(self._srtts_ns) / len(self._srtts_ns)
        self._start_block(at_s, acked)
        changes = [self._goodput.add(goodput), self._rtt.add(rtt)]
        return next(filter(None, changes), None)

    def _start_block(self, at_s: float, acked: int) -> None:
        self._block = (at_s, acked)
        self._srtts_ns = []
