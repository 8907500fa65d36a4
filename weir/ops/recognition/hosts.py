"""What hosts and other traffic add to round-trip times that were simulated without them.

The ranges are choices, made wide: an idle host answers within tens of microseconds, a loaded
virtual machine within fractions of a millisecond, and now and then any is busy for some. A delay is
never negative.
"""

import math

import numpy as np

from weir.ops.recognition.features import Values

DELAY_MS = (0.01, 0.3)
"""Mean of what is added to every reply."""
BUSY_SHARE = (1e-4, 0.02)
"""Of replies that wait for a busy host."""
BUSY_MS = (0.5, 8.0)
"""Mean of how long."""
LOSSY = 0.2
"""Share of runs in which replies are lost that no queue dropped."""
LOSS = (1e-3, 0.03)
"""Of their replies."""


def through_hosts(rtt_ms: Values, draw: np.random.Generator) -> Values:
    """A run as a prober on real hosts would see it; what hosts these are is drawn too."""

    def between(ends: tuple[float, float]) -> float:
        return math.exp(draw.uniform(math.log(ends[0]), math.log(ends[1])))

    size = len(rtt_ms)
    seen = rtt_ms + draw.exponential(between(DELAY_MS), size)
    busy = draw.random(size) < between(BUSY_SHARE)
    seen += busy * draw.exponential(between(BUSY_MS), size)
    if draw.random() < LOSSY:
        seen[draw.random(size) < between(LOSS)] = np.nan
    return seen
