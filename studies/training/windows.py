"""Windows of series, and how they are divided into what is learned from and what is tested.

A window keeps the run that it was cut from. Folds by run (`by_run`) test on runs of which nothing
was seen; shuffled ones (`shuffled`) have a test window's neighbours in time, of the same run, among
what is learned from, and therefore say too much (A-18 of 001-spec).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from weir.congestion.classify.classes import SIX_LABELS
from weir.errors import BadInput

Series: TypeAlias = Sequence[float]
Fold: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Indices of windows: to learn from, and to test."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of one length.

    Attributes:
        values: round-trip times in ms, a window in each row.
        labels: the number in `CLASSES` of each.
        runs: the run that each was cut from, from 0.
    """

    values: NDArray[np.float64]
    labels: NDArray[np.intp]
    runs: NDArray[np.intp]


def cut(series: Series, length: int, stride: int | None = None) -> NDArray[np.float64]:
    """Windows of `length` samples, each `stride` after the one before; side by side without it.

    Raises:
        BadInput: the length or the stride is not above zero.
    """
    step = length if stride is None else stride
    if length < 1 or step < 1:
        raise BadInput(f"windows of {length} samples every {step}: both are above 0")
    begins = range(0, len(series) - length + 1, step)
    values = [series[begin : begin + length] for begin in begins]
    return np.array(values, dtype=np.float64).reshape(len(values), length)


def windows_of(runs: Mapping[str, Sequence[Series]], length: int) -> Windows:
    """Windows of `length`, which do not overlap, of every run of every class.

    Args:
        runs: series by the label of their class.
        length: in samples.

    Raises:
        BadInput: there is no such class, or no run is as long.
    """
    values, labels, origins = [], [], []
    for label, many in runs.items():
        if label not in SIX_LABELS:
            raise BadInput(f"{label!r} is not a class; there are {', '.join(SIX_LABELS)}")
        for run, series in enumerate(many):
            found = cut(series, length)
            values.append(found)
            labels.append(np.full(len(found), SIX_LABELS.index(label), dtype=np.intp))
            origins.append(np.full(len(found), run, dtype=np.intp))
    if not sum(len(found) for found in values):
        raise BadInput(f"no series has the {length} samples of a window")
    return Windows(np.concatenate(values), np.concatenate(labels), np.concatenate(origins))


def by_run(windows: Windows) -> list[Fold]:
    """A fold for each run: it is tested by what the others teach."""
    return [
        (np.flatnonzero(windows.runs != run), np.flatnonzero(windows.runs == run))
        for run in np.unique(windows.runs)
    ]


def shuffled(windows: Windows, count: int, seed: int) -> list[Fold]:
    """`count` folds, each with the same share of every class, drawn at random."""
    draw = np.random.default_rng(seed)
    fold = np.empty(len(windows.labels), dtype=np.intp)
    for label in np.unique(windows.labels):
        members = draw.permutation(np.flatnonzero(windows.labels == label))
        fold[members] = np.arange(len(members)) % count
    return [(np.flatnonzero(fold != one), np.flatnonzero(fold == one)) for one in range(count)]
