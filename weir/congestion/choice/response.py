"""How fast a congestion control can go on a path that loses packets at random.

Closed forms: the mean window of CUBIC and of Reno under a loss in every 1/p packets (RFC 9438,
section 5; RFC 5681 by M. Mathis and others 1997). BBR (version 1) takes no loss for a sign of
congestion until about every seventh packet is lost (N. Cardwell and others 2017, figure 8).
"""

import math

from weir.congestion.path import PathState

BBR_LOSS_MAX = 0.15
"""With more loss BBR collapses."""
STREAMS = (1, 2, 4, 8, 16)
"""So many are advised."""
_FULL = 0.9  # of the path's rate is as good as all
C, BETA = 0.4, 0.7
"""CUBIC's constants."""


def reno_window(event_rate: float) -> float:
    """Packets in flight, in the mean; `event_rate` is of losses, for each packet."""
    return math.sqrt(1.5 / event_rate)


def cubic_window(event_rate: float, rtt_s: float) -> float:
    """The same of CUBIC, which is Reno's where that is larger (the Reno-friendly region)."""
    scale = math.sqrt(math.sqrt(C * (3 + BETA) / (4 * (1 - BETA))))
    return max(reno_window(event_rate), scale * math.pow(rtt_s / event_rate, 0.75))


def reach_bps(control: str, path: PathState, streams: int = 1) -> float:
    """The most payload that so many streams under a control carry there; infinite if unbounded.

    Args:
        control: by the kernel's name; of one that is not known here, as much as Reno.
        path: what it does to packets.
        streams: each with a window, and losses, of its own.
    """
    if control == "bbr" and path.loss < BBR_LOSS_MAX:
        return math.inf
    if not path.loss_events:
        # Where no loss holds it back its window does, which grows slowly.
        return streams * path.goodput_bps / path.streams if path.use == "room" else math.inf
    rate = path.event_rate
    window = cubic_window(rate, path.rtt_s) if control == "cubic" else reno_window(rate)
    return streams * window * 8 * path.packet_bytes / path.rtt_s


def streams_to_fill(control: str, path: PathState) -> int:
    """How many streams under a control, of `STREAMS`, fill the path; the most where none do."""
    full_bps = math.inf if path.full_bps is None else path.full_bps
    enough = (n for n in STREAMS if reach_bps(control, path, n) >= _FULL * full_bps)
    return next(enough, STREAMS[-1])
