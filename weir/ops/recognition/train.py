"""Learns Weir's recogniser, from the grid of simulated paths and from recordings.

    python -m weir.ops.recognition.train                     # the one that is shipped
    python -m weir.ops.recognition.train --count 20000       # from a larger grid
    python -m weir.ops.recognition.train --recordings FILE --out FILE

What was simulated is kept in `out/recognition` and not simulated again. Learning needs scikit-learn
(the extra `reproduce`). The same recordings and seed give the same recogniser, on one machine and
one version of scikit-learn to the bit.
"""

import argparse
import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weir.errors import Unsupported, WeirError
from weir.ops.recognition.classes import BACKGROUNDS
from weir.ops.recognition.examples import Examples, cut, side
from weir.ops.recognition.features import Values, features
from weir.ops.recognition.grid import grid
from weir.ops.recognition.model import Layers, Model, standardised
from weir.ops.recognition.recogniser import SHIPPED, Recogniser
from weir.ops.recordings import Recording, load

RATE_HZ = 20
STRIDES_S = {5: 5.0, 10: 5.0, 20: 4.0}
"""From a window to the next, by its length."""
LABELS = tuple(background.label for background in BACKGROUNDS)
COUNT = 1976
SEED = 1
FOLDER = Path("out/recognition")
MEMBERS = 4
HIDDEN = (128,)
EPOCHS = 20
PENALTY = 2.0
AXES = 24
LANDMARKS = 2000


def train(
    recordings: Sequence[Recording],
    seed: int = SEED,
    progress: Callable[[str], None] = lambda _: None,
    provenance: str = "",
) -> Recogniser:
    """A recogniser that learned from the recordings whose paths are for that.

    It is calibrated on others, and those for testing are not looked at (`examples.side`).

    Args:
        recordings: of labels in `LABELS`, at a multiple of 20 Hz.
        seed: of every random choice.
        progress: told what is going on.
        provenance: kept in the recogniser.

    Raises:
        BadInput: recordings are not of such labels or rates, or too few.
        Unsupported: scikit-learn is not installed.
    """
    sides = {
        name: [one for one in recordings if side(one.path) == name]
        for name in ("train", "calibrate")
    }
    models = {}
    for seconds, stride_s in STRIDES_S.items():
        learned, held = (
            cut(sides[name], LABELS, RATE_HZ, seconds, stride_s, seed)
            for name in ("train", "calibrate")
        )
        progress(f"{seconds} s: learning from {len(learned.labels)} windows")
        # Threads would cost more than they gain, and sum in an order of their own.
        with _library("threadpoolctl").threadpool_limits(1):
            models[seconds] = learn(learned, held, RATE_HZ, len(LABELS), seed)
    return Recogniser(RATE_HZ, LABELS, models, provenance)


def learn(learned: Examples, held: Examples, rate_hz: int, classes: int, seed: int) -> Model:
    """The model of windows of one length, calibrated on those that are held back."""
    inputs = features(learned.windows, rate_hz)
    mean = inputs.mean(axis=0).astype(np.float32)
    scale = (inputs.std(axis=0) + 1e-3).astype(np.float32)
    standard = standardised(inputs, mean, scale)
    members = tuple(
        _perceptron(standard, learned.labels, classes, seed + member) for member in range(MEMBERS)
    )
    axes = _axes(standard)
    draw = np.random.default_rng(seed)
    chosen = draw.permutation(len(standard))[:LANDMARKS]
    landmarks = (standard[chosen] @ axes).astype(np.float16).astype(np.float32)
    rough = Model(mean, scale, members, 1.0, axes, landmarks, np.zeros(1, np.float32))
    known = features(held.windows, rate_hz)
    return Model(
        mean=mean,
        scale=scale,
        members=members,
        temperature=_temperature(np.log(rough.mixed(known)), held.labels),
        axes=axes,
        landmarks=landmarks,
        distances=np.sort(rough.distance(known)).astype(np.float32),
    )


def _perceptron(inputs: Any, labels: Any, classes: int, seed: int) -> Layers:
    network = _library("sklearn.neural_network")
    perceptron = network.MLPClassifier(
        HIDDEN, alpha=PENALTY, batch_size=128, max_iter=EPOCHS, random_state=seed
    )
    with warnings.catch_warnings():
        # That the epochs are over before the loss is at rest is meant.
        warnings.simplefilter("ignore")
        perceptron.fit(inputs, labels)
    layers = []
    for weights, biases in zip(perceptron.coefs_, perceptron.intercepts_, strict=True):
        # As they are saved, so that what is calibrated is what is used.
        layers.append((weights.astype(np.float16).astype(np.float32), biases.astype(np.float32)))
    weights, biases = layers[-1]
    # A label of which there is no recording has no output: it gets one that never wins.
    every = np.zeros((weights.shape[0], classes), np.float32)
    none = np.full(classes, -30.0, np.float32)
    every[:, perceptron.classes_], none[perceptron.classes_] = weights, biases
    return (*layers[:-1], (every, none))


def _axes(standard: Any) -> Any:
    """Principal directions, scaled to variance 1 along each."""
    centred = standard - standard.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    chosen = slice(-1, -AXES - 1, -1)
    return (directions[:, chosen] / np.sqrt(variances[chosen])).astype(np.float32)


def _temperature(logarithms: Values, labels: Any) -> float:
    """That under which the labels are most likely."""

    def surprise(temperature: float) -> float:
        values = logarithms / temperature
        norms = np.log(np.exp(values - values.max(axis=1, keepdims=True)).sum(axis=1))
        own = values[np.arange(len(labels)), labels] - values.max(axis=1)
        return float((norms - own).mean())

    return float(min(np.geomspace(0.3, 4.0, 200), key=surprise))


def _library(module: str) -> Any:
    """A module of scikit-learn or of what it brings."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise Unsupported("scikit-learn is not installed: pip install 'weir[reproduce]'") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulates what is missing, learns, and writes the recogniser."""
    parser = argparse.ArgumentParser(prog="weir.ops.recognition.train", description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="recordings of the grid")
    parser.add_argument("--seed", type=int, default=SEED, help="of the grid and of learning")
    parser.add_argument("--recordings", type=Path, nargs="*", default=[], help="others, in files")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the grid is kept")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="the recogniser")
    given = parser.parse_args(arguments)

    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    try:
        recordings = [
            fast
            for fast, _ in grid(
                given.count, given.seed, given.folder, lambda n: say(f"{n} recordings")
            )
        ]
        recordings += [one for path in given.recordings for one in load(path)]
        names = [path.name for path in given.recordings]
        about = f"grid of {given.count}, seed {given.seed}; recordings {names}"
        train(recordings, given.seed, say, about).save(given.out)
    except WeirError as error:
        say(f"{parser.prog}: {error}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
