"""Rows of work 001, chapters 5 and 6: classifiers of round-trip times.

Of all figures on the simulator; of those that criteria hang on also on recordings of the kernel's.
"""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from studies.reproduction.row import Outcome, Row, Verdict
from studies.training.evaluation import Confusion
from studies.training.simulated import P1
from studies.works.w001.ch5_recognition import (
    ALL,
    P2,
    SIMULATED,
    Found,
    Needs,
    Question,
    Source,
    classifier_points,
    found,
    kernels,
)
from weir.chart import charts
from weir.congestion.classify.classes import SIX_LABELS, Mixture

Judge = Callable[[Mapping[str, Found]], Outcome]
Draw = Callable[[Mapping[str, Found], Path], None]

_BURSTS = "a prober's bursts beside one BBR stream are themselves a mixture"
_BOTH: Needs = {"passive": ("neighbours",), "active": ("neighbours",)}
_PASSIVE: Needs = {"passive": ("neighbours",)}
_ACTIVE: Needs = {"active": ("neighbours",)}
# Student's t for 95 % and five folds.
_T = 2.776


def _row(
    id_: str,
    title: str,
    published: str,
    needs: Needs,
    judge: Judge,
    draw: Draw | None = None,
    source: Source = SIMULATED,
) -> Row:
    return Row(
        id_,
        title,
        published,
        lambda quick: source.points(list(needs), quick),
        lambda results: judge(found(source.where, needs, results)),
        (lambda results, path: draw(found(source.where, needs, results), path)) if draw else None,
        then=lambda results: classifier_points(needs, results),
    )


def _half(shares: Sequence[float]) -> float:
    """Half the 95 % interval of the mean of folds."""
    return _T * statistics.stdev(shares) / len(shares) ** 0.5 if len(shares) > 1 else 0.0


def _interval(name: str, shares: Sequence[float]) -> str:
    return f"{name}: {statistics.mean(shares):.1%} ± {_half(shares):.1%} over the folds"


def _by_length(lengths: Sequence[int], share: Callable[[int], float]) -> str:
    said = [length for length in lengths if length == 5 or length % 10 == 0]
    return ", ".join(f"{length} s {share(length):.1%}" for length in said)


def _curves(
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
                (length, 100 * statistics.mean(shares), 100 * _half(shares))
                for length in lengths
                for shares in [shares_at(length)]
            ],
        )
        for name, shares_at in curves.items()
    ]
    charts.lines(path, title, "window, s", y, series, with_boxes=True)


# Figures 1.2 and 5.3: what the series look like.


def _signature(runs: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Median, range from the first to the last decile, and mean step, in ms."""
    values = sorted(itertools.chain(*runs))
    deciles = statistics.quantiles(values, n=10)
    steps = [abs(now - before) for run in runs for before, now in itertools.pairwise(run)]
    return statistics.median(values), deciles[-1] - deciles[0], statistics.mean(steps)


def _differ(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether a signature is another one: by a fifth and a millisecond in one of its parts."""
    return any(abs(a - b) > max(1.0, 0.2 * max(a, b)) for a, b in zip(one, other, strict=True))


def _said_signature(signature: tuple[float, float, float]) -> str:
    median, spread, step = signature
    return f"{median:.0f}/{spread:.0f}/{step:.1f}"


def _judge_shapes(schemes: Mapping[str, Found]) -> Outcome:
    passive = schemes["passive"]
    shapes = {label: _signature(runs) for label, runs in passive.series.items()}
    confusion = passive.confusion(20, "1-NN")
    (rate, pair), *_ = _mistakes(confusion)
    said = ", ".join(f"{label} {_said_signature(shape)}" for label, shape in shapes.items())
    ours = (
        f"median, range of the middle 80 % and mean step, in ms: {said}. 1-NN tells "
        f"{confusion.accuracy:.1%} of windows of 20 s apart; the two that look most alike, "
        f"{_said_pair(pair)}, it takes for one another in {rate:.1%}"
    )
    holds = confusion.accuracy > 0.9
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, passive.where)


def _judge_changed(schemes: Mapping[str, Found]) -> Outcome:
    shapes = {
        label: [_signature(schemes[scheme].series[label]) for scheme in ("passive", "active")]
        for label in SIX_LABELS
    }
    said = ", ".join(
        f"{label} {_said_signature(before)} → {_said_signature(after)}"
        for label, (before, after) in shapes.items()
    )
    ours = f"median, range of the middle 80 % and mean step, in ms, passive → active: {said}"
    same = [label for label, (before, after) in shapes.items() if not _differ(before, after)]
    if same:
        return Outcome(ours, Verdict.DIFFERS, f"these do not change for {', '.join(same)}")
    return Outcome(ours, Verdict.TREND_HOLDS, "three numbers a class stand for its signature")


