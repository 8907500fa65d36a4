"""Rows of work 001, chapter 5: classifiers of round-trip times.

Of all figures on the simulator; of those that criteria hang on also on recordings of the kernel's.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from studies.training.evaluation import Confusion
from studies.training.simulated import P1
from studies.works.row import Outcome, Verdict
from studies.works.w001.ch5_recognition import (
    ALL,
    P2,
    Found,
    kernels,
)
from studies.works.w001.ch5_recognition_shown import (
    ACTIVE_ONLY,
    BOTH,
    PASSIVE_ONLY,
    Draw,
    by_length,
    draw_curves,
    draw_shapes,
    mistakes,
    over_folds,
    row,
    said_pair,
    said_signature,
    signature,
)
from weir.chart import charts
from weir.congestion.classify.classes import SIX_LABELS

_BURSTS = "a prober's bursts beside one BBR stream are themselves a mixture"

# Figure 5.3: what the series look like.


def _differ(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether a signature is another one: by a fifth and a millisecond in one of its parts."""
    return any(abs(a - b) > max(1.0, 0.2 * max(a, b)) for a, b in zip(one, other, strict=True))


def _judge_changed(schemes: Mapping[str, Found]) -> Outcome:
    shapes = {
        label: [signature(schemes[scheme].series[label]) for scheme in ("passive", "active")]
        for label in SIX_LABELS
    }
    said = ", ".join(
        f"{label} {said_signature(before)} → {said_signature(after)}"
        for label, (before, after) in shapes.items()
    )
    ours = f"median, range of the middle 80 % and mean step, in ms, passive → active: {said}"
    same = [label for label, (before, after) in shapes.items() if not _differ(before, after)]
    if same:
        return Outcome(ours, Verdict.DIFFERS, f"these do not change for {', '.join(same)}")
    return Outcome(
        ours, Verdict.TREND_HOLDS, "three numbers for each class stand for its signature"
    )


# Figures 5.5 to 5.11: six classes.

_PUBLISHED_AT = {"passive": (20, 0.82, 0.85), "active": (50, 0.95, 0.95)}
"""A length, 1-NN's accuracy there, and the highest of all lengths."""


