"""Small perceptrons, by scikit-learn, as the arrays that a recogniser's file keeps."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weir import extras
from weir.congestion.classify.features import Values
from weir.congestion.classify.model import Layers, Single

EPOCHS = 15
PENALTY = 1.0


def perceptron(
    inputs: Single, labels: NDArray[np.intp], hidden: Sequence[int], classes: int, seed: int
) -> Layers:
    """One that learned which of so many classes each row of inputs is of.

    Raises:
        Unsupported: scikit-learn is not installed.
    """
    network = extras.load("sklearn.neural_network")
    taught = network.MLPClassifier(
        hidden, alpha=PENALTY, batch_size=128, max_iter=EPOCHS, random_state=seed
    )
    with warnings.catch_warnings():
        # That the epochs are over before the loss is at rest is meant.
        warnings.simplefilter("ignore")
        taught.fit(inputs, labels)
    layers = [
        (as_saved(weights), biases.astype(np.float32))
        for weights, biases in zip(taught.coefs_, taught.intercepts_, strict=True)
    ]
    weights, biases = layers[-1]
    # A label of which there is no recording has no output, and gets one that never wins; of two
    # labels only the second has one.
    every = np.zeros((weights.shape[0], classes), np.float32)
    level = np.full(classes, -30.0, np.float32)
    level[taught.classes_] = 0.0
    there = taught.classes_[-weights.shape[1] :]
    every[:, there], level[there] = weights, biases
    return (*layers[:-1], (every, level))


def as_saved(values: NDArray[np.floating]) -> Single:
    """Rounded as the file rounds, so that what is calibrated is what is used."""
    rounded: Single = values.astype(np.float16).astype(np.float32)
    return rounded


def temperature(logarithms: Values, labels: NDArray[np.intp]) -> float:
    """The temperature under which the labels are most likely."""

    def surprise(temperature: float) -> float:
        values = logarithms / temperature
        norms = np.log(np.exp(values - values.max(axis=1, keepdims=True)).sum(axis=1))
        own = values[np.arange(len(labels)), labels] - values.max(axis=1)
        return float((norms - own).mean())

    return float(min(np.geomspace(0.3, 4.0, 200), key=surprise))
