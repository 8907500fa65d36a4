"""Dynamic time warping beside dtaidistance (C, OpenMP), and the nearest neighbour of one window.

4320 windows are an hour of each of the work's six classes in windows of 5 s; it decides after 20.
Both use all processors, the same band and the same cost, and take turns; their distances are
compared before their times are.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from dtaidistance import dtw
from numpy.typing import NDArray

from benches.harness import quick, row
from weir.congestion.classify import warping
from weir.errors import WeirError

_COUNT = 4320
_QUERIES = 200


def run() -> list[dict[str, Any]]:
    """Two rows a length: all distances, and finding the nearest of 4320."""
    count, rounds = (400, 1) if quick() else (_COUNT, 3)
    return [
        entry
        for length in (5, 20)
        for entry in (_matrix(count, length, rounds), _nearest(count, length))
    ]


def _walks(count: int, length: int, seed: int) -> NDArray[np.float64]:
    """Random walks: neither all alike, which bounds would profit from, nor without any shape."""
    return np.cumsum(np.random.default_rng(seed).normal(size=(count, length)), axis=1)


def _matrix(count: int, length: int, rounds: int) -> dict[str, Any]:
    windows = _walks(count, length, seed=1)
    ours, theirs = [], []
    for _ in range(rounds):
        seconds, found = _clock(lambda: warping.distances(windows, cost="squared"))
        ours.append(seconds)
        # Its window is the band and the diagonal; its distance the root of the sum.
        seconds, known = _clock(lambda: dtw.distance_matrix_fast(windows, window=warping.BAND + 1))
        theirs.append(seconds)
        if not np.allclose(known**2, found):
            raise WeirError(f"distances of windows of {length} are not dtaidistance's")
    metric = f"all distances of {count} windows of {length} samples, band {warping.BAND}"
    return row(
        metric, "s", statistics.median(ours), "dtaidistance", statistics.median(theirs), ours
    )


def _nearest(count: int, length: int) -> dict[str, Any]:
    index = warping.KnnIndex(_walks(count, length, seed=1))
    took = [
        1e3 * _clock(lambda window=window: index.nearest(window, 1))[0]
        for window in _walks(_QUERIES, length, seed=2)
    ]
    metric = f"nearest of {count} windows of {length} samples, median"
    return row(metric, "ms", statistics.median(took), None, None, _QUERIES)


def _clock(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    value = work()
    return time.perf_counter() - begin, value
