"""How long a path is probed: until it is known whether BBR is there, or for ten seconds."""

import math

from weir.congestion.choice.decide import Recognised
from weir.congestion.cycle.settings import Recogniser

SURE = 0.97
"""When BBR is there, or not there, with this probability, the path is probed no longer."""
PROBE_MAX_S = 10.0
"""Then it is decided with the doubt that is left."""


def is_sure(recognised: Recognised) -> bool:
    """Whether to probe no longer."""
    return recognised.known and max(recognised.bbr, 1 - recognised.bbr) >= SURE


def looks(recogniser: Recogniser) -> list[int]:
    """After how many samples to ask: at each length that it knows, and every second in between.

    Most that is not sure after five seconds is a second or two later, when it looks at the latest
    five: each second of silence that is saved is sent in.
    """
    shortest = recogniser.seconds[0]
    longest = max(length for length in recogniser.seconds if length <= max(PROBE_MAX_S, shortest))
    known = {length for length in recogniser.seconds if length <= longest}
    between = {shortest + second for second in range(math.ceil(longest - shortest))}
    return sorted({round(length * recogniser.rate_hz) for length in known | between})
