"""What hosts do to round-trip times that were simulated without them.

A prober's own host adds to every reply, and now and then is busy for some time. Where a queue
stands, the hosts that feed it matter as much: while one of them is late the queue drains, by as
long as it is late, and what it sends at once when it wakes fills it again. So a standing queue has
dips that an empty one has not. The ranges are choices, made wide: from a host with nothing else to
do to a virtual machine that shares its processors. Those of the dips were chosen in sight of
recordings of the kernel's own TCP on such machines.
"""

import math

import numpy as np

from weir.ops.recognition.features import Values

DELAY_MS = (0.001, 0.5)
"""Mean of what is added to every reply."""
BUSY_SHARE = (1e-4, 0.03)
"""Of replies that wait for a busy host."""
BUSY_MS = (0.5, 15.0)
"""Mean of how long."""
LATE_SHARE = (0.0, 0.8)
"""Of samples at which a sender is late."""
LATE_MS = (0.03, 6.0)
"""Mean of by how long."""
LOSSY = 0.2
"""Share of runs in which replies are lost that no queue dropped."""
LOSS = (1e-3, 0.03)
"""Of their replies."""


def through_hosts(rtt_ms: Values, base_ms: float, draw: np.random.Generator) -> Values:
    """A run as a prober on real hosts would see it; what hosts these are is drawn too.

    Args:
        rtt_ms: as simulated, NaN where there is none.
        base_ms: of the empty path, below which no dip goes.
        draw: of everything.
    """

    def between(ends: tuple[float, float]) -> float:
        return math.exp(draw.uniform(math.log(ends[0]), math.log(ends[1])))

    size = len(rtt_ms)
    late = draw.random(size) < draw.uniform(*LATE_SHARE)
    dips = late * draw.exponential(between(LATE_MS), size)
    seen = rtt_ms - np.minimum(dips, np.maximum(rtt_ms - base_ms, 0.0))
    seen += draw.exponential(between(DELAY_MS), size)
    busy = draw.random(size) < between(BUSY_SHARE)
    seen += busy * draw.exponential(between(BUSY_MS), size)
    if draw.random() < LOSSY:
        seen[draw.random(size) < between(LOSS)] = np.nan
    return seen
