"""Runs of probing with what the background was: what recognisers learn from and are tested on."""

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path as File
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.errors import BadInput

FORMAT = "weir-recordings"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Path:
    """What a run was probed on: one bottleneck.

    Attributes:
        rate_bps: of the bottleneck.
        rtt_ns: round-trip time without a queue.
        buffer_bytes: of the bottleneck's queue.
        discipline: of the queue, by the name that configurations give it: "fifo", "codel".
    """

    rate_bps: int
    rtt_ns: int
    buffer_bytes: int
    discipline: str


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """One run seen by a prober.

    Attributes:
        label: of the background.
        source: "simulator" or "kernel".
        path: that was probed.
        pattern: of active probing; None if it was passive.
        seed: of the run.
        rate_hz: samples a second, evenly spaced.
        requests: echo requests of a sample.
        rtt_ms: mean round-trip time of each sample, NaN without a reply.
        lost: unanswered requests of each sample.
    """

    label: str
    source: str
    path: Path
    pattern: str | None
    seed: int
    rate_hz: float
    requests: int
    rtt_ms: NDArray[np.float64]
    lost: NDArray[np.int64]


def save(
    path: str | os.PathLike[str], recordings: Sequence[Recording], provenance: Mapping[str, Any]
) -> None:
    """Writes recordings into one file, with what made them."""
    heads = [
        {
            "label": one.label,
            "source": one.source,
            "path": asdict(one.path),
            "pattern": one.pattern,
            "seed": one.seed,
            "rate_hz": one.rate_hz,
            "requests": one.requests,
            "samples": len(one.rtt_ms),
        }
        for one in recordings
    ]
    about = {"format": FORMAT, "version": VERSION, "provenance": provenance, "recordings": heads}
    rtt_ms = [one.rtt_ms for one in recordings]
    lost = [one.lost for one in recordings]
    with File(path).open("wb") as file:
        np.savez_compressed(
            file,
            about=np.array(json.dumps(about)),
            rtt_ms=np.concatenate([*rtt_ms, np.empty(0)]).astype("<f4"),
            lost=np.concatenate([*lost, np.empty(0)]).astype("<i4"),
        )


def load(path: str | os.PathLike[str]) -> list[Recording]:
    """Reads what `save` wrote.

    Raises:
        BadInput: the file is not there, or is none of this version.
    """
    try:
        with np.load(path, allow_pickle=False) as held:
            about = json.loads(str(held["about"]))
            rtt_ms, lost = held["rtt_ms"].astype(np.float64), held["lost"].astype(np.int64)
        if (about["format"], about["version"]) != (FORMAT, VERSION):
            raise BadInput(f"{path}: not recordings of version {VERSION}")
        heads = about["recordings"]
        ends = np.cumsum([head.pop("samples") for head in heads])[:-1]
        return [
            Recording(**head | {"path": Path(**head["path"]), "rtt_ms": values, "lost": gone})
            for head, values, gone in zip(
                heads, np.split(rtt_ms, ends), np.split(lost, ends), strict=True
            )
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise BadInput(f"{path}: no recordings: {error}") from None
