"""Learns the second opinion: who is on a path of a wide range, where the first knows nothing?

The first learned from usual paths, which are slow to simulate, and from the kernel's TCP. Here
there are many times as many paths, most of them slow, which are soon simulated: short ones and long
ones, shallow queues and deep ones, up to 64 streams. The second opinion is less often sure of usual
paths, and more often right about all others (`Recogniser`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from studies.training.examples import Examples, cut, side
from studies.training.grid import (
    DEEP_QUEUES,
    MANY_STREAMS,
    SHORT_PATHS,
    USUAL_BBR,
    USUAL_SLOW,
    WIDE_SLOW,
    Ranges,
)
from studies.training.perceptrons import perceptron, temperature
from studies.training.surrogates import delayed, surrogates
from weir import extras
from weir.congestion.classify.features import features
from weir.congestion.classify.model import Wide, standardised
from weir.congestion.classify.recogniser import Recogniser
from weir.congestion.recordings import Recording
from weir.errors import BadInput

COUNT_IDLE = 400
"""Recordings of empty paths."""
FURTHER_WIDE: Mapping[Ranges, int] = {
    WIDE_SLOW: 1748,
    SHORT_PATHS: 684,
    MANY_STREAMS: 646,
    DEEP_QUEUES: 418,
    USUAL_SLOW: 152,
    USUAL_BBR: 114,
}
"""How many recordings there are of each grid: what is soon simulated is most."""
STRIDES_S = {5: 5.0, 10: 5.0, 20: 5.0}
"""From a window to the next, by its length."""
CALIBRATION_STRIDE_S = 5.0
DRAWS = 2
"""How often each recording is learned from, seen through other hosts."""
MEMBERS = 2
HIDDEN = (128, 64)
GUARDS = 2
GUARD_HIDDEN = (64,)
GUARDED = 3000
"""Windows of which surrogates are made: about twice as many."""
DELAYED = 1000
"""Windows that are learned from with late replies, too."""
REAL = 12000
"""Windows that these are told from."""


def with_wide(
    recogniser: Recogniser,
    recordings: Sequence[Recording],
    seed: int,
    progress: Callable[[str], None] = lambda _: None,
) -> Recogniser:
    """The recogniser, with a second opinion that is learned anew.

    Args:
        recogniser: whose first opinion, and what it says of kinds, stay as they are.
        recordings: of a wide range of paths; those for testing are not looked at.
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
    rate_hz, labels = recogniser.rate_hz, recogniser.labels
    wide = {}
    for seconds in recogniser.models:
        numbers = range(10 * seed, 10 * seed + DRAWS)
        parts = [
            cut(sides["train"], labels, rate_hz, seconds, STRIDES_S[seconds], number)
            for number in numbers
        ]
        learned, stride_s = Examples.of_all(parts), CALIBRATION_STRIDE_S
        held = cut(sides["calibrate"], labels, rate_hz, seconds, stride_s, numbers.stop)
        progress(f"{seconds} s: a second opinion from {len(learned.labels)} windows")
        with extras.load("threadpoolctl").threadpool_limits(1):
            wide[seconds] = learn(learned, held, rate_hz, len(labels), seed)
    return Recogniser(
        rate_hz, labels, recogniser.models, recogniser.provenance, recogniser.kinds, wide
    )


def learn(learned: Examples, held: Examples, rate_hz: int, classes: int, seed: int) -> Wide:
    """The second opinion on windows of one length, calibrated on those that are held back."""
    inputs = features(learned.windows, rate_hz)
    mean = inputs.mean(axis=0).astype(np.float32)
    scale = (inputs.std(axis=0) + 1e-3).astype(np.float32)
    standard = standardised(inputs, mean, scale)
    members = tuple(
        perceptron(standard, learned.labels, HIDDEN, classes, seed + member)
        for member in range(MEMBERS)
    )
    draw = np.random.default_rng(seed)
    forged = surrogates(learned.windows[draw.permutation(len(standard))[:GUARDED]], draw)
    late = delayed(learned.windows[draw.permutation(len(standard))[:DELAYED]], draw)
    strange = standardised(features(np.concatenate([forged, late]), rate_hz), mean, scale)
    some = standard[draw.permutation(len(standard))[:REAL]]
    kinds = np.repeat([0, 1], [len(some), len(strange)])
    guards = tuple(
        perceptron(np.concatenate([some, strange]), kinds, GUARD_HIDDEN, 2, int(number))
        for number in draw.integers(2**31, size=GUARDS)
    )
    rough = Wide(mean, scale, members, 1.0, guards, np.zeros(0, np.float32))
    known = features(held.windows, rate_hz)
    return replace(
        rough,
        temperature=temperature(np.log(rough.probabilities(known)), held.labels),
        suspicions=np.sort(rough.suspicion(known)).astype(np.float32),
    )
