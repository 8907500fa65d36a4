"""The rows of chapters 5 and 6 on series that are made up: what they say follows from them."""

import json

import numpy as np
import pytest

from weir.ops.recognition.classes import LABELS
from weir.reproduce import recognition_rows
from weir.reproduce.recognition import QUICK
from weir.reproduce.row import Verdict

ROWS = {row.id: row for row in recognition_rows.ROWS}


def series(label, seed, alike, samples=QUICK.seconds):
    """One level for each class; classes that are `alike` share that of the first of them."""
    level = LABELS.index(alike[0] if label in alike else label)
    draw = np.random.default_rng([LABELS.index(label), seed])
    return (65 + 15 * level + draw.normal(0, 1.5**level, samples)).tolist()


def outcome(row, alike_passive=(), alike_active=()):
    """The row's, of both stages; through JSON, as from the cache and from workers."""
    points = row.points(True)
    results = [
        series(
            point.arguments["label"],
            point.arguments["seed"],
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
        ("001-fig-5.3", (), LABELS, Verdict.DIFFERS),
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
    ],
)
def test_a_verdict_follows_from_which_classes_look_alike(id_, alike_passive, alike_active, verdict):
    found = outcome(ROWS[id_], alike_passive, alike_active)
    assert found.verdict == verdict, found
    assert verdict != Verdict.DIFFERS or found.reason


def test_the_comparison_of_classifiers_names_them_all(monkeypatch):
    # Without the perceptron, which takes seconds to learn.
    needs = {"passive": tuple(name for name in recognition_rows.ALL if name != "perceptron")}
    row = recognition_rows._row("001-fig-5.5", "", "", needs, recognition_rows._judge_passive)
    found = outcome(row)
    for name in ("1-NN", "10-NN", "SVM, 1/w", "GNB", "mean RTT"):
        assert f"{name} 5 s" in found.ours
    assert "%" in found.interval


@pytest.mark.parametrize(
    "id_", [id_ for id_, row in ROWS.items() if row.plot and id_ != "001-fig-5.5"]
)
def test_what_can_be_drawn_is_drawn(id_, tmp_path):
    row = ROWS[id_]
    results = [
        series(point.arguments["label"], point.arguments["seed"], ()) for point in row.points(True)
    ]
    later = [point.run(**point.arguments) for point in row.then(results)]
    row.plot(json.loads(json.dumps(results + later)), tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")
