"""Scenarios that come with Weir, in a checkout and in an installed package alike."""

import os
from pathlib import Path

from weir.errors import BadInput
from weir.kinds import SCENARIO, kind_of
from weir.source import Source

FOLDER = Path(__file__).parent / "scenarios"


def names(kind: str) -> list[str]:
    """What can be named instead of a file of a kind (`weir.kinds`)."""
    files = sorted(FOLDER.glob("*.toml"))
    return [path.stem for path in files if kind_of(Source.load(path).document) == kind]


def scenario(named: str | Path, kind: str = SCENARIO) -> Path:
    """The file that is meant: that of this path, else the one of that name that comes with Weir.

    `wan`, `wan.toml` and, where no such folder is, `scenarios/wan.toml` name one of Weir's.

    Args:
        named: a path or a name.
        kind: what is wanted, so that its names are told.

    Raises:
        BadInput: a mere name is neither a file nor one of Weir's.
    """
    path = Path(named)
    is_ours = path.suffix in ("", ".toml") and path.parent in (Path(), Path("scenarios"))
    # One that may not be looked at, or whose name is too long, is told by whoever opens it.
    if not is_ours or os.path.lexists(path):
        return path
    ours = FOLDER / f"{path.stem}.toml"
    if os.path.lexists(ours):
        return ours
    if path.parent == Path():
        known = ", ".join(names(kind))
        raise BadInput(f"{named} is not a file, nor one of Weir's scenarios: {known}")
    return path
