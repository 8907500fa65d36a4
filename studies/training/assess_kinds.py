"""How well the recogniser tells of what kind a background is, on paths it did not learn from.

`weir ops assess --kinds` prints the tables. A kind is right where it is said of windows of it, and
of the others where nothing is said; of paths that are unknown nothing is said.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studies.training.examples import cut
from studies.training.kinds import grid
from studies.training.train import FOLDER, SEED
from studies.training.train_kinds import DRAWS, LABELS, kinds_of
from weir.congestion.classify.opinions import UNUSUAL
from weir.congestion.classify.recogniser import Recogniser
from weir.congestion.recordings import Recording

COUNT = 384
TEST_SEED = 12
"""A grid of this seed was looked at when everything was learned and chosen, and not before."""
STRIDE_S = 5.0
NONE, UNKNOWN = "nothing", "unknown"


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """What a recogniser said of windows of one length.

    Attributes:
        names: the kinds' labels, the first for none of them.
        truth: the number of each window's kind.
        what: what each window is called: a background's label, or one of `HELD`.
        likeliest: the number of the likeliest kind, or of none.
        said: the number of the kind that is said, 0 if none is, -1 where the path is unknown.
        taken: the label of the background that each is taken for.
    """

    names: tuple[str, ...]
    truth: NDArray[np.intp]
    what: NDArray[np.str_]
    likeliest: NDArray[np.intp]
    said: NDArray[np.intp]
    taken: NDArray[np.str_]

    @classmethod
    def of(cls, recogniser: Recogniser, recordings: Sequence[Recording], seconds: int) -> "Said":
        """On all windows of the recordings, 5 s after each other."""
        seed = 10 * SEED + DRAWS + 1  # Hosts otherwise than in training.
        found = cut(recordings, LABELS, recogniser.rate_hz, seconds, STRIDE_S, seed)
        backgrounds, usual = recogniser.judge(found.windows, seconds)
        shares = recogniser.judge_kinds(found.windows, seconds)
        said = recogniser.said_kinds(shares, seconds)
        return cls(
            names=("none", *recogniser.kinds),
            truth=kinds_of(found),
            what=np.array(LABELS)[found.labels],
            likeliest=shares.argmax(axis=1),
            said=np.where(usual >= UNUSUAL, said, -1),
            taken=np.array(recogniser.labels)[backgrounds.argmax(axis=1)],
        )

    def right(self, kind: int) -> float:
        """Share of a kind's windows of which it is said."""
        return float((self.said[self.truth == kind] == kind).mean())

    def false(self, kind: int) -> float:
        """Share of the windows of anything else of which it is said."""
        return float((self.said[self.truth != kind] == kind).mean())

    def precision(self, kind: int) -> float:
        """Share of the windows of which it is said that are of it; NaN if of none."""
        of = self.truth[self.said == kind]
        return float((of == kind).mean()) if len(of) else float("nan")


def assess_kinds(
    recogniser: Recogniser,
    recordings: Sequence[Recording] | None,
    count: int = COUNT,
    seed: int = TEST_SEED,
    folder: Path = FOLDER,
) -> Iterator[str]:
    """Tables in Markdown, line by line.

    Args:
        recogniser: the one that is asked.
        recordings: it is asked about these; None takes a grid.
        count: recordings of the grid.
        seed: of the grid's paths.
        folder: where the grid is kept.

    Raises:
        WeirError: the grid cannot be kept there.
    """
    yield from report(recogniser, recordings or list(grid(count, seed, folder)))


def report(recogniser: Recogniser, recordings: Sequence[Recording]) -> Iterator[str]:
    """Lines of Markdown."""
    every = {seconds: Said.of(recogniser, recordings, seconds) for seconds in recogniser.seconds}
    yield f"{len(recordings)} recordings. By kind, % of its windows, and of those said to be it:\n"
    yield (
        "| kind | s | windows | path unknown | likeliest | said | another said | nothing said | "
        "right where said | said of others |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for kind, name in enumerate(every[recogniser.seconds[0]].names):
        for seconds, found in every.items():
            if kind:
                yield _row(name, seconds, kind, found)
    for seconds, found in every.items():
        yield f"\nWindows of {seconds} s by what they are and what is said of them:\n"
        yield from _confusion(found)


def _row(name: str, seconds: int, kind: int, found: Said) -> str:
    here = found.said[found.truth == kind]
    if not len(here):
        return f"| {name} | {seconds} | 0 |" + " - |" * 7
    likeliest = found.likeliest[found.truth == kind] == kind
    cells = [here == -1, likeliest, here == kind, (here > 0) & (here != kind), here == 0]
    shares = " | ".join(f"{100 * cell.mean():.1f}" for cell in cells)
    ends = f"{100 * found.precision(kind):.1f} | {100 * found.false(kind):.2f}"
    return f"| {name} | {seconds} | {len(here)} | {shares} | {ends} |"


def _confusion(found: Said) -> Iterator[str]:
    """A row for each background and each of `HELD`; the last column is of who is there."""
    columns = (*found.names[1:], NONE, UNKNOWN)
    yield "| |" + "".join(f" {name} |" for name in columns) + " taken for |"
    yield "|---|" + "---|" * (len(columns) + 1)
    for what in LABELS:
        of = found.what == what
        if not of.any():
            continue
        counts = Counter(found.said[of].tolist())
        cells = [counts[number] for number in (*range(1, len(found.names)), 0, -1)]
        words = _taken_for(found.taken[of])
        yield f"| {what} |" + "".join(f" {cell} |" for cell in cells) + f" {words} |"


def _taken_for(labels: NDArray[np.str_]) -> str:
    counts: Mapping[str, int] = Counter(labels.tolist())
    first = sorted(counts, key=lambda label: -counts[label])[:3]
    return ", ".join(f"{label} {counts[label]}" for label in first)
