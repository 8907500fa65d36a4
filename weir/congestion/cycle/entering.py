"""Entering: how a stream that comes late gets to its share among streams of CUBIC or Reno.

A late CUBIC takes minutes to get there: its slow start ends where the queue that others keep full
overflows first, with a fifth of what they have, and all lose alike from then on (R. Jain's
convergence of additive increase and multiplicative decrease, at CUBIC's pace). So it enters under
BBR, which goes on through such losses while they back off:

    running --its rate grows no more: that is nearly the path's--> holding --> settling --> over

Running lasts for some round trips, and shows the path's rate. Then the stream is paced, still under
BBR. How many the others are cannot be heard (four streams that lose together sound like one), but
shows in how soon they take back what it leaves: each grows as its own kind does (`others_by`). So
the pace begins at the share among many, and grows for as long as no queue stands to what fewer
would have left by now: it is that of one stream like theirs. Once the queue stands the count is
known. It becomes CUBIC. But the threshold where slow start ends BBR sets to all that it took the
path to carry: CUBIC starts slowly up to there, and would take many times its share until it loses.
So it stays paced until losses, or HyStart, have made its window that of its share: it is settling,
and the others do not notice; until then the pace grows slowly. Where the rate does not grow
nothing was to be gained, and it becomes CUBIC at once.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from weir.congestion.choice.response import BETA, C
from weir.probe.tcp_info import TcpInfo

UNDER = "bbr"
"""The control that a stream enters under."""
LONGEST_S = 0.3
"""Round trip with the queue that was seen: on a longer path BBR is not done in the time it has."""
_SPAN_MIN_S = 0.2  # a rate is measured over so long, and over 1.5 round trips at least
_SPAN_ROUNDS = 1.5
_GROWS = 1.1  # a rate that grows by so much in two spans still does
_RUN_SPANS = 4
_RUN_MAX_S = 4.0
_GAIN = 1.5  # a rate that grew by less was nearly the path's: nobody else had any
_MOST = 8.0  # others; among more a share is hardly less
_AFTER_BBR = 2.0  # where others have taken the place of BBR, which few do at once
_STEP = 0.1
_TAKES = 0.9  # of the path's rate, as much as BBR takes of it beside CUBIC
_LEFT = 0.2  # of what fills path and queue: so much others have in flight when it has run,
_LEFT_MOST = 0.42  # and no more than this share of what fills the path
_REPAIR_ROUNDS = 2.0  # in which they repair what they lost, and do not grow
_NOISE_S = 0.002  # a round trip that is longer by less than this, or by
_NOISE_SHARE = 0.05  # this share of the least, shows no queue
_BACK_LOOKS = 3  # that show one in a row
_FORGOTTEN = 2.6  # BBR's window is twice what it gets, once it has forgotten what it had
_HOLD_MAX_S = 14.0
_SETTLED = 1.1  # of its share: a window of so much was that of its share at the last loss but one
_GROWS_AFTER_S = 8.0
_GROWTH = 0.05  # in a second
_GROWN_MOST = 4.0
_SETTLE_MAX_S = 20.0

Phase = Literal["running", "holding", "settling", "over"]


@dataclass(frozen=True, slots=True)
class _Look:
    at_s: float
    sent_bits: float
    srtt_s: float
    window_bits: float  # what it may send in a round trip
    reaches_bits: float  # what slow start soon makes of that; infinite where nothing has ended it
    recovering: bool  # whether it is less while a loss is repaired


class Entry:
    """Told of the connection again and again, says in which phase it is.

    Args:
        had_bps: what the stream had before.
        is_over: whether it was under BBR then, and had more than its share.

    Attributes:
        others: how many there are, as far as is known.
        phase: `running`: unpaced; `holding`: at `pace_bps`; both under BBR; `settling`: at
            `pace_bps`, and `over`: unpaced, under what was chosen.
    """

    def __init__(self, had_bps: float, *, is_over: bool = False) -> None:
        self._had_bps = self._peak_bps = had_bps
        self._least_bps = 0.0 if is_over else had_bps
        self._peak_at_s = 0.0
        self._looks: deque[_Look] = deque()
        self._low_s = 0.0
        self._full_s = 0.0  # with a full queue
        self._back = 0
        self._is_back = False
        self._grown = 1.0  # by so much the pace, while no loss shows what it may be
        self._packet_bits = 0
        self._since_s: float | None = None
        self.others = _AFTER_BBR if is_over else _MOST
        self.phase: Phase = "holding" if is_over else "running"

    @property
    def pace_bps(self) -> float | None:
        """At what it is to be paced; None for unpaced."""
        if self.phase in ("holding", "settling"):
            return self._grown * max(self.share * self._path_bps, self._least_bps)
        return None

    @property
    def _path_bps(self) -> float:
        return self._peak_bps / _TAKES

    @property
    def share(self) -> float:
        """An equal one, of the path's rate."""
        return 1 / (1 + self.others)

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
        window_bits = 8.0 * (one.cwnd_packets or 0) * (one.mss_bytes or 0)
        threshold_bits = 8.0 * (one.threshold_packets or 0) * (one.mss_bytes or 0)
        reaches_bits = math.inf if one.starting else max(window_bits, threshold_bits)
        recovering = bool(one.recovering)
        look = _Look(at_s, sent_bits, srtt_s, window_bits, reaches_bits, recovering)
        if self._looks and sent_bits < self._looks[-1].sent_bits:
            self.phase = "over"
            return self.phase
        if self._since_s is None:
            self._since_s, self._low_s = at_s, look.srtt_s
            self._peak_at_s = at_s
        self._looks.append(look)
        self._full_s = max(self._full_s, look.srtt_s)
        self._packet_bits = 8 * (one.mss_bytes or 1448)
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
        noise_s = max(_NOISE_S, _NOISE_SHARE * self._low_s)
        stands = look.srtt_s - self._low_s > noise_s
        self._back = self._back + 1 if stands else 0
        if not (stands or self._is_back):
            pps = self._path_bps / self._packet_bits
            fills = pps * (self._low_s + noise_s)
            left = min(_LEFT * pps * self._full_s, _LEFT_MOST * fills)
            self.others = min(self.others, others_by(seconds, self._low_s, fills, left))
        assert self.pace_bps is not None, "it is held"
        is_small = look.window_bits <= _FORGOTTEN * self.pace_bps * self._low_s
        self._is_back = self._is_back or self._back >= _BACK_LOOKS
        if seconds >= _HOLD_MAX_S or (self._is_back and is_small):
            self.phase, self._since_s = "settling", look.at_s

    def _settle(self, look: _Look) -> None:
        assert self._since_s is not None and self.pace_bps is not None, "it was held before"
        seconds = look.at_s - self._since_s
        most_bits = _SETTLED * self.pace_bps * look.srtt_s
        if look.reaches_bits > max(look.window_bits, most_bits):
            # Unpaced it would double in each round trip until it gets there, or loses.
            self._grown = math.exp(_GROWTH * max(0.0, seconds - _GROWS_AFTER_S))
            is_settled = self._grown > _GROWN_MOST
        else:
            is_settled = not look.recovering and look.window_bits <= most_bits
            is_settled = is_settled or seconds >= _SETTLE_MAX_S
        if is_settled:
            self.phase = "over"

    def _rate(self, look: _Look, span_s: float) -> float | None:
        """Over the span that ends with a look; None while that is not over."""
        while len(self._looks) > 2 and look.at_s - self._looks[1].at_s >= span_s:
            self._looks.popleft()
        before = self._looks[0]
        seconds = look.at_s - before.at_s
        return (look.sent_bits - before.sent_bits) / seconds if seconds >= span_s else None


def others_by(seconds: float, rtt_s: float, fills: float, left: float) -> float:
    """How many streams of CUBIC would have taken back by now all but an equal share.

    Fewer would not have yet, more would have before. Each grows as RFC 9438 has it, from what it
    was left with.

    Args:
        seconds: since they could.
        rtt_s: the least round-trip time.
        fills: packets in flight that fill the path.
        left: those that they had in flight when they began.
    """
    grows_s = max(0.0, seconds - _REPAIR_ROUNDS * rtt_s)
    others = _MOST
    while others > 1:
        if cubic_after(grows_s, left / others, rtt_s) < fills / (1 + others):
            break
        others -= _STEP
    return max(others, 1.0)


def cubic_after(seconds: float, window: float, rtt_s: float) -> float:
    """The window of a CUBIC stream so long after a loss that has left it with one, in packets."""
    before = window * (1 + BETA) / 2 / BETA  # fast convergence: it lost below its last maximum
    inflection_s = math.cbrt((before - window) / C)
    cubic = before + C * (seconds - inflection_s) ** 3
    return max(cubic, window + 3 * (1 - BETA) / (1 + BETA) * seconds / rtt_s)
