"""Entering: how a stream that comes late gets to its share among streams of CUBIC or Reno.

A late CUBIC takes minutes to get there: its slow start ends where the queue that others keep full
overflows first, with a fifth of what they have, and all lose alike from then on (R. Jain's
convergence of additive increase and multiplicative decrease, at CUBIC's pace). So it enters under
BBR, which goes on through such losses while they back off:

    running --its rate grows no more: that is nearly the path's--> holding --> CUBIC

Running lasts for some round trips, and shows the path's rate. Then the stream is paced at an equal
share of it, still under BBR, until the others have taken the rest and the queue stands again as it
did before. It becomes CUBIC with a window of its share. Where the rate does not grow nothing was to
be gained, and it becomes CUBIC at once.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from weir.probe.tcp_info import TcpInfo

UNDER = "bbr"
"""The control that a stream enters under."""
LEAST_SHARE = 0.2
"""Among more others a late CUBIC gets to its share by itself: they lose more often."""
_SPAN_MIN_S = 0.2  # a rate is measured over so long, and over 1.5 round trips at least
_SPAN_ROUNDS = 1.5
_GROWS = 1.1  # a rate that grows by so much in two spans still does
_RUN_SPANS = 4
_RUN_MAX_S = 4.0
_GAIN = 1.5  # a rate that grew by less was nearly the path's: nobody else had any
_TAKES = 0.9  # of the path's rate, as much as BBR takes of it beside CUBIC
_HOLD_MIN_S = 3.0
_HOLD_MAX_S = 12.0
_BACK = 0.35  # of the queue that stood before: with so much the others are back

Phase = Literal["running", "holding", "over"]


@dataclass(frozen=True, slots=True)
class _Look:
    at_s: float
    sent_bits: float
    srtt_s: float


class Entry:
    """Told of the connection again and again, says in which phase it is.

    Args:
        share: an equal one, of the path's rate.
        had_bps: what the stream had before.
        is_over: whether it was under BBR then, and had more than its share.

    Attributes:
        share: as given.
        phase: `running`: unpaced; `holding`: at `pace_bps`; both under BBR; `over`: as before.
    """

    def __init__(self, share: float, had_bps: float, *, is_over: bool = False) -> None:
        self.share = share
        self._had_bps = self._peak_bps = had_bps
        self._peak_at_s = 0.0
        self._looks: deque[_Look] = deque()
        self._stood_s = 0.0  # round-trip time with the queue that stood before
        self._low_s = 0.0
        self._since_s: float | None = None
        self.phase: Phase = "holding" if is_over else "running"

    @property
    def pace_bps(self) -> float | None:
        """At what it is to be paced; None for unpaced."""
        return self.share * self._peak_bps / _TAKES if self.phase == "holding" else None

    def sees(self, at_s: float, connections: Sequence[TcpInfo]) -> Phase:
        """Takes a look; the phase from now on.

        Args:
            at_s: when, on any clock that only goes forward.
            connections: all that carry the transfer, as the kernel sees them.
        """
        if len(connections) != 1 or not connections[0].srtt_ns:
            self.phase = "over"  # it broke off, or others joined
            return self.phase
        (one,) = connections
        sent_bits = 8.0 * (one.delivered_packets or 0) * (one.mss_bytes or 0)
        look = _Look(at_s, sent_bits, connections[0].srtt_ns / 1e9)
        if self._looks and sent_bits < self._looks[-1].sent_bits:
            self.phase = "over"
            return self.phase
        if self._since_s is None:
            self._since_s, self._stood_s, self._low_s = at_s, look.srtt_s, look.srtt_s
            self._peak_at_s = at_s
        self._looks.append(look)
        if self.phase == "running":
            self._run(look)
        elif self.phase == "holding":
            self._hold(look)
        return self.phase

    def _run(self, look: _Look) -> None:
        assert self._since_s is not None, "the first look is taken"
        span_s = max(_SPAN_MIN_S, _SPAN_ROUNDS * look.srtt_s)
        rate_bps = self._rate(look, span_s)
        if rate_bps is None:
            return
        if rate_bps > _GROWS * self._peak_bps:
            self._peak_at_s = look.at_s
        self._peak_bps = max(self._peak_bps, rate_bps)
        seconds = look.at_s - self._since_s
        still = look.at_s - self._peak_at_s >= 2 * span_s and seconds >= _RUN_SPANS * span_s
        if not still and seconds < _RUN_MAX_S:
            return
        self.phase = "holding" if self._peak_bps >= _GAIN * self._had_bps else "over"
        self._since_s, self._low_s = look.at_s, look.srtt_s

    def _hold(self, look: _Look) -> None:
        assert self._since_s is not None, "the first look is taken"
        self._low_s = min(self._low_s, look.srtt_s)
        seconds = look.at_s - self._since_s
        is_back = look.srtt_s >= self._low_s + _BACK * (self._stood_s - self._low_s)
        if seconds >= _HOLD_MAX_S or (seconds >= _HOLD_MIN_S and is_back):
            self.phase = "over"

    def _rate(self, look: _Look, span_s: float) -> float | None:
        """Over the span that ends with a look; None while that is not over."""
        while len(self._looks) > 2 and look.at_s - self._looks[1].at_s >= span_s:
            self._looks.popleft()
        before = self._looks[0]
        seconds = look.at_s - before.at_s
        return (look.sent_bits - before.sent_bits) / seconds if seconds >= span_s else None
