"""Dynamic time warping, by the compiled core, of numpy arrays."""

import numpy as np
from numpy.typing import NDArray

from weir import _core

BAND = 10
"""The work's "max warping", in samples (A-15)."""


def distances(
    windows: NDArray[np.float64], band: int = BAND, cost: str = "absolute"
) -> NDArray[np.float64]:
    """The distance between any two windows.

    Args:
        windows: one in each row, finite.
        band: how far apart samples that stand beside each other may be.
        cost: what they add, `absolute` or `squared` difference (A-15).

    Raises:
        BadInput: a value is not finite, or there is no such cost.
    """
    count, length = windows.shape
    found = _core.dtw_matrix(_bytes(windows), length, band, cost)
    return np.frombuffer(found, dtype="<f8").reshape(count, count)


class KnnIndex:
    """Finds which of its windows are nearest to another, without comparing that with all of them.

    Takes what `distances` takes, and raises the same.
    """

    def __init__(
        self, windows: NDArray[np.float64], band: int = BAND, cost: str = "absolute"
    ) -> None:
        self._index = _core.DtwNeighbours(_bytes(windows), windows.shape[1], band, cost)

    def nearest(self, window: NDArray[np.float64], count: int) -> list[tuple[int, float]]:
        """Number and distance of the `count` nearest; of equally near ones the first come first.

        Raises:
            BadInput: it has another length, or a value is not finite.
        """
        return self._index.nearest(_bytes(window), count)

    def bounds(self, window: NDArray[np.float64]) -> list[float]:
        """Lower bounds of its distance to each window.

        Raises:
            BadInput: as `nearest` does.
        """
        return self._index.lower_bounds(_bytes(window))


def _bytes(values: NDArray[np.float64]) -> bytes:
    return np.ascontiguousarray(values, dtype="<f8").tobytes()