def _judge_passive(schemes: Mapping[str, Found]) -> Outcome:
    passive = schemes["passive"]
    lengths = passive.lengths
    names = list(passive.tables[lengths[0]]["by run"])
    said = "; ".join(
        f"{name} {by_length(lengths, partial(passive.share, classifier=name))}" for name in names
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
    return Outcome(ours, verdict, reason, over_folds(f"1-NN, {at} s", passive.shares(at, "1-NN")))


def _draw_passive(schemes: Mapping[str, Found], path: Path) -> None:
    passive = schemes["passive"]
    names = [name for name in passive.tables[passive.lengths[0]]["by run"] if name != "10-NN"]
    curves = {name: partial(passive.shares, classifier=name) for name in names}
    draw_curves("Passive probing, tested by run", "accuracy, %", curves, path, passive.lengths)


def _said_report(confusion: Confusion) -> str:
    scores = ", ".join(
        f"{label} {score.precision:.2f}/{score.recall:.2f}/{score.f1:.2f} ({score.support})"
        for label, score in zip(SIX_LABELS, confusion.scores(), strict=True)
    )
    wrong = ", ".join(f"{said_pair(pair)} {rate:.1%}" for rate, pair in mistakes(confusion)[:3])
    return (
        f"accuracy {confusion.accuracy:.1%}; precision/recall/F1 (support): {scores}; most often "
        f"taken for one another: {wrong}"
    )


_MIXED = frozenset(("B1-C1", "B1-B1"))
_COUNTS = (frozenset(("B1-C0", "B1-B1")), frozenset(("B0-C1", "C1-C1")))
"""One against two streams of a kind."""


def _rate(confusion: Confusion, pair: frozenset[str]) -> float:
    return next(rate for rate, one in mistakes(confusion) if one == pair)


def _judge_confused(schemes: Mapping[str, Found]) -> Outcome:
    passive = schemes["passive"]
    confusion = passive.confusion(10, "1-NN")
    (rate, pair), mixed = mistakes(confusion)[0], _rate(confusion, _MIXED)
    ours = f"1-NN, tested by run: {_said_report(confusion)}"
    if mixed == rate > 0.01:
        return Outcome(ours, Verdict.TREND_HOLDS, passive.where)
    reason = (
        f"{passive.where}: B1-C1 and B1-B1 are taken for one another in {mixed:.1%}, "
        f"{said_pair(pair)} in {rate:.1%}"
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
    rate, pair = mistakes(confusion)[0]
    if pair in _COUNTS and rate > 0.01:
        return Outcome(ours, Verdict.TREND_HOLDS, active.where)
    reason = f"{active.where}; {_BURSTS}: what remains most is {said_pair(pair)}, {rate:.1%}"
    return Outcome(ours, Verdict.DIFFERS, reason)


def _judge_gain(schemes: Mapping[str, Found]) -> Outcome:
    passive, active = schemes["passive"], schemes["active"]
    lengths = active.lengths
    gains = {
        length: active.share(length, "1-NN") - passive.share(length, "1-NN") for length in lengths
    }
    said = "; ".join(
        f"{name} {by_length(lengths, partial(active.share, classifier=name))}"
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
        criterion = f"H2 does not hold: active probing is not above passive probing at {where} s"
    reason = f"{why}; the best is {best:.1%} at {best_at} s; {criterion}"
    return Outcome(ours, verdict, reason, over_folds(f"{last} s", active.shares(last, "1-NN")))


def _draw_gain(schemes: Mapping[str, Found], path: Path) -> None:
    active, passive = schemes["active"], schemes["passive"]
    curves: dict[str, Callable[[int], Sequence[float]]] = {
        f"{name}, active": partial(active.shares, classifier=name)
        for name in ("1-NN", "3-NN", "5-NN")
    }
    curves["1-NN, passive"] = lambda length: passive.shares(length, "1-NN")
    draw_curves("Active against passive probing", "accuracy, %", curves, path, active.lengths)


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
    return Outcome(ours, verdict, active.where, over_folds("best", active.shares(best_at, "1-NN")))


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


ROWS = [
    row(
        "001-fig-5.3",
        "RTT of the six mixtures, active against passive probing",
        "active probing changes the signature (an illustration)",
        {"passive": (), "active": ()},
        _judge_changed,
        draw_shapes("active"),
    ),
    row(
        "001-fig-5.5",
        "Passive probing: accuracy of the classifiers against window length",
        "1-NN best and steadiest, 82 % at 20 s, at most 85 %; SVM falls as windows grow",
        {"passive": ALL},
        _judge_passive,
        _draw_passive,
    ),
    *(
        row(
            id_,
            title,
            "B1-C1 and B1-B1 are confused (plot only)",
            PASSIVE_ONLY,
            _judge_confused,
            _draw_confusion("1-NN at 10 s: what each class (row) is taken for", ["passive"]),
        )
        for id_, title in (
            ("001-fig-5.6", "Passive probing: confusion and report at windows of 10 s"),
            ("001-fig-5.11", "Passive probing: confusion and metrics at windows of 10 s"),
        )
    ),
    row(
        "001-fig-5.7",
        "Active probing: accuracy against window length",
        "above passive by 7 % (5 s) to 16 % (50 s)",
        BOTH,
        _judge_gain,
        _draw_gain,
    ),
    row(
        "001-fig-5.8",
        "Active probing: spread of accuracy over the folds",
        "1-NN best in most cases; at most 95 % (50 s)",
        ACTIVE_ONLY,
        _judge_folds,
        _draw_folds,
    ),
    row(
        "001-fig-5.9",
        "Confusion at windows of 10 s with and without active probing",
        "active probing removes the confusion of B1-C1 and B1-B1 (plot only)",
        BOTH,
        _judge_removed,
        _draw_confusion("1-NN at 10 s: what each class (row) is taken for", ["passive", "active"]),
    ),
    row(
        "001-fig-5.10",
        "Active probing: confusion and report at windows of 10 s",
        "what remains is one against two streams of the same kind (plot only)",
        ACTIVE_ONLY,
        _judge_remaining,
        _draw_confusion("1-NN at 10 s: what each class (row) is taken for", ["active"]),
    ),
    row(
        "001-own-5.5-kernel",
        "Passive probing of the kernel's own TCP: accuracy of the work's classifiers",
        "figure 5.5: 1-NN best and steadiest, 82 % at 20 s, at most 85 %; SVM falls",
        {"passive": ALL},
        _judge_passive,
        _draw_passive,
        kernels(P1),
    ),
    *(
        row(
            f"001-own-5.7-kernel-{end}",
            f"Probing the kernel's own TCP actively, {pattern}: accuracy (H2)",
            "figure 5.7: above passive by 7 % (5 s) to 16 % (50 s), with C5-B5-C5-S5",
            BOTH,
            _judge_gain,
            _draw_gain,
            kernels(pattern),
        )
        for pattern, end in ((P1, "p1"), (P2, "p2"))
    ),
]
