"""One agent enforces rates at a place: of two, each would undo what the other has done."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from weir.errors import BadInput
from weir.run_folder import locked, run_folder

_CLAIM = ".edge-"  # begins no name of a lab, whose folders lie beside it


@contextlib.contextmanager
def alone(places: Iterable[str]) -> Iterator[None]:
    """Has this process be the one that enforces at these places of its network namespace.

    They are free again once the block is left, or however the process ends.

    Raises:
        BadInput: another process of the same user is at one of them.
    """
    folder = run_folder()
    here = Path("/proc/thread-self/ns/net").stat().st_ino
    with contextlib.ExitStack() as claimed:
        for place in sorted(set(places)):
            path = folder / f"{_CLAIM}{here}-{quote(place, safe='')[-200:]}"
            lock = locked(path)
            if lock is None:
                raise BadInput(f"another agent enforces rates at {place}: end that one first")
            claimed.callback(os.close, lock)
            claimed.callback(path.unlink, missing_ok=True)
        yield