def _draw_shapes(scheme: str) -> Draw:
    def draw(schemes: Mapping[str, Found], path: Path) -> None:
        series = [
            charts.Series(label, [(at, rtt, 0.0) for at, rtt in enumerate(runs[0][:90])])
            for label, runs in schemes[scheme].series.items()
        ]
        charts.lines(path, f"Beside each mixture, {scheme} probing", "time, s", "RTT, ms", series)

    return draw


# Figures 5.5 to 5.11: six classes.

_PUBLISHED_AT = {"passive": (20, 0.82, 0.85), "active": (50, 0.95, 0.95)}
"""A length, 1-NN's accuracy there, and the highest of all lengths."""


def _judge_passive(schemes: Mapping[str, Found]) -> Outcome:
    passive = schemes["passive"]
    lengths = passive.lengths
    names = list(passive.tables[lengths[0]]["by run"])
    said = "; ".join(
        f"{name} {_by_length(lengths, partial(passive.share, classifier=name))}" for name in names
    )
    at, printed, most = _PUBLISHED_AT["passive"]
    shuffled = passive.share(at, "1-NN", "shuffled")
    best, best_at = passive.best("1-NN")
    ours = f"tested by run: {said}; shuffled folds: 1-NN {shuffled:.1%} at {at} s"
    rivals = [name for name in names if not name.endswith("-NN")]
    leads = sum(
        passive.share(length, "1-NN") >= max(passive.share(length, name) for name in rivals) - 0.01
        for length in lengths
    )
    falls = passive.share(lengths[-1], "SVM, 1/w") < passive.share(lengths[0], "SVM, 1/w")
    ours_at = passive.share(at, "1-NN")
    near = abs(ours_at - printed) < 0.05 and best < most + 0.05
    trend = leads > len(lengths) / 2 and falls
    verdict = Verdict.MATCHES if near and trend else Verdict.DIFFERS
    if trend and not near:
        verdict = Verdict.TREND_HOLDS
    reason = (
        f"{passive.where}; 1-NN leads, or is within a point of it, at {leads} of {len(lengths)} "
        f"lengths, its best is {best:.1%} at {best_at} s; the SVM with 1/w "
        f"{'falls' if falls else 'does not fall'} as windows grow"
    )
    return Outcome(ours, verdict, reason, _interval(f"1-NN, {at} s", passive.shares(at, "1-NN")))


def _draw_passive(schemes: Mapping[str, Found], path: Path) -> None:
    passive = schemes["passive"]
    names = [name for name in passive.tables[passive.lengths[0]]["by run"] if name != "10-NN"]
    curves = {name: partial(passive.shares, classifier=name) for name in names}
    _curves("Passive probing, tested by run", "accuracy, %", curves, path, passive.lengths)


def _mistakes(confusion: Confusion) -> list[tuple[float, frozenset[str]]]:
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


def _said_pair(pair: frozenset[str]) -> str:
    return " and ".join(sorted(pair))


def _said_report(confusion: Confusion) -> str:
    scores = ", ".join(
        f"{label} {score.precision:.2f}/{score.recall:.2f}/{score.f1:.2f} ({score.support})"
        for label, score in zip(SIX_LABELS, confusion.scores(), strict=True)
    )
    wrong = ", ".join(f"{_said_pair(pair)} {rate:.1%}" for rate, pair in _mistakes(confusion)[:3])
    return (
        f"accuracy {confusion.accuracy:.1%}; precision/recall/F1 (support): {scores}; most often "
        f"taken for one another: {wrong}"
    )


_MIXED = frozenset(("B1-C1", "B1-B1"))
_COUNTS = (frozenset(("B1-C0", "B1-B1")), frozenset(("B0-C1", "C1-C1")))
"""One against two streams of a kind."""


def _rate(confusion: Confusion, pair: frozenset[str]) -> float:
    return next(rate for rate, one in _mistakes(confusion) if one == pair)


def _judge_confused(schemes: Mapping[str, Found]) -> Outcome:
    passive = schemes["passive"]
    confusion = passive.confusion(10, "1-NN")
    (rate, pair), mixed = _mistakes(confusion)[0], _rate(confusion, _MIXED)
    ours = f"1-NN, tested by run: {_said_report(confusion)}"
    if mixed == rate > 0.01:
        return Outcome(ours, Verdict.TREND_HOLDS, passive.where)
    reason = (
        f"{passive.where}: B1-C1 and B1-B1 are taken for one another in {mixed:.1%}, "
        f"{_said_pair(pair)} in {rate:.1%}"
    )
    return Outcome(ours, Verdict.DIFFERS, reason)


