"""From a plan to the page: runs both halves, shows them, writes the report."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from studies.demonstration import report, summary, view
from studies.demonstration.delivery_plan import Plan
from studies.demonstration.halves import carry_out
from studies.demonstration.report import format
from weir.errors import BadInput


def show(plan: Plan, seed: int | None, out: Path, as_json: bool, stream: TextIO) -> int:
    """Runs the demonstration and reports it.

    Args:
        plan: what to carry.
        seed: in place of the lab's own when given.
        out: the folder of the report, made when absent.
        as_json: whether to speak JSON lines instead of a picture.
        stream: where to.

    Returns:
        The exit code: 0 if every file of the calendar's half was on time and verified, else 1.

    Raises:
        BadInput: `out` cannot be written to.
        Unsupported: this machine or user cannot have the lab.
        Unavailable: a part did not start.
    """
    if seed is not None:
        plan = replace(plan, lab=replace(plan.lab, seed=seed))
    with _writable(out):
        with view.choose(as_json, stream) as shown:
            result = carry_out(plan, shown)
        page = report.write(result, out)
    if as_json:
        end = {"kind": "result", "headline": format.headline(result), "page": str(page)}
        print(json.dumps(end), file=stream, flush=True)
    else:
        summary.show(result, stream)
        print(f"\nthe page: {page}", file=stream, flush=True)
    return 0 if result.kept_every_promise else 1


@contextmanager
def _writable(out: Path) -> Iterator[None]:
    """Makes sure of the folder first, not after a minute; takes it away again on failure."""
    made: list[Path] = []
    try:
        made += [folder for folder in (out, *out.parents) if not folder.exists()]
        out.mkdir(parents=True, exist_ok=True)
        descriptor, probe = tempfile.mkstemp(dir=out, prefix=".weir-")
        os.close(descriptor)
        Path(probe).unlink()
    except OSError as error:
        _remove(made)
        raise BadInput(f"--out {out}: {error.strerror}") from None
    try:
        yield
    except BaseException:
        _remove(made)
        raise


def _remove(made: list[Path]) -> None:
    for folder in made:
        try:
            folder.rmdir()
        except OSError:
            return  # was never made, or has something in it
