"""The packet simulator beside ns-3 on the same dumbbell, and what it costs as it grows.

Ten greedy CUBIC flows with SACK share one bottleneck of 20 ms round trip. The programs take turns;
speed is packets that left the bottleneck per second of processor time of the event loop, building
the network not counted. ns-3 has no DualPI2: there the comparison is with its FQ-CoDel.

    make bench NAME=packet
"""

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches import cargo, harness
from benches.harness import row
from benches.validation import ns3

_DUMBBELL = Path("target/release/examples/dumbbell")
_FIFO = {"discipline": "fifo", "limit": {"packets": 1000}}
_DROP_TAIL = {"discipline": "fifo", "limit": {"bytes": 6 * 2**20}}
_GBIT_PER_S = 10**9
_REPEATS = 10
"""One run of ours takes a tenth of a second, too little on a machine that others share."""
_RTT_MS = 20


@dataclass(frozen=True)
class Setting:
    """A queue at the bottleneck, and ns-3's counterpart."""

    name: str
    queue: dict[str, Any]
    peer: str


SETTINGS = [
    Setting("FIFO", _FIFO, "fifo"),
    Setting("FQ-CoDel", {"discipline": "fq-codel"}, "fq-codel"),
    Setting("DualPI2", {"discipline": "dual-pi2"}, "fq-codel"),
]


def run() -> list[dict[str, Any]]:
    """The rows of `out/bench/packet.json`."""
    cargo.build_examples("weir-packet")
    return peer_rows() + growth_rows()


def notes() -> dict[str, Any]:
    """The peer's version."""
    return {"packages": {"ns3": ns3.VERSION}}


def peer_rows() -> list[dict[str, Any]]:
    """Weir and ns-3 in turns."""
    rows = []
    rates = [_GBIT_PER_S // 10] if harness.quick() else [_GBIT_PER_S // 10, _GBIT_PER_S]
    for rate in rates:
        seconds = 10 if rate < _GBIT_PER_S else 3
        for setting in SETTINGS:
            ours, theirs = [], []
            for _ in range(1 if harness.quick() else 3):
                answers = [_ours(10, rate, seconds, setting.queue) for _ in range(_REPEATS)]
                cpu_s = sum(answer["cpu_s"] for answer in answers)
                ours.append(sum(answer["packets"] for answer in answers) / cpu_s)
                answer = ns3.simulate(
                    flows=",".join(["cubic"] * 10), rate=rate, rtt_ns=20_000_000,
                    buffer=1_500_000, queue=setting.peer, seconds=seconds, ecn=True,
                )  # fmt: skip
                theirs.append(answer["packets_per_cpu_s"])
            metric = (
                f"bottleneck packets per processor second, 10 CUBIC flows, "
                f"{rate // 10**6} Mbit/s, {setting.name}"
            )
            peer = f"ns-3, {setting.peer}"
            compared = (statistics.median(ours), peer, statistics.median(theirs))
            rows.append(row(metric, "1/s", *compared, ours))
            print(f"{metric}: {ours[0]:,.0f} against {theirs[0]:,.0f}")
    return rows


def growth_rows() -> list[dict[str, Any]]:
    """More flows, more bandwidth, more time: Weir alone."""
    rows = []
    cases = [(flows, 10 * _GBIT_PER_S, 1) for flows in (10, 100, 1_000)]
    if not harness.quick():
        cases.append((1, _GBIT_PER_S // 2, 3_600))
    for flows, rate, seconds in cases:
        # The hour is on the path of 001-spec, with the buffer of its switches.
        rtt_ms, queue = (65, _DROP_TAIL) if seconds > 1 else (_RTT_MS, _FIFO)
        answer = _ours(flows, rate, seconds, queue, rtt_ms)
        setting = (
            f"{flows:,} flows, {rate / _GBIT_PER_S:g} Gbit/s, {rtt_ms} ms, {seconds:,} s simulated"
        )
        speed = answer["packets_per_cpu_s"]
        metric = f"growth, bottleneck packets per processor second, {setting}"
        rows.append(row(metric, "1/s", speed, None, None, 1))
        metric = f"growth, processor seconds, {setting}"
        rows.append(row(metric, "s", answer["cpu_s"], None, None, 1))
        print(f"{setting}: {speed:,.0f} packets/s")
    return rows


def _ours(
    flows: int, rate_bps: int, seconds: int, queue: dict[str, Any], rtt_ms: int = _RTT_MS
) -> dict[str, float]:
    sizes = [str(flows), str(rate_bps), str(seconds)]
    setting = ["cubic:ecn=on", json.dumps(queue), str(rtt_ms)]
    return cargo.answer([str(_DUMBBELL), *sizes, *setting])
