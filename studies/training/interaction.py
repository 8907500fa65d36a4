"""Makes the interaction table: each control beside each background, by the packet simulator.

The path has a drop-tail queue; what decides is its rate, its delay, and the queue in products of
both. The background has been there for ten seconds when one's own stream begins; what each gets is
measured over the two minutes after that. Loss at random is no axis: what it does follows from the
response functions (`weir.congestion.choice.reach`), as the appendix of docs/ops.md shows.

`weir ops measure FILE` goes on where FILE ends: what it holds is not simulated again, so that a new
background, or a new rate, costs its own meetings alone. A few that it holds are, to see whether
this is the same simulator.
"""

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from studies.rig.dumbbell import bulk
from studies.training.grid import STARTS_S
from studies.training.grid import background as drawn
from studies.training.simulated import along
from weir import Time, __version__
from weir.congestion.choice.interaction import Interaction, Meeting
from weir.congestion.classify.classes import ALL_LABELS
from weir.congestion.recordings import NetworkPath
from weir.errors import BadInput
from weir.sim.core import simulated
from weir.sim.traffic import SimulatedTraffic

_In = TypeVar("_In")
_Out = TypeVar("_Out")

CONTROLS = ("bbr", "cubic")
"""The controls that Weir knows enough of to choose between them."""
RATES_BPS = (10_000_000, 32_000_000, 100_000_000)
RTTS_S = (0.001, 0.005, 0.02, 0.065, 0.15, 0.3)
DEPTHS_BDP = (0.5, 1.0, 2.0, 4.0)
SEEDS = (1, 2)
TWICE_S = (0.02, 0.065, 0.15)
"""Delays of most paths, on which a background of which something is drawn is drawn twice."""
OF_A_KIND = {"bbr3": (1, 3)}
"""How many streams of a kind there are, by the seed."""
OWN = "own"
HEAD_START_S = 10
SECONDS = 120
_CHECKED = 24  # meetings that FILE holds, simulated again
_SAVES_S = 10.0


class Pairing(NamedTuple):
    """Who meets whom where; `seed` decides what the background's label leaves open."""

    background: str
    control: str
    rate_bps: int
    rtt_s: float
    queue_bdp: float
    seed: int = SEEDS[0]


def pairings() -> Iterator[Pairing]:
    """Those of the table, what is soon simulated first."""
    labels = [*ALL_LABELS, *OF_A_KIND]
    for seed, rate_bps in itertools.product(SEEDS, RATES_BPS):
        for background, control, rtt_s, depth in itertools.product(
            labels, CONTROLS, RTTS_S, DEPTHS_BDP
        ):
            if seed == SEEDS[0] or rtt_s in TWICE_S:
                yield Pairing(background, control, rate_bps, rtt_s, depth, seed)


def meet(pairing: Pairing) -> Meeting:
    """One meeting."""
    return meeting_of(pairing, simulate(pairing))


def simulate(pairing: Pairing, **more: Any) -> dict[str, Any]:
    """What the simulator finds of a meeting, one's own stream the last; `more` is for it."""
    path = path_of(pairing)
    own = bulk(OWN, pairing.control, HEAD_START_S)
    return simulated(
        along(path, [*_beside(pairing, path), own], pairing.seed),
        Time(f"{HEAD_START_S + SECONDS} s"),
        warmup=Time(f"{HEAD_START_S} s"),
        **{"sample": Time("1 s")} | more,
    )


def _beside(pairing: Pairing, path: NetworkPath) -> Sequence[SimulatedTraffic]:
    """The background, the same beside each control."""
    draw = random.Random(f"meeting {pairing.background} {pairing.seed}")
    if (counts := OF_A_KIND.get(pairing.background)) is None:
        return drawn(pairing.background, path, draw)
    return [
        bulk(f"background {number}", pairing.background, draw.uniform(0, STARTS_S))
        for number in range(counts[SEEDS.index(pairing.seed)])
    ]


def meeting_of(pairing: Pairing, found: dict[str, Any]) -> Meeting:
    """What each got."""
    *others, own = (round(flow["goodput_bps"] / pairing.rate_bps, 4) for flow in found["flows"])
    background, control, rate_bps, rtt_s, depth, seed = pairing
    return Meeting(background, control, rate_bps, rtt_s, depth, own, tuple(others), seed)


def path_of(pairing: Pairing) -> NetworkPath:
    """The path of a meeting; its queue holds two packets at least."""
    bits = pairing.queue_bdp * pairing.rate_bps * pairing.rtt_s
    return NetworkPath(pairing.rate_bps, round(pairing.rtt_s * 1e9), max(3000, round(bits / 8)))


def held(file: Path) -> dict[Pairing, Meeting]:
    """The meetings that a file holds, under these settings; nothing where there is no file.

    Raises:
        BadInput: it is no table, or one of other settings, or of a simulator that says otherwise.
    """
    if not file.exists():
        return {}
    table = Interaction.load(file)
    for name, value in _settings().items():
        if table.provenance.get(name) != value:
            raise BadInput(
                f"{file} was measured with {name} = {table.provenance.get(name)}, "
                f"this Weir measures with {value}: name a new file"
            )
    found = {_pairing(meeting): meeting for meeting in table.meetings}
    soon = sorted(found, key=lambda one: (one.rate_bps, random.Random(str(one)).random()))
    for pairing in soon[:_CHECKED]:
        if meet(pairing) != found[pairing]:
            raise BadInput(f"{file} is of a simulator that finds otherwise: name a new file")
    return found


def measure(file: Path, tell: Callable[[str], None] = lambda _: None) -> Interaction:
    """The table, from every meeting of a control and a background on every path.

    Args:
        file: what it holds is not simulated again; it is written as meetings come.
        tell: told how far it is.

    Raises:
        BadInput: see `held`.
        OSError: it cannot be written.
    """
    found, wanted = held(file), list(pairings())
    left = [pairing for pairing in wanted if pairing not in found]
    tell(f"{len(wanted) - len(left)} meetings of {len(wanted)} are held")
    saved_s = time.monotonic()
    for number, (pairing, meeting) in enumerate(side_by_side(meet, left), 1):
        found[pairing] = meeting
        if time.monotonic() - saved_s > _SAVES_S:
            saved_s = time.monotonic()
            _table(found).save(file)
            tell(f"{number} of {len(left)} are simulated")
    table = _table(found)
    table.save(file)
    return table


def side_by_side(
    simulates: Callable[[_In], _Out], all_of: Sequence[_In]
) -> Iterator[tuple[_In, _Out]]:
    """What comes of each, in their order, on as many processors as this process may use.

    The simulator runs beside Python's own code, so threads do.
    """
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        yield from zip(all_of, pool.map(simulates, all_of), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


def _table(found: dict[Pairing, Meeting]) -> Interaction:
    made_by = {"made_by": "weir ops measure", "weir": __version__}
    return Interaction([found[pairing] for pairing in sorted(found)], made_by | _settings())


def _settings() -> dict[str, int]:
    """What a meeting depends on beside its pairing."""
    return {"head_start_s": HEAD_START_S, "seconds": SECONDS}


def _pairing(meeting: Meeting) -> Pairing:
    return Pairing(
        meeting.background,
        meeting.control,
        round(meeting.rate_bps),
        meeting.rtt_s,
        meeting.queue_bdp,
        meeting.seed,
    )
