"""Learns Weir's recogniser, from the grid of simulated paths and from recordings of the kernel's.

    weir ops train                                       # the one that is shipped
    weir ops train own.npz --count 20000                 # another, from a larger grid
    weir ops train own.npz --recordings mine.npz         # from other recordings of the kernel's

What was simulated is kept in `out/recognition` and not simulated again. Learning needs scikit-learn
(the extra `reproduce`). The same recordings and seed give the same recogniser, on one machine and
one version of scikit-learn to the bit.
"""

import importlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.training.examples import Examples, cut, require_learnable, side, stretched
from studies.training.grid import grid, idle
from studies.training.surrogates import surrogates
from weir import _core
from weir.congestion.classify.classes import ALL_LABELS
from weir.congestion.classify.features import Values, features
from weir.congestion.classify.model import Layers, Model, Single, standardised
from weir.congestion.classify.recogniser import Recogniser
from weir.congestion.recordings import KERNEL, KERNEL_FURTHER, KERNEL_PATHS, Recording, load
from weir.errors import BadInput, Unsupported

RATE_HZ = 20
STRIDES_S = {5: 5.0, 10: 5.0, 20: 4.0}
"""From a window to the next, by its length."""
KERNEL_STRIDE_S = 2.0
"""From a window of the kernel's few recordings to the next."""
CALIBRATION_STRIDE_S = 1.0
"""From a window for calibration to the next: fewer than a hundred would have no unusual one."""
COUNT = 1102
SEED = 1
FILES = (KERNEL, KERNEL_FURTHER, KERNEL_PATHS)
"""Recordings of the kernel that are learned from beside the grid."""
FOLDER = Path("out/recognition")
MEMBERS = 4
HIDDEN = (128, 64)
DRAWS = 3
"""How often each recording is learned from."""
STRETCH = 0.15
"""Logarithm of how much longer or shorter the path of a kernel's recording becomes at most."""
GUARDS = 2
GUARD_HIDDEN = (64,)
GUARDED = 3000
"""Windows of which surrogates are made: about twice as many."""
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
        recordings: of labels in `ALL_LABELS`, at a multiple of 20 Hz.
        seed: of every random choice.
        progress: told what is going on.
        provenance: kept in the recogniser.

    Raises:
        BadInput: recordings are not of such labels or rates, or too few.
        Unsupported: scikit-learn is not installed.
    """
    sides = {
        name: [one for one in recordings if side(one) == name] for name in ("train", "calibrate")
    }
    for name, some in sides.items():
        if not some:
            raise BadInput(f"{len(recordings)} recordings: none of them is there to {name}")
    models = {}
    for seconds, stride_s in STRIDES_S.items():
        learned = examples(sides["train"], seconds, stride_s, seed)
        held = cut(
            sides["calibrate"],
            ALL_LABELS,
            RATE_HZ,
            seconds,
            CALIBRATION_STRIDE_S,
            10 * seed + DRAWS,
        )
        progress(f"{seconds} s: learning from {len(learned.labels)} windows")
        # Threads would cost more than they gain, and sum in an order of their own.
        with _library("threadpoolctl").threadpool_limits(1):
            models[seconds] = learn(learned, held, RATE_HZ, len(ALL_LABELS), seed)
    return Recogniser(RATE_HZ, ALL_LABELS, models, provenance)


def examples(recordings: Sequence[Recording], seconds: int, stride_s: float, seed: int) -> Examples:
    """Windows to learn from: of each recording several times, and otherwise each time.

    Simulated ones are seen through other hosts. Of the kernel's the first is as it is, and others
    are as on a longer or shorter path.
    """
    simulated = [one for one in recordings if one.source == "simulator"]
    kernel = [one for one in recordings if one.source == "kernel"]
    parts = []
    for number in range(10 * seed, 10 * seed + DRAWS):
        if simulated:
            parts.append(cut(simulated, ALL_LABELS, RATE_HZ, seconds, stride_s, number))
        if kernel:
            parts.append(cut(kernel, ALL_LABELS, RATE_HZ, seconds, KERNEL_STRIDE_S, number))
        draw = np.random.default_rng(number)
        kernel = [stretched(one, np.exp(draw.uniform(-STRETCH, STRETCH))) for one in kernel]
    return Examples.of_all(parts)


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
    """Perceptrons that tell surrogates of the windows from these."""
    some = draw.permutation(len(windows))[:GUARDED]
    forged = standardised(features(surrogates(windows[some], draw), rate_hz), *scaling)
    inputs = np.concatenate([standard[some], forged])
    labels = np.repeat([0, 1], [len(some), len(forged)])
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
    """The temperature under which the labels are most likely."""

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
        raise Unsupported(
            "scikit-learn is not installed: pip install 'weir-net[reproduce]'"
        ) from None


def make(
    out: Path,
    count: int = COUNT,
    seed: int = SEED,
    files: Sequence[Path] = FILES,
    folder: Path = FOLDER,
    progress: Callable[[str], None] = lambda _: None,
) -> Recogniser:
    """Simulates what is missing, learns, and writes the recogniser: `weir ops train`.

    Args:
        out: where to; another recogniser there is replaced.
        count: recordings of the grid.
        seed: of the grid and of learning.
        files: of recordings, to learn from as well.
        folder: where the grid is kept.
        progress: told what is going on.

    Raises:
        BadInput: an argument is wrong, and nothing was simulated yet; or as `train`.
        Unsupported: scikit-learn is not installed; likewise.
    """
    if count < 1:
        raise BadInput(f"--count {count}: at least one recording is needed")
    if seed < 0:
        raise BadInput(f"--seed {seed}: a whole number from 0 is needed")
    _library("sklearn.neural_network")
    _require_place(out)
    others = [one for file in files for one in load(file)]
    for one in others:
        require_learnable(one, ALL_LABELS, RATE_HZ)
    pairs = grid(count, seed, folder, lambda number: progress(f"{number} of {count} simulated"))
    try:
        recordings = [fast for fast, _ in pairs] + idle(count // 2, seed) + others
        about = (
            f"grid of {count}, seed {seed}, by core {_core.__source__}; "
            f"recordings {[file.name for file in files]}"
        )
        found = train(recordings, seed, progress, about)
        found.save(out)
    except OSError as error:
        raise BadInput(f"{error.filename or out}: {error.strerror or error}") from None
    return found


def _require_place(out: Path) -> None:
    """BadInput if no recogniser can be written there, or something else would be lost."""
    if out.is_dir() or not os.access(out if out.exists() else out.parent, os.W_OK):
        raise BadInput(f"{out}: cannot be written")
    if out.exists() and not Recogniser.is_one(out):
        raise BadInput(
            f"{out} exists and is not a recogniser's file; name what to learn from by --recordings"
        )
