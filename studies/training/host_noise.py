"""What hosts do to round-trip times that were simulated without them.

A prober's own host adds to every reply, and now and then is busy for some time. Where a queue
stands, the hosts that feed it matter as much. A kernel sends up to 64 KiB at once and acknowledges
as much at once, and while a host is late the queue drains by as long: a standing queue has dips
that an empty one has not. The ranges are choices, made wide, from hosts with nothing else to do to
virtual machines that share processors; those of the dips were chosen in sight of recordings of the
kernel's own TCP on such machines.
"""

import math

import numpy as np

from weir.congestion.classify.features import Values
from weir.congestion.recordings import NetworkPath

DELAY_MS = (0.001, 0.5)
"""Mean of what is added to every reply."""
BUSY_SHARE = (1e-4, 0.03)
"""Share of replies that wait for a busy host."""
BUSY_MS = (0.5, 15.0)
"""Mean time that they wait."""
BURST_BYTES = (1_500, 150_000)
"""What senders together send at once: at a random moment a part of it is there."""
BURST_MAX_MS = 24.0
"""What is sent at once takes no longer than this: kernels send less at once on slow paths."""
LATE_SHARE = (0.0, 1.0)
"""Share of samples that a sender sends late."""
LATE_MS = (0.03, 8.0)
"""Mean time by which they are late."""
COARSE = 0.1
"""Share of runs whose clock has ticks that can be seen."""
TICK_MS = (0.01, 1.0)
LOSSY = 0.2
"""Share of runs in which replies are lost that no queue dropped."""
LOSS = (1e-3, 0.03)
"""Share of replies that such a run loses."""


def through_hosts(rtt_ms: Values, path: NetworkPath, draw: np.random.Generator) -> Values:
    """A run as a prober on real hosts would see it; what hosts these are is drawn too.

    Args:
        rtt_ms: as simulated, NaN where a reply is missing.
        path: on which: no dip goes below its empty state.
        draw: of everything.
    """

    def between(ends: tuple[float, float]) -> float:
        return math.exp(draw.uniform(math.log(ends[0]), math.log(ends[1])))

    size = len(rtt_ms)
    late = draw.random(size) < draw.uniform(*LATE_SHARE)
    dips = late * draw.exponential(between(LATE_MS), size)
    most_ms = min(between(BURST_BYTES) * 8e3 / path.rate_bps, BURST_MAX_MS)
    dips += draw.uniform(0, most_ms, size)
    seen = rtt_ms - np.minimum(dips, np.maximum(rtt_ms - path.rtt_ns / 1e6, 0.0))
    seen += draw.exponential(between(DELAY_MS), size)
    busy = draw.random(size) < between(BUSY_SHARE)
    seen += busy * draw.exponential(between(BUSY_MS), size)
    if draw.random() < COARSE:
        tick = between(TICK_MS)
        seen = np.ceil(seen / tick) * tick
    if draw.random() < LOSSY:
        seen[draw.random(size) < between(LOSS)] = np.nan
    return seen
