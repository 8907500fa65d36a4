"""What the backgrounds `app` and `udp` draw, in a lab and in the simulator.

An application limits its TCP: messages or objects take a fifth to seven tenths of the link in the
mean. UDP is a square wave above the link's rate.
"""

import math
import random
from typing import NamedTuple

from weir.congestion.recordings import NetworkPath


class SquareWave(NamedTuple):
    """UDP that is on at a rate, then silent, and again."""

    rate_bps: int
    on_ns: int
    off_ns: int


def draw_load_bps(path: NetworkPath, draw: random.Random) -> float:
    """The mean rate of an application."""
    return draw.uniform(0.2, 0.7) * path.rate_bps


def draw_control(draw: random.Random) -> str:
    """The congestion control of an application."""
    return draw.choice(("cubic", "cubic", "bbr"))


def draw_message_bytes(draw: random.Random) -> float:
    """The size of an application's messages."""
    return draw_between(draw, 2e5, 3e6)


def draw_square_wave(path: NetworkPath, draw: random.Random) -> SquareWave:
    """UDP that leaves a queue for a prober to see.

    What is constantly below the link's rate leaves none, and what is constantly above it one that
    is always full: to a prober both look like an idle path, the latter like a longer one.
    """
    rate_bps = round(path.rate_bps * draw.uniform(1.05, 2.0))
    on_ns, off_ns = (round(draw_between(draw, 0.2, 3.0) * 1e9) for _ in range(2))
    return SquareWave(rate_bps, on_ns, off_ns)


def draw_between(draw: random.Random, least: float, most: float) -> float:
    """A number that is uniform on a logarithmic scale."""
    return math.exp(draw.uniform(math.log(least), math.log(most)))
