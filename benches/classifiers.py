"""Weir's recogniser beside aeon's classifiers of time series: how often each is right.

All learn from the same 3000 windows of the kernel's TCP, of those that come along, and are asked
about others: of the same paths, and of paths that nothing was learned from. The simulator's, which
the shipped recogniser learned from, too, are left out. The peers get the windows in ms and brought
to mean 0 and variance 1, and count with what suits them better. They have an environment of their
own under `out/peers`; Hydra is compared if torch is there (`pip install torch`, gigabytes).

    make bench NAME=classifiers
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benches import cargo
from benches.environment import python_of
from benches.harness import quick, row
from studies.training.assess import STRIDE_S
from studies.training.examples import Examples, cut, side
from studies.training.train import (
    DRAWS,
    FILES,
    RATE_HZ,
    SEED,
    STRIDES_S,
    examples,
    learn,
)
from weir.congestion.classify.classes import ALL_LABELS, BACKGROUNDS, SIX_LABELS
from weir.congestion.classify.features import Values, features, filled
from weir.congestion.recordings import KERNEL_HELD_OUT, Recording, load

VERSION = "1.6.0"
_PROGRAM = Path(__file__).parent / "peers" / "aeon_classifier.py"
_TORCH = "HydraClassifier"
_PEERS = {"MiniRocketClassifier": "MiniROCKET", _TORCH: "Hydra"}
_HAS_BBR = np.array([background.has_bbr for background in BACKGROUNDS])
_MANY, _FEW = 3000, 300  # windows to learn from, the peers' time growing with the square

Numbers: TypeAlias = NDArray[np.intp]
_Scale: TypeAlias = Callable[[Values], Values]
_SCALES: Mapping[str, _Scale] = {
    "ms": lambda windows: windows,
    "z": lambda windows: (
        (windows - windows.mean(axis=1, keepdims=True))
        / (windows.std(axis=1, keepdims=True) + 1e-3)
    ),
}


def run() -> list[dict[str, Any]]:
    """Rows of each length of window and each kind of path, for BBR's presence and the label."""
    kernel = [one for file in FILES for one in load(file)]
    learned_from = [one for one in kernel if side(one) == "train"]
    asked_about = {
        "paths learned from": _six(one for one in kernel if side(one) == "test"),
        "other paths": _six(load(KERNEL_HELD_OUT)),
    }
    lengths = dict(list(STRIDES_S.items())[-1:]) if quick() else STRIDES_S
    rows = []
    for seconds, stride_s in lengths.items():
        every = examples(learned_from, seconds, stride_s, SEED)
        learned = _some(every, _FEW if quick() else _MANY)
        asked = {
            where: cut(recordings, ALL_LABELS, RATE_HZ, seconds, STRIDE_S, 10 * SEED + DRAWS + 1)
            for where, recordings in asked_about.items()
        }
        rows += list(_compared(seconds, learned, asked))
    return rows


def notes() -> dict[str, Any]:
    """The peer's version."""
    return {"packages": {"aeon": VERSION}}


def _compared(
    seconds: int, learned: Examples, asked: Mapping[str, Examples]
) -> Iterator[dict[str, Any]]:
    """Rows of windows of one length: for each peer and question, where and what share is right."""
    windows = np.concatenate([one.windows for one in asked.values()])
    # Nothing that needs the calibration is asked, only which label is the most probable.
    model = learn(learned, learned, RATE_HZ, len(ALL_LABELS), SEED)
    ours = _right(model.mixed(features(windows, RATE_HZ)).argmax(axis=1), asked)
    for name, words in _peers().items():
        theirs = [_right(_answers(name, learned, windows, to), asked) for to in _SCALES.values()]
        for what, share in ours.items():
            metric = f"{what}, windows of {seconds} s"
            best = max(one[what] for one in theirs)
            print(f"{metric}: {share:.1f} % beside {best:.1f} of aeon's {words}", file=sys.stderr)
            yield row(metric, "% right", share, f"aeon {words}", best, 1)


def _right(answers: Numbers, asked: Mapping[str, Examples]) -> dict[str, float]:
    """% of the windows of each part that are answered rightly, by question and part."""
    found, begin = {}, 0
    for where, part in asked.items():
        said, truth = answers[begin : (begin := begin + len(part.labels))], part.labels
        found[f"BBR present, {where}"] = 100 * float((_HAS_BBR[said] == _HAS_BBR[truth]).mean())
        found[f"which of 13 backgrounds, {where}"] = 100 * float((said == truth).mean())
    return found


def _answers(name: str, learned: Examples, windows: Values, to: _Scale) -> Numbers:
    """What a classifier of aeon says of the windows, in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "windows.npz"
        known, asked = to(filled(learned.windows)), to(filled(windows))
        np.savez(path, learned=known, labels=learned.labels, asked=asked)
        said = cargo.answer([str(python_of("aeon", VERSION)), str(_PROGRAM), name, str(path)])
    return np.array(said["answers"])


def _peers() -> dict[str, str]:
    """The classifiers that can be had here, and their names in words."""
    asks = [str(python_of("aeon", VERSION)), "-c", "import torch"]
    has_torch = subprocess.run(asks, capture_output=True, check=False).returncode == 0
    return {name: words for name, words in _PEERS.items() if has_torch or name != _TORCH}


def _six(recordings: Iterable[Recording]) -> list[Recording]:
    return [one for one in recordings if one.label in SIX_LABELS]


def _some(learned: Examples, count: int) -> Examples:
    chosen = np.random.default_rng(SEED).permutation(len(learned.labels))[:count]
    return Examples(learned.windows[chosen], learned.labels[chosen], learned.recordings[chosen])
