"""`weir reproduce`: published results, run again and shown beside what was printed."""

import argparse
import json
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from weir.reproduce import Row, find


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("id", nargs="*", help="rows to run; all by default")
    parser.add_argument("--list", action="store_true", help="name the rows, run none")
    parser.add_argument("--json", action="store_true", help="a list of objects, one a row")
    parser.add_argument("--out", metavar="DIR", default="out/reproduce", help="for result.json")


def run(args: argparse.Namespace) -> int:
    """Runs or lists; 0 unless a row differs from what was published."""
    rows = find(args.id)
    results = [_listed(row) if args.list else _obtained(row, args.json) for row in rows]
    if not args.list:
        out = Path(args.out)
        out.mkdir(parents=True, exist_ok=True)
        (out / "result.json").write_text(json.dumps(results, indent=2) + "\n")
    if args.json:
        print(json.dumps(results, indent=2))
    elif args.list:
        _print(results)
    return int(any(result["verdict"] == "differs" for result in results))


def _listed(row: Row) -> dict[str, object]:
    facts = {"id": row.id, "work": row.work, "title": row.title, "published": row.published}
    return facts | {"ours": None, "interval": None, "verdict": None, "seconds": None}


def _obtained(row: Row, quiet: bool) -> dict[str, object]:
    begin = time.monotonic()
    outcome = row.judge([point.run(**point.arguments) for point in row.points(False)])
    result = _listed(row) | {"ours": outcome.ours, "verdict": outcome.verdict.value}
    result |= {"reason": outcome.reason, "seconds": round(time.monotonic() - begin, 1)}
    if not quiet:
        _print([result])
    return result


def _print(results: list[dict[str, object]]) -> None:
    table = Table(show_header=False, box=None, padding=(0, 1))
    for result in results:
        for key in ("id", "title", "published", "ours", "reason", "verdict", "seconds"):
            if result.get(key):
                table.add_row(key if key != "id" else "", str(result[key]))
        table.add_section()
    Console().print(table)
