"""How good the recogniser is, on recordings of paths that it was not trained on.

`weir ops assess` prints its tables. "Six" are windows of the work's six classes; the answer is
either the most probable of all labels, or of the six.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studies.training.examples import Examples, cut, side
from studies.training.grid import grid
from studies.training.train import COUNT, DRAWS, FOLDER, SEED
from weir.congestion.classify.classes import BACKGROUNDS, SIX_LABELS
from weir.congestion.classify.features import Values
from weir.congestion.classify.opinions import UNUSUAL
from weir.congestion.classify.recogniser import Recogniser
from weir.congestion.classify.warping import KnnIndex
from weir.congestion.cycle.probing import is_sure, looks
from weir.congestion.recordings import NetworkPath, Recording, load

STRIDE_S = 5
_BINS = 10
_HAS_BBR = {background.label: background.has_bbr for background in BACKGROUNDS}
_KINDS = dict.fromkeys(("B0-C1", "C1-C1", "R1", "R2", "Cn"), "loss")
_KINDS |= dict.fromkeys(("B1-C0", "B1-B1", "Bn"), "BBR")
_KINDS |= dict.fromkeys(("B1-C1", "Bn-Cn"), "both")
_SINGLE = ("B0-C1", "R1", "B1-C0")
"""One stream of CUBIC, of Reno, of BBR."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What a recogniser said of windows of one length.

    Attributes:
        labels: in the order of their numbers.
        truth: the number of each window's label.
        shares: probabilities, a row for each window.
        usual: p-values.
        recordings: that each window was cut from.
    """

    labels: tuple[str, ...]
    truth: NDArray[np.intp]
    shares: Values
    usual: Values
    recordings: Sequence[Recording]

    @classmethod
    def of(cls, recogniser: Recogniser, recordings: Sequence[Recording], seconds: int) -> "Answers":
        """On all windows of the recordings, 5 s after each other."""
        rate, seed = recogniser.rate_hz, 10 * SEED + DRAWS + 1  # Hosts otherwise than in training.
        found = cut(recordings, recogniser.labels, rate, seconds, STRIDE_S, seed)
        shares, usual = recogniser.judge(found.windows, seconds)
        origins = [recordings[number] for number in found.recordings]
        return cls(recogniser.labels, found.labels, shares, usual, origins)

    @property
    def six(self) -> Mask:
        """Which windows are of the work's classes; these come first among the labels."""
        found: Mask = self.truth < len(SIX_LABELS)
        return found

    def right(self) -> Mask:
        """Whether the most probable of all labels is the true one."""
        found: Mask = self.shares.argmax(axis=1) == self.truth
        return found

    def right_of_six(self) -> Mask:
        """Whether the most probable of the work's six labels alone is the true one."""
        found: Mask = self.shares[:, : len(SIX_LABELS)].argmax(axis=1) == self.truth
        return found

    @property
    def bbr(self) -> Values:
        """Probability that BBR is present."""
        found: Values = self.shares[:, [_HAS_BBR[label] for label in self.labels]].sum(axis=1)
        return found

    def right_about_bbr(self) -> Mask:
        """Whether BBR's presence is answered rightly."""
        there = np.array([_HAS_BBR[label] for label in self.labels])[self.truth]
        found: Mask = (self.bbr > 0.5) == there
        return found

    def right_kind(self) -> Mask:
        """Whether the kind is right: nobody, streams without BBR, with, or both; others."""
        kinds = np.array([_KINDS.get(label, label) for label in self.labels])
        names = np.unique(kinds)
        of_kind = np.stack([self.shares[:, kinds == name].sum(axis=1) for name in names], axis=1)
        found: Mask = names[of_kind.argmax(axis=1)] == kinds[self.truth]
        return found

    def right_of_single(self) -> Mask:
        """Whether the most probable of CUBIC, Reno and BBR is right, in windows of one stream."""
        of = np.array([self.labels.index(label) for label in _SINGLE])
        here = np.isin(self.truth, of)
        found: Mask = of[self.shares[here][:, of].argmax(axis=1)] == self.truth[here]
        return found

    def where(self, of: Callable[[NetworkPath], bool]) -> Mask:
        """Which windows are of such paths."""
        return np.array([of(one.path) for one in self.recordings], dtype=np.bool_)

    def calibration_error(self) -> float:
        """Expected calibration error of the most probable label, in ten bins of equal width."""
        return calibration_error(self.shares.max(axis=1), self.right())

    def bbr_calibration_error(self) -> float:
        """Expected calibration error of the answer about BBR."""
        return calibration_error(np.maximum(self.bbr, 1 - self.bbr), self.right_about_bbr())

    def confusion(self) -> NDArray[np.intp]:
        """How many windows of each label (row) were taken for each (column)."""
        counts = np.zeros((len(self.labels), len(self.labels)), dtype=np.intp)
        np.add.at(counts, (self.truth, self.shares.argmax(axis=1)), 1)
        return counts


