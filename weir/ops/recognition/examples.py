"""Windows of recordings, divided by path into what is learned from, calibrated and tested on."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weir.errors import BadInput
from weir.ops.recognition.features import Values
from weir.ops.recognition.hosts import through_hosts
from weir.ops.recordings import Path, Recording

Side: TypeAlias = Literal["train", "calibrate", "test"]
_SIDES: tuple[Side, ...] = ("test",) * 3 + ("calibrate",) * 3 + ("train",) * 14


def side(path: Path) -> Side:
    """For what a path serves: seven tenths are learned from. All recordings of it go together."""
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


def series(recording: Recording, rate_hz: int, draw: np.random.Generator) -> Values:
    """A recording at a lower rate; one from the simulator as hosts would show it.

    Raises:
        BadInput: its rate is no multiple of that.
    """
    every = round(recording.rate_hz / rate_hz)
    if every < 1 or recording.rate_hz != every * rate_hz:
        raise BadInput(f"a recording at {recording.rate_hz:g} Hz cannot be thinned to {rate_hz} Hz")
    thin = recording.rtt_ms[draw.integers(every) :: every]
    if recording.source != "simulator":
        return thin
    return through_hosts(thin, recording.path, draw)


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
        if recording.label not in labels:
            raise BadInput(f"a recording of {recording.label!r}; known are {', '.join(labels)}")
        if recording.pattern is not None:
            raise BadInput(
                f"a recording beside bursts of {recording.pattern}; passive ones are known"
            )
        values = series(recording, rate_hz, np.random.default_rng([seed, origin]))
        for begin in range(0, len(values) - length + 1, stride):
            windows.append(values[begin : begin + length])
            numbers.append(labels.index(recording.label))
            origins.append(origin)
    if not windows:
        raise BadInput(f"no recording has the {seconds} s of a window")
    return Examples(np.array(windows), np.array(numbers), np.array(origins))
