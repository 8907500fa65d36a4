"""Weir's own calendar: what a decision costs while plans are made, on G-scale.

The figures are taken in Rust (`crates/schedule/benches/planning.rs`) by processor time: 30 to
10 000 transfers are under way when requests begin to come. With the fewest, refusals are tried
again with everything planned anew; with many that would take too long and is left out.
"""

import statistics
from typing import Any

from benches import cargo
from benches.harness import quick, row


def run() -> list[dict[str, Any]]:
    """Two rows, median and 99th percentile, per policy and number of active transfers."""
    rounds = [cargo.samples("weir-schedule", "planning") for _ in range(1 if quick() else 3)]
    rows = []
    for samples in zip(*rounds, strict=True):
        first = samples[0]
        for percentile in ("p50", "p99"):
            values = [float(sample[f"{percentile}_us"]) for sample in samples]
            metric = f"planning, decision, {first['active']} active, {first['policy']}, "
            median = statistics.median(values)
            rows.append(row(metric + percentile, "us", median, None, None, values))
    return rows
