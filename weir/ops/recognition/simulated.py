"""What a prober would see beside each mixture of background traffic, from the packet simulator.

The path is the work's from chapter 5 on: 500 Mbit/s, 65 ms, a drop-tail queue of 6 MiB; the hosts'
own links are faster and left out. Each second ten echo requests leave a millisecond apart, and a
sample is the mean of their round-trip times (001-spec 5.3). Active probing sends bursts along the
same path at the same time; each is a connection of its own, as with the work's iperf3, and ends
with its segment: what is still unsent is not drained (001-spec 8.5).

The simulator's hosts answer in no time. What real ones add is drawn: an exponential time of 0.1 ms
in the mean for each reply.
"""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from weir._core import simulate_packets
from weir.ops.probing.pattern import Pattern
from weir.ops.recognition.classes import CLASSES, LABELS

RATE_BPS = 500_000_000
RTT_NS = 65_000_000
BUFFER_BYTES = 6 * 2**20
PERIOD_NS = 1_000_000_000
REQUESTS = 10
SPACING_NS = 1_000_000
HOST_MS = 0.1

P1 = "C5-B5-C5-S5"
"""The work's probing pattern."""
PASSIVE = None
"""No bursts."""


def rtt_series(
    label: str, pattern: str | None, warmup_s: int, seconds: int, seed: int
) -> list[float]:
    """Round-trip times in ms, one a second.

    Args:
        label: of the background, which runs all the time.
        pattern: bursts that are repeated while it is probed, from the first sample on.
        warmup_s: how long the background has been there before that.
        seconds: as many samples.
        seed: of when the streams of the background start within the first second, of every random
            choice of their controls, and of the hosts' delays.

    Returns:
        The samples; one without a reply repeats the one before it (A-12), in the beginning the
        empty path's.
    """
    mixture = CLASSES[LABELS.index(label)]
    late = random.Random(f"starts {label} {seed}")
    background = [
        _bulk(f"background {number}", control, late.random(), None)
        for number, control in enumerate(mixture.controls)
    ]
    probe = {
        "kind": "echo",
        "interval_ns": PERIOD_NS,
        "requests": REQUESTS,
        "spacing_ns": SPACING_NS,
    }
    end_s = warmup_s + seconds
    traffic = [
        *background,
        *_bursts(pattern, warmup_s, end_s),
        _traffic("probe", probe, warmup_s, end_s),
    ]
    # A second more, in which the last replies come.
    answer = json.loads(simulate_packets(json.dumps(_document(traffic, end_s + 1, seed))))
    return _samples(answer["flows"][-1]["echoes"], random.Random(f"host {label} {seed}"))


def _bursts(pattern: str | None, begin_s: int, end_s: int) -> Iterator[dict[str, Any]]:
    """The pattern's connections, again and again."""
    if pattern is None:
        return
    for turn in Pattern.parse(pattern).turns((end_s - begin_s) * 10**9):
        if (control := turn.segment.congestion) is not None:
            begin, end = (begin_s + at_ns / 1e9 for at_ns in (turn.begin_ns, turn.end_ns))
            yield _bulk(f"burst {turn.number}", control, begin, end)


def _bulk(name: str, control: str, start_s: float, stop_s: float | None) -> dict[str, Any]:
    return _traffic(name, {"kind": "bulk", "tcp": {"congestion": control}}, start_s, stop_s)


def _traffic(
    name: str, application: dict[str, Any], start_s: float, stop_s: float | None
) -> dict[str, Any]:
    return {
        "name": name,
        "from": "west",
        "to": "east",
        "start_ns": round(start_s * 1e9),
        "stop_ns": None if stop_s is None else round(stop_s * 1e9),
        "application": application,
    }


def _document(traffic: Sequence[dict[str, Any]], seconds: int, seed: int) -> dict[str, Any]:
    line = {
        "rate_bps": RATE_BPS,
        "delay_ns": RTT_NS // 2,
        "queue": {"discipline": "fifo", "limit": {"bytes": BUFFER_BYTES}},
    }
    link = {"name": "bottleneck", "ends": ["west", "east"], "forward": line, "backward": line}
    return {
        "seed": seed,
        "duration_ns": seconds * 10**9,
        "sample_ns": 10**9,
        "nodes": [{"name": "west"}, {"name": "east"}],
        "links": [link],
        "traffic": list(traffic),
    }


def _samples(echoes: Sequence[dict[str, Any]], host: random.Random) -> list[float]:
    series, last = [], RTT_NS / 1e6
    for sample in echoes:
        if replies := sample["replies"]:
            # The mean of so many exponential times.
            delay = host.gammavariate(replies, HOST_MS / replies)
            last = round(sample["rtt_ns"] / 1e6 + delay, 3)
        series.append(last)
    return series
