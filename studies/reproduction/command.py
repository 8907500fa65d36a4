"""What `weir reproduce` does: rows are run or listed, and shown."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from studies.reproduction import page
from studies.reproduction.catalogue import find, rows
from studies.reproduction.obtain import Record, cached, obtain
from studies.works.measured import Measured
from studies.works.row import Published, Row, Verdict
from weir import signals
from weir.cli import output
from weir.errors import BadInput, WeirError
from weir.runs.cache import Cache, Result, default_folder
from weir.runs.cluster import compute
from weir.runs.point import Point
from weir.terminal import Column, Table, console


def carry_out(args: argparse.Namespace) -> int:
    """Runs or lists; 1 if a row differs from what was published, else what an error says."""
    if args.workers is not None and args.workers < 1:
        raise BadInput(f"--workers {args.workers}: at least one process is needed")
    cache = Cache(Path(args.cache) if args.cache else default_folder())
    if args.list:
        return _list(args, cache)
    with signals.heeded():
        return _run(args, cache)


def _list(args: argparse.Namespace, cache: Cache) -> int:
    """What the cache knows, or else the committed page."""
    output.is_the_work()
    committed = page.load(page.committed())
    listed = []
    for entry in find(args.id):
        known = cached(entry, cache) if isinstance(entry, Row) else None
        listed.append(_facts(entry, known.record if known else committed.get(entry.id)))
    if args.page:
        page.update(Path(args.page), [])
    _show(listed, args.json)
    return 0


def _run(args: argparse.Namespace, cache: Cache) -> int:
    spread = partial(compute, scheduler=args.scheduler, workers=args.workers)
    bar = spread if args.json else partial(_with_bar, spread)
    measured = Measured(Path(args.page) / "reproduction/live") if args.page else None
    got_of = obtain(rows(args.id), quick=args.quick, cache=cache, measured=measured, compute=bar)
    shown, done, code = [], [], 0
    for row, got in got_of:
        if isinstance(got, WeirError):
            print(f"weir: {row.id}: {got}", file=sys.stderr)
            code = got.exit_code
            continue
        got.write(Path(args.out))
        done.append(got)
        shown.append(_facts(row, got.record))
        if not args.json:
            _show(shown[-1:], False)
    if args.json:
        _show(shown, True)
    if args.page:
        page.update(Path(args.page), done)
    differs = any(facts["verdict"] == Verdict.DIFFERS for facts in shown)
    return code or int(differs)


def _with_bar(
    spread: Callable[[Sequence[Point]], Iterator[tuple[Point, Result]]], points: Sequence[Point]
) -> Iterator[tuple[Point, Result]]:
    shown = Console(stderr=True)
    with Progress(console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task(f"{len(points)} runs", total=len(points))
        for done in spread(points):
            progress.advance(task)
            yield done


def _facts(entry: Published, record: Record | None) -> dict[str, object]:
    built = isinstance(entry, Row)
    facts = {"id": entry.id, "work": entry.work, "title": entry.title, "published": entry.published}
    return facts | {
        "ours": record.ours if record else None,
        "interval": (record.interval or None) if record else None,
        "verdict": page.verdict(entry, record),
        "reason": (record.reason or None) if record else None,
        "seconds": record.seconds if record else None,
        "quick": record.quick if record else None,
        "command": f"weir reproduce {entry.id}" if built else None,
    }


def _show(listed: Sequence[Mapping[str, object]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    table = Table("", Column("", folds=True))
    for facts in listed:
        for key, value in facts.items():
            if key == "id":
                table.add_row(Text(str(value), style="bold"), Text(str(facts["title"])))
            elif key not in ("work", "title") and value not in (None, False):
                table.add_row(f"  {key}", Text("yes" if value is True else str(value)))
    console().print(table)