def calibration_error(said: Values, right: Mask) -> float:
    """Mean distance between what was said and how often it was right (Guo et al., ICML 2017)."""
    bins = np.minimum((said * _BINS).astype(np.intp), _BINS - 1)
    gaps = [
        abs(said[bins == one].mean() - right[bins == one].mean()) * (bins == one).mean()
        for one in np.unique(bins)
    ]
    return float(sum(gaps))


REGIONS: Mapping[str, Callable[[NetworkPath], bool]] = {
    "50-150 Mbit/s": lambda path: path.rate_bps < 150e6,
    "150-400 Mbit/s": lambda path: 150e6 <= path.rate_bps < 400e6,
    "400-1000 Mbit/s": lambda path: path.rate_bps >= 400e6,
    "10-30 ms": lambda path: path.rtt_ns < 30e6,
    "30-80 ms": lambda path: 30e6 <= path.rtt_ns < 80e6,
    "80-200 ms": lambda path: path.rtt_ns >= 80e6,
    "buffer below 1 BDP": lambda path: _bdps(path) < 1,
    "1-2 BDP": lambda path: 1 <= _bdps(path) < 2,
    "2-4 BDP": lambda path: _bdps(path) >= 2,
    "drop-tail": lambda path: path.discipline == "fifo",
    "CoDel, PIE, DualPI2": lambda path: path.discipline != "fifo",
}


def _bdps(path: NetworkPath) -> float:
    return path.buffer_bytes * 8 / path.rate_bps / (path.rtt_ns / 1e9)


# --- the work's nearest neighbour ---


def nearest_neighbour(
    learned: Sequence[Recording], tested: Sequence[Recording], seconds: int
) -> tuple[float, float]:
    """What the work's 1-NN under time warping gets right of six classes, and about BBR.

    Args:
        learned: as the work's prober saw them, one sample a second; others than the six are left
            out.
        tested: the same.
        seconds: of a window, and its samples.
    """
    known, asked = (_of_six(recordings, seconds) for recordings in (learned, tested))
    index = KnnIndex(known.windows)
    near = [index.nearest(window, 1)[0][0] for window in asked.windows]
    guess = known.labels[near]
    there = np.array([_HAS_BBR[label] for label in SIX_LABELS])
    right = guess == asked.labels
    return float(right.mean()), float((there[guess] == there[asked.labels]).mean())


def _of_six(recordings: Sequence[Recording], seconds: int) -> Examples:
    six = [_held(one) for one in recordings if one.label in SIX_LABELS]
    return cut(six, SIX_LABELS, 1, seconds, STRIDE_S, SEED)


def _held(recording: Recording) -> Recording:
    """With a sample without a reply repeating the one before it (A-12)."""
    values = recording.rtt_ms.copy()
    last = np.nanmin(values)
    for number, value in enumerate(values):
        last = values[number] = last if np.isnan(value) else value
    return replace(recording, source="kernel", rtt_ms=values)  # As seen: nothing is added.


# --- a transfer's probing ---


@dataclass(frozen=True, slots=True)
class Silence:
    """One probing, as `weir.congestion.cycle` would have probed a recorded path.

    Attributes:
        seconds: how long it takes.
        right: whether the answer about BBR is.
    """

    seconds: float
    right: bool


def probings(recogniser: Recogniser, recordings: Sequence[Recording]) -> list[Silence]:
    """A probing that begins every 10 s of each recording; those are of the recogniser's rate."""
    counts = looks(recogniser)
    found = []
    for recording in recordings:
        for begin in range(0, len(recording.rtt_ms) - counts[-1] + 1, counts[-1]):
            for count in counts:
                seen = recogniser.of_series(recording.rtt_ms[begin : begin + count])
                if is_sure(seen):
                    break
            right = (seen.bbr > 0.5) == _HAS_BBR[recording.label]
            found.append(Silence(count / recogniser.rate_hz, right))
    return found


# --- the page ---


