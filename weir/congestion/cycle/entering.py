"""Entering: how a stream that comes late gets to its share among streams of CUBIC or Reno.

A late CUBIC takes minutes to get there: its slow start ends where the queue that others keep full
overflows first, with a fifth of what they have, and all lose alike from then on (R. Jain's
convergence of additive increase and multiplicative decrease, at CUBIC's pace). So it enters under
BBR, which goes on through such losses while they back off:

    running --its rate grows no more: that is nearly the path's--> holding --> settling --> over

Running lasts for some round trips, and shows the path's rate. Then the stream is paced at an equal
share of it, still under BBR, until the others have taken the rest and the queue stands again as it
did before. It becomes CUBIC. But BBR has no use for the threshold where slow start ends, and takes
it away: CUBIC starts slowly from there, and would take twice its share until it loses. So it stays
paced until losses have made its window that of its share: it is settling, and that of the others
does not notice. Where the rate does not grow nothing was to be gained, and it becomes CUBIC at
once.
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
_SETTLED = 1.2  # of its share: a window of so much was that of its share at the last loss but one
_SETTLE_MAX_S = 20.0

Phase = Literal["running", "holding", "settling", "over"]


@dataclass(frozen=True, slots=True)
class _Look:
    at_s: float
    sent_bits: float
    srtt_s: float
    window_bps: float | None  # what it may send in a round trip; None while no loss bounds that


class Entry:
    """Told of the connection again and again, says in which phase it is.

    Args:
        share: an equal one, of the path's rate.
        had_bps: what the stream had before.
        is_over: whether it was under BBR then, and had more than its share.

    Attributes:
        share: as given.
        phase: `running`: unpaced; `holding`: at `pace_bps`; both under BBR; `settling`: at
            `pace_bps`, and `over`: unpaced, under what was chosen.
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
        if self.phase in ("holding", "settling"):
            return self.share * self._peak_bps / _TAKES
        return None

    def sees(self, at_s: float, connections: Sequence[TcpInfo]) -> Phase:
        """Takes a look; the phase from now on.

        Args:
            at_s: when, on any clock that only goes forward.
            connections: all that carry the transfer, as the kernel sees them.
        """
        one = connections[0] if len(connections) == 1 else None
        if one is None or not one.srtt_ns:
            self.phase = "over"  # it broke off, or others joined
            return self.phase
        sent_bits = 8.0 * (one.delivered_packets or 0) * (one.mss_bytes or 0)
        srtt_s = one.srtt_ns / 1e9
        window = 8 * (one.cwnd_packets or 0) * (one.mss_bytes or 0) / srtt_s
        look = _Look(at_s, sent_bits, srtt_s, None if one.starting else window)
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
        elif self.phase == "settling":
            self._settle(look)
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
            self.phase, self._since_s = "settling", look.at_s

    def _settle(self, look: _Look) -> None:
        assert self._since_s is not None and self.pace_bps is not None, "it was held before"
        is_settled = look.window_bps is not None and look.window_bps <= _SETTLED * self.pace_bps
        if is_settled or look.at_s - self._since_s >= _SETTLE_MAX_S:
            self.phase = "over"

    def _rate(self, look: _Look, span_s: float) -> float | None:
        """Over the span that ends with a look; None while that is not over."""
        while len(self._looks) > 2 and look.at_s - self._looks[1].at_s >= span_s:
            self._looks.popleft()
        before = self._looks[0]
        seconds = look.at_s - before.at_s
        return (look.sent_bits - before.sent_bits) / seconds if seconds >= span_s else None
