"""What demonstrations share: a folder that can be written, a table that keeps up, figures kept.

Every `weir demo NAME` ends within two minutes, prints its figures, and writes them to `NAME.json`
beside its picture, `NAME.svg`.
"""

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TextIO, TypeAlias

from rich.console import Console
from rich.live import Live
from rich.text import Text

from weir import __version__, files, signals
from weir.errors import BadInput
from weir.terminal import Table, console

LIMIT_S = 120.0
"""How long a demonstration may take."""
_REFRESH_S = 0.5

Figures: TypeAlias = Mapping[str, bool | int | float | str | None]
"""By name, flat; a name ends with its figure's unit: `auto_beside_bbr_own_bps`."""


class Demonstration(Protocol):
    """What `weir demo NAME` shows.

    Attributes:
        name: of the demonstration and of its files.
        intro: what it shows and how long that takes.
        caption: what the picture shows.
    """

    name: str
    intro: str
    caption: str

    def carry_out(self, changed: Callable[[], None]) -> None:
        """Does it; calls `changed`, from any thread, when there is something new to show."""

    def table(self) -> Table:
        """How it stands, and at its end its figures."""

    def notes(self) -> Iterable[Text]:
        """What is to be said below the table at its end."""

    def facts(self) -> Iterable[Mapping[str, object]]:
        """All that was found, for machines: a JSON object a line."""

    def figures(self) -> Figures:
        """The figures of the table."""

    def picture(self) -> str:
        """The picture as SVG."""

    def holds(self) -> bool:
        """Whether it showed what it is to show."""


def show(demonstration: Demonstration, out: Path, as_json: bool, stream: TextIO) -> int:
    """Carries a demonstration out in front of a person or a machine.

    Args:
        demonstration: which.
        out: the folder of its figures and its picture, made when absent.
        as_json: whether to print facts as JSON lines instead of a table.
        stream: where to.

    Returns:
        The exit code: 0 if it showed what it is to show, 1 if not.

    Raises:
        BadInput: `out` cannot be written to.
        WeirError: what `demonstration` raises.
    """
    with writable(out), signals.heeded():
        begin_s = time.monotonic()
        if as_json:
            demonstration.carry_out(lambda: None)
        else:
            _watch(demonstration, console(stream))
        took_s = round(time.monotonic() - begin_s, 1)
        picture = _keep(demonstration, out, took_s)
    if as_json:
        for facts in demonstration.facts():
            print(json.dumps(facts), file=stream)
    else:
        late = f"; {LIMIT_S:g} s are what it may take" if took_s > LIMIT_S else ""
        print(f"{picture}: {demonstration.caption} ({took_s:.0f} s{late})", file=stream)
    return int(not demonstration.holds())


def _watch(demonstration: Demonstration, console: Console) -> None:
    """Carries it out under a table that keeps up with it."""
    changed, over = threading.Event(), threading.Event()
    console.print(f"{demonstration.intro}\n")
    try:
        with Live(demonstration.table(), console=console, auto_refresh=False) as live:

            def refresh() -> None:
                while not over.is_set():
                    changed.wait(_REFRESH_S)
                    changed.clear()
                    live.update(demonstration.table(), refresh=True)

            thread = threading.Thread(target=refresh)
            thread.start()
            try:
                demonstration.carry_out(changed.set)
            finally:
                over.set()
                thread.join()
            live.update(demonstration.table(), refresh=True)
    finally:
        console.print()  # a table of a pipe has no end of its last line
    for note in demonstration.notes():
        console.print(note)


def _keep(demonstration: Demonstration, out: Path, took_s: float) -> Path:
    """Writes figures and picture; returns the picture's path."""
    about = {"demo": demonstration.name, "version": __version__, "took_s": took_s}
    figures = {**about, "holds": demonstration.holds(), **demonstration.figures()}
    picture = out / f"{demonstration.name}.svg"
    try:
        with files.whole(picture) as partial:
            partial.write_text(demonstration.picture())
        with files.whole(picture.with_suffix(".json")) as partial:
            partial.write_text(json.dumps(figures, indent=1) + "\n")
    except OSError as error:
        raise BadInput(f"--out {out}: {error.filename}: {error.strerror}") from None
    return picture


@contextmanager
def writable(out: Path) -> Iterator[None]:
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
