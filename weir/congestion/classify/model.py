"""A learned model of windows of one length: plain arrays, and what they say of features.

A few small perceptrons whose mean is taken, with a temperature that makes their probabilities
honest (Guo et al., ICML 2017). Others tell real windows from surrogates, and from those of other
paths that the first misread; and there is the distance from what was learned from. Both become
conformal p-values: the share of windows held back for calibration that look as far out of
distribution, or farther. Where the first say that BBR is there yet others are asked whether it
only seems so, since BBR that is chosen by mistake harms whoever is there.

What learned from a wide range of paths is asked in a second opinion (`Wide`).

A second question is of what kind the background is (`classes.KINDS`), or of none of these. Others
again answer it, with a temperature of their own, and with a level for each kind: what is less
likely is not said, since as much is said of windows of other kinds.
"""

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Single = NDArray[np.float32]
Layers: TypeAlias = tuple[tuple[Single, Single], ...]
"""Weights and biases of one perceptron, from the features to the classes."""

DAMAGED = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What reading a file that holds no models, or half of one, may raise."""
CLIP = 4.0
"""Standard deviations; features that are further out say no more than that."""
NEIGHBOURS = 5
FAR, FORGED, DOUBTFUL = 1 / 4, 1 / 4, 3 / 8
"""So much of a p-value's level is for distances, for what the guards say, and for doubts."""
SEEMING = 1 / 2
"""So much where BBR is said to be there, for whether it only seems so."""


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
        guards: perceptrons that tell surrogates (the second of two outputs) from real windows.
        doubts: likewise, windows of other paths that the members misread; there may be none.
        pretenders: of windows of any path that the members take for BBR, likewise those without
            it; there may be none.
        kinds: perceptrons that tell the kinds, the first of whose outputs is for none of them;
            there may be none.
        cooling: their temperature.
        levels: the probability from which each kind is said.
        distances: of the calibration's windows from their nearest landmarks, in order.
        suspicions: what the guards say of the calibration's windows, in order.
        doubted: what the doubts say of them, in order.
        pretended: what the pretenders say of those of them that are rightly taken for BBR.
    """

    mean: Single
    scale: Single
    members: tuple[Layers, ...]
    temperature: float
    axes: Single
    landmarks: Single
    guards: tuple[Layers, ...]
    doubts: tuple[Layers, ...]
    pretenders: tuple[Layers, ...]
    distances: Single
    suspicions: Single
    doubted: Single
    pretended: Single
    kinds: tuple[Layers, ...] = ()
    cooling: float = 1.0
    levels: Single = field(default_factory=lambda: np.zeros(0, np.float32))

    def probabilities(self, features: Values) -> Values:
        """The probability of each class (column) for each window (row)."""
        return _softmax(np.log(self.mixed(features)) / self.temperature)

    def mixed(self, features: Values) -> Values:
        """The mean of what the members say, without the temperature."""
        return _mean(self.members, standardised(features, self.mean, self.scale))

    def p_values(self, features: Values, has_bbr: NDArray[np.bool_]) -> Values:
        """How usual windows are: near 0 is unlike anything learned from.

        Of several p-values the lowest, each divided by its part of the level (Bonferroni): of
        windows like those learned from no greater share than p has one below p; of those that are
        taken for BBR, to which one part more is put, none greater than 1.4 p.

        Args:
            features: a row for each window.
            has_bbr: whether the members say of each that BBR is there.
        """
        parts = [
            _exceeded(self.distances, self.distance(features)) / FAR,
            _exceeded(self.suspicions, self.suspicion(features)) / FORGED,
            _exceeded(self.doubted, self.doubt(features)) / DOUBTFUL,
            np.where(has_bbr, _exceeded(self.pretended, self.pretence(features)) / SEEMING, 1.0),
        ]
        usual: Values = np.minimum(np.min(parts, axis=0), 1.0)
        return usual

    def of_kinds(self, features: Values) -> Values:
        """The probabilities of none of the kinds and of each, in columns; of none alone without."""
        if not self.kinds:
            return np.ones((len(features), 1))
        mixed = _mean(self.kinds, standardised(features, self.mean, self.scale))
        return _softmax(np.log(mixed) / self.cooling)

    def suspicion(self, features: Values) -> Values:
        """Probability that windows are surrogates, among as many of either; 0 without guards."""
        return self._asked(self.guards, features)

    def doubt(self, features: Values) -> Values:
        """Probability that windows are misread ones of other paths, likewise; 0 without doubts."""
        return self._asked(self.doubts, features)

    def pretence(self, features: Values) -> Values:
        """Probability that windows that are taken for BBR are without it; 0 if nobody is asked."""
        return self._asked(self.pretenders, features)

    def _asked(self, perceptrons: tuple[Layers, ...], features: Values) -> Values:
        if not perceptrons:
            return np.zeros(len(features))
        return _mean(perceptrons, standardised(features, self.mean, self.scale))[:, 1]

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
            "suspicions": self.suspicions,
            "doubted": self.doubted,
            "pretended": self.pretended,
            "cooling": np.float32(self.cooling),
            "levels": self.levels,
        }
        found |= _layers(
            {
                "members": self.members,
                "guards": self.guards,
                "doubts": self.doubts,
                "pretenders": self.pretenders,
                "kinds": self.kinds,
            }
        )
        return {f"{name}/{key}": np.asarray(held, dtype=np.float32) for key, held in found.items()}

    @classmethod
    def of_arrays(cls, name: str, held: Mapping[str, NDArray[np.generic]]) -> "Model":
        """The model that was saved under that name.

        Raises:
            KeyError: an array is missing.
        """

        def get(key: str) -> Single:
            return held[f"{name}/{key}"].astype(np.float32)

        def perceptrons(kind: str) -> tuple[Layers, ...]:
            return _perceptrons(f"{name}/{kind}", held)

        return cls(
            mean=get("mean"),
            scale=get("scale"),
            members=perceptrons("members"),
            temperature=float(get("temperature")),
            axes=get("axes"),
            landmarks=get("landmarks"),
            guards=perceptrons("guards"),
            doubts=perceptrons("doubts"),
            pretenders=perceptrons("pretenders"),
            kinds=perceptrons("kinds"),
            cooling=float(get("cooling")) if f"{name}/cooling" in held else 1.0,
            distances=get("distances"),
            suspicions=get("suspicions"),
            # One that was learned before there were doubts, pretenders or kinds has none.
            **{
                key: get(key) if f"{name}/{key}" in held else np.zeros(0, np.float32)
                for key in ("doubted", "pretended", "levels")
            },
        )


@dataclass(frozen=True, slots=True, eq=False)
class Wide:
    """What was learned from windows of one length on a wide range of paths.

    It is less sure than a `Model`, which learned from usual paths and the kernel's, and asked where
    that knows nothing or takes for BBR what may be none.

    Attributes:
        mean: of each feature in training.
        scale: its standard deviation there.
        members: the perceptrons.
        temperature: by which logarithms of their mean probabilities are divided.
        guards: perceptrons that tell surrogates (the second of two outputs) from real windows.
        suspicions: what the guards say of the calibration's windows, in order.
    """

    mean: Single
    scale: Single
    members: tuple[Layers, ...]
    temperature: float
    guards: tuple[Layers, ...]
    suspicions: Single

    def probabilities(self, features: Values) -> Values:
        """The probability of each class (column) for each window (row)."""
        mixed = _mean(self.members, standardised(features, self.mean, self.scale))
        return _softmax(np.log(mixed) / self.temperature)

    def suspicion(self, features: Values) -> Values:
        """Probability that windows are surrogates, among as many of either."""
        return _mean(self.guards, standardised(features, self.mean, self.scale))[:, 1]

    def p_values(self, features: Values, model: Model) -> Values:
        """How usual windows are, likewise, by the guards, and by the model's guards and distances.

        The model's guards know surrogates better: there are fewer kinds of windows that they tell
        these from.
        """
        parts = [
            _exceeded(model.distances, model.distance(features)) / FAR,
            _exceeded(model.suspicions, model.suspicion(features)) / FORGED,
            _exceeded(self.suspicions, self.suspicion(features)) / FORGED,
        ]
        usual: Values = np.minimum(np.min(parts, axis=0), 1.0)
        return usual

    def arrays(self, name: str) -> dict[str, NDArray[np.float32]]:
        """By names that begin with `name`: what `of_arrays` takes."""
        found = {
            "mean": self.mean,
            "scale": self.scale,
            "temperature": np.float32(self.temperature),
            "suspicions": self.suspicions,
            **_layers({"members": self.members, "guards": self.guards}),
        }
        return {f"{name}/{key}": np.asarray(held, dtype=np.float32) for key, held in found.items()}

    @classmethod
    def of_arrays(cls, name: str, held: Mapping[str, NDArray[np.generic]]) -> "Wide":
        """What was saved under that name.

        Raises:
            KeyError: an array is missing.
        """

        def get(key: str) -> Single:
            return held[f"{name}/{key}"].astype(np.float32)

        return cls(
            mean=get("mean"),
            scale=get("scale"),
            members=_perceptrons(f"{name}/members", held),
            temperature=float(get("temperature")),
            guards=_perceptrons(f"{name}/guards", held),
            suspicions=get("suspicions"),
        )


def standardised(features: Values, mean: Single, scale: Single) -> Single:
    """Features as the members take them."""
    found: Single = np.clip((features - mean) / scale, -CLIP, CLIP).astype(np.float32)
    return found


def _layers(kinds: Mapping[str, tuple[Layers, ...]]) -> dict[str, Single]:
    """The arrays of perceptrons of several kinds, by their names in a file."""
    return {
        f"{kind}/{number}/{layer}/{what}": held
        for kind, many in kinds.items()
        for number, layers in enumerate(many)
        for layer, parts in enumerate(layers)
        for what, held in zip(("weights", "biases"), parts, strict=True)
    }


def _perceptrons(name: str, held: Mapping[str, NDArray[np.generic]]) -> tuple[Layers, ...]:
    """The perceptrons of one kind in a file."""
    whole: list[Layers] = []
    while f"{name}/{len(whole)}/0/weights" in held:
        layers: list[tuple[Single, Single]] = []
        while (place := f"{name}/{len(whole)}/{len(layers)}") + "/weights" in held:
            parts = (held[f"{place}/{what}"].astype(np.float32) for what in ("weights", "biases"))
            weights, biases = parts
            layers.append((weights, biases))
        whole.append(tuple(layers))
    return tuple(whole)


def _mean(perceptrons: tuple[Layers, ...], standard: Single) -> Values:
    each = [_softmax(_forward(layers, standard)) for layers in perceptrons]
    mean: Values = np.maximum(np.mean(each, axis=0), 1e-9)
    return mean


def _exceeded(held: Single, values: Values) -> Values:
    """Share of what is held that is as high or higher, itself counted (never 0)."""
    share: Values = (len(held) - np.searchsorted(held, values) + 1) / (len(held) + 1)
    return share


def _forward(layers: Layers, values: Single) -> Single:
    for weights, biases in layers[:-1]:
        values = np.maximum(values @ weights + biases, 0)
    weights, biases = layers[-1]
    return values @ weights + biases


def _softmax(values: NDArray[np.floating]) -> Values:
    powers = np.exp(values.astype(np.float64) - values.max(axis=1, keepdims=True))
    shares: Values = powers / powers.sum(axis=1, keepdims=True)
    return shares
