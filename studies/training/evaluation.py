"""How often classifiers are right: on folds of windows, by class, and in the two scenarios."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from studies.training.classifiers import FAMILIES
from studies.training.windows import Series, by_run, shuffled, windows_of
from weir.congestion.classify.classes import CLASSES, Mixture

FOLDS = 5
_SEED = 1


def evaluate(
    runs: Mapping[str, Sequence[Series]], lengths: Sequence[int], family: str
) -> dict[str, dict[str, dict[str, list[list[list[int]]]]]]:
    """What a family of classifiers takes the windows of each class for.

    Args:
        runs: series in ms by the label of their class, as many of each.
        lengths: of windows, in samples; those that leave a fold without a window are left out.
        family: of `FAMILIES`.

    Returns:
        By the length (in words, as JSON wants it), the folds (`by run` or `shuffled`) and the
        classifier: a table for each fold, of how many windows of each class (row) were taken for
        each class (column).
    """
    return {
        str(length): _at(runs, length, family)
        for length in lengths
        if all(len(series) >= length for many in runs.values() for series in many)
    }


def _at(
    runs: Mapping[str, Sequence[Series]], length: int, family: str
) -> dict[str, dict[str, list[list[list[int]]]]]:
    windows = windows_of(runs, length)
    found = {}
    for name, folds in (
        ("by run", by_run(windows)),
        ("shuffled", shuffled(windows, FOLDS, _SEED)),
    ):
        found[name] = {
            classifier: [
                table(windows.labels[test], guesses).tolist()
                for (_, test), guesses in zip(folds, predictions, strict=True)
            ]
            for classifier, predictions in FAMILIES[family](windows, folds).items()
        }
    return found


def table(labels: NDArray[np.intp], guesses: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many of each class (row) were taken for each (column)."""
    counts = np.zeros((len(CLASSES), len(CLASSES)), dtype=np.intp)
    np.add.at(counts, (labels, guesses), 1)
    return counts


@dataclass(frozen=True, slots=True)
class Score:
    """How well one class was recognised.

    Attributes:
        precision: share of what was taken for it that was it; 0 if nothing was.
        recall: share of it that was taken for it.
        f1: their harmonic mean.
        support: how often it was there.
    """

    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True, slots=True)
class Confusion:
    """A table of what was taken for what, of all folds or of one."""

    counts: NDArray[np.intp]

    @classmethod
    def pooled(cls, folds: Sequence[Sequence[Sequence[int]]]) -> "Confusion":
        """The confusion of all folds together."""
        return cls(np.sum(np.array(folds, dtype=np.intp), axis=0))

    @property
    def accuracy(self) -> float:
        """Share that was taken for what it was."""
        return float(np.trace(self.counts) / self.counts.sum())

    @property
    def balanced_accuracy(self) -> float:
        """The mean over the classes of the share of each that was taken for it."""
        return float(np.mean([score.recall for score in self.scores() if score.support]))

    def scores(self) -> list[Score]:
        """Class by class."""
        return [self._score(number) for number in range(len(self.counts))]

    def _score(self, number: int) -> Score:
        right = int(self.counts[number, number])
        taken, support = int(self.counts[:, number].sum()), int(self.counts[number].sum())
        # F1 = 2 PR / (P + R), which is 2 TP / (taken + there).
        f1 = 2 * right / (taken + support) if taken + support else 0.0
        return Score(
            right / taken if taken else 0.0, right / support if support else 0.0, f1, support
        )

    def reduced(self, question: Callable[[Mixture], bool]) -> "Confusion":
        """The answers as those to a question of yes (second row) and no (001-spec 6.1 and 6.2)."""
        sides = np.array([[not question(mixture), question(mixture)] for mixture in CLASSES])
        return Confusion(sides.T.astype(np.intp) @ self.counts @ sides.astype(np.intp))
