"""Classes, windows, folds, warping and classifiers, each against what is known otherwise."""

import itertools

import numpy as np
import pytest

from studies.training.classifiers import FAMILIES, vote
from studies.training.evaluation import Confusion, evaluate, table
from studies.training.windows import by_run, cut, shuffled, windows_of
from weir.congestion.classify import warping
from weir.congestion.classify.classes import CLASSES, SIX_LABELS
from weir.errors import BadInput


def test_the_classes_are_those_of_table_6_1():
    assert SIX_LABELS == ("B0-C0", "B0-C1", "B1-C0", "B1-C1", "B1-B1", "C1-C1")
    assert [mixture.has_bbr for mixture in CLASSES] == [False, False, True, True, True, False]
    assert [mixture.label for mixture in CLASSES if mixture.is_heterogeneous] == ["B1-C1"]
    assert CLASSES[SIX_LABELS.index("B1-B1")].controls == ("bbr", "bbr")


# --- windows and folds ---


@pytest.mark.parametrize(
    ("length", "count"),
    # 001-spec 5.6: windows of a series of 3600 samples.
    [(5, 720), (10, 360), (15, 240), (20, 180), (25, 144), (35, 102), (45, 80), (55, 65), (60, 60)],
)
def test_windows_do_not_overlap_and_are_as_many_as_the_work_has(length, count):
    windows = cut(range(3600), length)
    assert windows.shape == (count, length)
    assert windows.ravel().tolist() == list(range(count * length))


def test_windows_overlap_when_their_stride_is_shorter():
    assert cut([1, 2, 3, 4, 5], 3, stride=1).tolist() == [[1, 2, 3], [2, 3, 4], [3, 4, 5]]


def test_what_cannot_be_cut_is_named():
    with pytest.raises(BadInput, match="windows of 0 samples"):
        cut([1.0], 0)
    with pytest.raises(BadInput, match="'B3-C0' is not a class"):
        windows_of({"B3-C0": [[1.0]]}, 1)
    with pytest.raises(BadInput, match="no series has the 3 samples"):
        windows_of({"B0-C0": [[1.0, 2.0]]}, 3)


def numbered(runs=5, samples=40):
    """A series of each run of each class in which no value occurs twice, in any of them."""
    values = itertools.count()
    return {
        label: [[float(next(values)) for _ in range(samples)] for _ in range(runs)]
        for label in SIX_LABELS
    }


def test_a_fold_by_run_shares_no_sample_of_any_run_with_what_is_learned():
    data = numbered()
    windows = windows_of(data, 7)
    folds = by_run(windows)
    assert len(folds) == 5
    for run, (train, test) in enumerate(folds):
        of_run = {value for many in data.values() for value in many[run]}
        assert set(windows.values[test].ravel()) <= of_run
        assert not set(windows.values[train].ravel()) & of_run
        assert sorted([*train, *test]) == list(range(len(windows.labels)))


def test_shuffled_folds_test_every_window_once_with_equal_shares_of_every_class():
    windows = windows_of(numbered(), 4)
    folds = shuffled(windows, 5, seed=1)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(300))
    for train, test in folds:
        assert not set(train) & set(test)
        assert np.bincount(windows.labels[test]).tolist() == [10] * 6
        # This is their leak: a tested window's own run is among what is learned from.
        assert set(windows.runs[test]) <= set(windows.runs[train])
    again = shuffled(windows, 5, seed=1)
    assert all((one[1] == other[1]).all() for one, other in zip(folds, again, strict=True))


# --- dynamic time warping ---


def by_definition(a, b, band, cost):
    """The recurrence of 001-spec 5.7 with its whole table."""
    table = np.full((len(a), len(b)), np.inf)
    for i in range(len(a)):
        for j in range(max(0, i - band), min(len(b), i + band + 1)):
            before = [
                table[i - 1, j] if i else np.inf,
                table[i, j - 1] if j else np.inf,
                table[i - 1, j - 1] if i and j else np.inf,
            ]
            table[i, j] = cost(a[i] - b[j]) + (min(before) if i or j else 0.0)
    return table[-1, -1]


COSTS = {"absolute": abs, "squared": np.square}


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize(("length", "band"), [(1, 10), (5, 10), (30, 10), (30, 2), (30, 0)])
def test_distances_are_those_of_the_definition(cost, length, band):
    series = np.random.default_rng(length + band).normal(100, 30, (11, length))
    found = warping.distances(series, band, cost)
    wanted = [[by_definition(a, b, band, COSTS[cost]) for b in series] for a in series]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_bounds_are_below_distances_and_the_pruned_search_finds_what_the_whole_one_does():
    draw = np.random.default_rng(3)
    walks = np.cumsum(draw.normal(size=(400, 20)), axis=1)
    index = warping.KnnIndex(walks)
    for series in np.cumsum(draw.normal(size=(20, 20)), axis=1):
        distances = np.array([by_definition(series, walk, 10, abs) for walk in walks[:40]])
        assert (np.array(index.bounds(series)[:40]) <= distances * (1 + 1e-9)).all()
        all_of_them = warping.distances(np.vstack([series, walks]))[0, 1:]
        order = np.argsort(all_of_them, kind="stable")[:5]
        found = index.nearest(series, 5)
        assert [number for number, _ in found] == order.tolist()
        np.testing.assert_allclose([far for _, far in found], all_of_them[order])


