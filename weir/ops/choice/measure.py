"""Makes the interaction table: each control beside each background, by the packet simulator.

    python -m weir.ops.choice.measure weir/ops/choice/interaction.json

The path has 100 Mbit/s and a drop-tail queue; what decides is the queue in products of rate and
delay, and the delay itself. The background has been there for ten seconds when one's own stream
begins; what each gets is measured over the two minutes after that. A few minutes on two cores.
"""

import argparse
import itertools
import json
import multiprocessing
import os
from collections.abc import Iterator
from typing import Any

from weir import __version__
from weir._core import simulate_packets
from weir.ops.choice.interaction import Interaction, Meeting
from weir.ops.recognition.classes import CLASSES

CONTROLS = ("bbr", "cubic", "reno")
RATE_BPS = 100_000_000
RTTS_S = (0.02, 0.065, 0.15)
DEPTHS_BDP = (0.5, 1.0, 2.0, 4.0)
SEEDS = (1, 2)
_HEAD_START_S = 10
_SECONDS = 120
_BACKGROUNDS = {mixture.label: mixture.controls for mixture in CLASSES}


def meetings() -> Iterator[tuple[str, str, float, float]]:
    """Background, control, delay and queue of each."""
    yield from itertools.product(_BACKGROUNDS, CONTROLS, RTTS_S, DEPTHS_BDP)


def meet(background: str, control: str, rtt_s: float, queue_bdp: float) -> Meeting:
    """One meeting, the mean of `SEEDS`."""
    runs = [_goodputs(background, control, rtt_s, queue_bdp, seed) for seed in SEEDS]
    *others, own = (round(sum(shares) / len(shares), 4) for shares in zip(*runs, strict=True))
    return Meeting(background, control, rtt_s, queue_bdp, own, tuple(others))


def _goodputs(
    background: str, control: str, rtt_s: float, queue_bdp: float, seed: int
) -> list[float]:
    """Shares of the path's rate, one's own last, from when one's own stream begins."""
    streams = [
        _stream(f"background {number}", name, number / 10)
        for number, name in enumerate(_BACKGROUNDS[background])
    ]
    answer = json.loads(
        simulate_packets(
            json.dumps(
                {
                    "seed": seed,
                    "duration_ns": (_HEAD_START_S + _SECONDS) * 10**9,
                    "warmup_ns": _HEAD_START_S * 10**9,
                    "nodes": [{"name": "west"}, {"name": "east"}],
                    "links": [_link(rtt_s, queue_bdp)],
                    "traffic": [*streams, _stream("own", control, _HEAD_START_S)],
                }
            )
        )
    )
    return [flow["goodput_bps"] / RATE_BPS for flow in answer["flows"]]


def _stream(name: str, control: str, start_s: float) -> dict[str, Any]:
    application = {"kind": "bulk", "tcp": {"congestion": control}}
    start_ns = round(start_s * 1e9)
    ends = {"from": "west", "to": "east"}
    return {"name": name, **ends, "start_ns": start_ns, "application": application}


def _link(rtt_s: float, queue_bdp: float) -> dict[str, Any]:
    queue_bytes = max(3000, round(queue_bdp * RATE_BPS * rtt_s / 8))
    line = {
        "rate_bps": RATE_BPS,
        "delay_ns": round(rtt_s * 1e9 / 2),
        "queue": {"discipline": "fifo", "limit": {"bytes": queue_bytes}},
    }
    return {"name": "path", "ends": ["west", "east"], "forward": line, "backward": line}


def main() -> None:
    """Makes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="where it goes")
    args = parser.parse_args()
    with multiprocessing.Pool(os.cpu_count()) as pool:
        found = pool.starmap(meet, list(meetings()), chunksize=1)
    provenance = {
        "made_by": "weir.ops.choice.measure",
        "weir": __version__,
        "rate_bps": RATE_BPS,
        "seeds": SEEDS,
        "seconds": _SECONDS,
    }
    Interaction(found, provenance).save(args.file)


if __name__ == "__main__":
    main()
