"""The page of all published tables and figures, and the records that it is written from."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_type_hints

from studies.reproduction.catalogue import catalogue, without_result
from studies.reproduction.obtain import Obtained, Record
from studies.works.row import Published, Row, Verdict
from weir.errors import BadInput, Unsupported

WORKS = {
    "000": "Congestion measurement, headroom services, bandwidth calendars, virtual desktops",
    "001": "Choosing the transport protocol for data transfers on shared networks",
    "002": "Preemptive efficient queueing for deadline-bound flows",
    "003": "Joining and splitting TCP connections, smart grid, WLAN, VM migration",
    "004": "Low-latency transport and queue mechanisms in use-case testbeds",
}

_HEAD = """# Published results, run again

This page has every table and figure of the five works that Weir stands on: what was published, what
Weir obtains, and how the two compare. `make reproduce` writes it from runs of reduced size and
leaves results of full size as they are; `make reproduce-full` runs everything at full size. Do not
edit it. `weir reproduce ID` runs one row again, and `weir reproduce --list` lists them.
[architecture.md](architecture.md) tells how runs are spread, kept and compared.
"""


def committed() -> Path:
    """The folder of the page in the source tree."""
    return Path(__file__).parents[2] / "docs"


def load(folder: Path) -> dict[str, Record]:
    """The records beside a page, by id; empty where there is no page.

    Raises:
        BadInput: the file does not hold records.
    """
    path = folder / "reproduction.json"
    try:
        records = [_record(facts) for facts in json.loads(path.read_text())]
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise BadInput(f"{path} does not hold records: {error}") from None
    return {record.id: record for record in records}


def _record(facts: dict[str, Any]) -> Record:
    typed = {"verdict": Verdict(facts["verdict"]), "seconds": float(facts["seconds"])}
    record = Record(**{**facts, **typed})
    for name, kind in get_type_hints(Record).items():
        value = getattr(record, name)
        if not isinstance(value, kind):
            raise TypeError(f"{name} is {value!r:.40}")
    return record


def update(folder: Path, obtained: Iterable[Obtained]) -> None:
    """Takes rows into a page: their records, their plots, and the page written anew.

    What the page has at full size stays until it is run at full size again: hours of runs are not
    replaced by seconds of them.

    Raises:
        Unsupported: it cannot be written.
    """
    records, known = load(folder), {entry.id for entry in catalogue()}
    try:
        for one in obtained:
            if one.row.id in records and one.record.quick and not records[one.row.id].quick:
                continue
            records[one.row.id] = one.record
            one.plot(folder / "reproduction")
        # Only images of rows that no longer exist: any other image is not ours to remove.
        for gone in records.keys() - known:
            (folder / "reproduction" / f"{gone}.svg").unlink(missing_ok=True)
        kept = [asdict(records[entry.id]) for entry in catalogue() if entry.id in records]
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
        _replace(folder / "reproduction.json", text)
        _replace(folder / "reproduction.md", render(records, folder / "reproduction"))
    except OSError as error:
        raise Unsupported(f"cannot write {error.filename}: {error.strerror}") from None


def _replace(path: Path, text: str) -> None:
    """Writes a file anew, all of it or nothing: hours of runs stand in the old one."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def render(records: Mapping[str, Record], plots: Path) -> str:
    """The page as Markdown, with the plots that are in `plots`."""
    lines = [_HEAD, *_summary(records)]
    for work, title in WORKS.items():
        entries = [entry for entry in catalogue() if entry.work == work]
        lines += [f"\n## Work {work}: {title}\n"]
        for entry in entries:
            if isinstance(entry, Row):
                lines += _section(entry, records.get(entry.id), plots)
        missing = [entry for entry in entries if not isinstance(entry, Row)]
        if missing:
            lines += ["### Not yet built\n", "| id | what it shows | published |", "|---|---|---|"]
            lines += [f"| {e.id} | {_cell(e.title)} | {_cell(e.published)} |" for e in missing]
        lines += [f"\nThese show no result and are not built: {without_result(work)}."]
    return "\n".join(lines) + "\n"


def _summary(records: Mapping[str, Record]) -> Iterator[str]:
    yield "| work | " + " | ".join(Verdict) + " |"
    yield "|---|" + "---|" * len(Verdict)
    for work in WORKS:
        counts = Counter(
            verdict(entry, records.get(entry.id)) for entry in catalogue() if entry.work == work
        )
        yield f"| {work} | " + " | ".join(str(counts[each]) for each in Verdict) + " |"


def verdict(entry: Published, record: Record | None) -> Verdict | None:
    """How our result compares with a published one; None if the row was not run yet."""
    if record is not None:
        return record.verdict
    return None if isinstance(entry, Row) else Verdict.NOT_BUILT


def _section(row: Row, record: Record | None, plots: Path) -> Iterator[str]:
    yield f"### {row.id}: {row.title}\n"
    yield f"- **published:** {row.published}"
    if record is None:
        yield "- not run yet\n"
        return
    yield f"- **ours:** {record.ours}"
    if record.interval:
        yield f"- **95 % interval:** {record.interval}"
    yield f"- **{record.verdict}**" + (f": {record.reason}" if record.reason else "")
    size = "reduced size" if record.quick else "full size"
    yield (
        f"- `weir reproduce {row.id}`: {size}, {record.seconds:g} s of one core; "
        f"Weir {record.version}, code {record.code}\n"
    )
    if (plots / f"{row.id}.svg").exists():
        yield f"![{row.title}]({plots.name}/{row.id}.svg)\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
