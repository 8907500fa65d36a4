"""Byte for byte comparison of what was received with what was sent."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_CHUNK = 4 << 20


def difference(source: Path, target: Path) -> str | None:
    """How `target` differs from `source`, a file or a tree; None when it does not."""
    if source.is_file():
        return _file_difference(source, target)
    wanted, found = _names(source), _names(target)
    if wanted != found:
        missing, surplus = len(wanted - found), len(found - wanted)
        return f"{missing} files missing, {surplus} files too many"
    with ThreadPoolExecutor(2) as pool:
        answers = pool.map(
            lambda name: _file_difference(source / name, target / name), sorted(wanted)
        )
        return next((answer for answer in answers if answer), None)


def _names(top: Path) -> set[Path]:
    return {path.relative_to(top) for path in top.rglob("*") if not path.is_dir()}


def _file_difference(source: Path, target: Path) -> str | None:
    if not target.is_file():
        return f"{target.name}: not there"
    wanted, found = source.stat().st_size, target.stat().st_size
    if found != wanted:
        return f"{target.name}: {found - wanted:+,} bytes"
    with source.open("rb", buffering=0) as left, target.open("rb", buffering=0) as right:
        offset = 0
        while chunk := left.read(_CHUNK):
            if chunk != right.read(_CHUNK):
                return f"{target.name}: differs within {_CHUNK} bytes after {offset:,}"
            offset += len(chunk)
    return None
