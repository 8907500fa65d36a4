"""Work 000, chapter 3: elephants found in what switches sample, the "source 2" of section 3.3.1.

The work leaves open how (AMB-4). This is the controller's detector (`weir.control.headroom`) on a
mix whose sizes have a heavy tail: which share of the elephants' bytes is marked, and at what price.
"""

import heapq
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from studies.works.row import Outcome, Row, Verdict
from weir._core import estimate
from weir.control.elephant import TCP, Flow
from weir.control.headroom.detector import Detector, Threshold
from weir.control.headroom.sflow import Sample
from weir.runs.point import Json, Point

_PACKET_BYTES = 1_500
# Sizes: Pareto, cut. Rates: log-normal.
_SHAPE, _SMALLEST_BYTES, _LARGEST_BYTES = 1.1, 10_000, 1_000_000_000
_MEDIAN_BPS, _SIGMA, _FASTEST_BPS = 20e6, 1.0, 1e9
_ARRIVALS_PER_S = 500.0
# Large flows at a high rate (000-spec section 3.1).
_ELEPHANT_BYTES, _ELEPHANT_BPS = 10_000_000, 10e6
# From a sample to the mark: the switch's datagram, the controller, the switch's rule. In labs less
# was seen where flows are fast enough to fill datagrams.
_DELAY_S = 0.2
_RATES_MBIT_S = (2, 5, 10, 20, 40)
_ONE_OF = (16, 64, 256)
_DEFAULT = (10, 64)
_MARKED_LEAST, _ENTRIES_MOST = 0.8, 0.01


@dataclass(frozen=True, slots=True)
class _Sent:
    """A flow of the mix, which sends at a constant rate."""

    flow: Flow
    start_s: float
    size_bytes: int
    rate_bps: float

    @property
    def is_elephant(self) -> bool:
        return self.size_bytes >= _ELEPHANT_BYTES and self.rate_bps >= _ELEPHANT_BPS

    def marked_bytes(self, from_s: float) -> float:
        """What it sends from then on."""
        return max(0.0, self.size_bytes - max(0.0, from_s - self.start_s) * self.rate_bps / 8)


