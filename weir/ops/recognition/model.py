"""A learned model of windows of one length: plain arrays, and what they say of features.

A few small perceptrons whose mean is taken, with a temperature that makes their probabilities
honest (Guo et al., ICML 2017); and how far a window is from those learned from, as a conformal
p-value: the share of windows held back for calibration that lie as far away or further.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Single = NDArray[np.float32]
Layers: TypeAlias = tuple[tuple[Single, Single], ...]
"""Weights and biases of one perceptron, from the features to the classes."""

CLIP = 4.0
"""Standard deviations; features that are further out say no more than that."""
NEIGHBOURS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """What was learned from windows of one length.

    Attributes:
        mean: of each feature in training.
        scale: its standard deviation there.
        members: the perceptrons.
        temperature: by which logarithms of their mean probabilities are divided.
        axes: directions in which distances are taken, a column each.
        landmarks: windows learned from, along these.
        distances: of the calibration's windows from their nearest landmarks, in order.
    """

    mean: Single
    scale: Single
    members: tuple[Layers, ...]
    temperature: float
    axes: Single
    landmarks: Single
    distances: Single

    def probabilities(self, features: Values) -> Values:
        """Of each class (column) for each window (row)."""
        logarithms = np.log(self.mixed(features)) / self.temperature
        return _softmax(logarithms)

    def mixed(self, features: Values) -> Values:
        """The mean of what the members say, without the temperature."""
        standard = standardised(features, self.mean, self.scale)
        each = [_softmax(_forward(layers, standard)) for layers in self.members]
        mean: Values = np.maximum(np.mean(each, axis=0), 1e-9)
        return mean

    def p_values(self, features: Values) -> Values:
        """How usual windows are: near 0 is unlike anything learned from; uniform if as there."""
        far = np.searchsorted(self.distances, self.distance(features))
        usual: Values = (len(self.distances) - far + 1) / (len(self.distances) + 1)
        return usual

    def distance(self, features: Values) -> Values:
        """Mean distance from the nearest landmarks."""
        places = standardised(features, self.mean, self.scale) @ self.axes
        squares = (
            (places**2).sum(axis=1)[:, None]
            + (self.landmarks**2).sum(axis=1)[None, :]
            - 2 * places @ self.landmarks.T
        )
        near = np.partition(squares, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
        mean: Values = np.sqrt(np.maximum(near, 0)).mean(axis=1)
        return mean

    def arrays(self, name: str) -> dict[str, NDArray[np.float32]]:
        """By names that begin with `name`: what `of_arrays` takes."""
        found = {
            "mean": self.mean,
            "scale": self.scale,
            "temperature": np.float32(self.temperature),
            "axes": self.axes,
            "landmarks": self.landmarks,
            "distances": self.distances,
        }
        for member, layers in enumerate(self.members):
            for layer, (weights, biases) in enumerate(layers):
                found[f"{member}/{layer}/weights"] = weights
                found[f"{member}/{layer}/biases"] = biases
        return {f"{name}/{key}": np.asarray(held, dtype=np.float32) for key, held in found.items()}

    @classmethod
    def of_arrays(cls, name: str, members: int, layers: int, held: Mapping[str, Single]) -> "Model":
        """The model that was saved under that name.

        Raises:
            KeyError: an array is missing.
        """

        def get(key: str) -> Single:
            return np.asarray(held[f"{name}/{key}"], dtype=np.float32)

        return cls(
            mean=get("mean"),
            scale=get("scale"),
            members=tuple(
                tuple(
                    (get(f"{member}/{layer}/weights"), get(f"{member}/{layer}/biases"))
                    for layer in range(layers)
                )
                for member in range(members)
            ),
            temperature=float(get("temperature")),
            axes=get("axes"),
            landmarks=get("landmarks"),
            distances=get("distances"),
        )


def standardised(features: Values, mean: Single, scale: Single) -> Single:
    """Features as the members take them."""
    found: Single = np.clip((features - mean) / scale, -CLIP, CLIP).astype(np.float32)
    return found


def _forward(layers: Layers, values: Single) -> Single:
    for weights, biases in layers[:-1]:
        values = np.maximum(values @ weights + biases, 0)
    weights, biases = layers[-1]
    return values @ weights + biases


def _softmax(values: NDArray[np.floating]) -> Values:
    powers = np.exp(values.astype(np.float64) - values.max(axis=1, keepdims=True))
    shares: Values = powers / powers.sum(axis=1, keepdims=True)
    return shares
