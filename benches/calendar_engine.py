"""The calendar's engine: decisions per second and their latency, beside the plain pseudocode.

The figures are taken in Rust (`crates/schedule/benches/admissions.rs`): the published workload on
G-scale in its steady state, a third of the requests refused, completions and 3-minute epochs
included, with 100, 1 000 and 10 000 transfers active. Speeds are per second of processor time on
one core, latencies by the clock on the wall. The peer is the specification's pseudocode
written down as it reads, compiled with the same flags, on the same requests from the same state.
What one decision costs through the Python door is measured here.
"""

import random
import statistics
import time
from typing import Any

from benches import cargo
from benches.harness import quick, row
from weir import Bytes, Time
from weir._core import Calendar, g_scale

PEER = "pseudocode as written (Rust)"


def engine_rows() -> list[dict[str, Any]]:
    """Rows of the engine alone; `benches.calendar` adds those of the service."""
    samples = [cargo.samples("weir-schedule", "admissions") for _ in range(1 if quick() else 3)]
    rows = []
    for settings in zip(*samples, strict=True):
        rows += _rows_of_setting(list(settings))
    rows.append(_door_row())
    return rows


def _rows_of_setting(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def median(key: str) -> float:
        return float(statistics.median(sample[key] for sample in samples))

    first = samples[0]
    mix = ", ".join(
        f"{100 * first[key]:.0f} % {name}"
        for key, name in [
            ("accepted_free", "accepted"),
            ("accepted_paced", "accepted by pacing"),
            ("refused", "refused"),
        ]
    )
    what = f"{first['policy']}, {first['active']} active"
    metric = f"engine, decisions per processor second, {what} ({mix})"
    peer_value = median("pseudocode_per_second")
    speeds = [sample["per_second"] for sample in samples]
    speed = statistics.median(speeds)
    return [
        row(metric, "1/s", speed, PEER, peer_value, speeds),
        *(
            row(f"engine, {name}, {what}", "us", median(key), None, None, len(samples))
            for key, name in [
                ("p50_us", "decision p50"),
                ("p99_us", "decision p99"),
                ("epoch_p50_us", "epoch p50"),
            ]
        ),
    ]


def _door_row() -> dict[str, Any]:
    """Decisions per second through Python, arguments converted and answers read."""
    count = 2_000 if quick() else 50_000
    draw = random.Random(1)
    calendar = Calendar(g_scale(), "local-ljf", Time("3 min"), completions="modelled")
    requests = []
    now_s = 0.0
    for number in range(count):
        now_s += draw.expovariate(0.8)
        source, destination = draw.sample(range(1, 13), 2)
        span_s = draw.expovariate(1 / 3600) + 1e-3
        size = max(1, int(draw.expovariate(1 / 100e6) * span_s / 8))
        deadline = Time.from_ns(int((now_s + span_s) * 1e9))
        now = Time.from_ns(int(now_s * 1e9))
        ends = (str(source), str(destination))
        requests.append((now, str(number), *ends, Bytes.from_count(size), deadline))
    accepted = 0
    start = time.process_time()
    for request in requests:
        while calendar.next_epoch <= request[0]:
            calendar.epoch(calendar.next_epoch)
        accepted += calendar.submit(*request).accepted
    spent = time.process_time() - start
    share = f"{100 * accepted / count:.0f} % accepted"
    metric = f"engine through Python, decisions per processor second, local-ljf ({share})"
    return row(metric, "1/s", count / spent, None, None, 1)
