"""How rows of recognition are made, said and drawn, in chapters 1, 5 and 6 of work 001.

Of all figures on the simulator; of those that criteria hang on also on recordings of the kernel's.
"""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from studies.rig.statistics import margin
from studies.training.evaluation import Confusion
from studies.works.row import Outcome, Row
from studies.works.w001.ch5_recognition import (
    SIMULATED,
    Found,
    Needs,
    Source,
    classifier_points,
    found,
)
from weir.chart import charts
from weir.congestion.classify.classes import SIX_LABELS

Judge = Callable[[Mapping[str, Found]], Outcome]
Draw = Callable[[Mapping[str, Found], Path], None]

BOTH: Needs = {"passive": ("neighbours",), "active": ("neighbours",)}
PASSIVE_ONLY: Needs = {"passive": ("neighbours",)}
ACTIVE_ONLY: Needs = {"active": ("neighbours",)}


def row(
    id_: str,
    title: str,
    published: str,
    needs: Needs,
    judge: Judge,
    draw: Draw | None = None,
    source: Source = SIMULATED,
) -> Row:
    """A row that learns from a source's series and judges what was learned.

    Args:
        id_: the row's; `title` and `published` are its, too.
        title: what it shows.
        published: what was printed.
        needs: the families of classifiers by the scheme.
        judge: takes what each scheme gave.
        draw: likewise, and the file to draw into.
        source: of the series.
    """
    return Row(
        id_,
        title,
        published,
        lambda quick: source.points(list(needs), quick),
        lambda results: judge(found(source.where, needs, results)),
        (lambda results, path: draw(found(source.where, needs, results), path)) if draw else None,
        then=lambda results: classifier_points(needs, results),
    )


def over_folds(name: str, shares: Sequence[float]) -> str:
    """Their mean with its 95 % interval, in words."""
    return f"{name}: {statistics.mean(shares):.1%} ± {margin(shares):.1%} over the folds"


def by_length(lengths: Sequence[int], share: Callable[[int], float]) -> str:
    """The share at 5 s and at every ten seconds, in words."""
    said = [length for length in lengths if length == 5 or length % 10 == 0]
    return ", ".join(f"{length} s {share(length):.1%}" for length in said)


def draw_curves(
    title: str,
    y: str,
    curves: Mapping[str, Callable[[int], Sequence[float]]],
    path: Path,
    lengths: Sequence[int],
) -> None:
    """Means over the folds by length; the box plots beside them are of all lengths (5.5b, 5.7b)."""
    series = [
        charts.Series(
            name,
            [
                (length, 100 * statistics.mean(shares), 100 * margin(shares))
                for length in lengths
                for shares in [shares_at(length)]
            ],
        )
        for name, shares_at in curves.items()
    ]
    charts.lines(path, title, "window, s", y, series, with_boxes=True)


def signature(runs: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Median, range from the first to the last decile, and mean step, in ms."""
    values = sorted(itertools.chain(*runs))
    deciles = statistics.quantiles(values, n=10)
    steps = [abs(now - before) for run in runs for before, now in itertools.pairwise(run)]
    return statistics.median(values), deciles[-1] - deciles[0], statistics.mean(steps)


def said_signature(signature: tuple[float, float, float]) -> str:
    """Its three parts, in ms."""
    median, spread, step = signature
    return f"{median:.0f}/{spread:.0f}/{step:.1f}"


def draw_shapes(scheme: str) -> Draw:
    """Draws a minute and a half of a run of each class."""

    def draw(schemes: Mapping[str, Found], path: Path) -> None:
        series = [
            charts.Series(label, [(at, rtt, 0.0) for at, rtt in enumerate(runs[0][:90])])
            for label, runs in schemes[scheme].series.items()
        ]
        charts.lines(path, f"Beside each mixture, {scheme} probing", "time, s", "RTT, ms", series)

    return draw


def mistakes(confusion: Confusion) -> list[tuple[float, frozenset[str]]]:
    """Each pair of classes with the share of their windows taken for one another, most first."""
    counts = confusion.counts
    pairs = itertools.combinations(range(len(SIX_LABELS)), 2)
    rates = [
        (
            float((counts[a, b] + counts[b, a]) / max(1, counts[[a, b]].sum())),
            frozenset((SIX_LABELS[a], SIX_LABELS[b])),
        )
        for a, b in pairs
    ]
    return sorted(rates, key=lambda rate: -rate[0])


def said_pair(pair: frozenset[str]) -> str:
    """Two classes, in words."""
    return " and ".join(sorted(pair))
