"""Who else is on a path while one stream of ours sends there: what was learned of that.

The recogniser of silent paths hears our stream as one of the others, which can be taken out
(`beside`). This was learned beside such a stream instead, from windows that hold others who come
and go as well, and it is shown what our connection counts meanwhile (`counted`). It says less: that
nobody else is there, that others are and BBR is not among them, or that it is.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir import files
from weir.congestion.classify.beside import without
from weir.congestion.classify.classes import WITH_BBR
from weir.congestion.classify.counted import Counted, counted
from weir.congestion.classify.features import Values, features
from weir.congestion.classify.model import DAMAGED, Model, Single
from weir.errors import BadInput

FORMAT = "weir-company"
VERSION = 1
"""The version of the file and of the features: to be raised when either changes."""
SHIPPED = Path(__file__).with_name("company.npz")
SECONDS = 5
"""Length of the window; before it as much as there is of `counted.HISTORY_S` is looked at."""
NOBODY, WITHOUT_BBR, BBR = range(3)
"""What is told apart, by its column."""
_SCALES = "/scales"
_IDLE = "B0-C0"
_LIKELIEST = (_IDLE, "B0-C1", "B1-C0")


class Company:
    """Tells who is there beside one stream of ours.

    Attributes:
        rate_hz: samples a second that it wants.
        models: what was learned, by the control of our stream.
        provenance: from what.
    """

    def __init__(self, rate_hz: int, models: Mapping[str, Model], provenance: str = "") -> None:
        self.rate_hz = rate_hz
        self.models = dict(models)
        self.provenance = provenance

    @classmethod
    def shipped(cls) -> "Company":
        """The one that comes with Weir."""
        return cls.load(SHIPPED)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Company":
        """Reads what `save` wrote.

        Raises:
            BadInput: the file cannot be read, is no such file, or one of another version.
        """
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as held:
                about = json.loads(str(held["about"]))
                if about["format"] != FORMAT:
                    raise BadInput(f"{path}: its format is {about['format']!r}, not {FORMAT!r}")
                if about["version"] != VERSION:
                    raise BadInput(
                        f"{path}: of version {about['version']}, not {VERSION}: "
                        "`weir ops train --beside` makes it again"
                    )
                arrays = {key: _unpacked(key, held) for key in held.files if key != "about"}
                models = {own: Model.of_arrays(own, arrays) for own in about["own"]}
            return cls(about["rate_hz"], models, about["provenance"])
        except DAMAGED as error:
            raise BadInput(f"{path}: not what was learned of company: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it into one file.

        Raises:
            OSError: the file cannot be written.
        """
        about = {
            "format": FORMAT,
            "version": VERSION,
            "rate_hz": self.rate_hz,
            "own": list(self.models),
            "provenance": self.provenance,
        }
        arrays: dict[str, Any] = {}
        for own, model in self.models.items():
            for key, array in model.arrays(own).items():
                if key.endswith("/weights"):
                    arrays[key], arrays[key + _SCALES] = _packed(array)
                elif key.endswith(("/landmarks", "/axes")):
                    arrays[key] = array.astype(np.float16)
                else:
                    arrays[key] = array
        with files.whole(Path(path)) as partial, partial.open("wb") as file:
            np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)

    def judge(self, own: str, seen: Counted) -> tuple[Values, Values]:
        """The probabilities (columns) of nobody, of others without BBR, and of BBR among others.

        And how usual each past is: near 0 is unlike anything learned from.

        Args:
            own: the control of our stream, one of `models`.
            seen: pasts of it, of `SECONDS` at least.
        """
        model, found = self.models[own], inputs(seen, self.rate_hz)
        shares = model.probabilities(found)
        return shares, model.p_values(found, shares[:, BBR] > 0.5)


def rounded(model: Model) -> Model:
    """As it is once it was written and read: so that what is calibrated is what is used."""

    def whole(weights: Single) -> Single:
        integers, scales = _packed(weights)
        return integers * scales

    members = tuple(
        tuple((whole(weights), biases) for weights, biases in layers) for layers in model.members
    )
    axes, landmarks = (
        one.astype(np.float16).astype(np.float32) for one in (model.axes, model.landmarks)
    )
    return replace(model, members=members, axes=axes, landmarks=landmarks)


def _packed(weights: Single) -> tuple[NDArray[np.int8], Single]:
    """Integers, and by how much those of each column are to be multiplied."""
    scales = (np.abs(weights).max(axis=0) / 127).astype(np.float32)
    return np.round(weights / np.maximum(scales, 1e-12)).astype(np.int8), scales


def _unpacked(key: str, held: Mapping[str, NDArray[np.generic]]) -> NDArray[np.generic]:
    if key + _SCALES not in held:
        return held[key]
    return held[key].astype(np.float32) * held[key + _SCALES].astype(np.float32)


def inputs(seen: Counted, rate_hz: int) -> Values:
    """What is learned from, a row for each past."""
    window = seen.rtt_ms[:, -SECONDS * rate_hz :]
    return np.concatenate([features(window, rate_hz), counted(seen, rate_hz, SECONDS)], axis=1)


def shared_out(
    own: str, heard: Mapping[str, float], shares: Sequence[float]
) -> tuple[dict[str, float], float]:
    """Who else is there by label, and the probability that BBR is among them.

    How likely nobody, others without BBR and BBR are is as was learned; within each it is as heard
    once our stream is taken out.

    Args:
        own: the control of our stream.
        heard: the probability of each background with our stream, by label.
        shares: of one past, as `Company.judge` gives them.
    """
    others, _ = without(own, heard)
    found: dict[str, float] = {}
    for group, share in enumerate(shares):
        some = {label: others[label] for label in others if _group(label) == group}
        total = sum(some.values())
        some = some if total else {_LIKELIEST[group]: 1.0}
        found |= {label: share * each / (total or 1.0) for label, each in some.items()}
    return found, min(1.0, shares[BBR])


def _group(label: str) -> int:
    return NOBODY if label == _IDLE else BBR if label in WITH_BBR else WITHOUT_BBR
