"""The work's classifiers of a window, as near as it says what they are (001-spec 5.7).

All learn from windows in ms as they are, since no normalisation is described (A-14); how the two
that depend on the scale do with one is the family `standardised`. A family is one function, which
computes once what its members share.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from studies.training.windows import Fold, Windows
from weir import extras
from weir.congestion.classify import warping
from weir.congestion.classify.classes import CLASSES

Predictions: TypeAlias = dict[str, list[NDArray[np.intp]]]
"""By the name of the classifier, of each fold: the class of every window that is tested."""
Family: TypeAlias = Callable[[Windows, list[Fold]], Predictions]

_SEED = 1


def nearest_neighbours(windows: Windows, folds: list[Fold]) -> Predictions:
    """1, 3, 5 and 10 nearest neighbours under dynamic time warping with a band of 10."""
    between = warping.distances(windows.values)
    return {
        f"{k}-NN": [
            vote(between[np.ix_(test, train)], windows.labels[train], k) for train, test in folds
        ]
        for k in (1, 3, 5, 10)
    }


def vote(distances: NDArray[np.float64], labels: NDArray[np.intp], k: int) -> NDArray[np.intp]:
    """The commonest class among the `k` nearest; of equally common ones that of the nearest.

    Args:
        distances: from each window, in a row, to those that are learned from.
        labels: the classes of these.
        k: how many vote; all, if there are fewer.
    """
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    near = labels[order]
    votes = np.stack([(near == label).sum(axis=1) for label in range(len(CLASSES))], axis=1)
    is_tied = votes == votes.max(axis=1, keepdims=True)
    # The first neighbour whose class has the most votes.
    first = np.argmax(np.take_along_axis(is_tied, near, axis=1), axis=1)
    winners: NDArray[np.intp] = near[np.arange(len(near)), first]
    return winners


def perceptron(windows: Windows, folds: list[Fold]) -> Predictions:
    """Two hidden layers of 64: Adam at 0.001, batches of 32, 200 epochs (A-16)."""
    network = extras.load("sklearn.neural_network")

    def new() -> Any:
        return network.MLPClassifier(
            (64, 64),
            alpha=0.0,
            batch_size=32,
            max_iter=200,
            n_iter_no_change=200,
            random_state=_SEED,
        )

    with warnings.catch_warnings():
        # It is no surprise that 200 epochs are over before the loss is at rest.
        warnings.simplefilter("ignore")
        return {"MLP": _learned(new, windows, folds)}


def support_vectors(windows: Windows, folds: list[Fold]) -> Predictions:
    """Gaussian kernel, C = 1, gamma either 1/w or 1/(w variance), by library version (A-17)."""
    svm = extras.load("sklearn.svm")
    gammas = {"SVM, 1/w": "auto", "SVM, 1/(w Var)": "scale"}
    return {
        name: _learned(partial(svm.SVC, gamma=gamma), windows, folds)
        for name, gamma in gammas.items()
    }


def standardised(windows: Windows, folds: list[Fold]) -> Predictions:
    """The perceptron and the SVM (1/w) of windows with each place brought to mean 0, variance 1."""
    found: Predictions = {"MLP, z": [], "SVM, z": []}
    for fold in folds:
        learned = windows.values[fold[0]]
        deviation = learned.std(axis=0)
        scaled = (windows.values - learned.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        alike = Windows(scaled, windows.labels, windows.runs)
        found["MLP, z"] += perceptron(alike, [fold])["MLP"]
        found["SVM, z"] += support_vectors(alike, [fold])["SVM, 1/w"]
    return found


def naive_bayes(windows: Windows, folds: list[Fold]) -> Predictions:
    """A normal distribution for each class and place, taken as independent."""
    bayes = extras.load("sklearn.naive_bayes")
    return {"GNB": _learned(bayes.GaussianNB, windows, folds)}


def nearest_mean(windows: Windows, folds: list[Fold]) -> Predictions:
    """Not the work's, to measure the others by: the class whose mean round-trip time is nearest."""
    found = []
    for train, test in folds:
        means = windows.values.mean(axis=1)
        labels = windows.labels[train]
        known = np.unique(labels)
        centres = np.array([means[train][labels == label].mean() for label in known])
        found.append(known[np.abs(means[test][:, None] - centres).argmin(axis=1)])
    return {"mean RTT": found}


FAMILIES: Mapping[str, Family] = {
    "neighbours": nearest_neighbours,
    "perceptron": perceptron,
    "support vectors": support_vectors,
    "standardised": standardised,
    "naive Bayes": naive_bayes,
    "mean": nearest_mean,
}


def _learned(new: Callable[[], Any], windows: Windows, folds: list[Fold]) -> list[NDArray[np.intp]]:
    # Matrices are small: threads would cost more than they gain.
    with extras.load("threadpoolctl").threadpool_limits(1):
        return [
            new().fit(windows.values[train], windows.labels[train]).predict(windows.values[test])
            for train, test in folds
        ]