def test_what_cannot_be_compared_is_bad_input():
    with pytest.raises(BadInput, match="window 1: value 0 is NaN"):
        warping.distances(np.array([[1.0], [np.nan]]))
    with pytest.raises(BadInput, match='"cubed" is not a cost'):
        warping.distances(np.ones((2, 2)), cost="cubed")
    with pytest.raises(BadInput, match="series has 3 values, and the windows have 2"):
        warping.KnnIndex(np.ones((2, 2))).nearest(np.ones(3), 1)


# --- classifiers ---


def test_the_nearest_of_a_tied_class_decides():
    labels = np.array([4, 2, 2, 4, 5])
    near = np.array([[1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 1.0, 4.0, 2.0, 3.0]])
    assert vote(near, labels, 1).tolist() == [4, 2]
    assert vote(near, labels, 4).tolist() == [4, 2]
    assert vote(near, labels, 3).tolist() == [2, 2]


def waves(seed, runs=5, samples=60):
    """A level and a swing for each class, and little noise: told apart by anything that learns."""
    draw = np.random.default_rng(seed)
    at = np.arange(samples)
    return {
        label: [
            (2 * number + np.sin(at / (number + 1)) / 2 + draw.normal(0, 0.1, samples)).tolist()
            for _ in range(runs)
        ]
        for number, label in enumerate(SIX_LABELS)
    }


@pytest.mark.parametrize(
    ("family", "samples", "classifiers"),
    [
        ("neighbours", 40, ["1-NN", "3-NN", "5-NN", "10-NN"]),
        ("perceptron", 100, ["MLP"]),
        ("support vectors", 40, ["SVM, 1/w", "SVM, 1/(w Var)"]),
        ("standardised", 40, ["MLP, z", "SVM, z"]),
        ("naive Bayes", 40, ["GNB"]),
        ("mean", 40, ["mean RTT"]),
    ],
)
def test_every_classifier_finds_what_is_plain(family, samples, classifiers):
    found = evaluate(waves(1, samples=samples), [20], family)["20"]
    assert list(found) == ["by run", "shuffled"]
    for folds in found.values():
        assert list(folds) == classifiers
        for tables in folds.values():
            assert len(tables) == 5
            confusion = Confusion.pooled(tables)
            assert confusion.counts.sum() == 6 * 5 * samples / 20
            assert confusion.accuracy > 0.9, confusion.counts


# The perceptrons take seconds to learn.
@pytest.mark.parametrize("family", sorted({*FAMILIES} - {"perceptron", "standardised"}))
def test_no_classifier_finds_what_is_not_there(family):
    draw = np.random.default_rng(2)
    noise = {label: draw.normal(100, 5, (5, 40)).tolist() for label in SIX_LABELS}
    for folds in evaluate(noise, [5], family)["5"].values():
        for tables in folds.values():
            # A sixth of 240 windows, and four standard deviations of that.
            assert Confusion.pooled(tables).accuracy < 1 / 6 + 0.1


def test_windows_longer_than_a_series_are_left_out():
    assert list(evaluate(waves(1, samples=12), [10, 15], "mean")) == ["10"]


# --- scores ---


def test_scores_of_a_table_worked_by_hand():
    truth = np.array([0, 0, 0, 0, 1, 1, 2, 3, 4, 5])
    guess = np.array([0, 0, 0, 1, 1, 0, 2, 3, 4, 5])
    confusion = Confusion(table(truth, guess))
    assert confusion.accuracy == 0.8
    first, second, *_ = confusion.scores()
    assert (first.precision, first.recall, first.f1, first.support) == (0.75, 0.75, 0.75, 4)
    assert (second.precision, second.recall, second.f1, second.support) == (0.5, 0.5, 0.5, 2)
    assert confusion.balanced_accuracy == pytest.approx((0.75 + 0.5 + 4) / 6)


def test_questions_reduce_the_classes():
    # One B1-C1 taken for B1-B1 is right about BBR and wrong about both kinds.
    confusion = Confusion(table(np.array([1, 2, 3, 3, 5]), np.array([5, 2, 3, 4, 4])))
    present = confusion.reduced(lambda mixture: mixture.has_bbr)
    assert present.counts.tolist() == [[1, 1], [0, 3]]
    both = confusion.reduced(lambda mixture: mixture.is_heterogeneous)
    assert both.counts.tolist() == [[3, 0], [1, 1]]
    assert both.balanced_accuracy == 0.75
