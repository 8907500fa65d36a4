"""Puts a result into a folder: `result.json` and `index.html`."""

import json
from pathlib import Path

from studies.demonstration.report import page
from studies.demonstration.report.result import Result


def write(result: Result, folder: Path) -> Path:
    """Writes both files, replacing older ones whole, and returns the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / "result.json", json.dumps(result.to_json(), indent=1) + "\n")
    _replace(folder / "index.html", page.render(result))
    return folder / "index.html"


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
