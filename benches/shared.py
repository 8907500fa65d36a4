"""What `weir send` gets beside others and leaves to them: beside each control throughout.

A file goes over a lab's path on which streams of others are already, as `weir send` chooses and
under CUBIC and BBR. Its share is its goodput over what each would have if the path's payload were
divided equally; a stream that comes late has its share only in time, so the last third stands for
itself. Four labs run at a time.
"""

import itertools
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from benches.harness import PAYLOAD, quick, row
from studies.rig.trial import Trial, carry_out
from studies.rig.trial.outcome import Outcome
from weir.congestion.recordings import NetworkPath

PATHS = (("90 Mbit/s, 40 ms, 1 BDP", 0.0), ("70 Mbit/s, 20 ms, 1.3 BDP", 0.0001))
"""Rate, round trip and queue; the share of packets lost at random."""
OTHERS = (
    *("1 cubic", "2 cubic", "4 cubic", "16 cubic", "1 reno"),
    *("1 bbr", "2 bbr", "4 bbr", "1 cubic, 1 bbr"),
)
CONTROLS = ("auto", "cubic", "bbr")
SECONDS = 90.0
_AT_ONCE = 4  # labs that two processors carry


@dataclass(frozen=True, slots=True)
class Cell:
    """One file beside some others.

    Attributes:
        path: rate, round trip and queue.
        loss: the share of packets that the path loses at random.
        others: how many streams of which controls.
        control: of the file.
        seconds: how long it is looked at.
    """

    path: str
    loss: float
    others: str
    control: str
    seconds: float

    def measure(self, number: int) -> Outcome:
        """Carries it out, in a lab that the number tells from others."""
        path, seed = NetworkPath.parse(self.path), 400 + OTHERS.index(self.others)
        trial = Trial(
            self.others, self.control, path, self.seconds, 10.0, seed=seed, loss=self.loss
        )
        found = carry_out(trial, f"shared-{number}")
        words = f"{found.own_bps / 1e6:.1f} Mbit/s, {', '.join(found.controls)}"
        print(self, words, *found.flaws, sep="; ", file=sys.stderr, flush=True)
        return found

    def share(self, outcome: Outcome) -> float:
        """The file's goodput over an equal part of the path's payload."""
        streams = 1 + len(outcome.others)
        return outcome.own_bps * streams / (NetworkPath.parse(self.path).rate_bps * PAYLOAD)


def rows(cells: Sequence[tuple[Cell, Outcome]]) -> Iterator[dict[str, Any]]:
    """What was chosen beside each fixed control, in every setting."""
    by_setting = itertools.groupby(cells, lambda one: (one[0].path, one[0].loss, one[0].others))
    for (path, loss, others), group in by_setting:
        found = {cell.control: (cell, outcome) for cell, outcome in group}
        words = f"{path}" + (f", {loss:.2%} loss" if loss else "") + f", beside {others}"
        for control in CONTROLS[1:]:
            for unit, of in _MEASURES.items():
                ours, theirs = of(*found["auto"]), of(*found[control])
                yield row(words, unit, ours, f"{control} throughout", theirs, 1)


_MEASURES = {
    "of an equal share": Cell.share,
    "of one in the last third": lambda cell, found: cell.share(found.last(cell.seconds / 3)),
    "Jain's index": lambda _, found: found.jain_of_means,
    "Jain's index in the last third": lambda cell, found: (
        found.last(cell.seconds / 3).jain_of_means
    ),
}


def run() -> list[dict[str, Any]]:
    """Every setting; a small part when WEIR_BENCH_QUICK=1."""
    paths, others = (PATHS[:1], OTHERS[:1]) if quick() else (PATHS, OTHERS)
    seconds = 20.0 if quick() else SECONDS
    cells = [
        Cell(path, loss, other, control, seconds)
        for (path, loss), other, control in itertools.product(paths, others, CONTROLS)
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(Cell.measure, cells, itertools.count())
        return list(rows(list(zip(cells, found, strict=True))))
