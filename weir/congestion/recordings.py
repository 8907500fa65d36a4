"""Round-trip times of a path beside a known background, as files: what recognisers learn from.

A file is an `.npz` of three arrays, whatever it holds: `header`, which is JSON in UTF-8, and the
samples of all recordings one after another, `rtt_us` and `lost`. So a reader looks at three names,
and no pickle is ever loaded. `docs/recordings.md` describes it.
"""

import contextlib
import json
import math
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir import Bytes, Rate, Time, files
from weir.errors import BadInput

FORMAT = 1
"""The version of the file's layout; no other is read."""

SOURCES = ("simulator", "kernel")

_DATA = Path(__file__).with_name("data")
KERNEL = _DATA / "kernel.npz"
"""A file that comes along: the work's classes on its path, of the kernel's own TCP."""
KERNEL_FURTHER = _DATA / "kernel-further.npz"
"""The further classes on that path."""
KERNEL_ACTIVE = _DATA / "kernel-active.npz"
"""The work's classes beside bursts of our own, in either of its patterns."""
KERNEL_TURNS = _DATA / "kernel-turns.npz"
"""Beside bursts in either of the work's patterns, on the path of its backgrounds in turns."""
KERNEL_PATHS = _DATA / "kernel-paths.npz"
"""The work's classes, and a further one, on other paths: to learn from."""
KERNEL_HELD_OUT = _DATA / "kernel-held-out.npz"
"""The work's classes on paths that none of those has, to test on what was learned elsewhere."""

_ARRAYS: Mapping[str, type[np.generic]] = {
    "header": np.uint8,
    "rtt_us": np.int32,
    "lost": np.uint16,
}
_UNPACKED_MAX_BYTES = 2**30
_NO_REPLY = -1


@dataclass(frozen=True, slots=True)
class NetworkPath:
    """A path of one bottleneck.

    Attributes:
        rate_bps: of the bottleneck, in bit/s of whole IP packets.
        rtt_ns: round-trip time while it is idle.
        buffer_bytes: what its queue holds at most.
        discipline: of the queue, as scenarios name it: "fifo", "fq-codel", "dualpi2", ...
    """

    rate_bps: int
    rtt_ns: int
    buffer_bytes: int
    discipline: str = "fifo"

    @property
    def full_ms(self) -> float:
        """Round-trip time while the queue of one direction is full."""
        return self.rtt_ns / 1e6 + self.buffer_bytes * 8e3 / self.rate_bps

    @classmethod
    def parse(cls, text: str) -> "NetworkPath":
        """Reads `500 Mbit/s, 65 ms, 6 MiB, fifo`.

        The buffer may also be in BDP, products of rate and RTT (`1.5 BDP`), and the discipline be
        left out, which is then a fifo.

        Raises:
            BadInput: it is otherwise.
        """
        words = [word.strip() for word in text.split(",")]
        if not 3 <= len(words) <= 4 or not all(words):
            raise BadInput(
                f"path {text!r}: rate, round-trip time, buffer and perhaps the queue's discipline "
                'are needed, as in "500 Mbit/s, 65 ms, 6 MiB, fifo"'
            )
        rate_bps, rtt_ns = Rate(words[0]).bit_per_s, Time(words[1]).ns
        buffer_bytes = _buffer_bytes(words[2], rate_bps, rtt_ns)
        if min(rate_bps, rtt_ns, buffer_bytes) <= 0:
            raise BadInput(f"path {text!r}: its rate, round-trip time and buffer are above 0")
        return cls(rate_bps, rtt_ns, buffer_bytes, words[3] if len(words) == 4 else "fifo")

    def __str__(self) -> str:
        """As `parse` reads it."""
        eighths, rest = divmod(self.buffer_bytes, 2**17)
        buffer = f"{self.buffer_bytes} B" if rest else f"{eighths / 8:g} MiB"
        rate, rtt = Rate.from_bit_per_s(self.rate_bps), Time.from_ns(self.rtt_ns)
        return f"{rate}, {rtt}, {buffer}, {self.discipline}"


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """One run of one background, as a prober saw it.

    Attributes:
        label: of the background: `Mixture.label` or that of a further class.
        source: "simulator" or "kernel".
        path: which they all share.
        pattern: of active probing; None for passive.
        seed: of every choice in it that is random.
        rate_hz: samples a second, evenly spaced.
        requests: echo requests of a sample.
        rtt_ms: mean round-trip time of each sample, NaN without a reply. Files keep whole
            microseconds.
        lost: unanswered requests of each sample. A sample without a reply of which none is lost
            was missed by the prober's machine, which sent none.
        background_bps: what each stream of the background delivered meanwhile, payload.
        flaws: why it is not what it says, in words; one with any is not to be learned from.
        made: how, for a person who doubts it: values as JSON has them.
    """

    label: str
    source: str
    path: NetworkPath
    pattern: str | None
    seed: int
    rate_hz: float
    requests: int
    rtt_ms: NDArray[np.float64]
    lost: NDArray[np.int64]
    background_bps: tuple[int, ...] = ()
    flaws: tuple[str, ...] = ()
    made: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.rtt_ms) / self.rate_hz


