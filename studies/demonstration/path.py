"""`weir demo path`: one file over a long path that loses one packet in ten thousand.

Nobody else is there. What operators of long paths suffer from first: a control that takes a random
loss for congestion leaves most of the path unused.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.text import Text

from studies.demonstration.measure import value_at
from studies.demonstration.scaffold import Figures
from studies.rig.copying import Copied, Copier, Hosts, Rsync, WeirSend, copy
from studies.rig.workspace import open_workspace
from weir.chart.panels import Curve, Panel, draw
from weir.format import mbit_s, size
from weir.lab import Lab, parse
from weir.terminal import Column, Table

FILE_BYTES = 150_000_000
RATE_MBIT_S = 500.0
_NEAR, _FAR, _LINK = "near", "far", "path"
_SCENARIO = """
[lab]
name = "path"
seed = {seed}
[hosts]
near = {{}}
far = {{}}
[[link]]
name = "path"
ends = ["near", "far"]
rate = "500 Mbit/s"
delay = "32.5 ms"
loss = "0.01 %"
queue = {{ discipline = "fifo", limit = "6 MiB" }}
"""
_STEP_S = 0.5
_WELL = 0.5
"""What a chosen control may take at most of the time that CUBIC takes."""
_COLOUR = "#d55e00"


@dataclass
class _Case:
    """A way to send the file, as it stands."""

    key: str
    copier: Copier
    is_fixed: bool = False
    state: str = "waits"
    carried: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])
    copied: Copied | None = None

    @property
    def seconds(self) -> float | None:
        """How long it took; None if it did not."""
        return self.copied.seconds if self.copied else None

    @property
    def chosen(self) -> str:
        """The last control and number of streams that were chosen, in words; none where fixed."""
        events = self.copied.events if self.copied else ()
        made = [one for one in events if one["event"] in ("choice", "change", "fallback")]
        if not made:
            return ""
        streams = made[-1].get("streams")
        return f"{made[-1].get('control', '?')}" + (
            f", {streams} streams" if streams and streams > 1 else ""
        )

    def saw(self, at_s: float, count: int) -> None:
        """Takes what the link has carried by then."""
        self.carried.append((at_s, count))

    def rates_mbit_s(self) -> list[float]:
        """On the link, for each step."""
        end_s = self.carried[-1][0]
        edges = [number * _STEP_S for number in range(int(end_s / _STEP_S) + 2)]
        counts = [value_at(self.carried, edge) for edge in edges]
        return [(b - a) * 8 / _STEP_S / 1e6 for a, b in itertools.pairwise(counts)]


class LongPath:
    """The demonstration; a lab for each way to send the file.

    Args:
        seed: of the file and of what is lost.
        file_bytes: how long the file is.
    """

    name = "path"
    caption = "rates over time"

    def __init__(self, seed: int, file_bytes: int = FILE_BYTES) -> None:
        self._seed, self._bytes = seed, file_bytes
        self.intro = (
            f"A file of {size(file_bytes)} over 500 Mbit/s and 65 ms that lose one packet in ten "
            "thousand, with nobody else there: under CUBIC, as most hosts send it, with rsync, as "
            "`weir send` chooses, and with fixed settings that suit such a path. "
            "A minute or two, one after the other."
        )
        self._cases = [
            _Case("plain", WeirSend("--cca", "cubic")),
            _Case("rsync", Rsync()),
            _Case("auto", WeirSend()),
            _Case("bbr", WeirSend("--cca", "bbr", needs="bbr"), is_fixed=True),
            _Case("streams_8", WeirSend("--cca", "cubic", "--streams", "8"), is_fixed=True),
        ]

    def carry_out(self, changed: Callable[[], None]) -> None:
        """All ways, each alone on the machine; one that is not installed is left out.

        Raises:
            Unsupported: this machine has no labs.
            TransferFailed: a file did not arrive as it was sent.
        """
        with open_workspace(2 * self._bytes) as folder:
            source = folder / "file"
            source.write_bytes(random.Random(self._seed).randbytes(self._bytes))
            for case in self._cases:
                if missing := case.copier.missing():
                    case.state = missing
                else:
                    _carry_out(case, self._seed, source, folder / case.key, changed)
                changed()

    def table(self) -> Table:
        """How long each way took."""
        figures = (Column(title, right=True) for title in ("seconds", "mean", "chosen"))
        table = Table("", *figures, Column("", rank=2))
        for case in self._cases:
            taken = case.seconds
            table.add_row(
                case.copier.name,
                f"{taken:.1f}" if taken else "",
                mbit_s(8 * self._bytes / taken) if taken else "",
                case.chosen,
                case.state,
                style="bold" if case.key == "auto" else "",
            )
        return table

    def notes(self) -> Iterator[Text]:
        """What was chosen and why."""
        for case in self._cases:
            for one in case.copied.events if case.copied else ():
                if one["event"] in ("choice", "change", "fallback"):
                    why = one.get("why") or one.get("what") or one.get("reason", "")
                    yield Text(f"{one['event']} {one.get('control', '')}: {why}")

    def facts(self) -> list[dict[str, object]]:
        """An object a way."""
        return [
            {
                "command": case.copier.name,
                "seconds": case.seconds,
                "state": case.state,
                "chosen": case.chosen or None,
                "link_mbit_s": [round(rate, 1) for rate in case.rates_mbit_s()],
            }
            for case in self._cases
        ]

    def figures(self) -> Figures:
        """How long each took; None for what is not installed."""
        took = ((case.seconds, case.copier.name) for case in self._cases if case.is_fixed)
        best_s, best = min((seconds, name) for seconds, name in took if seconds is not None)
        return {
            "seed": self._seed,
            "file_bytes": self._bytes,
            **{f"{case.key}_s": _rounded(case.seconds) for case in self._cases},
            "best_fixed_s": _rounded(best_s),
            "best_fixed": best,
            "auto_chosen": self._of("auto").chosen or None,
        }

    def picture(self) -> str:
        """A panel a way."""
        return _picture([case for case in self._cases if case.copied], self._bytes)

    def holds(self) -> bool:
        """Whether what was chosen took half of the time that plain sending took, or less."""
        plain, auto = self._of("plain").seconds, self._of("auto").seconds
        return plain is not None and auto is not None and auto <= _WELL * plain

    def _of(self, key: str) -> _Case:
        return next(case for case in self._cases if case.key == key)


def _carry_out(
    case: _Case, seed: int, source: Path, folder: Path, changed: Callable[[], None]
) -> None:
    def seen(at_s: float, count: int) -> None:
        case.saw(at_s, count)
        changed()

    case.state = "runs"
    changed()
    folder.mkdir()
    lab_of = parse(_SCENARIO.format(seed=seed), "the path")
    with Lab.up(lab_of) as lab:
        case.copied = copy(case.copier, Hosts(lab, _NEAR, _FAR, _LINK), source, folder, seen)
    case.state = "every byte compared"
    (folder / "root" / source.name).unlink()


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)


def _picture(cases: Sequence[_Case], file_bytes: int) -> str:
    panels = []
    for case in cases:
        assert case.copied, "it was carried out"
        taken = case.copied.seconds
        rate = mbit_s(8 * file_bytes / taken)
        chosen = f", {case.chosen}" if case.chosen else ""
        panels.append(
            Panel(
                case.copier.name,
                f"{taken:.1f} s, {rate}{chosen}",
                (Curve("on the path", case.rates_mbit_s(), _COLOUR),),
                _STEP_S,
            )
        )
    title = f"{size(file_bytes)} over 500 Mbit/s, 65 ms, 0.01 % loss"
    return draw(panels, 3, title, "Mbit/s", RATE_MBIT_S)
