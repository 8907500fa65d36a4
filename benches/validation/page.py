"""The tables of `docs/validation-appendix.md`, from the results in `docs/validation`."""

import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benches.validation.case import DROP_TAIL, MANAGED, Case
from weir.errors import BadInput

_BEGIN, _END = "<!-- tables: begin -->", "<!-- tables: end -->"
GOODPUT_WITHIN = 0.03
LOSS_WITHIN = QUEUE_WITHIN = 0.15

Runs = list[dict[str, Any]]
Results = dict[str, dict[str, dict[str, dict[str, Any]]]]


def write(folder: Path, page: Path) -> None:
    """Puts the tables between the marks of `page`.

    Raises:
        BadInput: the page has no marks.
    """
    text = page.read_text()
    if _BEGIN not in text or _END not in text:
        raise BadInput(f"{page} lacks {_BEGIN} and {_END}")
    results = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    before, after = text.split(_BEGIN)[0], text.split(_END)[1]
    page.write_text(f"{before}{_BEGIN}\n{tables(results)}{_END}{after}")


def tables(results: Results) -> str:
    """What was counted, and every case: drop-tail queues, then managed ones."""
    known = results.get("kernel", {})
    cases = [case for case in DROP_TAIL if case.name in known]
    managed = [case for case in MANAGED if case.name in known]
    parts = [
        _summary(results, cases),
        _table("Goodput of all flows, Mbit/s", cases, results, _goodput, GOODPUT_WITHIN),
        _table("Packets dropped, of 1 000 offered", cases, results, _loss, LOSS_WITHIN),
        _table("Mean queue, ms", cases, results, _queue, QUEUE_WITHIN),
        _table("CUBIC's share beside another, %", _mixed(cases), results, _share, None),
        "## Queues that are managed\n",
        _summary(results, managed),
        _table("Goodput, Mbit/s", managed, results, _goodput, GOODPUT_WITHIN),
        _table("Dropped, of 1 000 offered", managed, results, _loss, LOSS_WITHIN),
        _table("Marked, of 1 000 passed", _with_ecn(managed), results, _marked, LOSS_WITHIN),
        _table("Mean queue, ms", managed, results, _queue, QUEUE_WITHIN),
        _table("CUBIC's share beside another, %", _mixed(managed), results, _share, None),
    ]
    return "\n".join(parts)


def _mixed(cases: Sequence[Case]) -> list[Case]:
    return [case for case in cases if len(set(case.flows)) > 1]


def _with_ecn(cases: Sequence[Case]) -> list[Case]:
    return [case for case in cases if case.ecn]


def _goodput(case: Case, run: dict[str, Any]) -> float:
    return float(sum(run["goodput_bps"]) / 1e6)


def _loss(case: Case, run: dict[str, Any]) -> float:
    return float(run["loss"] * 1e3)


def _marked(case: Case, run: dict[str, Any]) -> float:
    return float(run["marked"] * 1e3)


def _queue(case: Case, run: dict[str, Any]) -> float:
    return float(run["mean_queue_s"] * 1e3)


def _share(case: Case, run: dict[str, Any]) -> float:
    cubic = [
        bps for kind, bps in zip(case.flows, run["goodput_bps"], strict=True) if kind == "cubic"
    ]
    return float(100 * sum(cubic) / sum(run["goodput_bps"]))


Measure = Callable[[Case, dict[str, Any]], float]


def _values(world: str, case: Case, results: Results, measure: Measure) -> list[float]:
    runs = results.get(world, {}).get(case.name, {})
    return [measure(case, runs[seed]) for seed in sorted(runs)]


def _close(ours: Sequence[float], kernel: Sequence[float], within: float | None) -> bool:
    """Whether our mean is as near as asked, or inside the kernel's own spread."""
    mean = statistics.mean(ours)
    if min(kernel) <= mean <= max(kernel):
        return True
    reference = statistics.mean(kernel)
    return within is not None and abs(mean - reference) <= within * reference


def _table(
    title: str, cases: Sequence[Case], results: Results, measure: Measure, within: float | None
) -> str:
    lines = [
        f"### {title}",
        "",
        "| Case | Weir | kernel, mean (least to most) | Weir / kernel | ns-3 | ns-3 / kernel |",
        "|---|---|---|---|---|---|",
    ]
    for case in cases:
        kernel = _values("kernel", case, results, measure)
        mean = statistics.mean(kernel)
        cells = [case.name]
        for world in ("weir", "ns3"):
            values = _values(world, case, results, measure)
            if not values:
                cells += ["", ""]
                continue
            near = _close(values, kernel, within)
            ratio = f"{statistics.mean(values) / mean:.3f}" if mean else "-"
            cells += [f"{statistics.mean(values):.3g}", ratio if near else f"**{ratio}**"]
        spread = f"{mean:.3g} ({min(kernel):.3g} to {max(kernel):.3g})"
        name, ours, ratio, theirs, their_ratio = cells
        lines.append(f"| {name} | {ours} | {spread} | {ratio} | {theirs} | {their_ratio} |")
    return "\n".join(lines) + "\n"


def _summary(results: Results, cases: Sequence[Case]) -> str:
    lines = [
        "| Within the bound, or inside the kernel's own spread | Weir | with trains | ns-3 |",
        "|---|---|---|---|",
    ]
    rows: list[tuple[str, Sequence[Case], Measure, float | None]] = [
        (f"goodput, {GOODPUT_WITHIN:.0%}", cases, _goodput, GOODPUT_WITHIN),
        (f"loss rate, {LOSS_WITHIN:.0%}", cases, _loss, LOSS_WITHIN),
        (f"mean queue, {QUEUE_WITHIN:.0%}", cases, _queue, QUEUE_WITHIN),
        (f"marks, {LOSS_WITHIN:.0%}", _with_ecn(cases), _marked, LOSS_WITHIN),
        ("CUBIC's share beside another, inside the spread", _mixed(cases), _share, None),
    ]
    rows = [row for row in rows if row[1]]
    for title, of, measure, within in rows:
        counts = []
        for world in ("weir", "weir-offload", "ns3"):
            pairs = [
                (_values(world, case, results, measure), _values("kernel", case, results, measure))
                for case in of
            ]
            pairs = [pair for pair in pairs if pair[0]]
            near = sum(_close(ours, kernel, within) for ours, kernel in pairs)
            counts.append(f"{near} of {len(pairs)}")
        lines.append(f"| {title} | {' | '.join(counts)} |")
    return "\n".join(lines) + "\n"
