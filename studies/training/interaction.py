"""Makes the interaction table: each control beside each background, by the packet simulator.

The path has 100 Mbit/s and a drop-tail queue; what decides is the queue in products of rate and
delay, and the delay itself. The background has been there for ten seconds when one's own stream
begins; what each gets is measured over the two minutes after that. `weir ops measure` makes the
table, in some minutes on two cores.
"""

import itertools
import multiprocessing
import os
import random
from collections.abc import Iterator

from studies.rig.dumbbell import bulk
from studies.training.grid import background as drawn
from studies.training.simulated import along
from weir import Time, __version__
from weir.congestion.choice.interaction import Interaction, Meeting
from weir.congestion.classify.classes import BACKGROUNDS
from weir.congestion.recordings import NetworkPath
from weir.sim.core import simulated

CONTROLS = ("bbr", "cubic")
"""The controls that Weir knows enough of to choose between them."""
RATE_BPS = 100_000_000
RTTS_S = (0.02, 0.065, 0.15)
DEPTHS_BDP = (0.5, 1.0, 2.0, 4.0)
SEEDS = (1, 2)
HEAD_START_S = 10
SECONDS = 120


def meetings() -> Iterator[tuple[str, str, float, float, int]]:
    """Background, control, delay, queue and seed of each."""
    labels = [background.label for background in BACKGROUNDS]
    yield from itertools.product(labels, CONTROLS, RTTS_S, DEPTHS_BDP, SEEDS)


def meet(background: str, control: str, rtt_s: float, queue_bdp: float, seed: int) -> Meeting:
    """One meeting; what the background's label leaves open follows from the seed."""
    queue_bytes = max(3000, round(queue_bdp * RATE_BPS * rtt_s / 8))
    path = NetworkPath(RATE_BPS, round(rtt_s * 1e9), queue_bytes)
    # The same streams beside each control.
    streams = drawn(background, path, random.Random(f"meeting {background} {seed}"))
    own = bulk("own", control, HEAD_START_S)
    flows = simulated(
        along(path, [*streams, own], seed),
        Time(f"{HEAD_START_S + SECONDS} s"),
        warmup=Time(f"{HEAD_START_S} s"),
        sample=Time("1 s"),
    )["flows"]
    *others, mine = (round(flow["goodput_bps"] / RATE_BPS, 4) for flow in flows)
    return Meeting(background, control, rtt_s, queue_bdp, mine, tuple(others))


def measured() -> Interaction:
    """The table, from every meeting of a control and a background on every path."""
    with multiprocessing.Pool(os.cpu_count()) as pool:
        found = pool.starmap(meet, list(meetings()), chunksize=1)
    provenance = {
        "made_by": "weir ops measure",
        "weir": __version__,
        "rate_bps": RATE_BPS,
        "seeds": SEEDS,
        "seconds": SECONDS,
    }
    return Interaction(found, provenance)
