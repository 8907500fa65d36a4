"""Work 001, figure 2.5: the round-trip time beside a constant CUBIC stream and a square wave."""

import csv
from collections.abc import Sequence
from typing import cast

from studies.rig.dumbbell import traffic
from studies.works.row import Outcome, Row, Verdict
from studies.works.w001.ch4_shared_network import BUFFER_BYTES, MOVERS, RATES, RTT_NS, scenario
from weir import Time
from weir.runs.point import Json, Point
from weir.sim.core import simulated

_SEEDS = (1, 2, 3, 4, 5)


def round_trips(seconds: int, seed: int) -> Json:
    """The least and the largest round-trip time in ms, looked at every 10 ms."""
    late = seed / 7
    flows = [traffic("foreground 0", MOVERS["iPerf"], 0)]
    for number in range(seconds // 20 + 1):
        begin_s = 10 + late + 20 * number
        flows.append(traffic(f"background {number}", MOVERS["iPerf"], begin_s, begin_s + 10))
    duration = Time(f"{seconds} s")
    begun = [flow for flow in flows if flow.start < duration]
    answer = simulated(scenario(1, "FIFO", begun, seed), duration, trace=True)
    queued = [
        int(look["queue_bytes"])
        for look in csv.DictReader(answer["traces"]["queues"].splitlines())
        if look["way"] == "forward"
    ]
    return [(RTT_NS / 1e6 + size * 8e3 / RATES[1]) for size in (min(queued), max(queued))]


def _judge_round_trips(results: Sequence[Json]) -> Outcome:
    least, most = zip(*cast(Sequence[tuple[float, float]], results), strict=True)
    full_ms = BUFFER_BYTES * 8e3 / RATES[1]
    ours = f"RTT {min(least):.1f} to {max(most):.1f} ms; a full queue adds {full_ms:.1f} ms"
    holds = min(least) < 130 and abs(max(most) - 228) < 3
    return Outcome(ours, Verdict.MATCHES if holds else Verdict.DIFFERS)


def _round_trip_points(quick: bool) -> list[Point]:
    seconds, seeds = (60, (1,)) if quick else (300, _SEEDS)
    return [Point(round_trips, {"seconds": seconds, "seed": seed}) for seed in seeds]


ROWS = [
    Row(
        "001-fig-2.5",
        "RTT over five minutes of congestion, 128 ms path",
        "RTT between 128 and 228 ms: queueing adds up to 100 ms",
        _round_trip_points,
        _judge_round_trips,
    ),
]
