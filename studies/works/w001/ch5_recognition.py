"""Work 001, chapters 1, 5 and 6: what classifiers find in round-trip times.

Where the work has an hour of each class there are five runs of twelve minutes on the packet
simulator, each with its own seed, or five of two minutes of the kernel's own TCP that were
recorded, so that "by run" tests on runs of which nothing was learned; "shuffled" are the folds in
which a window's neighbours in time were. Windows are of as many samples as seconds.
"""

import hashlib
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, cast

from studies.training.evaluation import Confusion, evaluate
from studies.training.simulated import NO_BURSTS, P1, rtt_series
from weir.congestion.classify.classes import SIX_LABELS, Mixture
from weir.congestion.classify.knn import by_second
from weir.congestion.recordings import KERNEL, KERNEL_ACTIVE, load
from weir.runs.point import Json, Point

SCHEMES = {"passive": NO_BURSTS, "active": P1}
P2 = "S5-C5-S5-B5"
"""The work's other pattern, of which it gives no accuracy (A-13)."""
SEEDS = (1, 2, 3, 4, 5)
ALL = ("neighbours", "perceptron", "support vectors", "naive Bayes", "mean")
Needs: TypeAlias = Mapping[str, Sequence[str]]
"""Families of classifiers by the scheme on which they are needed."""
Question: TypeAlias = Callable[[Mixture], bool]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is simulated of each class, and the windows' lengths in s."""

    warmup_s: int
    seconds: int
    lengths: Sequence[int]


FULL = Size(30, 720, range(5, 61, 5))
QUICK = Size(5, 40, (5, 10, 20, 30))
RECORDED_S, QUICK_RECORDED_S = 120, 60
"""How much of each recorded run is taken."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the series come from.

    Attributes:
        where: what is learned from and tested on, in words.
        points: the runs of every class in each of some schemes, at full size or reduced.
    """

    where: str
    points: Callable[[Sequence[str], bool], list[Point]]


def _simulated(schemes: Sequence[str], quick: bool) -> list[Point]:
    how = QUICK if quick else FULL
    return [
        Point(
            rtt_series,
            {
                "label": label,
                "pattern": SCHEMES[scheme],
                "warmup_s": how.warmup_s,
                "seconds": how.seconds,
                "seed": seed,
            },
        )
        for scheme, label, seed in itertools.product(schemes, SIX_LABELS, SEEDS)
    ]


SIMULATED = Source(
    "the classifiers learned from the simulator and were tested on it, on one path", _simulated
)


def kernels(active: str) -> Source:
    """What was recorded of the kernel's TCP on the work's path; `active` is the pattern of that."""
    patterns = {"passive": NO_BURSTS, "active": active}

    def points(schemes: Sequence[str], quick: bool) -> list[Point]:
        seconds = QUICK_RECORDED_S if quick else RECORDED_S
        return [
            Point(
                recorded_series,
                {
                    "label": label,
                    "pattern": patterns[scheme],
                    "run": run,
                    "seconds": seconds,
                    "recordings": _digest(_file(patterns[scheme])),
                },
            )
            for scheme, label, run in itertools.product(schemes, SIX_LABELS, range(len(SEEDS)))
        ]

    return Source(
        "the classifiers learned from recordings of the kernel's TCP and were tested on others",
        points,
    )


def recorded_series(
    *, label: str, pattern: str | None, run: int, seconds: int, recordings: str
) -> list[float]:
    """Round-trip times in ms, one a second, of a recording that comes along.

    `recordings` is the digest of the file; it stands among the arguments because the result
    depends on it.
    """
    del recordings
    of_kind = [one for one in load(_file(pattern)) if (one.label, one.pattern) == (label, pattern)]
    one = sorted(of_kind, key=lambda recording: recording.seed)[run]
    series: list[float] = by_second(one.rtt_ms, one.rate_hz)[:seconds].round(3).tolist()
    return series


def _file(pattern: str | None) -> Path:
    return KERNEL_ACTIVE if pattern else KERNEL


@cache
def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def series_of(schemes: Sequence[str], results: Sequence[Json]) -> dict[str, dict[str, Any]]:
    """The results of a source's points: by scheme and label the series of all runs."""
    found = iter(results)
    return {
        scheme: {label: [next(found) for _ in SEEDS] for label in SIX_LABELS} for scheme in schemes
    }


def classifier_points(needs: Needs, results: Sequence[Json]) -> list[Point]:
    """What is to be learned from the results of a source's points."""
    series = series_of(list(needs), results)
    lengths = _lengths(cast(Sequence[float], results[0]))
    return [
        Point(evaluate, {"runs": series[scheme], "lengths": lengths, "family": family})
        for scheme, families in needs.items()
        for family in families
    ]


def _lengths(series: Sequence[float]) -> list[int]:
    """The lengths of the windows that a series of full or of reduced size is cut into."""
    return list(FULL.lengths if len(series) >= 2 * FULL.lengths[-1] else QUICK.lengths)


@dataclass(frozen=True, slots=True)
class Found:
    """What a scheme gave.

    Attributes:
        where: what was learned from and tested on, in words.
        series: the series of all runs, by label, in ms.
        tables: by length, folds and classifier the table of each fold; see `evaluate`.
    """

    where: str
    series: Mapping[str, Sequence[Sequence[float]]]
    tables: Mapping[int, Mapping[str, Mapping[str, Sequence[Sequence[Sequence[int]]]]]]

    @property
    def lengths(self) -> list[int]:
        """The windows' lengths in s."""
        return list(self.tables)

    def shares(
        self, length: int, classifier: str, folds: str = "by run", question: Question | None = None
    ) -> list[float]:
        """The accuracy in each fold, of classes or of the answers to a question.

        A fold without a window (of a class that is rare at this length) is left out.
        """
        tables = self.tables[length][folds][classifier]
        return [
            (one.reduced(question) if question else one).accuracy
            for one in (Confusion.pooled([table]) for table in tables)
            if one.counts.sum()
        ]

    def share(
        self, length: int, classifier: str, folds: str = "by run", question: Question | None = None
    ) -> float:
        """The mean of `shares`."""
        return statistics.mean(self.shares(length, classifier, folds, question))

    def confusion(self, length: int, classifier: str, folds: str = "by run") -> Confusion:
        """The confusion of all folds together."""
        return Confusion.pooled(self.tables[length][folds][classifier])

    def best(self, classifier: str, folds: str = "by run") -> tuple[float, int]:
        """The highest accuracy and its length."""
        return max((self.share(length, classifier, folds), length) for length in self.lengths)


def found(where: str, needs: Needs, results: Sequence[Json]) -> dict[str, Found]:
    """The results of both kinds of points, by scheme; `where` they are from."""
    first = len(needs) * len(SIX_LABELS) * len(SEEDS)
    series = series_of(list(needs), results[:first])
    learned = iter(cast(Sequence[Mapping[str, Mapping[str, Any]]], results[first:]))
    answer = {}
    for scheme, families in needs.items():
        tables: dict[int, dict[str, dict[str, Any]]] = {}
        for _ in families:
            for length, by_folds in next(learned).items():
                for folds, classifiers in by_folds.items():
                    tables.setdefault(int(length), {}).setdefault(folds, {}).update(classifiers)
        answer[scheme] = Found(where, series[scheme], tables)
    return answer
