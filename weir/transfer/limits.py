"""What kept a transfer from being faster: the path, a window, a buffer, a disk, or its own pace.

The kernel of the sending end counts for how long each connection had something under way, and for
how long of that the peer's window or a full send buffer held it up (`struct tcp_info`).
"""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from weir.kernel_files import text_if_any

PATH, RATE = "path", "rate"
RECEIVER_WINDOW, RECEIVER_DISK = "receiver window", "receiver's disk"
SEND_BUFFER, SENDER_DISK, SMALL_FILES = "send buffer", "sender's disk", "small files"

LEAST_S = 1.0
"""A shorter transfer has no limit that could be told."""
_LARGE = 1 << 20  # bytes of a file that is worth more than its opening and naming
_HALF = 0.5
_AT_RATE = 0.9
_UNPACED = 2**64 - 1
_ROOM = 4  # what is proposed, in multiples of what binds
_WRITE_BUFFER = Path("/proc/sys/net/ipv4/tcp_wmem")
# The least and the first size of Linux's buffers, which nobody needs to change.
_READ_SIZES, _WRITE_SIZES = "4096 131072", "4096 16384"


class Limit(NamedTuple):
    """What a transfer was limited by.

    Attributes:
        by: one of the names above.
        share: of the time that its connections were watched.
        remedy: the command that raises a limit of a kernel, and where; empty for others.
    """

    by: str
    share: float
    remedy: str = ""


class _Look(NamedTuple):
    """A connection at an instant; spans are since it began."""

    at_s: float
    busy_s: float
    peer_s: float
    buffer_s: float
    acked_bytes: int
    pace_bps: float
    window_bytes: int

    @classmethod
    def at(cls, at_s: float, told: bytes) -> "_Look | None":
        """What the kernel told; None where it is older than these counts."""
        if len(told) < _WINDOW.size + _WINDOW_AT:
            return None
        pace, acked = _PACE.unpack_from(told, _PACE_AT)
        busy, peer, buffer = (span / 1e6 for span in _SPANS.unpack_from(told, _SPANS_AT))
        (window,) = _WINDOW.unpack_from(told, _WINDOW_AT)
        pace_bps = float("inf") if pace >= _UNPACED else pace * 8.0
        return cls(at_s, busy, peer, buffer, acked, pace_bps, window)


# tcpi_max_pacing_rate and tcpi_bytes_acked; tcpi_busy_time, tcpi_rwnd_limited and
# tcpi_sndbuf_limited; tcpi_snd_wnd.
_PACE, _PACE_AT = struct.Struct("=QQ"), 112
_SPANS, _SPANS_AT = struct.Struct("=QQQ"), 168
_WINDOW, _WINDOW_AT = struct.Struct("=I"), 228


class Limits:
    """Watches the connections of a transfer from its sending end."""

    def __init__(self) -> None:
        self._first: list[_Look] = []
        self._last: list[_Look] = []
        # Windows of connections that their peers had just held up.
        self._windows: list[int] = []
        self._widest = 0

    def look(self, at_s: float, told: Iterable[bytes]) -> None:
        """Takes `Transfer.tcp_info()` at an instant."""
        now = [look for one in told if (look := _Look.at(at_s, one)) and look.busy_s > 0]
        if not now:
            return
        again = len(now) == len(self._last)
        if not again or any(x.busy_s < y.busy_s for x, y in zip(now, self._last, strict=True)):
            # Other connections: the first ones, or those of another attempt.
            self._first, self._last = now, now
            return
        for before, one in zip(self._last, now, strict=True):
            self._widest = max(self._widest, one.window_bytes)
            if one.peer_s > before.peer_s:
                self._windows.append(one.window_bytes)
        self._last = now

    def found(self, file_bytes: float) -> Limit | None:
        """What limits most of the time; None where nothing does, or too little was seen.

        Args:
            file_bytes: of a file in the mean. With small ones either end opens, names and answers
                for most of the time in which nothing is under way.
        """
        pairs = list(zip(self._first, self._last, strict=True))
        watched_s = sum(last.at_s - first.at_s for first, last in pairs)
        if not pairs or watched_s < LEAST_S * len(pairs):
            return None
        if self._is_paced(pairs):
            return Limit(RATE, 1.0)
        busy, peer, buffer = (
            sum(getattr(last, name) - getattr(first, name) for first, last in pairs) / watched_s
            for name in ("busy_s", "peer_s", "buffer_s")
        )
        shares = {
            PATH: busy - peer - buffer,
            self._whose_window(): peer,
            SEND_BUFFER: buffer,
            SENDER_DISK if file_bytes >= _LARGE else SMALL_FILES: 1 - busy,
        }
        by = max(shares, key=lambda name: shares[name])
        if shares[by] < _HALF:
            return None
        return Limit(by, min(shares[by], 1.0), self._remedy(by))

    def _is_paced(self, pairs: Sequence[tuple[_Look, _Look]]) -> bool:
        pace_bps = sum(last.pace_bps for _, last in pairs)
        acked = sum(last.acked_bytes - first.acked_bytes for first, last in pairs)
        seconds = pairs[0][1].at_s - pairs[0][0].at_s
        return acked * 8 >= _AT_RATE * pace_bps * seconds

    def _whose_window(self) -> str:
        """A window that a kernel bounds stays wide; one that nobody empties is closed."""
        if self._windows and _median(self._windows) < _HALF * self._widest:
            return RECEIVER_DISK
        return RECEIVER_WINDOW

    def _remedy(self, by: str) -> str:
        if by == RECEIVER_WINDOW:
            most = _ROOM * self._widest
            return f'at the receiver: sysctl -w net.ipv4.tcp_rmem="{_READ_SIZES} {most}"'
        if by == SEND_BUFFER:
            sizes = text_if_any(_WRITE_BUFFER).split()
            if not sizes:
                return ""
            most = _ROOM * int(sizes[-1])
            return f'here: sysctl -w net.ipv4.tcp_wmem="{_WRITE_SIZES} {most}"'
        return ""


def _median(values: Sequence[int]) -> float:
    # `statistics` would take a small transfer's start longer than all else here.
    ordered = sorted(values)
    half = len(ordered) // 2
    return (ordered[half] + ordered[~half]) / 2
