"""How well the interaction table foretells meetings on paths that it does not have.

Paths and backgrounds are drawn anew, and each control meets the background there. What the table
says of it is compared with that, by how much is known of the path, and so is the choice: right is
the control whose meeting was worth most, or one that was worth hardly less. `weir ops
assess-choice` prints the table.
"""

import functools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from studies.rig.limited import draw_between
from studies.training.interaction import (
    CONTROLS,
    HEAD_START_S,
    OWN,
    Pairing,
    meeting_of,
    side_by_side,
    simulate,
)
from weir import Time
from weir.congestion.choice import Interaction, Meeting
from weir.congestion.choice.decide import HYSTERESIS, IDLE, expectation, worth
from weir.congestion.choice.known import Known
from weir.congestion.choice.reach import Reach
from weir.congestion.classify.classes import ALL_LABELS
from weir.congestion.options import FAIRNESS
from weir.congestion.path import PathReader, PathState
from weir.probe.tcp_info import TcpInfo

RATES_BPS = (10e6, 200e6)
RTTS_S = (0.003, 0.3)
DEPTHS_BDP = (0.5, 4.0)
LISTENS_S = 10
"""So long the path is seen before it is chosen."""
_FIRST_SEED = 1_000  # the table has none of these
_LOSES = 0.9  # a window that shrinks to less of what it was has lost a packet
_LOOK = Time("50 ms")
_UNBOUNDED = Reach(None, "")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A path, and what each control got there.

    Attributes:
        pairing: the path, the background, and one control of those that met it.
        met: by control.
        seen: what a stream of CUBIC had seen of the path when it had to be chosen.
    """

    pairing: Pairing
    met: Mapping[str, Meeting]
    seen: PathState | None


def drawn(seed: int, number: int) -> Drawn:
    """The setting of this number."""
    draw = random.Random(f"choice {seed} {number}")
    labels = [label for label in ALL_LABELS if label != IDLE]
    rate, rtt, depth = (draw_between(draw, *axis) for axis in (RATES_BPS, RTTS_S, DEPTHS_BDP))
    first = Pairing(
        labels[number % len(labels)],
        "cubic",
        round(rate),
        round(rtt, 6),
        round(depth, 3),
        _FIRST_SEED * seed + number,
    )
    found = {
        control: simulate(first._replace(control=control), sample=_LOOK, trace=control == "cubic")
        for control in CONTROLS
    }
    met = {
        control: meeting_of(first._replace(control=control), one) for control, one in found.items()
    }
    return Drawn(first, met, _seen(found["cubic"]["traces"]["connections"]))


def _seen(trace: str) -> PathState | None:
    """What the counters of one's own stream tell; losses are seen by its window alone."""
    reader, window, again, least_ns = PathReader(), 0, 0, math.inf
    for row in trace.splitlines()[1:]:
        time_ns, name, _, window_now, in_flight, srtt_ns, delivered = row.split(",")
        at_s = int(time_ns) / 1e9 - HEAD_START_S
        if name != OWN or not 0 <= at_s <= LISTENS_S or not int(srtt_ns):
            continue
        again += int(window_now) < _LOSES * window
        window, least_ns = int(window_now), min(least_ns, int(srtt_ns))
        told: dict[str, Any] = {one.name: None for one in fields(TcpInfo)} | {
            "srtt_ns": int(srtt_ns),
            "min_rtt_ns": int(least_ns),
            "mss_bytes": 1448,
            "in_flight_packets": int(in_flight) // 1448,
            "delivered_packets": int(delivered) // 1448,
            "retransmitted_packets": again,
            "recovering": False,
            "starting": not again,
        }
        reader.sees(at_s, [TcpInfo(**told)])
    return reader.state


def _known(one: Drawn) -> Iterator[tuple[str, Known]]:
    """By how much of the path is known."""
    path = one.pairing
    rate, depth = (path.rate_bps, path.rate_bps), (path.queue_bdp, path.queue_bdp)
    yield "nothing", Known()
    yield "its round trip", Known(rtt_s=path.rtt_s)
    yield "its round trip and rate", Known(rate, path.rtt_s)
    yield "all of it", Known(rate, path.rtt_s, depth)
    yield "what CUBIC's counters tell", Known.of(one.seen)


def assess(
    table: Interaction, seed: int, count: int, tell: Callable[[int], None] = lambda _: None
) -> Iterator[str]:
    """Lines of Markdown.

    Args:
        table: what foretells.
        seed: of the paths.
        count: how many.
        tell: told of how many there are.
    """
    found = []
    for _, one in side_by_side(functools.partial(drawn, seed), range(count)):
        found.append(one)
        tell(len(found))
    yield "| known of the path | own share, off by | Jain's index, off by | right | worth lost |"
    yield "|---|---|---|---|---|"
    for way in dict(_known(found[0])):
        yield _line(way, [(one, dict(_known(one))[way]) for one in found], table)


def _line(way: str, cases: Sequence[tuple[Drawn, Known]], table: Interaction) -> str:
    own, index, lost = [], [], []
    for one, known in cases:
        likely = {one.pairing.background: 1.0}
        said = {
            control: expectation(table, known, likely, control, FAIRNESS, _UNBOUNDED)
            for control in CONTROLS
        }
        expected = {control: it for control, it in said.items() if it}
        own += [abs(expected[control].own - met.own) for control, met in one.met.items()]
        index += [abs(expected[control].jain - met.jain) for control, met in one.met.items()]
        worths = {
            control: worth(_UNBOUNDED.outcome(met), FAIRNESS) for control, met in one.met.items()
        }
        # Under CUBIC, which is left for what is worth more by a margin.
        gain = expected["bbr"].worth - expected["cubic"].worth
        lost.append(max(worths.values()) - worths["bbr" if gain > HYSTERESIS else "cubic"])
    right = sum(one <= HYSTERESIS for one in lost)
    return (
        f"| {way} | {np.mean(own):.3f} | {np.mean(index):.3f} "
        f"| {right} of {len(lost)} | {np.mean(lost):.3f} |"
    )
