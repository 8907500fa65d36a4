"""Runs benchmarks, checks the shape of what they return, keeps it in out/bench, prints it.

`out/bench/NAME.json` is a list of rows; `out/bench/machine.json` says on what machine, when,
with which version and under what load each of them was taken.
"""

import importlib
import json
import math
import os
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from rich.console import Console
from rich.table import Table

import benches
from benches.harness_machine import load_average, machine_notes
from weir.errors import BadInput, WeirError

OUT = Path("out/bench")
PAYLOAD = 1448 / 1500
"""What a full packet has of content."""


class Row(TypedDict):
    """One comparison of Weir with one peer, or one figure of Weir's without a peer."""

    metric: str
    """What was measured, and in which setting."""
    unit: str
    """Unit of `ours` and `peer_value`; "Mbit/s", "s/GB", "ms", "1/s" …"""
    ours: float
    """Median of Weir's runs."""
    peer: str | None
    """Whom Weir is compared with; None where there is nobody to compare with."""
    peer_value: float | None
    """Median of the peer's runs, taken in turns with Weir's in the same session."""
    ratio: float | None
    """`ours / peer_value`: above 1 is good for a speed and bad for a cost."""
    runs: int | list[float]
    """Number of rounds behind each median, or the raw values of `ours`, one per round."""


def row(
    metric: str,
    unit: str,
    ours: float,
    peer: str | None,
    peer_value: float | None,
    runs: int | list[float],
) -> dict[str, Any]:
    """One row of a benchmark's result, its ratio filled in (None without a peer)."""
    ratio = ours / peer_value if peer_value else None
    return dict(
        Row(
            metric=metric,
            unit=unit,
            ours=ours,
            peer=peer,
            peer_value=peer_value,
            ratio=ratio,
            runs=runs,
        )
    )


def quick() -> bool:
    """Whether WEIR_BENCH_QUICK=1 asks for a small run: smoke, not figures to quote."""
    return os.environ.get("WEIR_BENCH_QUICK", "") not in ("", "0")


def validate(rows: object, name: str) -> list[Row]:
    """Checks that a benchmark returned rows; raises BadInput naming the row and the key."""
    if not isinstance(rows, list) or not rows:
        raise BadInput(f"benches.{name}: run() must return a non-empty list of rows")
    for index, entry in enumerate(rows):
        problem = _problem(entry)
        if problem:
            raise BadInput(f"benches.{name}: row {index}: {problem}")
    return rows


def _problem(entry: object) -> str | None:
    """What is wrong with one row, or None."""
    if not isinstance(entry, dict):
        return f"not a dict but {type(entry).__name__}"
    if set(entry) != set(Row.__annotations__):
        return f"keys are {sorted(entry)}, must be {sorted(Row.__annotations__)}"
    for key in ("metric", "unit"):
        if not isinstance(entry[key], str) or not entry[key]:
            return f"{key} must be a non-empty text, is {entry[key]!r}"
    if not _is_number(entry["ours"]):
        return f"ours must be a finite number, is {entry['ours']!r}"
    return _peer_problem(entry) or _runs_problem(entry["runs"])


def _peer_problem(entry: dict[str, Any]) -> str | None:
    if entry["peer"] is None:
        if entry["peer_value"] is not None or entry["ratio"] is not None:
            return "peer is None, so peer_value and ratio must be None too"
        return None
    if not isinstance(entry["peer"], str) or not entry["peer"]:
        return f"peer must be a non-empty text or None, is {entry['peer']!r}"
    if not _is_number(entry["peer_value"]):
        return f"peer_value must be a finite number, is {entry['peer_value']!r}"
    if entry["peer_value"] == 0:
        return None if entry["ratio"] is None else "ratio to a peer_value of 0 must be None"
    if not _is_number(entry["ratio"]):
        return f"ratio must be a finite number, is {entry['ratio']!r}"
    if not math.isclose(entry["ratio"], entry["ours"] / entry["peer_value"], rel_tol=1e-6):
        return f"ratio {entry['ratio']!r} is not ours / peer_value"
    return None


def _runs_problem(runs: object) -> str | None:
    if isinstance(runs, list):
        good = bool(runs) and all(_is_number(value) for value in runs)
    else:
        good = isinstance(runs, int) and not isinstance(runs, bool) and runs >= 1
    return None if good else f"runs must be a count ≥ 1 or the raw values, is {runs!r}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def available() -> list[str]:
    """Names of the benchmarks in this folder, sorted: its modules that define `run`."""
    return sorted(
        module.name
        for module in pkgutil.iter_modules(benches.__path__)
        if not module.ispkg and _defines_run(Path(benches.__path__[0]) / f"{module.name}.py")
    )


def _defines_run(path: Path) -> bool:
    """By its text: importing every module to look would start with the slowest."""
    return any(line.startswith("def run() ->") for line in path.read_text().splitlines())


def run_one(name: str, out: Path = OUT) -> list[Row]:
    """Runs benchmark `name`, writes its rows and the machine notes under `out`."""
    module = importlib.import_module(f"benches.{name}")
    load_before = load_average()
    rows = validate(module.run(), name)
    # A benchmark that has more to say about its setting, such as its peers' versions, has `notes`.
    write(name, rows, {"load_before": load_before} | getattr(module, "notes", dict)(), out)
    return rows


def write(name: str, rows: list[Row], more_notes: dict[str, Any], out: Path = OUT) -> None:
    """Keeps the rows and, under the benchmark's name, the notes on how they were taken."""
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    notes_path = out / "machine.json"
    notes = json.loads(notes_path.read_text()) if notes_path.exists() else {}
    notes[name] = machine_notes() | {"quick": quick(), "load_after": load_average()} | more_notes
    notes_path.write_text(json.dumps(notes, indent=1) + "\n")


def table(name: str, rows: list[Row]) -> Table:
    """The rows as a person reads them; a metric is named once for its peers."""
    result = Table(title=f"benches.{name}" + (" (quick: not to be quoted)" if quick() else ""))
    for header in ("metric", "unit", "Weir", "peer", "its value", "ratio", "runs"):
        result.add_column(header, justify="left" if header in ("metric", "peer") else "right")
    previous = None
    for entry in rows:
        runs = entry["runs"]
        result.add_row(
            entry["metric"] if entry["metric"] != previous else "",
            entry["unit"],
            figure(entry["ours"]),
            entry["peer"] or "",
            figure(entry["peer_value"]),
            figure(entry["ratio"]),
            str(len(runs) if isinstance(runs, list) else runs),
        )
        previous = entry["metric"]
    return result


def figure(value: float | None) -> str:
    """A number with three significant digits, whole where it has more; "" for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main(argv: Sequence[str]) -> int:
    """Runs the benchmarks named in `argv`, or all; returns the exit code of `weir.errors`."""
    console = Console()
    try:
        names = list(argv) or available()
        for name in names:
            if name not in available():
                raise BadInput(f"no benchmark {name!r}; there are: {', '.join(available())}")
        for name in names:
            console.print(table(name, run_one(name)))
            console.print(f"kept in {OUT / name}.json")
    except WeirError as error:
        print(f"benches: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0
