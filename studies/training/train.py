"""Learns Weir's recogniser, from the grid of simulated paths and from recordings of the kernel's.

    weir ops train                                       # the one that is shipped
    weir ops train own.npz --count 5000                  # another, from a larger grid
    weir ops train --unknown-only                        # anew is only what is called unknown
    weir ops train --bbr-only                            # anew is only where BBR is doubted
    weir ops train --wide-only                           # anew is only the second opinion
    weir ops train --kinds-only                          # anew is only of what kind it is
    weir ops train own.npz --recordings mine.npz         # from other recordings of the kernel's

What was simulated is kept in `out/recognition` and not simulated again. Learning needs scikit-learn
(the extra `reproduce`). The same recordings and seed give the same recogniser, on one machine and
one version of scikit-learn to the bit.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from studies.training.examples import (
    Examples,
    cut,
    has_bbr,
    misread,
    require_learnable,
    side,
    stretched,
)
from studies.training.grid import (
    DEEP_QUEUES,
    MANY_STREAMS,
    SHORT_PATHS,
    USUAL,
    USUAL_BBR,
    USUAL_SLOW,
    WIDE,
    WIDE_SLOW,
    Ranges,
    grid,
    idle,
    streams_of,
)
from studies.training.kinds import grid as kinds_grid
from studies.training.perceptrons import as_saved, perceptron, temperature
from studies.training.surrogates import delayed, surrogates
from studies.training.train_kinds import with_kinds
from studies.training.train_wide import COUNT_IDLE, FURTHER_WIDE, with_wide
from weir import _core, extras
from weir.congestion.classify.classes import ALL_LABELS
from weir.congestion.classify.features import Values, features
from weir.congestion.classify.model import Layers, Model, Single, standardised
from weir.congestion.classify.recogniser import Recogniser
from weir.congestion.recordings import KERNEL, KERNEL_FURTHER, KERNEL_PATHS, Recording, load
from weir.errors import BadInput

RATE_HZ = 20
STRIDES_S = {5: 5.0, 10: 5.0, 20: 4.0}
"""From a window to the next, by its length."""
KERNEL_STRIDE_S = 2.0
"""From a window of the kernel's few recordings to the next."""
CALIBRATION_STRIDE_S = 1.0
"""From a window for calibration to the next: fewer than a hundred would have no unusual one."""
COUNT = 1102
"""Recordings of the usual paths that everything is learned from."""
COUNT_UNKNOWN = 114
"""The same where only what is unknown is learned: slow ones are in `FURTHER` as well."""
COUNT_BBR = 38
"""The same where only the doubt about BBR is learned: most are of `FURTHER_BBR`."""
FURTHER = {WIDE: 228, USUAL_SLOW: 418, WIDE_SLOW: 874}
"""How many recordings there are of other grids."""
FURTHER_BBR = {USUAL_BBR: 304, MANY_STREAMS: 456, DEEP_QUEUES: 304, SHORT_PATHS: 152}
"""The same of those from which the doubt about BBR is learned."""
COUNT_KINDS = 1600
"""Recordings of the grid of kinds, which are learned after everything else or alone."""
Part: TypeAlias = Literal["all", "unknown", "bbr", "wide", "kinds"]
"""What is learned: everything, what is unknown, where what is taken for BBR only seems so, the
second opinion, or of what kind it is."""
COUNTS: Mapping[Part, int] = {
    "all": COUNT,
    "unknown": COUNT_UNKNOWN,
    "bbr": COUNT_BBR,
    "wide": FURTHER_WIDE[WIDE_SLOW],
    "kinds": COUNT_KINDS,
}
FURTHERS: Mapping[Part, Mapping[Ranges, int]] = {
    "all": FURTHER | FURTHER_BBR,
    "unknown": FURTHER,
    "bbr": FURTHER_BBR,
}
_PARTS: Mapping[Part, str] = {
    "unknown": "unknown",
    "bbr": "taken for BBR",
    "wide": "on a wide range of paths",
    "kinds": "of a kind",
}
LEARNED = (USUAL,)
"""Recordings of these are learned from; others show what is to be called unknown."""
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
GUARDS = 3
GUARD_HIDDEN = (64,)
GUARDED = 3000
"""Windows of which surrogates are made: about twice as many."""
DELAYED = 1000
"""Windows that are learned from with late replies, too."""
REAL = 9000
"""Windows that these, and misread ones, are told from."""
AXES = 24
LANDMARKS = 2000


