"""The rows of chapters 1, 5 and 6 on series that are made up: what they say follows from them."""

import json

import numpy as np
import pytest

from studies.works.row import Verdict
from studies.works.w001 import ch1_mixtures, ch5_recognition_rows, ch6_questions
from studies.works.w001.ch5_recognition import ALL, QUICK
from studies.works.w001.ch5_recognition_shown import row as recognition_row
from weir.congestion.classify.classes import SIX_LABELS
from weir.congestion.recordings import KERNEL_ACTIVE, load

ROWS = {
    row.id: row for row in (*ch1_mixtures.ROWS, *ch5_recognition_rows.ROWS, *ch6_questions.ROWS)
}


def series(label, seed, alike, samples=QUICK.seconds):
    """One level for each class; classes that are `alike` share that of the first of them."""
    level = SIX_LABELS.index(alike[0] if label in alike else label)
    draw = np.random.default_rng([SIX_LABELS.index(label), seed])
    return (65 + 15 * level + draw.normal(0, 1.5**level, samples)).tolist()


def run_of(point):
    """Which of a class's runs it is."""
    return point.arguments["seed" if "seed" in point.arguments else "run"]


def outcome(row, alike_passive=(), alike_active=()):
    """The row's, of both stages; through JSON, as from the cache and from workers."""
    points = row.points(True)
    results = [
        series(
            point.arguments["label"],
            run_of(point),
            alike_active if point.arguments["pattern"] else alike_passive,
        )
        for point in points
    ]
    later = [point.run(**json.loads(json.dumps(point.arguments))) for point in row.then(results)]
    return row.judge(json.loads(json.dumps(results + later)))


MIXED = ("B1-C1", "B1-B1")
COUNTS = ("B0-C1", "C1-C1")


@pytest.mark.parametrize(
    ("id_", "alike_passive", "alike_active", "verdict"),
    [
        ("001-fig-1.2", (), (), Verdict.TREND_HOLDS),
        ("001-fig-1.2", COUNTS, (), Verdict.DIFFERS),
        ("001-fig-5.3", (), (), Verdict.DIFFERS),
        ("001-fig-5.3", (), SIX_LABELS, Verdict.DIFFERS),
        ("001-fig-5.6", MIXED, (), Verdict.TREND_HOLDS),
        ("001-fig-5.6", COUNTS, (), Verdict.DIFFERS),
        ("001-fig-5.11", MIXED, (), Verdict.TREND_HOLDS),
        ("001-fig-5.7", MIXED, (), Verdict.TREND_HOLDS),
        ("001-fig-5.7", (), MIXED, Verdict.DIFFERS),
        ("001-fig-5.8", (), (), Verdict.TREND_HOLDS),
        ("001-fig-5.9", MIXED, (), Verdict.TREND_HOLDS),
        ("001-fig-5.9", MIXED, MIXED, Verdict.DIFFERS),
        ("001-fig-5.10", (), COUNTS, Verdict.TREND_HOLDS),
        ("001-fig-5.10", (), MIXED, Verdict.DIFFERS),
        ("001-fig-6.2", (), MIXED, Verdict.MATCHES),
        ("001-fig-6.2", (), ("B0-C1", "B1-C0"), Verdict.DIFFERS),
        ("001-fig-6.3", (), MIXED, Verdict.MATCHES),
        ("001-fig-6.3", (), ("B0-C1", "B1-C0"), Verdict.DIFFERS),
        ("001-fig-6.4", (), COUNTS, Verdict.MATCHES),
        ("001-fig-6.4", (), MIXED, Verdict.DIFFERS),
        ("001-fig-6.5", (), COUNTS, Verdict.MATCHES),
        ("001-fig-6.5", (), MIXED, Verdict.DIFFERS),
        ("001-own-5.7-kernel-p1", MIXED, (), Verdict.TREND_HOLDS),
        ("001-own-5.7-kernel-p2", (), MIXED, Verdict.DIFFERS),
        ("001-own-6.2-kernel-p1", (), MIXED, Verdict.MATCHES),
        ("001-own-6.2-kernel-p2", (), ("B0-C1", "B1-C0"), Verdict.DIFFERS),
    ],
)
def test_a_verdict_follows_from_which_classes_look_alike(id_, alike_passive, alike_active, verdict):
    found = outcome(ROWS[id_], alike_passive, alike_active)
    assert found.verdict == verdict, found
    assert verdict != Verdict.DIFFERS or found.reason


def test_what_was_recorded_is_taken_as_it_is_by_class_run_and_pattern():
    row = ROWS["001-own-5.7-kernel-p2"]
    points = row.points(False)
    assert len(points) == 2 * len(SIX_LABELS) * 5
    (wanted,) = (
        point
        for point in points
        if (point.arguments["label"], point.arguments["pattern"], point.arguments["run"])
        == ("B1-C1", "S5-C5-S5-B5", 2)
    )
    (recording,) = (
        one
        for one in load(KERNEL_ACTIVE)
        if (one.label, one.pattern, one.seed) == ("B1-C1", "S5-C5-S5-B5", 33)
    )
    found = wanted.run(**wanted.arguments)
    assert found == pytest.approx(np.nanmean(recording.rtt_ms.reshape(120, 20), axis=1), abs=6e-4)
    reduced = [point for point in row.points(True) if point.arguments["run"] == 2]
    assert {len(point.run(**point.arguments)) for point in reduced} == {60}


def test_the_comparison_of_classifiers_names_them_all(monkeypatch):
    # Without the perceptron, which takes seconds to learn.
    needs = {"passive": tuple(name for name in ALL if name != "perceptron")}
    row = recognition_row("001-fig-5.5", "", "", needs, ch5_recognition_rows._judge_passive)
    found = outcome(row)
    for name in ("1-NN", "10-NN", "SVM, 1/w", "GNB", "mean RTT"):
        assert f"{name} 5 s" in found.ours
    assert "%" in found.interval


@pytest.mark.parametrize("id_", [id_ for id_, row in ROWS.items() if row.plot and "5.5" not in id_])
def test_what_can_be_drawn_is_drawn(id_, tmp_path):
    row = ROWS[id_]
    results = [series(point.arguments["label"], run_of(point), ()) for point in row.points(True)]
    later = [point.run(**point.arguments) for point in row.then(results)]
    row.plot(json.loads(json.dumps(results + later)), tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")