def report(recogniser: Recogniser, recordings: Sequence[Recording]) -> Iterator[str]:
    """Lines of Markdown."""
    every = {seconds: Answers.of(recogniser, recordings, seconds) for seconds in recogniser.seconds}
    yield f"{len(recordings)} recordings. % right:\n"
    lengths = "".join(f" {seconds} s |" for seconds in every)
    yield f"| |{lengths}"
    yield "|---|" + "---|" * len(every)
    for name, of in _FIGURES.items():
        yield f"| {name} |" + "".join(f" {of(answers):.1f} |" for answers in every.values())
    yield f"\nBy path: BBR present at {', '.join(f'{s} s' for s in every)}; six of six:\n"
    heads = [f"{what} {s} s" for what in ("BBR,", "six,") for s in every]
    yield "| path | windows |" + "".join(f" {head} |" for head in heads)
    yield "|---|---|" + "---|" * len(heads)
    for name, holds in REGIONS.items():
        yield _region(name, holds, list(every.values()))
    if all(one.source == "kernel" for one in recordings):
        found = probings(recogniser, recordings)
        yield (
            f"\nOne probing, as a transfer's: {np.mean([one.seconds for one in found]):.1f} s in "
            f"the mean of {len(found)}, right about BBR in "
            f"{np.mean([one.right for one in found]):.1%}"
        )
    last = every[recogniser.seconds[-1]]
    yield f"\nWindows of {recogniser.seconds[-1]} s by what they are and are taken for:\n"
    yield "| |" + "".join(f" {label} |" for label in last.labels)
    yield "|---|" + "---|" * len(last.labels)
    for label, row in zip(last.labels, last.confusion(), strict=True):
        yield f"| {label} |" + "".join(f" {count} |" for count in row)


def _region(name: str, holds: Callable[[NetworkPath], bool], every: Sequence[Answers]) -> str:
    cells = []
    for answers in every:
        here = answers.six & answers.where(holds)
        cells.append(_share(answers.right_about_bbr()[here]))
    for answers in every:
        here = answers.six & answers.where(holds)
        cells.append(_share(answers.right_of_six()[here]))
    first = every[0]
    windows = int((first.six & first.where(holds)).sum())
    return f"| {name} | {windows} |" + "".join(f" {cell} |" for cell in cells)


def _share(right: Mask) -> str:
    return f"{_percent(right):.1f}" if len(right) else "-"


def _percent(right: Mask) -> float:
    """NaN of nothing."""
    return 100 * float(right.mean()) if len(right) else math.nan


_FIGURES: Mapping[str, Callable[[Answers], float]] = {
    "BBR present, six classes": lambda a: _percent(a.right_about_bbr()[a.six]),
    "BBR present, all": lambda a: _percent(a.right_about_bbr()),
    "kind, six classes": lambda a: _percent(a.right_kind()[a.six]),
    "six classes, best of the six": lambda a: _percent(a.right_of_six()[a.six]),
    "six classes, best of all": lambda a: _percent(a.right()[a.six]),
    "all labels": lambda a: _percent(a.right()),
    "one stream: CUBIC, Reno or BBR": lambda a: _percent(a.right_of_single()),
    "calibration error, label": lambda a: 100 * a.calibration_error(),
    "calibration error, BBR": lambda a: 100 * a.bbr_calibration_error(),
    "called unknown": lambda a: 100 * (a.usual < UNUSUAL).mean(),
}


def assess(
    recogniser: Recogniser,
    recordings: Sequence[Recording] | None,
    count: int = COUNT,
    seed: int = SEED,
    folder: Path = FOLDER,
    neighbours: bool = False,
) -> Iterator[str]:
    """Tables in Markdown, line by line.

    Args:
        recogniser: the one that is asked.
        recordings: it is asked about these; None takes the grid's paths that are kept for testing.
        count: recordings of the grid.
        seed: of the grid's paths.
        folder: where the grid is kept.
        neighbours: the work's 1-NN follows, on the grid's paths.

    Raises:
        WeirError: the grid cannot be kept there.
    """
    if recordings is not None:
        yield from report(recogniser, recordings)
        return
    both = list(grid(count, seed, folder))
    yield from report(recogniser, [fast for fast, _ in both if side(fast) == "test"])
    if neighbours:
        slow = [one for _, one in both]
        learned = [one for one in slow if side(one) != "test"]
        tested = [one for one in slow if side(one) == "test"]
        for seconds in (5, 10, 20):
            six, bbr = nearest_neighbour(learned, tested, seconds)
            yield f"1-NN, {seconds} s: six {six:.1%}, BBR {bbr:.1%}"


def unseen(files: Sequence[Path]) -> list[Recording]:
    """The recordings of even seeds in `files`, which nothing is learned from.

    Raises:
        BadInput: a file holds no recordings.
    """
    return [one for path in files for one in load(path) if side(one) == "test"]