def train(
    recordings: Sequence[Recording],
    seed: int = SEED,
    progress: Callable[[str], None] = lambda _: None,
    provenance: str = "",
    beyond: Sequence[Recording] = (),
    kept: Recogniser | None = None,
    part: Part = "all",
) -> Recogniser:
    """A recogniser that learned from the recordings whose paths are for that.

    It is calibrated on others, and those for testing are not looked at (`examples.side`).

    Args:
        recordings: of labels in `ALL_LABELS`, at a multiple of 20 Hz.
        seed: of every random choice.
        progress: told what is going on.
        provenance: kept in the recogniser.
        beyond: the same on paths that it is not to know: what it reads wrongly of them is to be
            called unknown.
        kept: a recogniser of which only a part is learned anew.
        part: which; `all` without it.

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
    outside = [one for one in beyond if side(one) == "train"]
    models = {}
    for seconds, stride_s in STRIDES_S.items():
        learned = examples(sides["train"], seconds, stride_s, seed)
        strange = examples(outside, seconds, stride_s, seed) if outside else None
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
        with extras.load("threadpoolctl").threadpool_limits(1):
            if kept is None:
                model = learn(learned, held, RATE_HZ, len(ALL_LABELS), seed)
            else:
                model = kept.models[seconds]
            if part != "bbr":
                model = doubting(model, learned, held, RATE_HZ, seed, strange)
            if part != "unknown":
                model = unmasking(model, learned, held, RATE_HZ, seed, strange)
            models[seconds] = model
    kinds, wide = (kept.kinds, kept.wide) if kept else ((), {})
    return Recogniser(RATE_HZ, ALL_LABELS, models, provenance, kinds, wide)


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


def learn(
    learned: Examples,
    held: Examples,
    rate_hz: int,
    classes: int,
    seed: int,
) -> Model:
    """The model of windows of one length, calibrated on those that are held back.

    Nothing is doubted by it yet (`doubting`, `unmasking`).
    """
    inputs = features(learned.windows, rate_hz)
    mean = inputs.mean(axis=0).astype(np.float32)
    scale = (inputs.std(axis=0) + 1e-3).astype(np.float32)
    standard = standardised(inputs, mean, scale)
    members = [
        perceptron(standard, learned.labels, HIDDEN, classes, seed + member)
        for member in range(MEMBERS)
    ]
    draw = np.random.default_rng(seed)
    chosen = draw.permutation(len(standard))[:LANDMARKS]
    axes = principal(standard)
    rough = Model(
        mean=mean,
        scale=scale,
        members=tuple(members),
        temperature=1.0,
        axes=axes,
        landmarks=as_saved(standard[chosen] @ axes),
        guards=(),
        doubts=(),
        pretenders=(),
        distances=np.zeros(0, np.float32),
        suspicions=np.zeros(0, np.float32),
        doubted=np.zeros(0, np.float32),
        pretended=np.zeros(0, np.float32),
    )
    forged = surrogates(learned.windows[draw.permutation(len(standard))[:GUARDED]], draw)
    guarded = replace(rough, guards=_guards(rough, learned.windows, forged, rate_hz, draw))
    known = features(held.windows, rate_hz)
    return replace(
        guarded,
        temperature=temperature(np.log(rough.mixed(known)), held.labels),
        distances=np.sort(guarded.distance(known)).astype(np.float32),
        suspicions=np.sort(guarded.suspicion(known)).astype(np.float32),
    )


def doubting(
    model: Model,
    learned: Examples,
    held: Examples,
    rate_hz: int,
    seed: int,
    beyond: Examples | None = None,
) -> Model:
    """The model, with what it misreads elsewhere learned anew, and how far that is usual.

    What else says that a window is unlike any stays as it was calibrated, so that nothing that was
    unknown becomes known.

    Args:
        model: that misreads.
        learned: windows that are to be known.
        held: more of these, to calibrate on.
        rate_hz: of the windows.
        seed: of every random choice.
        beyond: of paths that are not to be known: what the model reads wrongly is unknown.
    """
    there = replace(model, doubts=())
    if beyond is not None:
        shares = model.probabilities(features(beyond.windows, rate_hz))
        wrong = misread(shares, beyond.labels)
        draw = np.random.default_rng([seed, 1])
        late = delayed(learned.windows[draw.permutation(len(learned.windows))[:DELAYED]], draw)
        strange = np.concatenate([beyond.windows[wrong], late])
        there = replace(model, doubts=_guards(model, learned.windows, strange, rate_hz, draw))
    doubted = np.sort(there.doubt(features(held.windows, rate_hz))).astype(np.float32)
    return replace(there, doubted=doubted)


def unmasking(
    model: Model,
    learned: Examples,
    held: Examples,
    rate_hz: int,
    seed: int,
    beyond: Examples | None = None,
) -> Model:
    """The model, with what only seems to be BBR learned anew, and how far that is usual.

    Of windows that it takes for BBR those without it are told from those with it, wherever they
    are: many streams of CUBIC from BBR as well as from many streams of BBR.

    Args:
        model: that takes windows for BBR.
        learned: windows that are to be known.
        held: more of these, to calibrate on.
        rate_hz: of the windows.
        seed: of every random choice.
        beyond: of paths that are not to be known.
    """
    every = learned if beyond is None else Examples.of_all([learned, beyond])
    real, seeming = _taken_for_bbr(model, every, rate_hz)
    there = replace(model, pretenders=())
    if len(real) and len(seeming):
        draw = np.random.default_rng([seed, 2])
        there = replace(model, pretenders=_guards(model, real, seeming, rate_hz, draw))
    rightly, _ = _taken_for_bbr(model, held, rate_hz)
    pretended = np.sort(there.pretence(features(rightly, rate_hz))).astype(np.float32)
    return replace(there, pretended=pretended)


def _taken_for_bbr(model: Model, windows: Examples, rate_hz: int) -> tuple[Values, Values]:
    """The windows that the members say BBR is in: those in which it is, and the others."""
    shares = model.probabilities(features(windows.windows, rate_hz))
    taken = has_bbr(shares)
    wrong = misread(shares, windows.labels)
    return windows.windows[taken & ~wrong], windows.windows[taken & wrong]


def _guards(
    model: Model, real: Values, strange: Values, rate_hz: int, draw: np.random.Generator
) -> tuple[Layers, ...]:
    """Perceptrons that tell strange windows from real ones."""
    some = real[draw.permutation(len(real))[:REAL]]
    each = [
        standardised(features(windows, rate_hz), model.mean, model.scale)
        for windows in (some, strange)
    ]
    labels, inputs = np.repeat([0, 1], list(map(len, each))), np.concatenate(each)
    seeds = draw.integers(2**31, size=GUARDS)
    return tuple(perceptron(inputs, labels, GUARD_HIDDEN, 2, int(seed)) for seed in seeds)


def principal(standard: Single) -> Single:
    """Principal directions, scaled to variance 1 along each."""
    centred = standard - standard.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    chosen = slice(-1, -AXES - 1, -1)
    axes: Single = (directions[:, chosen] / np.sqrt(variances[chosen])).astype(np.float32)
    return axes


def make(
    out: Path,
    count: int | None = None,
    seed: int = SEED,
    files: Sequence[Path] = FILES,
    folder: Path = FOLDER,
    progress: Callable[[str], None] = lambda _: None,
    part: Part = "all",
) -> Recogniser:
    """Simulates what is missing, learns, and writes the recogniser: `weir ops train`.

    Args:
        out: where to; another recogniser there is replaced.
        count: recordings of the usual paths, or for the second opinion of the slow ones of a wide
            range; None for as many as were used for the shipped one.
        seed: of the grid and of learning.
        files: of recordings, to learn from as well.
        folder: where the grid is kept.
        progress: told what is going on.
        part: what is learned; but for `all` the rest of the recogniser that is there stays.

    Raises:
        BadInput: an argument is wrong, and nothing was simulated yet; or as `train`.
        Unsupported: scikit-learn is not installed; likewise.
    """
    if count is None:
        count = COUNTS[part]
    if count < 1:
        raise BadInput(f"--count {count}: at least one recording is needed")
    if seed < 0:
        raise BadInput(f"--seed {seed}: a whole number from 0 is needed")
    extras.load("sklearn.neural_network")
    _require_place(out)
    kept = Recogniser.load(out) if part != "all" else None
    others = [one for file in files for one in load(file)]
    for one in others:
        require_learnable(one, ALL_LABELS, RATE_HZ)
    about = (
        f"grid of {count}, seed {seed}, by core {_core.__source__}; "
        f"recordings {[file.name for file in files]}"
    )
    if kept:
        about = _provenance(kept.provenance, part, about)
    try:
        if part == "kinds":
            assert kept, "of which a part is learned anew"
            found = _of_kinds(kept, count, others, seed, folder, progress)
            found.provenance = about
        elif part == "wide":
            assert kept, "likewise"
            found = _of_wide(kept, count, others, seed, folder, progress)
            found.provenance = about
        else:
            found = _of_everybody(count, others, seed, folder, progress, about, kept, part)
        if part == "all":
            slow = round(count / COUNT * COUNTS["wide"])
            found = _of_wide(found, slow, others, seed, folder, progress)
            found = _of_kinds(found, COUNT_KINDS, others, seed, folder, progress)
        found.save(out)
    except OSError as error:
        raise BadInput(f"{error.filename or out}: {error.strerror or error}") from None
    return found


def _of_everybody(
    count: int,
    others: Sequence[Recording],
    seed: int,
    folder: Path,
    progress: Callable[[str], None],
    provenance: str,
    kept: Recogniser | None,
    part: Part,
) -> Recogniser:
    """Learns who is there, or a part of that, from a grid and others' recordings."""
    recordings, beyond = [*idle(count // 2, seed), *others], list[Recording]()
    for one in simulated(count, seed, folder, progress, further=FURTHERS[part]):
        (recordings if is_learned(one) else beyond).append(one)
    return train(recordings, seed, progress, provenance, beyond, kept, part)


def _of_wide(
    kept: Recogniser,
    count: int,
    others: Sequence[Recording],
    seed: int,
    folder: Path,
    progress: Callable[[str], None],
) -> Recogniser:
    """Learns the second opinion, likewise."""
    recordings = [*idle(COUNT_IDLE, seed), *others]
    for ranges, many in FURTHER_WIDE.items():
        some = math.ceil(many * count / COUNTS["wide"])
        tell = partial(_tell, progress, f"of {some} of {ranges.name} paths simulated")
        recordings += [fast for fast, _ in grid(some, seed, folder, tell, ranges)]
    return with_wide(kept, recordings, seed, progress)


def _of_kinds(
    kept: Recogniser,
    count: int,
    others: Sequence[Recording],
    seed: int,
    folder: Path,
    progress: Callable[[str], None],
) -> Recogniser:
    """Learns of what kind it is, likewise."""
    tell = partial(_tell, progress, f"of {count} by kind simulated")
    recordings = [*kinds_grid(count, seed, folder, tell), *others]
    return with_kinds(kept, recordings, seed, progress)


def simulated(
    count: int,
    seed: int,
    folder: Path,
    progress: Callable[[str], None] = lambda _: None,
    of_further: float = 1.0,
    further: Mapping[Ranges, int] = FURTHER,
) -> Iterator[Recording]:
    """All that is simulated for a recogniser, as a fast prober sees it.

    Args:
        count: recordings of the usual paths.
        seed: of the paths.
        folder: where they are kept.
        progress: told of how many there are.
        of_further: how many there are of others, as a share of `further`.
        further: recordings of others.
    """
    others = {ranges: round(of_further * many) for ranges, many in further.items()}
    for ranges, many in {USUAL: count, **others}.items():
        tell = partial(_tell, progress, f"of {many} of {ranges.name} paths simulated")
        for fast, _ in grid(many, seed, folder, tell, ranges):
            yield fast


def _provenance(kept: str, part: Part, about: str) -> str:
    """What the recogniser was learned from, with a part learned anew."""
    whole, *parts = kept.split("; what is ")
    name = _PARTS[part]
    others = [one for one in parts if not one.startswith(name)]
    return "; what is ".join([whole, *others, f"{name}: {about}"])


def _tell(progress: Callable[[str], None], what: str, number: int) -> None:
    progress(f"{number} {what}")


def is_learned(recording: Recording) -> bool:
    """Whether a simulated path is one that is to be known."""
    return any(one.hold(recording.path, streams_of(recording)) for one in LEARNED)


def _require_place(out: Path) -> None:
    """BadInput if no recogniser can be written there, or something else would be lost."""
    if out.is_dir() or not os.access(out if out.exists() else out.parent, os.W_OK):
        raise BadInput(f"{out}: cannot be written")
    if out.exists() and not Recogniser.is_one(out):
        raise BadInput(
            f"{out} exists and is not a recogniser's file; name what to learn from by --recordings"
        )
