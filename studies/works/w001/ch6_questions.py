"""Work 001, figures 6.2 to 6.5: is BBR there, and are there both kinds of traffic?

Both questions are answered by reducing what the classes gave.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from studies.training.simulated import P1
from studies.works.row import Outcome, Verdict
from studies.works.w001.ch5_recognition import P2, Found, Question, kernels
from studies.works.w001.ch5_recognition_shown import (
    ACTIVE_ONLY,
    BOTH,
    Draw,
    by_length,
    draw_curves,
    over_folds,
    row,
)
from weir.chart import charts
from weir.congestion.classify.classes import Mixture


def _has_bbr(mixture: Mixture) -> bool:
    return mixture.has_bbr


def _is_heterogeneous(mixture: Mixture) -> bool:
    return mixture.is_heterogeneous


def _judge_question(question: Question, least: float, schemes: Mapping[str, Found]) -> Outcome:
    active, passive = schemes["active"], schemes["passive"]
    lengths = active.lengths
    shares = {length: active.share(length, "1-NN", question=question) for length in lengths}
    ours = (
        f"1-NN, tested by run, active: {by_length(lengths, shares.__getitem__)}; passive: "
        f"{by_length(lengths, lambda length: passive.share(length, '1-NN', question=question))}"
    )
    below = [length for length in lengths if shares[length] < least]
    reason = active.where
    if below:
        reason += f"; below {least:.0%} at {', '.join(map(str, below))} s"
    interval = over_folds(
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
        draw_curves(f"{title}, tested by run", "accuracy, %", curves, path, lengths)

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
    reason = f"{active.where}; every precision and recall has to be at least {least:.2f}"
    return Outcome(ours, Verdict.DIFFERS if below else Verdict.MATCHES, reason)


_BBR_NAMES, _KIND_NAMES = ("no BBR", "BBR"), ("one kind", "both kinds")


def _draw_answers(question: Question, names: tuple[str, str], title: str) -> Draw:
    def draw(found: Mapping[str, Found], path: Path) -> None:
        answers = found["active"].confusion(30, "3-NN").reduced(question)
        charts.tables(path, title, [charts.Table("active probing", names, answers.counts.tolist())])

    return draw


ROWS = [
    row(
        "001-fig-6.2",
        "Is BBR present? Accuracy against window length (H3)",
        "95 to 99 %",
        BOTH,
        partial(_judge_question, _has_bbr, 0.95),
        _draw_question(_has_bbr, "Is BBR present?"),
    ),
    row(
        "001-fig-6.3",
        "Is BBR present? Precision and recall at windows of 30 s",
        "precision 0.99, recall 0.98, F1 0.99 for both classes",
        ACTIVE_ONLY,
        partial(_judge_report, _has_bbr, _BBR_NAMES, 0.97),
        _draw_answers(_has_bbr, _BBR_NAMES, "Is BBR present? 3-NN at 30 s"),
    ),
    row(
        "001-fig-6.4",
        "Homogeneous or heterogeneous? Accuracy against window length",
        "near perfect (plot only)",
        BOTH,
        partial(_judge_question, _is_heterogeneous, 0.95),
        _draw_question(_is_heterogeneous, "Homogeneous or heterogeneous?"),
    ),
    row(
        "001-fig-6.5",
        "Homogeneous or heterogeneous? Report at windows of 30 s",
        "near perfect (plot only)",
        ACTIVE_ONLY,
        partial(_judge_report, _is_heterogeneous, _KIND_NAMES, 0.95),
        _draw_answers(_is_heterogeneous, _KIND_NAMES, "One kind or both? 3-NN at 30 s"),
    ),
    *(
        row(
            f"001-own-6.2-kernel-{end}",
            f"Is BBR present in the kernel's own TCP? With {pattern} and passive (H3)",
            "figure 6.2: 95 to 99 %, with C5-B5-C5-S5",
            BOTH,
            partial(_judge_question, _has_bbr, 0.95),
            _draw_question(_has_bbr, "Is BBR present?"),
            kernels(pattern),
        )
        for pattern, end in ((P1, "p1"), (P2, "p2"))
    ),
]
