"""Keeps results in docs/performance and writes the tables of docs/performance-appendix.md.

    python -m benches.report              # the tables, from the results that are kept
    python -m benches.report --keep NAME  # first keeps out/bench/NAME.json with its machine notes

The page holds a pair of marks for each benchmark, and nothing between them is written by hand.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches import choice_grid
from benches.harness import OUT, Row, figure, validate
from benches.mover_targets import targets
from weir.errors import BadInput, WeirError

PAGE = Path("docs/performance-appendix.md")
KEPT = Path("docs/performance")
_MARKS = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def keep(name: str, out: Path = OUT, kept: Path = KEPT) -> None:
    """Copies a benchmark's rows and machine notes from `out` to `kept`, as one file."""
    try:
        rows = validate(json.loads((out / f"{name}.json").read_text()), name)
        machine = json.loads((out / "machine.json").read_text())[name]
    except (FileNotFoundError, KeyError) as error:
        raise BadInput(f"no result of {name!r} in {out}: run `make bench NAME={name}`") from error
    if machine["quick"]:
        raise BadInput(f"the result of {name!r} in {out} is of a quick run, not to be kept")
    kept.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "rows": rows}
    (kept / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    if name == "choice" and (found := choice_grid.shares(rows)):
        (kept / "choice.svg").write_text(choice_grid.picture(found))


def page(text: str, kept: Path = KEPT) -> str:
    """The page with what stands between its marks written anew from the kept results."""

    def section(found: re.Match[str]) -> str:
        path = kept / f"{found[2]}.json"
        body = "No result is kept.\n"
        if path.exists():
            content = json.loads(path.read_text())
            body = _machine(content["machine"]) + "\n\n"
            if found[2] == "mover":
                body += mover_targets_table(content["rows"]) + "\n"
            body += tables(content["rows"])
        return f"{found[1]}\n{body}\n{found[3]}"

    return _MARKS.sub(section, text)


def _machine(machine: dict[str, Any]) -> str:
    commit = f" ({machine['commit']})" if machine["commit"] else ""
    load = " and ".join(f"{machine[key][0]:g}" for key in ("load_before", "load_after"))
    return (
        f"Taken on {machine['date']} with Weir {machine['version']}{commit}: "
        f"{machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / 1e9:.0f} GB, {machine['system']}, "
        f"Linux {machine['kernel']}; load before and after {load}."
        + _packages(machine.get("packages", {}))
    )


def _packages(versions: dict[str, str]) -> str:
    """The peers' versions, as Debian names them."""
    named = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return f" Peers: {named}." if named else ""


def tables(rows: Sequence[Row]) -> str:
    """Markdown: one table for each metric, its units side by side, one line for each peer.

    Rows of one metric that differ in unit only (a speed and its cost, say) share a line.
    """
    metrics = dict.fromkeys(row["metric"] for row in rows)
    alone = [metric for metric in metrics if _peers(rows, metric) == [None]]
    parts = [_table(rows, metric) for metric in metrics if metric not in alone]
    if alone:
        lines = [_cells(row) for row in rows if row["metric"] in alone]
        parts.append(_markdown(["metric", "unit", "Weir", "runs"], lines))
    return "\n".join(parts)


def mover_targets_table(rows: Sequence[Row]) -> str:
    """Markdown: each target, the peer and setting that decide it, and whether it holds."""
    lines = []
    for target in targets():
        row = target.worst(rows)
        if row is None:
            continue
        where = ", ".join(row["metric"].split(", ")[:2])
        decided = f"{figure(row['ratio'])} ({row['peer']}; {where})"
        lines.append([target.words, decided, "yes" if target.holds(row) else "**no**"])
    return _markdown(["target", "decided by", "holds"], lines)


def _cells(row: Row) -> list[str]:
    return [row["metric"], row["unit"], figure(row["ours"]), str(_count(row))]


def _table(rows: Sequence[Row], metric: str) -> str:
    """One metric against its peers."""
    own = [row for row in rows if row["metric"] == metric]
    units = list(dict.fromkeys(row["unit"] for row in own))
    ours = {unit: next(row for row in own if row["unit"] == unit) for unit in units}
    head = ["against"]
    for unit in units:
        head += [f"its {unit}", "ratio"]
    lines = []
    for peer in _peers(rows, metric):
        cells = [peer or ""]
        for unit in units:
            matching = [row for row in own if (row["peer"], row["unit"]) == (peer, unit)]
            cells += [figure(row["peer_value"]) for row in matching[:1]] or [""]
            cells += [figure(row["ratio"]) for row in matching[:1]] or [""]
        lines.append(cells)
    figures = ", ".join(f"{figure(ours[unit]['ours'])} {unit}" for unit in units)
    runs = _count(own[0])
    rounds = f"median of {runs}" if runs > 1 else "one run"
    return f"**{metric}**: {figures} ({rounds})\n\n{_markdown(head, lines)}"


def _peers(rows: Sequence[Row], metric: str) -> list[str | None]:
    return list(dict.fromkeys(row["peer"] for row in rows if row["metric"] == metric))


def _count(row: Row) -> int:
    runs = row["runs"]
    return len(runs) if isinstance(runs, list) else runs


def _markdown(head: list[str], lines: list[list[str]]) -> str:
    align = [
        ":--" if title in ("against", "metric", "target", "decided by") else "--:" for title in head
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [head, align, *lines])


def main(argv: Sequence[str]) -> int:
    """Keeps what is asked for, rewrites the page; returns the exit code of `weir.errors`."""
    parser = argparse.ArgumentParser(prog="benches.report", description=__doc__)
    parser.add_argument("--keep", action="append", default=[], metavar="NAME")
    args = parser.parse_args(argv)
    try:
        for name in args.keep:
            keep(name)
    except WeirError as error:
        print(f"benches.report: {error}", file=sys.stderr)
        return error.exit_code
    PAGE.write_text(page(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
