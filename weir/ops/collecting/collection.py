"""Settings after one another into one file, which is whole after each of them."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

from weir import __version__
from weir.lab import parse
from weir.lab.wiring import require_congestion_controls
from weir.ops.collecting.recorder import Setting, capture
from weir.ops.probing.carrier import require_congestion
from weir.ops.recordings import Recording, load_whole, save


@dataclass(frozen=True, slots=True)
class Done:
    """A setting that is in the file.

    Attributes:
        recording: of it.
        is_new: whether it was made now; otherwise it was there.
    """

    recording: Recording
    is_new: bool


def collect(settings: Sequence[Setting], path: File) -> Iterator[Done]:
    """Makes the recordings of `settings` that the file lacks, or has with a flaw.

    Other recordings in the file stay. What was made is in the file when it is given, so that what
    ends this at any time, Ctrl-C or the machine, loses one recording at most; the same call then
    goes on.

    Args:
        settings: in this order.
        path: the file; made if there is none.

    Raises:
        BadInput: a setting or the file is wrong; nothing was started.
        Unsupported: the kernel lacks a congestion control of one of them; likewise.
        WeirError: as `capture`; the recordings before are in the file.
    """
    for setting in settings:
        require_congestion_controls(parse(setting.scenario(), f"the path {setting.path}"))
        require_congestion(setting.pattern.congestions if setting.pattern else [])
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


_PROVENANCE: dict[str, Any] = {"by": "weir ops collect", "weir": __version__}