def _judge_removed(schemes: Mapping[str, Found]) -> Outcome:
    tables = {name: one.confusion(10, "1-NN") for name, one in schemes.items()}
    rates = {name: _rate(confusion, _MIXED) for name, confusion in tables.items()}
    ours = (
        f"B1-C1 and B1-B1 taken for one another by 1-NN at 10 s, tested by run: "
        f"{rates['passive']:.1%} passive, {rates['active']:.1%} active; accuracy "
        f"{tables['passive'].accuracy:.1%} and {tables['active'].accuracy:.1%}"
    )
    where = schemes["active"].where
    if rates["active"] < 0.5 * rates["passive"]:
        return Outcome(ours, Verdict.TREND_HOLDS, where)
    return Outcome(ours, Verdict.DIFFERS, f"{where}; {_BURSTS}")


def _judge_remaining(schemes: Mapping[str, Found]) -> Outcome:
    active = schemes["active"]
    confusion = active.confusion(10, "1-NN")
    ours = f"1-NN, tested by run: {_said_report(confusion)}"
    rate, pair = _mistakes(confusion)[0]
    if pair in _COUNTS and rate > 0.01:
        return Outcome(ours, Verdict.TREND_HOLDS, active.where)
    reason = f"{active.where}; {_BURSTS}: what remains most is {_said_pair(pair)}, {rate:.1%}"
    return Outcome(ours, Verdict.DIFFERS, reason)


def _judge_gain(schemes: Mapping[str, Found]) -> Outcome:
    passive, active = schemes["passive"], schemes["active"]
    lengths = active.lengths
    gains = {
        length: active.share(length, "1-NN") - passive.share(length, "1-NN") for length in lengths
    }
    said = "; ".join(
        f"{name} {_by_length(lengths, partial(active.share, classifier=name))}"
        for name in ("1-NN", "3-NN", "5-NN")
    )
    first, last = lengths[0], min(50, lengths[-1])
    ours = (
        f"tested by run: {said}; 1-NN above passive by {100 * gains[first]:+.1f} points at "
        f"{first} s, {100 * gains[last]:+.1f} at {last} s"
    )
    best, best_at = active.best("1-NN")
    below = [length for length in lengths if gains[length] <= 0]
    near = abs(gains[first] - 0.07) < 0.05 and last == 50 and abs(gains[last] - 0.16) < 0.05
    verdict = Verdict.MATCHES if near else Verdict.TREND_HOLDS
    why, criterion = active.where, "H2 holds"
    if below or best < 0.9:
        verdict, why = Verdict.DIFFERS, f"{active.where}; {_BURSTS}"
        where = ", ".join(map(str, below)) or "none"
        criterion = f"H2 does not hold: not above passive at {where} s"
    reason = f"{why}; the best is {best:.1%} at {best_at} s; {criterion}"
    return Outcome(ours, verdict, reason, _interval(f"{last} s", active.shares(last, "1-NN")))


def _draw_gain(schemes: Mapping[str, Found], path: Path) -> None:
    active, passive = schemes["active"], schemes["passive"]
    curves: dict[str, Callable[[int], Sequence[float]]] = {
        f"{name}, active": partial(active.shares, classifier=name)
        for name in ("1-NN", "3-NN", "5-NN")
    }
    curves["1-NN, passive"] = lambda length: passive.shares(length, "1-NN")
    _curves("Active against passive probing", "accuracy, %", curves, path, active.lengths)


def _judge_folds(schemes: Mapping[str, Found]) -> Outcome:
    active = schemes["active"]
    spreads = "; ".join(
        f"{length} s {min(shares):.1%} to {max(shares):.1%}, median {statistics.median(shares):.1%}"
        for length in active.lengths
        for shares in [active.shares(length, "1-NN")]
    )
    best, best_at = active.best("1-NN")
    leads = sum(
        active.share(length, "1-NN") >= max(active.share(length, f"{k}-NN") for k in (3, 5))
        for length in active.lengths
    )
    shuffled, shuffled_at = active.best("1-NN", "shuffled")
    ours = (
        f"1-NN over the folds by run: {spreads}; best mean {best:.1%} ({best_at} s), in shuffled "
        f"folds {shuffled:.1%} ({shuffled_at} s); 1-NN is the best k at {leads} of "
        f"{len(active.lengths)} lengths"
    )
    most = leads > len(active.lengths) / 2
    verdict = Verdict.TREND_HOLDS if most else Verdict.DIFFERS
    if most and abs(best - _PUBLISHED_AT["active"][2]) < 0.02:
        verdict = Verdict.MATCHES
    return Outcome(ours, verdict, active.where, _interval("best", active.shares(best_at, "1-NN")))


