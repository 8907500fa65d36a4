"""What `weir send` finds on paths where nobody else is: beside the best fixed setting.

A grid of rates, delays and losses, as links of a lab with a queue of 100 ms. On each of them a file
goes as `weir send` chooses, and under every control with 1 to 16 streams: a row's peer is the best
of these, which nobody is told beforehand. What takes longer than the best before it is stopped.
Where the choice takes at most a tenth longer than a file of one byte and the line itself take for
so many bytes, no setting can be further ahead: these are the peer then, and none is tried.
WEIR_BENCH_GRID=1 asks for the whole grid, which takes an hour or two, WEIR_BENCH_GRID=50 or
50,200 for these rates; without it one rate and delay stand for all.

WEIR_BENCH_PAIRS=1 asks one question of the whole grid, in some twenty minutes: where is what is
chosen slower than plain CUBIC? Each setting has a file that takes plain CUBIC six seconds
at most, and each goes once either way, one after the other, over the same losses.
WEIR_BENCH_PAIRS=50 or 50,200 asks it of these rates alone.
"""

import itertools
import os
import random
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.harness import PAYLOAD, quick, row
from studies.rig.copying import LIMIT_S, Hosts, WeirSend, copy
from studies.rig.workspace import open_workspace
from weir import kernel_controls
from weir.congestion.choice.response import reach_bps
from weir.congestion.path import PathState
from weir.errors import Unavailable, WeirError
from weir.lab import Lab, parse

CONTROLS = ("bbr", "cubic", "reno")
STREAMS = (16, 8, 4, 2, 1)
FILE_S = 8.0
"""A file takes so long at the path's rate: 500 MB at 500 Mbit/s."""
LOSSES = {
    "no loss": "0",
    "0.001 %": "0.00001",
    "0.01 %": "0.0001",
    "0.1 %": "0.001",
    "1 %": "0.01",
    "0.1 % in bursts of 10": '{ model = "gilbert-elliott", p = 0.0001, r = 0.1 }',
}
RANDOM = {
    "no loss": (0.0, 0.0),
    "0.001 %": (1e-5, 1e-5),
    "0.01 %": (1e-4, 1e-4),
    "0.1 %": (1e-3, 1e-3),
    "1 %": (1e-2, 1e-2),
    "0.1 % in bursts of 10": (1e-3, 1e-4),
}
"""What `LOSSES` lose: the share of packets, and losses for each where a burst counts once."""
_PART_BYTES = 1 << 24  # at once: a generator gives less than 256 MiB
ENOUGH = 1.10
"""With at most so much of the least time possible a choice is no further from the best setting."""
LEAST = "a file of one byte, and the line for the rest"
PAIR_S = 6.0
"""A file of a pair takes plain sending so long at most."""
SLOWER = 1.02
"""With more than so much of plain sending's time a choice has cost something."""
_AGAIN = 2
_HOPELESS = 0.5
"""Where so little of a file went in the best time, fewer streams of a control are not tried."""
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
    """All losses on one path; with WEIR_BENCH_GRID on every path of the grid, or of some rates."""
    if quick():
        return [Setting(50, 30, loss) for loss in ("no loss", "1 %")]
    return _asked("WEIR_BENCH_GRID") or [Setting(200, 65, loss) for loss in LOSSES]


def _asked(variable: str) -> list[Setting]:
    """The part of the grid that the environment asks for: 1 for all, or rates; empty for none."""
    rates = os.environ.get(variable, "")
    if rates in ("", "0"):
        return []
    return _grid((50, 200, 500) if rates == "1" else map(int, rates.split(",")))


def _grid(rates_mbit_s: Iterable[int]) -> list[Setting]:
    grid = itertools.product(rates_mbit_s, (5, 30, 65, 150), LOSSES)
    return [Setting(*one) for one in grid]


def run() -> list[dict[str, Any]]:
    """Setting by setting; all ways to send over one of them follow each other."""
    if asked := _asked("WEIR_BENCH_PAIRS"):
        return pairs(asked)
    table: list[dict[str, Any]] = []
    for seed, setting in enumerate(settings(), 1):
        table += measured(setting, seed)
    return table


def measured(setting: Setting, seed: int) -> list[dict[str, Any]]:
    """The rows of one path, told as soon as they are known."""
    with open_workspace(round(4 * FILE_S * setting.rate_mbit_s * 1e6 / 8)) as folder:
        found = list(rows(setting, _Path(setting, seed, folder)))
    last = found[-1]
    print(
        f"{last['metric']}: {last['ours']:.2f} s, {last['peer']} {last['peer_value']:.2f} s",
        file=sys.stderr,
        flush=True,
    )
    return found


