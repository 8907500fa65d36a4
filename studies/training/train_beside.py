"""Learns who else is there beside one stream of ours: `weir ops train --beside`.

Windows are cut from the runs of `studies.training.beside`, each seen through several hosts. What is
right is who is there at a window's end; windows that end within a second of a change are left out,
for nobody could tell yet. Some of the paths are held back, by which probabilities are made honest.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studies.training import beside
from studies.training.beside import RATE_HZ, Run
from studies.training.host_noise import through_hosts
from studies.training.perceptrons import perceptron, temperature
from studies.training.train import principal
from weir import _core, extras
from weir.congestion.classify.company import SECONDS, Company, inputs, rounded
from weir.congestion.classify.counted import HISTORY_S, Counted
from weir.congestion.classify.features import Values
from weir.congestion.classify.model import Model, standardised
from weir.errors import BadInput

COUNT = 1400
"""Runs of streams that had one control throughout."""
COUNTS = {"": COUNT, "turned": 200, "crowded": 1200}
"""Runs of each of `beside.SERIES`."""
SEED = 1
DRAWS = 1
"""How often each run is learned from, seen through other hosts."""
STRIDE_S = 1.0
"""From a window to the next."""
HIDDEN = (96, 48)
MEMBERS = {"cubic": 3, "bbr": 2}
LANDMARKS = 300
_TOO_SOON_S = 1.0
_HELD = 10  # of so many pairs of runs one is held back
_LISTENS_S = (0.3, 12.0)  # so long after our control was chosen listening begins
_AT_ONCE = 0.4  # of the runs it begins as soon as it may
_BATCH = 500  # pasts whose features are computed at once


def make(
    out: Path,
    count: int = COUNT,
    seed: int = SEED,
    folder: Path = Path("out/recognition"),
    progress: Callable[[str], None] = lambda _: None,
) -> Company:
    """Simulates what is missing, learns, and writes it.

    Args:
        out: where to; what is there is replaced.
        count: runs with one control throughout; others are simulated in proportion.
        seed: of the runs and of learning.
        folder: where runs are kept.
        progress: told of what is going on.

    Raises:
        BadInput: an argument is wrong, or a file cannot be written.
        Unsupported: scikit-learn is not installed.
    """
    counts = {series: count * usual // COUNT for series, usual in COUNTS.items()}
    if min(counts.values()) < 2 * _HELD or seed < 0:
        least = -(-2 * _HELD * COUNT // min(COUNTS.values()))
        raise BadInput(
            f"--count {count} --seed {seed}: {least} runs are needed at least, and a seed from 0"
        )
    extras.load("sklearn.neural_network")
    try:
        runs = [
            one
            for series, some in counts.items()
            for one in beside.runs(
                range(some), seed, folder, partial(_tell, progress, series, some), series
            )
        ]
        found = train(runs, seed, progress)
        made = ", ".join(str(some) for some in counts.values())
        found.provenance = f"{made} runs, seed {seed}, by core {_core.__source__}"
        found.save(out)
    except OSError as error:
        raise BadInput(f"{error.filename or out}: {error.strerror or error}") from None
    return found


def train(
    runs: Sequence[Run], seed: int, progress: Callable[[str], None] = lambda _: None
) -> Company:
    """What is learned from these runs, for each control of ours.

    Raises:
        Unsupported: scikit-learn is not installed.
    """
    models = {}
    for own in beside.OWN:
        mine = [one for one in runs if one.setting.own == own]
        held: list[Run] = []
        learned: list[Run] = []
        for number, one in enumerate(mine):
            (learned if number % _HELD else held).append(one)
        progress(f"beside {own}: learning from {len(learned)} runs")
        with extras.load("threadpoolctl").threadpool_limits(1):
            models[own] = _learn(
                _examples(learned, seed), _examples(held, seed + 1), seed, MEMBERS[own]
            )
    return Company(RATE_HZ, models)


def _examples(runs: Sequence[Run], seed: int) -> tuple[Values, NDArray[np.intp]]:
    """What is learned from, and what is right."""
    parts, labels = [], []
    for number, one in enumerate(runs):
        for again in range(DRAWS):
            past, ends = pasts(one, np.random.default_rng([seed, number, again]))
            parts += [inputs(some, RATE_HZ) for some in _batches(past)]
            labels += [one.there(end / RATE_HZ) for end in ends]
    return np.concatenate(parts), np.array(labels, dtype=np.intp)


def pasts(one: Run, draw: np.random.Generator) -> tuple[Counted, list[int]]:
    """The pasts of a run that are learned from, and the sample with which each ends.

    Args:
        one: the run.
        draw: of its hosts, and of when listening begins.
    """
    setting = one.setting
    rtt_ms = through_hosts(one.rtt_ms, setting.path, draw)
    late_s = _LISTENS_S[0] if draw.random() < _AT_ONCE else draw.uniform(*_LISTENS_S)
    least = SECONDS * RATE_HZ
    begin = min(round((setting.chosen_s + late_s) * RATE_HZ), len(rtt_ms) - 2 * least)
    stride = round(STRIDE_S * RATE_HZ)
    ends = [
        end
        for end in range(begin + least + int(draw.integers(stride)), len(rtt_ms) + 1, stride)
        if not one.setting.has_just_changed(end / RATE_HZ, _TOO_SOON_S)
    ]

    def cut(values: Values) -> Values:
        longest = HISTORY_S * RATE_HZ
        rows = [values[max(begin, end - longest) : end].astype(np.float64) for end in ends]
        return np.array(
            [np.pad(row, (longest - len(row), 0), constant_values=np.nan) for row in rows]
        ).reshape(len(rows), longest)

    return Counted(cut(rtt_ms), cut(one.acked), cut(one.window)), ends


def _batches(past: Counted) -> Iterator[Counted]:
    for begin in range(0, len(past.acked), _BATCH):
        some = slice(begin, begin + _BATCH)
        yield Counted(past.rtt_ms[some], past.acked[some], past.window[some])


def _learn(
    learned: tuple[Values, NDArray[np.intp]],
    held: tuple[Values, NDArray[np.intp]],
    seed: int,
    count: int,
) -> Model:
    values, labels = learned
    mean = values.mean(axis=0).astype(np.float32)
    scale = (values.std(axis=0) + 1e-3).astype(np.float32)
    standard = standardised(values, mean, scale)
    axes, nothing = principal(standard), np.zeros(0, np.float32)
    chosen = np.random.default_rng(seed).permutation(len(standard))[:LANDMARKS]
    model = Model(
        mean=mean,
        scale=scale,
        members=tuple(
            perceptron(standard, labels, HIDDEN, 3, seed + member) for member in range(count)
        ),
        temperature=1.0,
        axes=axes,
        landmarks=standard[chosen] @ axes,
        guards=(),
        doubts=(),
        pretenders=(),
        distances=nothing,
        suspicions=nothing,
        doubted=nothing,
        pretended=nothing,
    )
    model = rounded(model)
    known, truth = held
    return replace(
        model,
        temperature=temperature(np.log(model.mixed(known)), truth),
        distances=np.sort(model.distance(known)).astype(np.float32),
    )


def _tell(progress: Callable[[str], None], series: str, count: int, number: int) -> None:
    of = f"{series} runs" if series else "runs"
    progress(f"{number} of {count} {of} beside a stream of ours simulated")