def _draw_folds(schemes: Mapping[str, Found], path: Path) -> None:
    active = schemes["active"]
    series = {
        name: [[100 * share for share in active.shares(at, name)] for at in active.lengths]
        for name in ("1-NN", "3-NN", "5-NN")
    }
    places = [f"{length}" for length in active.lengths]
    title = "Active probing, the folds by run"
    charts.boxes(path, title, "window, s", "accuracy, %", places, series)


def _draw_confusion(title: str, schemes: Sequence[str]) -> Draw:
    def draw(found: Mapping[str, Found], path: Path) -> None:
        tables = [
            charts.Table(
                f"{name} probing", SIX_LABELS, found[name].confusion(10, "1-NN").counts.tolist()
            )
            for name in schemes
        ]
        charts.tables(path, title, tables)

    return draw


def _draw_answers(question: Question, names: tuple[str, str], title: str) -> Draw:
    def draw(found: Mapping[str, Found], path: Path) -> None:
        answers = found["active"].confusion(30, "3-NN").reduced(question)
        charts.tables(path, title, [charts.Table("active probing", names, answers.counts.tolist())])

    return draw


# Figures 6.2 to 6.5: the two questions, answered by reducing what the classes gave.


def _has_bbr(mixture: Mixture) -> bool:
    return mixture.has_bbr


def _is_heterogeneous(mixture: Mixture) -> bool:
    return mixture.is_heterogeneous


def _judge_question(question: Question, least: float, schemes: Mapping[str, Found]) -> Outcome:
    active, passive = schemes["active"], schemes["passive"]
    lengths = active.lengths
    shares = {length: active.share(length, "1-NN", question=question) for length in lengths}
    ours = (
        f"1-NN, tested by run, active: {_by_length(lengths, shares.__getitem__)}; passive: "
        f"{_by_length(lengths, lambda length: passive.share(length, '1-NN', question=question))}"
    )
    below = [length for length in lengths if shares[length] < least]
    reason = active.where
    if below:
        reason += f"; below {least:.0%} at {', '.join(map(str, below))} s"
    interval = _interval(
        f"{lengths[0]} s, active", active.shares(lengths[0], "1-NN", question=question)
    )
    return Outcome(ours, Verdict.DIFFERS if below else Verdict.MATCHES, reason, interval)


def _draw_question(question: Question, title: str) -> Draw:
    def draw(schemes: Mapping[str, Found], path: Path) -> None:
        curves: dict[str, Callable[[int], Sequence[float]]] = {
            f"{name}, {scheme}": partial(one.shares, classifier=name, question=question)
            for scheme, one in schemes.items()
            for name in ("1-NN", "3-NN")
        }
        lengths = schemes["active"].lengths
        _curves(f"{title}, tested by run", "accuracy, %", curves, path, lengths)

    return draw


def _judge_report(
    question: Question, names: tuple[str, str], least: float, schemes: Mapping[str, Found]
) -> Outcome:
    active = schemes["active"]
    confusion = active.confusion(30, "3-NN").reduced(question)
    scores = confusion.scores()
    ours = (
        "3-NN at 30 s, active, tested by run, precision/recall/F1 (support): "
        + ", ".join(
            f"{name} {score.precision:.3f}/{score.recall:.3f}/{score.f1:.3f} ({score.support})"
            for name, score in zip(names, scores, strict=True)
        )
        + f"; balanced accuracy {confusion.balanced_accuracy:.1%}"
    )
    below = min(min(score.precision, score.recall) for score in scores) < least
    reason = f"{active.where}; what is held to is {least:.2f} in every precision and recall"
    return Outcome(ours, Verdict.DIFFERS if below else Verdict.MATCHES, reason)


_BBR_NAMES, _KIND_NAMES = ("no BBR", "BBR"), ("one kind", "both kinds")

