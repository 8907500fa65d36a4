"""Settings after one another into one file, which is whole after each of them."""

import contextlib
import fcntl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.training.collecting.recorder import Setting, capture
from weir import __version__
from weir.congestion.recordings import Recording, load_whole, save
from weir.errors import BadInput
from weir.lab import controls, parse
from weir.probe.carrier import require_congestion


@dataclass(frozen=True, slots=True)
class Done:
    """A setting that is in the file.

    Attributes:
        recording: of it.
        is_new: whether it was made now; otherwise it was there.
    """

    recording: Recording
    is_new: bool


def collect(settings: Sequence[Setting], path: Path) -> Iterator[Done]:
    """Makes the recordings of `settings` that the file lacks, or has with a flaw.

    Other recordings in the file stay. What was made is in the file when it is given, so that what
    ends this at any time, Ctrl-C or the machine, loses one recording at most; the same call then
    goes on.

    Args:
        settings: in this order.
        path: the file; made if there is none.

    Raises:
        BadInput: a setting or the file is wrong, or another collection writes to it; nothing was
            started.
        Unsupported: the kernel lacks a congestion control of one of them; likewise.
        WeirError: as `capture`; the recordings before are in the file.
    """
    for setting in settings:
        controls.lacking(parse(setting.scenario(), f"the path {setting.path}"))
        require_congestion(setting.pattern.congestions if setting.pattern else [])
    with _alone(path):
        yield from _collected(settings, path)


def _collected(settings: Sequence[Setting], path: Path) -> Iterator[Done]:
    there: list[Recording] = []
    with contextlib.suppress(FileNotFoundError):
        path.stat()
        there, _ = load_whole(path)
    save(path, there, _PROVENANCE)
    for setting in settings:
        known = [one for one in there if setting.made(one)]
        if sound := [one for one in known if not one.flaws]:
            yield Done(sound[0], is_new=False)
            continue
        made = capture(setting)
        there = [one for one in there if one not in known] + [made]
        save(path, there, _PROVENANCE)
        yield Done(made, is_new=True)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keeps others from writing the file: each would write what it alone knows of.

    The file itself is replaced whenever it is written, so another one beside it is locked. That
    one stays: who waits for it could else lock one that is no more.
    """
    try:
        lock = path.with_name(f".{path.name}.lock").open("w")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(
                f"{path}: another collection writes to it; give this one a file of its own"
            ) from None
        yield


_PROVENANCE: dict[str, Any] = {"by": "weir ops collect", "weir": __version__}
