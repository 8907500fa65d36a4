"""Work 002, chapter 4: what its policies gain on average over all sweeps of chapter 3."""

from functools import partial

from studies.rig.statistics import mean
from studies.works.row import Outcome, Verdict
from studies.works.w002.ch3_deadline import GROUPS, Curves, Figure, curves_row, listed


def averages(*runs: Curves) -> Outcome:
    """What PEQ and stateful D3 gain on average over all sweeps."""
    pairs = {
        "PEQ - PDQ": ("peq", "pdq"),
        "PEQ - stateful D3": ("peq", "d3-stateful"),
        "PEQ - D3 in fixed order": ("peq", "d3-fixed-order"),
        "PEQ - D3 in random order": ("peq", "d3"),
        "stateful D3 - D3 in random order": ("d3-stateful", "d3"),
        "Weir - PEQ": ("weir", "peq"),
        "Weir - PDQ": ("weir", "pdq"),
    }
    by_number = {run.figure.number: run for run in runs}
    parts, means = [], {}
    for name, (above, below) in pairs.items():
        groups = []
        for figures in GROUPS.values():
            leads = [lead for f in figures for lead, _ in by_number[f].lead(above, below)]
            groups.append(mean(leads))
        means[name] = mean(groups)
        parts.append(f"{name} {listed(groups, 1)}")
    ours = f"points over the sweeps of {', '.join(GROUPS)}: {'; '.join(parts)}"
    close = 0 < means["PEQ - PDQ"] < 2 and 10 < means["PEQ - stateful D3"] < 20
    close = close and 15 < means["stateful D3 - D3 in random order"] < 20
    reason = (
        "both 15-20 claims cannot hold against the same D3: PEQ's fits D3 with state or in fixed "
        "order, stateful D3's fits D3 in random order"
    )
    return Outcome(ours, Verdict.TREND_HOLDS if close else Verdict.DIFFERS, reason)


ROWS = [
    curves_row(
        "002-ch-4",
        "What PEQ and stateful D3 gain on average",
        "PEQ over PDQ 1-2 %, PEQ over D3 15-20 %, Statefull D3 over D3 15-20 %",
        averages,
        *(partial(Figure.of, number) for group in GROUPS.values() for number in group),
    ),
]