ROWS = [
    _row(
        "001-fig-1.2",
        "RTT series by passive probing beside each mixture of background traffic",
        "the shape tells the mixtures apart (an illustration)",
        _PASSIVE,
        _judge_shapes,
        _draw_shapes("passive"),
    ),
    _row(
        "001-fig-5.3",
        "RTT of the six mixtures, active against passive probing",
        "active probing changes the signature (an illustration)",
        {"passive": (), "active": ()},
        _judge_changed,
        _draw_shapes("active"),
    ),
    _row(
        "001-fig-5.5",
        "Passive probing: accuracy of the classifiers against window length",
        "1-NN best and steadiest, 82 % at 20 s, at most 85 %; SVM falls as windows grow",
        {"passive": ALL},
        _judge_passive,
        _draw_passive,
    ),
    *(
        _row(
            id_,
            title,
            "B1-C1 and B1-B1 are confused (plot only)",
            _PASSIVE,
            _judge_confused,
            _draw_confusion("1-NN at 10 s: what each class (row) is taken for", ["passive"]),
        )
        for id_, title in (
            ("001-fig-5.6", "Passive probing: confusion and report at windows of 10 s"),
            ("001-fig-5.11", "Passive probing: confusion and metrics at windows of 10 s"),
        )
    ),
    _row(
        "001-fig-5.7",
        "Active probing: accuracy against window length",
        "above passive by 7 % (5 s) to 16 % (50 s)",
        _BOTH,
        _judge_gain,
        _draw_gain,
    ),
    _row(
        "001-fig-5.8",
        "Active probing: spread of accuracy over the folds",
        "1-NN best in most cases; at most 95 % (50 s)",
        _ACTIVE,
        _judge_folds,
        _draw_folds,
    ),
    _row(
        "001-fig-5.9",
        "Confusion at windows of 10 s with and without active probing",
        "active probing removes the confusion of B1-C1 and B1-B1 (plot only)",
        _BOTH,
        _judge_removed,
        _draw_confusion("1-NN at 10 s: what each class (row) is taken for", ["passive", "active"]),
    ),
    _row(
        "001-fig-5.10",
        "Active probing: confusion and report at windows of 10 s",
        "what remains is one against two streams of the same kind (plot only)",
        _ACTIVE,
        _judge_remaining,
        _draw_confusion("1-NN at 10 s: what each class (row) is taken for", ["active"]),
    ),
    _row(
        "001-fig-6.2",
        "Is BBR present? Accuracy against window length (H3)",
        "95 to 99 %",
        _BOTH,
        partial(_judge_question, _has_bbr, 0.95),
        _draw_question(_has_bbr, "Is BBR present?"),
    ),
    _row(
        "001-fig-6.3",
        "Is BBR present? Precision and recall at windows of 30 s",
        "precision 0.99, recall 0.98, F1 0.99 for both classes",
        _ACTIVE,
        partial(_judge_report, _has_bbr, _BBR_NAMES, 0.97),
        _draw_answers(_has_bbr, _BBR_NAMES, "Is BBR present? 3-NN at 30 s"),
    ),
    _row(
        "001-fig-6.4",
        "Homogeneous or heterogeneous? Accuracy against window length",
        "near perfect (plot only)",
        _BOTH,
        partial(_judge_question, _is_heterogeneous, 0.95),
        _draw_question(_is_heterogeneous, "Homogeneous or heterogeneous?"),
    ),
    _row(
        "001-fig-6.5",
        "Homogeneous or heterogeneous? Report at windows of 30 s",
        "near perfect (plot only)",
        _ACTIVE,
        partial(_judge_report, _is_heterogeneous, _KIND_NAMES, 0.95),
        _draw_answers(_is_heterogeneous, _KIND_NAMES, "One kind or both? 3-NN at 30 s"),
    ),
    _row(
        "001-own-5.5-kernel",
        "Passive probing of the kernel's own TCP: accuracy of the work's classifiers",
        "figure 5.5: 1-NN best and steadiest, 82 % at 20 s, at most 85 %; SVM falls",
        {"passive": ALL},
        _judge_passive,
        _draw_passive,
        kernels(P1),
    ),
    *(
        row
        for pattern, end in ((P1, "p1"), (P2, "p2"))
        for row in (
            _row(
                f"001-own-5.7-kernel-{end}",
                f"Probing the kernel's own TCP actively, {pattern}: accuracy (H2)",
                "figure 5.7: above passive by 7 % (5 s) to 16 % (50 s), with C5-B5-C5-S5",
                _BOTH,
                _judge_gain,
                _draw_gain,
                kernels(pattern),
            ),
            _row(
                f"001-own-6.2-kernel-{end}",
                f"Is BBR present in the kernel's own TCP? With {pattern} and passive (H3)",
                "figure 6.2: 95 to 99 %, with C5-B5-C5-S5",
                _BOTH,
                partial(_judge_question, _has_bbr, 0.95),
                _draw_question(_has_bbr, "Is BBR present?"),
                kernels(pattern),
            ),
        )
    ),
]
