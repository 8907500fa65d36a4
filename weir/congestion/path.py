"""What a path does to our packets, as our own connections tell it: TCP_INFO, no packet is sent.

Three things decide what a congestion control gets there, beside who else is there:

- whether a queue stands: the round-trip time is then above the least that was seen. Where none
  stands while we send all that our window allows, the path has room;
- whose queue it is. Alone we fill a queue only while we get as much as we ever got. A queue that
  stood while we got much less is somebody else's;
- what losses come of: where the queue was long, of its overflow; else of the path, at random.

While files do not come fast enough, as small ones do, how little we get says nothing of others, and
how much nothing of the path.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from weir.probe.tcp_info import TcpInfo

_KEPT_S = 30.0
_QUEUE_MIN_S = 0.002  # a round trip that is longer by less than this is the hosts' noise
_QUEUE_SHARE = 0.05  # the same, as a share of the least round trip
_BURST = 8  # packets: what one burst of ours makes wait for itself on a slow path
_SPAN_MIN_S = 0.2  # a rate is measured over so long, and over 1.5 round trips at least
_SPAN_ROUNDS = 1.5
_STANDS_MIN_S = 0.2  # a queue that is seen for so long, and for three round trips, stands
_STANDS_ROUNDS = 3
_FREE_MIN_S = 0.5  # no queue for so long, and for six round trips, is room
_FREE_ROUNDS = 6
_FREE_SHARE = 0.8  # of the looks of that time; the others are noise
_LOW = 0.5  # of the longest queue seen: with a shorter one before it a loss is no overflow
_GROWTH = 1.15  # a rate that grows by so much in two spans is still finding its place
_OTHERS_SHARE = 0.6  # of our best rate: a queue that stands while we get less is not ours
_OTHERS_LOOKS = 3  # it is seen so often in a row before it counts
_OTHERS_S = 6.0  # and for so long: who fills a queue is seen again and again
_OURS_S = 1.0  # our own queue is seen for so long before the path is ours
_FILLED = 0.85  # of our best rate: with as much the path is full
_USED = 0.6  # of the rate that filled the queue: with less, the path has room
_HELD = 0.5  # of the time: what holds us up for longer is the limit, and not the path

Use = Literal["room", "ours", "shared"]


def noise_s(least_s: float) -> float:
    """What is longer than the least round-trip time by more has waited in a queue."""
    return max(_QUEUE_MIN_S, _QUEUE_SHARE * least_s)


@dataclass(frozen=True, slots=True)
class PathState:
    """What is known of a path.

    Attributes:
        use: `room`: no queue stands, and some of the path is unused; `ours`: we fill it, alone;
            `shared`: somebody else has filled its queue; None: not known.
        rtt_s: the least round-trip time.
        goodput_bps: payload that it carries for us now.
        full_bps: the most that it carried for us while a queue stood; None if none ever stood.
        packet_bytes: payload of a full packet.
        delivered: packets that arrived while no queue stood, or a short one.
        lost: packets that were lost meanwhile, so at random.
        loss_events: the same, where all that is lost in one round trip counts once.
        streams: so many carry it.
        best_bps: the most payload that it carried for us in any span.
        queue_s: how much longer than the least the longest round trip was, smoothed.
        overflows: packets that were lost while the queue was long.
    """

    use: Use | None
    rtt_s: float
    goodput_bps: float
    full_bps: float | None = None
    packet_bytes: int = 1448
    delivered: int = 0
    lost: int = 0
    loss_events: int = 0
    streams: int = 1
    best_bps: float = 0.0
    queue_s: float = 0.0
    overflows: int = 0

    @property
    def loss(self) -> float:
        """The share of packets that the path loses at random."""
        return self.lost / self.delivered if self.delivered else 0.0

    @property
    def event_rate(self) -> float:
        """Losses at random for each packet, where those of one round trip count once."""
        return self.loss_events / self.delivered if self.delivered else 0.0


@dataclass(slots=True)
class _Look:
    """All connections at one instant; what is counted is since they began."""

    at_s: float
    srtt_s: float
    delivered: int
    sent_again: int
    recovering: bool
    starting: bool
    in_flight: int
    held_s: float
    idle: bool
    rate_pps: float = 0.0  # over the span before it
    after_pps: float | None = None  # and over the one after it, once that is over
    idle_after: bool = False  # whether the source was the limit in that


class PathReader:
    """Told of the connections again and again, says what their path does.

    When other connections take their place it begins anew; when more join, what is known stays.
    """

    def __init__(self) -> None:
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._looks: deque[_Look] = deque()
        self._rtt_s = math.inf
        self._most_s = 0.0
        self._best_pps = 0.0
        self._full_pps = 0.0
        self._delivered = self._lost = self._events = self._overflows = 0
        self._event_s = -math.inf
        self._packet_bytes = 0
        self._streams = 0

    def sees(self, at_s: float, connections: Sequence[TcpInfo]) -> None:
        """Takes a look.

        Args:
            at_s: when, on any clock that only goes forward.
            connections: all that carry the transfer, as the kernel sees them.
        """
        look = _look(at_s, connections)
        if look is None:
            return
        if self._looks and look.delivered < self._looks[-1].delivered:
            self._begin_anew()
        if len(connections) != self._streams:
            self._looks.clear()  # with more of them it is to be seen what they get
        least_ns = min(one.min_rtt_ns or one.srtt_ns or 0 for one in connections)
        self._rtt_s = min(self._rtt_s, least_ns / 1e9)
        self._packet_bytes = max(one.mss_bytes or 0 for one in connections)
        self._streams = len(connections)
        before = self._looks[-1] if self._looks else None
        self._looks.append(look)
        while at_s - self._looks[0].at_s > _KEPT_S:
            self._looks.popleft()
        look.rate_pps = self._rate(look)
        self._best_pps = max(self._best_pps, look.rate_pps)
        if self._stands():
            self._full_pps = max(self._full_pps, look.rate_pps)
        self._end_spans(look)
        if before:
            self._count(before, look)

    @property
    def state(self) -> PathState | None:
        """What is known by now; None before anything is."""
        if not self._looks:
            return None
        bits = 8 * self._packet_bytes
        return PathState(
            use=self._use(),
            rtt_s=self._rtt_s,
            goodput_bps=self._looks[-1].rate_pps * bits,
            full_bps=self._full_pps * bits if self._full_pps else None,
            packet_bytes=self._packet_bytes,
            delivered=self._delivered,
            lost=self._lost,
            loss_events=self._events,
            streams=self._streams,
            best_bps=self._best_pps * bits,
            queue_s=max(self._most_s - self._rtt_s, 0.0),
            overflows=self._overflows,
        )

    @property
    def is_held(self) -> bool:
        """Whether the receiver's window or the source is the limit by now, and not the path."""
        lately = self._lately(self._free_s) if self._looks else None
        return lately is not None and self._is_held(lately)

    @property
    def _free_s(self) -> float:
        return max(_FREE_MIN_S, _FREE_ROUNDS * self._rtt_s)

    @property
    def _span_s(self) -> float:
        return max(_SPAN_MIN_S, _SPAN_ROUNDS * self._rtt_s)

    @property
    def _noise_s(self) -> float:
        burst_s = _BURST / self._best_pps if self._best_pps else 0.0
        return max(noise_s(self._rtt_s), burst_s)

    def _queue(self, look: _Look) -> bool:
        """Whether a queue stood."""
        return look.srtt_s - self._rtt_s > self._noise_s

    def _stands(self) -> bool:
        """Whether a queue has stood for some round trips; a burst of ours makes a shorter one."""
        lately = self._lately(max(_STANDS_MIN_S, _STANDS_ROUNDS * self._rtt_s))
        return lately is not None and all(
            self._queue(look) and not look.starting for look in lately
        )

    def _rate(self, look: _Look) -> float:
        """Packets a second over the span that ends with a look; 0 while that is not over."""
        for other in reversed(self._looks):
            span_s = look.at_s - other.at_s
            if span_s >= self._span_s:
                return (look.delivered - other.delivered) / span_s
        return 0.0

    def _end_spans(self, latest: _Look) -> None:
        """Notes what came after the looks whose span is over by now."""
        after = [latest]
        for look in islice(reversed(self._looks), 1, None):
            if look.after_pps is not None:
                return
            after.append(look)
            span_s = latest.at_s - look.at_s
            if span_s >= max(self._span_s, _SPAN_ROUNDS * look.srtt_s):
                look.after_pps = (latest.delivered - look.delivered) / span_s
                self._best_pps = max(self._best_pps, look.after_pps)
                look.idle_after = _is_idle(after)

    def _count(self, before: _Look, look: _Look) -> None:
        """Counts what arrived and was lost between two looks, unless the queue was long."""
        rounds_s = look.at_s - _SPAN_ROUNDS * look.srtt_s
        lately = [one.srtt_s for one in self._looks if one.at_s >= rounds_s] or [look.srtt_s]
        self._most_s = max(self._most_s, look.srtt_s)
        # What overflows does so at the top of what the queue has been seen to hold.
        lost = look.sent_again - before.sent_again
        if max(lately) - self._rtt_s > max(self._noise_s, _LOW * (self._most_s - self._rtt_s)):
            self._overflows += lost
            return
        self._delivered += look.delivered - before.delivered
        self._lost += lost
        if lost > 0 and look.at_s - self._event_s > self._rtt_s:
            self._events += 1
            self._event_s = look.at_s

    def _use(self) -> Use | None:
        if self._is_shared():
            return "shared"
        if self._has_room():
            return "room"
        return "ours" if self._is_ours() else None

    def _has_room(self) -> bool:
        """Whether no queue stood for some time, and we do not get what fills the path."""
        lately = self._lately(self._free_s)
        if lately is None or self._is_held(lately) or self._is_growing(lately[-1]):
            return False
        queues = sum(map(self._queue, lately))
        is_used = bool(self._full_pps) and lately[-1].rate_pps >= _USED * self._full_pps
        return not is_used and queues <= (1 - _FREE_SHARE) * len(lately)

    def _is_ours(self) -> bool:
        """Whether a queue stood for some time, and all that time we got as much as ever."""
        lately = self._lately(_OURS_S)
        least_pps = _FILLED * self._best_pps
        if lately is None or _is_idle(lately):
            return False
        return all(
            self._queue(look) and not look.starting and look.rate_pps >= least_pps
            for look in lately
        )

    def _is_shared(self) -> bool:
        """Whether a queue stood while we got much less than at our best.

        The first slow start makes a queue with each burst, of up to half of what is in flight.
        """
        most_pps = _OTHERS_SHARE * self._best_pps
        seen, delivered = 0, -1
        since_s = self._looks[-1].at_s - _OTHERS_S
        for look in (one for one in self._looks if one.at_s >= since_s):
            if not look.after_pps or look.idle_after:
                continue
            if look.recovering or look.delivered == delivered:
                continue
            own_s = look.in_flight / 2 / self._best_pps if look.starting else 0.0
            stands = look.srtt_s - self._rtt_s > own_s + self._noise_s
            seen = seen + 1 if stands and look.after_pps <= most_pps else 0
            delivered = look.delivered
            if seen >= _OTHERS_LOOKS:
                return True
        return False

    def _lately(self, span_s: float) -> list[_Look] | None:
        """The looks of the last so many seconds; None if there are none from before."""
        since_s = self._looks[-1].at_s - span_s
        if self._looks[0].at_s > since_s:
            return None
        return [look for look in self._looks if look.at_s >= since_s]

    def _is_held(self, looks: Sequence[_Look]) -> bool:
        """Whether the receiver's window, or the source, was the limit, and not the path."""
        first, last = looks[0], looks[-1]
        held = (last.held_s - first.held_s) > _HELD * (last.at_s - first.at_s)
        return held or _is_idle(looks)

    def _is_growing(self, latest: _Look) -> bool:
        before_s = latest.at_s - 2 * self._span_s
        before = next((one for one in reversed(self._looks) if one.at_s <= before_s), None)
        return before is None or latest.rate_pps > _GROWTH * before.rate_pps


def _is_idle(looks: Sequence[_Look]) -> bool:
    """Whether the source was the limit."""
    return sum(look.idle for look in looks) > _HELD * len(looks)


def _look(at_s: float, connections: Sequence[TcpInfo]) -> _Look | None:
    srtts_ns = [one.srtt_ns for one in connections if one.srtt_ns]
    if not srtts_ns:
        return None
    held_ns = sum(one.peer_limited_ns or 0 for one in connections) / len(connections)
    return _Look(
        at_s=at_s,
        srtt_s=sum(srtts_ns) / len(srtts_ns) / 1e9,
        delivered=sum(one.delivered_packets or 0 for one in connections),
        sent_again=sum(one.retransmitted_packets or 0 for one in connections),
        recovering=any(one.recovering for one in connections),
        starting=any(one.starting for one in connections),
        in_flight=sum(one.in_flight_packets or 0 for one in connections),
        held_s=held_ns / 1e9,
        idle=all(one.unsent_bytes == 0 for one in connections),
    )


def path_words(path: PathState) -> str:
    """What a path that has room does, for a person."""
    if path.lost:
        return f"the path loses {100 * path.loss:.1g} % at random"
    return "the path has room"