def _mix(flows: int, draw: random.Random) -> Iterator[_Sent]:
    start_s = 0.0
    for number in range(flows):
        start_s += draw.expovariate(_ARRIVALS_PER_S)
        size = min(_LARGEST_BYTES, _SMALLEST_BYTES * draw.random() ** (-1 / _SHAPE))
        rate_bps = min(_FASTEST_BPS, _MEDIAN_BPS * math.exp(draw.gauss(0.0, _SIGMA)))
        source = f"10.0.{number >> 20}.1"
        flow = Flow(source, "10.1.0.1", TCP, number % 60_000 + 1, number // 60_000 + 1)
        yield _Sent(flow, start_s, int(size), rate_bps)


def _samples(
    sent: _Sent, number: int, one_of: int, draw: random.Random
) -> Iterator[tuple[float, int, int]]:
    """The times at which packets of a flow are drawn, with its number and their sizes."""
    packet, packets = 0, -(-sent.size_bytes // _PACKET_BYTES)
    while True:
        packet += 1 + int(math.log(1.0 - draw.random()) / math.log(1 - 1 / one_of))
        if packet > packets:
            return
        size = min(_PACKET_BYTES, sent.size_bytes - (packet - 1) * _PACKET_BYTES)
        yield sent.start_s + packet * _PACKET_BYTES * 8 / sent.rate_bps, number, size


def run(*, rate_mbit_s: int, one_of: int, flows: int, seeds: Sequence[int]) -> Json:
    """By seed: the marked share of the elephants' bytes, and of those, who is marked.

    Args:
        rate_mbit_s: from which flows are taken for elephants, over a second.
        one_of: so many packets one is sampled.
        flows: how many the mix has.
        seeds: of the runs.
    """
    return [_run(rate_mbit_s, one_of, flows, seed) for seed in seeds]


def _run(rate_mbit_s: int, one_of: int, flows: int, seed: int) -> dict[str, Json]:
    draw = random.Random(seed)
    mix = list(_mix(flows, draw))
    # One generator a flow: what is drawn of one has no part in another.
    drawn = [
        _samples(sent, number, one_of, random.Random(f"{seed} {number}"))
        for number, sent in enumerate(mix)
    ]
    detector, marked, kept = Detector(Threshold(rate_mbit_s * 1e6)), {}, 0
    for at_s, number, size in heapq.merge(*drawn):
        if number not in marked:
            sample = Sample("edge", mix[number].flow, size, one_of)
            if detector.take(sample, at_s):
                marked[number] = at_s + _DELAY_S
            kept = max(kept, len(detector))
    bytes_marked = {number: mix[number].marked_bytes(at_s) for number, at_s in marked.items()}
    elephants = {number for number, sent in enumerate(mix) if sent.is_elephant}
    of_elephants = sum(bytes_marked.get(number, 0.0) for number in elephants)
    return {
        "recall_bytes": of_elephants / sum(mix[number].size_bytes for number in elephants),
        "recall_flows": len(elephants & marked.keys()) / len(elephants),
        "precision_flows": len(elephants & marked.keys()) / max(1, len(marked)),
        "precision_bytes": of_elephants / max(1.0, sum(bytes_marked.values())),
        "entries": len(marked) / flows,
        "entries_at_a_time": _most_at_a_time(mix, marked) / flows,
        "kept_in_mind": kept,
    }


def _most_at_a_time(mix: Sequence[_Sent], marked: dict[int, float]) -> int:
    """How many rules there are at most, each from its mark to the end of its flow."""
    steps = []
    for number, at_s in marked.items():
        sent = mix[number]
        steps += [(at_s, 1), (max(at_s, sent.start_s + sent.size_bytes * 8 / sent.rate_bps), -1)]
    return max(itertools.accumulate(step for _, step in sorted(steps)), default=0)


def _points(quick: bool) -> list[Point]:
    size: dict[str, Json] = (
        {"flows": 20_000, "seeds": [*range(3_300_001, 3_300_004)]}
        if quick
        else {"flows": 100_000, "seeds": [*range(3_300_001, 3_300_011)]}
    )
    return [
        Point(run, {"rate_mbit_s": rate, "one_of": one_of, **size})
        for rate in _RATES_MBIT_S
        for one_of in _ONE_OF
    ]


def _judge(results: Sequence[Json]) -> Outcome:
    places = list(itertools.product(_RATES_MBIT_S, _ONE_OF))
    by = dict(zip(places, cast(Sequence[list[dict[str, float]]], results), strict=True))

    def mean(place: tuple[int, int], what: str) -> tuple[float, float]:
        return estimate([one[what] for one in by[place]])

    lines = []
    for rate, one_of in places:
        recall, entries, flows, found = (
            100 * mean((rate, one_of), what)[0]
            for what in ("recall_bytes", "entries", "precision_flows", "precision_bytes")
        )
        lines.append(
            f"{rate} Mbit/s, 1 in {one_of}: {recall:.0f} % marked, {entries:.2f} % entries, "
            f"precision {flows:.0f} % of flows, {found:.0f} % of bytes"
        )
    recall, margin = mean(_DEFAULT, "recall_bytes")
    entries, _ = mean(_DEFAULT, "entries")
    holds = recall >= _MARKED_LEAST and entries <= _ENTRIES_MOST
    return Outcome(
        "of elephants' bytes, per flow of the mix: " + "; ".join(lines),
        Verdict.OURS if holds else Verdict.DIFFERS,
        "" if holds else "at 10 Mbit/s and 1 in 64: 80 % marked with 1 % entries was wanted",
        f"marked at {_DEFAULT[0]} Mbit/s, 1 in {_DEFAULT[1]}: {100 * recall:.1f} ± "
        f"{100 * margin:.1f} %",
    )


ROWS = [
    Row(
        "000-own-3.3-found",
        "Elephants found in sampled packets: marked bytes and rules, over thresholds",
        "not published: no detector is given (AMB-4)",
        _points,
        _judge,
    )
]