def save(
    path: str | os.PathLike[str], recordings: Sequence[Recording], provenance: Mapping[str, Any]
) -> None:
    """Writes a file; one that was there stays whole until the new one is.

    Args:
        path: ends with `.npz`.
        recordings: in this order.
        provenance: what made them: versions, arguments, seeds; values as JSON has them.

    Raises:
        BadInput: it cannot be written, or a recording's arrays are not of one length.
    """
    file = Path(path)
    for number, one in enumerate(recordings):
        if one.rtt_ms.ndim != 1 or one.rtt_ms.shape != one.lost.shape:
            shapes = f"{one.rtt_ms.shape} round-trip times, {one.lost.shape} losses"
            raise BadInput(f"recording {number} of {file}: {shapes}; as many of each are needed")
    header = {
        "format": FORMAT,
        "provenance": dict(provenance),
        "recordings": [_described(one) for one in recordings],
    }
    arrays = {
        "header": np.frombuffer(json.dumps(header, allow_nan=False).encode(), dtype=np.uint8),
        "rtt_us": _joined([_microseconds(one.rtt_ms) for one in recordings], np.int32),
        "lost": _joined([one.lost for one in recordings], np.uint16),
    }
    try:
        with files.whole(file) as partial, partial.open("wb") as out:
            np.savez_compressed(out, allow_pickle=False, **arrays)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None


def load(path: str | os.PathLike[str], *, flawed: bool = False) -> list[Recording]:
    """The recordings of a file.

    Args:
        path: of a file that `save` wrote.
        flawed: whether also those with `flaws`.

    Raises:
        BadInput: it cannot be read, or is not such a file, or one of another version.
    """
    found, _ = load_whole(path)
    return [one for one in found if flawed or not one.flaws]


def load_whole(path: str | os.PathLike[str]) -> tuple[list[Recording], dict[str, Any]]:
    """All recordings of a file, flawed ones too, and its provenance; raises as `load`."""
    file = Path(path)
    try:
        header, rtt_us, lost = _arrays(file)
        told = json.loads(header.tobytes())
        if told["format"] != FORMAT:
            raise _Wrong(f"it has format {told['format']!r}; {FORMAT} is read here: make it anew")
        lengths = [_natural(one.pop("samples"), "samples") for one in told["recordings"]]
        if not sum(lengths) == len(rtt_us) == len(lost):
            raise _Wrong(f"{sum(lengths)} samples are said, {len(rtt_us)} are there")
        ends = np.cumsum(lengths[:-1], dtype=np.intp)
        parts = zip(np.split(rtt_us, ends), np.split(lost, ends), strict=True)
        recordings = [
            _recording(one, *part) for one, part in zip(told["recordings"], parts, strict=False)
        ]
        provenance = told["provenance"]
        if not isinstance(provenance, dict):
            raise _Wrong("its provenance is not an object")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror or error}") from None
    except _Wrong as error:
        raise BadInput(f"{file} is not a file of recordings: {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise BadInput(f"{file} is not a file of recordings: its header: {error!r}") from None
    return recordings, provenance


class _Wrong(Exception):
    """What is wrong with a file."""


def _buffer_bytes(text: str, rate_bps: int, rtt_ns: int) -> int:
    number, _, unit = text.partition(" ")
    if unit.strip() != "BDP":
        return Bytes(text).count
    try:
        times = Fraction(number)
    except (ValueError, ZeroDivisionError):
        raise BadInput(f"a buffer of {text!r}: a number is needed, as in 1.5 BDP") from None
    return int(times * rate_bps * rtt_ns / (8 * 10**9))


def _described(one: Recording) -> dict[str, Any]:
    """All but the samples, of which the number; a path by its own fields."""
    told = {each.name: getattr(one, each.name) for each in fields(one)}
    del told["rtt_ms"], told["lost"]
    return told | {"path": asdict(one.path), "samples": len(one.rtt_ms), "made": dict(one.made)}


def _microseconds(rtt_ms: NDArray[np.float64]) -> NDArray[np.int32]:
    whole = np.full(len(rtt_ms), _NO_REPLY, dtype=np.int32)
    answered = np.isfinite(rtt_ms)
    whole[answered] = np.rint(rtt_ms[answered] * 1000)
    return whole


def _joined(parts: Sequence[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype=kind), *parts]).astype(kind)


