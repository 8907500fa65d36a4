"""Windows of recordings, divided into what is learned from, calibrated and tested on."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from studies.training.host_noise import through_hosts
from weir.congestion.classify.classes import ALL_LABELS, WITH_BBR
from weir.congestion.classify.features import Values
from weir.congestion.recordings import Recording
from weir.errors import BadInput

Side: TypeAlias = Literal["train", "calibrate", "test"]
_WITH_BBR = np.array([label in WITH_BBR for label in ALL_LABELS])
_SIDES: tuple[Side, ...] = ("test",) * 3 + ("calibrate",) * 3 + ("train",) * 14


def side(recording: Recording) -> Side:
    """For what a recording serves.

    Simulated ones are divided by their path, each of which is drawn for one of them: seven tenths
    are learned from. Of the kernel's there are few paths, and several recordings of each: those of
    an odd seed are learned from, those of an even one are for testing. Paths of the kernel of which
    nothing is to be learned are kept in files of their own.
    """
    if recording.source == "kernel":
        return "train" if recording.seed % 2 else "test"
    path = recording.path
    name = f"{path.rate_bps} {path.rtt_ns} {path.buffer_bytes} {path.discipline}"
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return _SIDES[int.from_bytes(digest) % len(_SIDES)]


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Windows of one length.

    Attributes:
        windows: round-trip times in ms, one in each row; NaN is a missing one.
        labels: the number of each's label.
        recordings: the number of the recording that each was cut from.
    """

    windows: Values
    labels: NDArray[np.intp]
    recordings: NDArray[np.intp]

    @classmethod
    def of_all(cls, parts: Sequence["Examples"]) -> "Examples":
        """All parts together."""
        return cls(
            np.concatenate([part.windows for part in parts]),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.recordings for part in parts]),
        )


def misread(shares: Values, labels: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether windows are read wrongly in what decides: whether BBR is there.

    Args:
        shares: probabilities of `ALL_LABELS`, a row for each window.
        labels: the numbers of the true ones.
    """
    found: NDArray[np.bool_] = has_bbr(shares) != _WITH_BBR[labels]
    return found


def has_bbr(shares: Values) -> NDArray[np.bool_]:
    """Whether BBR is said to be there, by probabilities of `ALL_LABELS`, a row for each window."""
    found: NDArray[np.bool_] = shares[:, _WITH_BBR].sum(axis=1) > 0.5
    return found


def require_learnable(recording: Recording, labels: Sequence[str], rate_hz: int) -> None:
    """BadInput if it is not of these labels, was probed actively, or has an unsuitable rate."""
    if recording.label not in labels:
        raise BadInput(f"a recording of {recording.label!r}; known are {', '.join(labels)}")
    if recording.pattern is not None:
        raise BadInput(f"a recording beside bursts of {recording.pattern}; passive ones are known")
    if recording.rate_hz < rate_hz or recording.rate_hz % rate_hz:
        raise BadInput(f"a recording at {recording.rate_hz:g} Hz cannot be thinned to {rate_hz} Hz")


def series(recording: Recording, rate_hz: int, draw: np.random.Generator) -> Values:
    """A recording at a lower rate; one from the simulator as hosts would show it."""
    every = round(recording.rate_hz / rate_hz)
    thin = recording.rtt_ms[draw.integers(every) :: every]
    if recording.source != "simulator":
        return thin
    return through_hosts(thin, recording.path, draw)


def stretched(recording: Recording, factor: float) -> Recording:
    """As it would be on a path `factor` times as long, `factor` squared as fast.

    There everything takes as many round trips, for CUBIC too, whose window grows with the cube of
    time: as (seconds / factor) cubed, in shares of a path that holds `factor` cubed as much. What
    takes fixed seconds, BBR's ten above all, is as much longer, which small factors make bearable.
    """
    count = len(recording.rtt_ms)
    there = np.flatnonzero(~np.isnan(recording.rtt_ms))
    if not len(there):
        return recording
    places = np.arange(int((count - 1) * factor) + 1) / factor
    rtt_ms = np.interp(places, there, recording.rtt_ms[there]) * factor
    rtt_ms[np.isnan(recording.rtt_ms[np.rint(places).astype(np.intp)])] = np.nan
    lost = np.zeros(len(rtt_ms), dtype=np.int64)
    return replace(recording, rtt_ms=rtt_ms, lost=lost)


def cut(
    recordings: Iterable[Recording],
    labels: Sequence[str],
    rate_hz: int,
    seconds: int,
    stride_s: float,
    seed: int,
) -> Examples:
    """Windows of recordings, the first at their beginning.

    Args:
        recordings: longer ones give more.
        labels: in the order of their numbers.
        rate_hz: of the windows.
        seconds: of a window.
        stride_s: from a window to the next.
        seed: of what hosts add.

    Raises:
        BadInput: a recording has another label or an unsuitable rate, or was probed actively; no
            window came of any.
    """
    length, stride = seconds * rate_hz, max(1, round(stride_s * rate_hz))
    windows, numbers, origins = [], [], []
    for origin, recording in enumerate(recordings):
        require_learnable(recording, labels, rate_hz)
        values = series(recording, rate_hz, np.random.default_rng([seed, origin]))
        for begin in range(0, len(values) - length + 1, stride):
            windows.append(values[begin : begin + length])
            numbers.append(labels.index(recording.label))
            origins.append(origin)
    if not windows:
        raise BadInput(f"no recording has the {seconds} s of a window")
    return Examples(np.array(windows), np.array(numbers), np.array(origins))
