"""The window of TCP Reno as a Markov chain, and how likely its mean strays (003-spec section 3.5).

One step is a round-trip time: the window grows by a packet, or is halved if one of its packets at
least is lost. Losses are independent; slow start and time-outs are left out.
"""

import math

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
_TILT_MAX, _TILT_STEP = 0.25, 1e-4
"""Between which exponents a mean is looked for, and how finely."""
_POWERS, _SETTLED = 50, 1e-13


def transitions(loss: float, window_max: int) -> Matrix:
    """The probabilities of going from each window to each, of 1 to `window_max` packets.

    Args:
        loss: the probability that a packet is lost.
        window_max: the largest window, in packets.
    """
    chain = np.zeros((window_max, window_max))
    for window in range(1, window_max + 1):
        struck = 1 - (1 - loss) ** window
        # Halves are rounded down (B-4).
        chain[window - 1, max(1, window // 2) - 1] += struck
        chain[window - 1, min(window + 1, window_max) - 1] += 1 - struck
    return chain


def mean_window(loss: float, window_max: int) -> float:
    """The window's mean in the long run, in packets; arguments as of `transitions`."""
    chain = transitions(loss, window_max)
    # The stationary distribution: what the chain leaves as it is, and sums up to 1.
    equations = np.vstack([chain.T - np.eye(window_max), np.ones(window_max)])
    sums = np.append(np.zeros(window_max), 1.0)
    stationary = np.linalg.lstsq(equations, sums, rcond=None)[0]
    return float(stationary @ np.arange(1, window_max + 1))


def spectrum(loss: float, window_max: int, mean: float) -> float:
    """The rate at which a mean window becomes unlikely the longer one looks: (3.3) of the work.

    Over n round-trip times the probability of that mean is about exp(n f) for this f: 0 for the
    mean in the long run, less for any other.

    Args:
        loss: as of `transitions`.
        window_max: likewise.
        mean: of the window, in packets.
    """
    windows = np.arange(1, window_max + 1)
    struck = 1 - (1 - loss) ** windows
    halved, grown = np.maximum(1, windows // 2) - 1, np.minimum(windows + 1, window_max) - 1

    def above(q: float) -> float:
        """The logarithm of R(q)'s spectral radius, less q times the mean."""
        tilt, vector, radius = np.exp(q * (windows - mean)), np.ones(window_max), 0.0
        # Each row has two entries, and other eigenvalues are forgotten within some windows' steps.
        for _ in range(_POWERS * window_max):
            tilted = tilt * vector
            vector = struck * tilted[halved] + (1 - struck) * tilted[grown]
            before, radius = radius, float(vector.max())
            vector /= radius
            if abs(radius - before) < _SETTLED:
                break
        return math.log(radius)

    # It is convex in q: thirds that cannot hold the least are left out.
    low, high = -_TILT_MAX, _TILT_MAX
    while high - low > _TILT_STEP:
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if above(left) < above(right) else (left, high)
    return above((low + high) / 2)


def throughput_bps(loss: float, window_max: int, round_trip_s: float, segment_bytes: int) -> float:
    """The mean throughput of a connection: (3.4) of the work."""
    return mean_window(loss, window_max) * segment_bytes * 8 / round_trip_s