class _Path:
    """Sends a file over a setting, again and again.

    Args:
        setting: the path.
        seed: of the file and of what is lost.
        folder: for the file and what arrives.
        count: bytes of the file; None for what takes `FILE_S` at the path's rate.
    """

    def __init__(self, setting: Setting, seed: int, folder: Path, count: int | None = None) -> None:
        self._setting, self._seed, self._folder = setting, seed, folder
        self._source, self._byte = folder / "file", folder / "byte"
        self._byte.write_bytes(b"1")
        if count is None:
            seconds = FILE_S / 4 if quick() else FILE_S
            count = round(seconds * setting.rate_mbit_s * 1e6 / 8)
        self._count = count
        draw = random.Random(seed)
        with self._source.open("wb") as file:
            for begin in range(0, count, _PART_BYTES):
                file.write(draw.randbytes(min(_PART_BYTES, count - begin)))
        self._numbers = itertools.count()
        self._carried = 0

    def least_s(self) -> float:
        """How long any setting takes at least: a file of one byte, and the line for all the others.

        The line carries full packets at its rate.
        """
        rate_bps = self._setting.rate_mbit_s * 1e6 * PAYLOAD
        return self._seconds(self._byte, ("--cca", "cubic")) + 8 * self._count / rate_bps

    @property
    def share(self) -> float:
        """How much of the file the link had carried when it was last looked at."""
        return self._carried / self._count

    def seconds(self, *options: str, limit_s: float = LIMIT_S) -> float:
        """How long `weir send` takes with these options, every byte compared.

        Raises:
            TransferFailed: a file did not arrive as it was sent.
            Unavailable: it took longer than it may.
        """
        return self._seconds(self._source, options, limit_s)

    def _seconds(self, source: Path, options: Sequence[str], limit_s: float = LIMIT_S) -> float:
        def seen(_at_s: float, count: int) -> None:
            self._carried = count

        place = self._folder / str(next(self._numbers))
        place.mkdir()
        with Lab.up(parse(self._setting.scenario(self._seed), "the path")) as lab:
            hosts = Hosts(lab, "near", "far", "path")
            copied = copy(WeirSend(*options), hosts, source, place, seen, limit_s)
        (place / "root" / source.name).unlink()
        return copied.seconds


def pair_bytes(setting: Setting) -> int:
    """What plain sending under CUBIC carries in `PAIR_S`, by its response function."""
    share, event_rate = RANDOM[setting.loss]
    packets = 10**9
    path = PathState(
        use=None,
        rtt_s=setting.rtt_ms / 1e3,
        goodput_bps=0.0,
        delivered=packets,
        lost=round(share * packets),
        loss_events=round(event_rate * packets),
    )
    rate_bps = min(setting.rate_mbit_s * 1e6, reach_bps("cubic", path))
    return round(PAIR_S * rate_bps / 8)


def pairs(grid: Sequence[Setting]) -> list[dict[str, Any]]:
    """What was chosen beside what is plain, of each setting once; how many were slower, last.

    What comes first takes turns. A setting where it was slower is tried twice more, with other
    losses, and the medians count. One that fails is told, and the others go on.
    """
    table: list[dict[str, Any]] = []
    for seed, setting in enumerate(grid, 1):
        count = pair_bytes(setting)
        try:
            with open_workspace(4 * count) as folder:
                one = _pair(setting, seed, count, folder)
        except WeirError as error:
            print(f"choice, {setting.name}: {error}", file=sys.stderr, flush=True)
            continue
        print(
            f"{one['metric']}, {count / 1e6:.1f} MB: {one['ours']:.2f} s, plain "
            f"{one['peer_value']:.2f} s, {one['ratio']:.3f}",
            file=sys.stderr,
            flush=True,
        )
        table.append(one)
    slower = sum(one["ratio"] > SLOWER for one in table)
    words = f"choice: settings of {len(table)} where auto takes over {SLOWER:g} of plain's time"
    return [*table, row(words, "settings", slower, None, None, 1)]


def _pair(setting: Setting, seed: int, count: int, folder: Path) -> dict[str, Any]:
    ways = {"auto": ("--cca", "auto", "--fallback", "cubic"), "plain": ("--cca", "cubic")}
    took_s: dict[str, list[float]] = {way: [] for way in ways}
    for attempt in range(1 + _AGAIN):
        if attempt and statistics.median(took_s["auto"]) <= SLOWER * statistics.median(
            took_s["plain"]
        ):
            break
        place = folder / f"attempt-{attempt}"
        place.mkdir()
        path = _Path(setting, seed + 1000 * attempt, place, count)
        for way in sorted(ways, reverse=(seed + attempt) % 2 == 1):
            took_s[way].append(path.seconds(*ways[way]))
    auto_s, plain_s = (statistics.median(took_s[way]) for way in ("auto", "plain"))
    words = f"choice, {setting.name}: auto"
    return row(words, "s", auto_s, "plain", plain_s, took_s["auto"])


def rows(setting: Setting, path: "_Path") -> Iterator[dict[str, Any]]:
    """What was chosen beside the best fixed setting, or the least time where that is enough."""
    # What most hosts have, whatever this one's default is.
    auto_s = path.seconds("--cca", "auto", "--fallback", "cubic")
    if auto_s <= ENOUGH * (least_s := path.least_s()):
        yield row(f"choice, {setting.name}: auto", "s", auto_s, LEAST, least_s, 1)
        return
    best, best_s = "none", LIMIT_S
    for control in CONTROLS:
        if control not in kernel_controls.offered():
            continue
        for streams in STREAMS:
            try:
                took_s = path.seconds("--cca", control, "--streams", str(streams), limit_s=best_s)
                best, best_s = f"{control}, {streams} streams", took_s
            except Unavailable:
                if path.share < _HOPELESS:
                    break
    yield row(f"choice, {setting.name}: auto", "s", auto_s, f"best fixed: {best}", best_s, 1)
