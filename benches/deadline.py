"""Deadline flows on one link: what a decision costs, and a run of work 002 at its length.

The figures are taken in Rust (`crates/schedule/benches/deadlines.rs`), in processor time of one
core: a decision on 10 to 10 000 active flows of which the link can serve about half in time, and
10^6 slots of 40 servers at full load. No other implementation of these policies is public.
"""

import statistics
from typing import Any

from benches import cargo
from benches.harness import quick, row


def run() -> list[dict[str, Any]]:
    """A row per policy and number of active flows, then one per policy for the run."""
    rounds = [cargo.samples("weir-schedule", "deadlines") for _ in range(1 if quick() else 3)]
    rows = []
    for samples in zip(*rounds, strict=True):
        first = samples[0]
        key = "decision_us" if "decision_us" in first else "run_s"
        values = [float(sample[key]) for sample in samples]
        what = f"{first['active']} active" if key == "decision_us" else f"{first['slots']} slots"
        metric = f"deadline, {'decision' if key == 'decision_us' else 'run'}, {what}"
        metric += f", {first['policy']}"
        unit = "us" if key == "decision_us" else "s"
        rows.append(row(metric, unit, statistics.median(values), None, None, values))
    return rows
