"""Learns the second question: of what kind is what is on a path (`studies.training.kinds`)?

Who is there was learned before, and stays: the perceptrons of this question take the same features
and are asked after it. Each kind is said from a probability on that few windows of anything else
reach, of those held back for calibration.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from studies.training.examples import Examples, cut, side
from studies.training.kinds import HELD, KIND_OF
from studies.training.perceptrons import perceptron, temperature
from weir import extras
from weir.congestion.classify.classes import ALL_LABELS, KINDS
from weir.congestion.classify.features import features
from weir.congestion.classify.model import Model, standardised
from weir.congestion.classify.recogniser import Recogniser
from weir.congestion.recordings import Recording
from weir.errors import BadInput

LABELS = (*ALL_LABELS, *HELD)
"""What recordings that are learned from may be called."""
STRIDE_S = 3.0
"""From a window to the next."""
CALIBRATION_STRIDE_S = 1.0
DRAWS = 3
"""How often each recording is learned from, seen through other hosts."""
MEMBERS = 3
HIDDEN = (128,)
MISTAKEN = 0.01
"""No greater share of windows of anything else is said to be of a kind, as far as calibration
goes."""
LEAST = 0.75
"""Probability below which no kind is said."""


def with_kinds(
    recogniser: Recogniser,
    recordings: Sequence[Recording],
    seed: int,
    progress: Callable[[str], None] = lambda _: None,
) -> Recogniser:
    """The recogniser, with what it says of kinds learned anew.

    Args:
        recogniser: whose answers about who is there stay as they are.
        recordings: of kinds and of backgrounds; those for testing are not looked at.
        seed: of every random choice.
        progress: told what is going on.

    Raises:
        BadInput: recordings are of other labels or rates, or too few.
        Unsupported: scikit-learn is not installed.
    """
    sides = {
        name: [one for one in recordings if side(one) == name] for name in ("train", "calibrate")
    }
    for name, found in sides.items():
        if not found:
            raise BadInput(f"{len(recordings)} recordings: none of them is there to {name}")
    models = {}
    for seconds, model in recogniser.models.items():
        numbers = range(10 * seed, 10 * seed + DRAWS)
        learned = Examples.of_all(
            [
                cut(sides["train"], LABELS, recogniser.rate_hz, seconds, STRIDE_S, number)
                for number in numbers
            ]
        )
        held = cut(
            sides["calibrate"],
            LABELS,
            recogniser.rate_hz,
            seconds,
            CALIBRATION_STRIDE_S,
            numbers.stop,
        )
        progress(f"{seconds} s: learning kinds from {len(learned.labels)} windows")
        with extras.load("threadpoolctl").threadpool_limits(1):
            models[seconds] = telling_kinds(model, learned, held, recogniser.rate_hz, seed)
    names = [kind.label for kind in KINDS]
    return Recogniser(
        recogniser.rate_hz,
        recogniser.labels,
        models,
        recogniser.provenance,
        names,
        recogniser.wide,
    )


def telling_kinds(
    model: Model, learned: Examples, held: Examples, rate_hz: int, seed: int
) -> Model:
    """The model, with perceptrons that tell the kinds, and from when each is said.

    Args:
        model: whose features are standardised as before.
        learned: windows, their labels by their number in `LABELS`.
        held: more of these, to calibrate on.
        rate_hz: of the windows.
        seed: of every random choice.
    """
    inputs = standardised(features(learned.windows, rate_hz), model.mean, model.scale)
    kinds = tuple(
        perceptron(inputs, kinds_of(learned), HIDDEN, 1 + len(KINDS), seed + member)
        for member in range(MEMBERS)
    )
    rough = replace(model, kinds=kinds, cooling=1.0, levels=np.zeros(len(KINDS), np.float32))
    known, truth = features(held.windows, rate_hz), kinds_of(held)
    cooled = replace(rough, cooling=temperature(np.log(rough.of_kinds(known)), truth))
    shares = cooled.of_kinds(known)
    levels = [
        max(LEAST, float(np.quantile(shares[truth != number, number], 1 - MISTAKEN)))
        for number in range(1, 1 + len(KINDS))
    ]
    return replace(cooled, levels=np.array(levels, np.float32))


def kinds_of(windows: Examples) -> NDArray[np.intp]:
    """The number of each window's kind, from 1; 0 for none."""
    return _NUMBERS[windows.labels]


_NUMBERS = np.array([KIND_OF.get(label, 0) for label in LABELS])
