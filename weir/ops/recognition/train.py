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
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.errors import Unsupported, WeirError
from weir.ops.recognition.classes import BACKGROUNDS
from weir.ops.recognition.counterfeits import counterfeits
from weir.ops.recognition.examples import Examples, cut, side
from weir.ops.recognition.features import Values, features
from weir.ops.recognition.grid import grid, idle
from weir.ops.recognition.model import Layers, Model, Single, standardised
from weir.ops.recognition.recogniser import SHIPPED, Recogniser
from weir.ops.recordings import Recording, load

RATE_HZ = 20
STRIDES_S = {5: 5.0, 10: 5.0, 20: 4.0}
"""From a window to the next, by its length."""
LABELS = tuple(background.label for background in BACKGROUNDS)
COUNT = 1102
SEED = 1
FOLDER = Path("out/recognition")
MEMBERS = 4
HIDDEN = (128, 64)
DRAWS = 3
"""How often each recording from the simulator is learned from, through other hosts each time."""
GUARDS = 2
GUARD_HIDDEN = (64,)
EPOCHS = 15
PENALTY = 1.0
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
        draws = [
            cut(sides["train"], LABELS, RATE_HZ, seconds, stride_s, 10 * seed + draw)
            for draw in range(DRAWS)
        ]
        learned = Examples.of_all(draws)
        held = cut(sides["calibrate"], LABELS, RATE_HZ, seconds, stride_s, 10 * seed + DRAWS)
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
    members = [
        _perceptron(standard, learned.labels, HIDDEN, classes, seed + member)
        for member in range(MEMBERS)
    ]
    draw = np.random.default_rng(seed)
    chosen = draw.permutation(len(standard))[:LANDMARKS]
    axes = _axes(standard)
    rough = Model(
        mean=mean,
        scale=scale,
        members=tuple(members),
        temperature=1.0,
        axes=axes,
        landmarks=_as_saved(standard[chosen] @ axes),
        guards=_guards(standard, learned.windows, rate_hz, (mean, scale), draw),
        distances=np.zeros(0, np.float32),
        suspicions=np.zeros(0, np.float32),
    )
    known = features(held.windows, rate_hz)
    return replace(
        rough,
        temperature=_temperature(np.log(rough.mixed(known)), held.labels),
        distances=np.sort(rough.distance(known)).astype(np.float32),
        suspicions=np.sort(rough.suspicion(known)).astype(np.float32),
    )


def _guards(
    standard: Single,
    windows: Values,
    rate_hz: int,
    scaling: tuple[Single, Single],
    draw: np.random.Generator,
) -> tuple[Layers, ...]:
    """Perceptrons that tell counterfeits of the windows from these."""
    forged = standardised(features(counterfeits(windows, draw), rate_hz), *scaling)
    inputs = np.concatenate([standard, forged])
    labels = np.repeat([0, 1], [len(standard), len(forged)])
    seeds = draw.integers(2**31, size=GUARDS)
    return tuple(_perceptron(inputs, labels, GUARD_HIDDEN, 2, int(seed)) for seed in seeds)


def _perceptron(
    inputs: Single, labels: NDArray[np.intp], hidden: Sequence[int], classes: int, seed: int
) -> Layers:
    network = _library("sklearn.neural_network")
    perceptron = network.MLPClassifier(
        hidden, alpha=PENALTY, batch_size=128, max_iter=EPOCHS, random_state=seed
    )
    with warnings.catch_warnings():
        # That the epochs are over before the loss is at rest is meant.
        warnings.simplefilter("ignore")
        perceptron.fit(inputs, labels)
    layers = [
        (_as_saved(weights), biases.astype(np.float32))
        for weights, biases in zip(perceptron.coefs_, perceptron.intercepts_, strict=True)
    ]
    weights, biases = layers[-1]
    # A label of which there is no recording has no output, and gets one that never wins; of two
    # labels only the second has one.
    every = np.zeros((weights.shape[0], classes), np.float32)
    level = np.zeros(classes, np.float32)
    if len(perceptron.classes_) > 2:
        level -= 30.0
    there = perceptron.classes_[-weights.shape[1] :]
    every[:, there], level[there] = weights, biases
    return (*layers[:-1], (every, level))


def _as_saved(values: NDArray[np.floating]) -> Single:
    """Rounded as the file rounds, so that what is calibrated is what is used."""
    rounded: Single = values.astype(np.float16).astype(np.float32)
    return rounded


def _axes(standard: Single) -> Single:
    """Principal directions, scaled to variance 1 along each."""
    centred = standard - standard.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    chosen = slice(-1, -AXES - 1, -1)
    axes: Single = (directions[:, chosen] / np.sqrt(variances[chosen])).astype(np.float32)
    return axes


def _temperature(logarithms: Values, labels: NDArray[np.intp]) -> float:
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
        recordings += idle(given.count // 10, given.seed)
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
