"""What `weir send --cca auto` finds on paths where nobody else is: beside the best fixed setting.

A grid of rates, delays and losses, as links of a lab with a queue of 100 ms. On each of them a file
goes under every control with 1 to 16 streams, as plain `weir send` has it, and as it is chosen. A
row's peer is the best of the fixed ones, which nobody is told beforehand. WEIR_BENCH_GRID=1 asks
for the whole grid, which takes a night; without it one rate and delay stand for all.
"""

import itertools
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.harness import quick, row
from studies.rig.copying import Hosts, WeirSend, copy
from weir import kernel_controls
from weir.lab import Lab, parse
from weir.lab.workspace import open_workspace

CONTROLS = ("bbr", "cubic", "reno")
STREAMS = (16, 8, 4, 2, 1)
FILE_S = 16.0
"""A file takes so long at the path's rate: 1 GB at 500 Mbit/s."""
LOSSES = {
    "no loss": "0",
    "0.001 %": "0.00001",
    "0.01 %": "0.0001",
    "0.1 %": "0.001",
    "1 %": "0.01",
    "0.1 % in bursts of 10": '{ model = "gilbert-elliott", p = 0.0001, r = 0.1 }',
}
_PART_BYTES = 1 << 24  # at once: a generator gives less than 256 MiB
_HOPELESS = 2.0
"""With so many times the best time, fewer streams of the same control are not tried."""
_SCENARIO = """
[lab]
name = "choice"
seed = {seed}
[hosts]
near = {{}}
far = {{}}
[[link]]
name = "path"
ends = ["near", "far"]
rate = "{rate} Mbit/s"
delay = "{delay} ms"
queue = {{ discipline = "fifo", limit = "100 ms" }}
forward = {{ loss = {loss} }}
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """A path.

    Attributes:
        rate_mbit_s: of whole packets.
        rtt_ms: of the empty path.
        loss: one of `LOSSES`.
    """

    rate_mbit_s: int
    rtt_ms: float
    loss: str

    @property
    def name(self) -> str:
        """For a row."""
        return f"{self.rate_mbit_s} Mbit/s, {self.rtt_ms:g} ms, {self.loss}"

    def scenario(self, seed: int) -> str:
        """As a lab has it."""
        loss = LOSSES[self.loss]
        return _SCENARIO.format(seed=seed, rate=self.rate_mbit_s, delay=self.rtt_ms / 2, loss=loss)


def settings() -> list[Setting]:
    """All losses on one path; with WEIR_BENCH_GRID=1 on every path of the grid."""
    if quick():
        return [Setting(50, 30, loss) for loss in ("no loss", "1 %")]
    if os.environ.get("WEIR_BENCH_GRID", "") in ("", "0"):
        return [Setting(200, 65, loss) for loss in LOSSES]
    grid = itertools.product((50, 200, 500), (5, 30, 65, 150), LOSSES)
    return [Setting(*one) for one in grid]


def run() -> list[dict[str, Any]]:
    """Setting by setting; all ways to send over one of them follow each other."""
    table = []
    for seed, setting in enumerate(settings(), 1):
        with open_workspace(round(4 * FILE_S * setting.rate_mbit_s * 1e6 / 8)) as folder:
            table += rows(setting, _Path(setting, seed, folder))
    return table


class _Path:
    """Sends a file over a setting, again and again.

    Args:
        setting: the path.
        seed: of the file and of what is lost.
        folder: for the file and what arrives.
    """

    def __init__(self, setting: Setting, seed: int, folder: Path) -> None:
        self._setting, self._seed, self._folder = setting, seed, folder
        self._source = folder / "file"
        seconds = FILE_S / 4 if quick() else FILE_S
        count = round(seconds * setting.rate_mbit_s * 1e6 / 8)
        draw = random.Random(seed)
        with self._source.open("wb") as file:
            for begin in range(0, count, _PART_BYTES):
                file.write(draw.randbytes(min(_PART_BYTES, count - begin)))
        self._numbers = itertools.count()

    def seconds(self, *options: str) -> float:
        """How long `weir send` takes with these options, every byte compared.

        Raises:
            TransferFailed: a file did not arrive as it was sent.
            Unavailable: it took longer than five minutes.
        """
        place = self._folder / str(next(self._numbers))
        place.mkdir()
        with Lab.up(parse(self._setting.scenario(self._seed), "the path")) as lab:
            hosts = Hosts(lab, "near", "far", "path")
            copied = copy(
                WeirSend(*options), hosts, self._source, place, lambda _at_s, _bytes: None
            )
        (place / "root" / self._source.name).unlink()
        return copied.seconds


def _unseen(_at_s: float, _bytes: int) -> None:
    """Nobody draws the rates."""


def rows(setting: Setting, path: "_Path") -> Iterator[dict[str, Any]]:
    """What was chosen beside the best fixed setting, and beside what is plain."""
    plain_s = path.seconds()
    # What most hosts have, whatever this one's default is.
    auto_s = path.seconds("--cca", "auto", "--fallback", "cubic")
    best, best_s = "plain", plain_s
    for control in CONTROLS:
        if control not in kernel_controls.offered():
            continue
        for streams in STREAMS:
            took_s = path.seconds("--cca", control, "--streams", str(streams))
            if took_s < best_s:
                best, best_s = f"{control}, {streams} streams", took_s
            if took_s > _HOPELESS * best_s:
                break
    yield row(f"choice, {setting.name}: auto", "s", auto_s, f"best fixed: {best}", best_s, 1)
    yield row(f"choice, {setting.name}: auto", "s", auto_s, "plain", plain_s, 1)