def _arrays(file: Path) -> list[NDArray[Any]]:
    """The three arrays, once their sizes are known to be bearable."""
    try:
        with zipfile.ZipFile(file) as archive:
            packed = {info.filename: info for info in archive.infolist()}
            if sum(info.file_size for info in packed.values()) > _UNPACKED_MAX_BYTES:
                raise _Wrong(f"unpacked it has more than {_UNPACKED_MAX_BYTES} bytes")
            return [_array(archive, packed, name, kind) for name, kind in _ARRAYS.items()]
    # zipfile's words: NotImplementedError for an unknown compression, RuntimeError for a password.
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise _Wrong(str(error) or "it ends too early") from None


def _array(
    archive: zipfile.ZipFile,
    packed: Mapping[str, zipfile.ZipInfo],
    name: str,
    kind: type[np.generic],
) -> NDArray[Any]:
    if f"{name}.npy" not in packed:
        raise _Wrong(f"it has no array {name}")
    # A header can promise more than there is: numpy would make room for all of it first.
    with archive.open(packed[f"{name}.npy"]) as member, contextlib.closing(member):
        try:
            version = np.lib.format.read_magic(member)
            if version != (1, 0):
                raise _Wrong(f"array {name} is of version {version}")
            shape, _, dtype = np.lib.format.read_array_header_1_0(member)
        except ValueError as error:
            raise _Wrong(f"array {name}: {error}") from None
        if dtype != kind or len(shape) != 1:
            raise _Wrong(f"array {name} has {dtype} of shape {shape}")
        content = member.read()
    if len(content) != shape[0] * dtype.itemsize:
        raise _Wrong(f"array {name} has {len(content)} bytes of {shape[0] * dtype.itemsize}")
    return np.frombuffer(content, dtype=dtype)


def _recording(told: dict[str, Any], rtt_us: NDArray[Any], lost: NDArray[Any]) -> Recording:
    """A recording as described, if every value is of its kind and possible."""
    path = NetworkPath(**told.pop("path"))
    for name in ("rate_bps", "rtt_ns", "buffer_bytes"):
        _natural(getattr(path, name), name)
    one = Recording(
        **told
        | {
            "path": path,
            "rtt_ms": np.where(rtt_us == _NO_REPLY, np.nan, rtt_us / 1000),
            "lost": lost.astype(np.int64),
            "background_bps": tuple(_natural(each, "rate") for each in told["background_bps"]),
            "flaws": tuple(_text(each, "flaw") for each in told["flaws"]),
        }
    )
    _text(path.discipline, "discipline")
    _text(one.label, "label")
    _natural(one.seed, "seed")
    _natural(one.requests, "requests")
    if one.source not in SOURCES:
        raise _Wrong(f"source {one.source!r}; {' and '.join(SOURCES)} are possible")
    if one.pattern is not None:
        _text(one.pattern, "pattern")
    rate = one.rate_hz
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
        raise _Wrong(f"rate_hz {rate!r}: a number above 0 is needed")
    if not isinstance(one.made, dict):
        raise _Wrong("made is not an object")
    if (rtt_us < _NO_REPLY).any():
        raise _Wrong(f"a round-trip time below zero in a recording of {one.label}")
    return one


def _natural(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise _Wrong(f"{name} {value!r}: a whole number from 0 is needed")
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise _Wrong(f"{name} {value!r}: text is needed")
    return value
