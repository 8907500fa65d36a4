"""Windows that no background made, from windows that one did: what is not to be recognised.

A queue has a past: what moves it is in order, and falls otherwise than it rises. A window whose
order is destroyed, whose phases are drawn anew, that runs backwards, that is two runs in one, or
that something else shakes has the heights of a real one and not its dynamics. Learning to tell them
from real ones teaches what is usual (as surrogate data tests do: Theiler et al., Physica D 58,
1992). What is out of distribution in other ways is for distances to find.
"""

import numpy as np
from numpy.typing import NDArray

from weir.congestion.classify.features import Values, filled

MOVING_MS = 3.0
"""Spread of a window that has dynamics to destroy: noise is as likely backwards."""
SHAKEN_MS = (3.0, 50.0)
"""Mean of what shakes a path that does not hold still, as radio does."""

LATE_SHARE = (0.05, 0.5)
"""Share of replies that come late, above that of busy hosts."""


def surrogates(windows: Values, draw: np.random.Generator) -> Values:
    """Surrogates of windows, about twice as many if most of these have dynamics."""
    whole = filled(windows)
    count, length = whole.shape
    low, high = np.quantile(whole, (0.02, 0.98), axis=1)
    moving = np.flatnonzero(high - low > MOVING_MS)

    def some() -> NDArray[np.intp]:
        return draw.choice(moving, len(moving) // 2, replace=False)

    made = [draw.permuted(whole[some()], axis=1), _rephased(whole[some()], draw)]
    made.append(whole[some()][:, ::-1])
    for _ in range(count // 6):
        first, second = whole[draw.integers(count, size=2)]
        middle = draw.integers(length // 5, length - length // 5)
        made.append(np.concatenate([first[:middle], second[middle:]])[None, :])
    shaken = whole[draw.integers(count, size=count // 5)]
    made.append(shaken + np.array([_shaking(length, draw) for _ in shaken]).reshape(shaken.shape))
    return np.concatenate(made)


def delayed(windows: Values, draw: np.random.Generator) -> Values:
    """Windows some of whose replies come late, as where a radio sends again."""

    def between(ends: tuple[float, float]) -> Values:
        least, most = np.log(ends)
        drawn: Values = np.exp(draw.uniform(least, most, len(windows)))[:, None]
        return drawn

    late = draw.random(windows.shape) < between(LATE_SHARE)
    mean = between(SHAKEN_MS)
    found: Values = filled(windows) + late * draw.exponential(1.0, windows.shape) * mean
    return found


def _rephased(windows: Values, draw: np.random.Generator) -> Values:
    """A series with the same spectrum and least value, at random phases."""
    spectrum = np.fft.rfft(windows - windows.mean(axis=1, keepdims=True))
    phases = draw.random(spectrum.shape)
    if windows.shape[1] % 2 == 0:
        phases[:, -1] = 0.0  # The highest frequency has a sign only.
    turned = spectrum * np.exp(2j * np.pi * phases)
    turned[:, 0] = 0.0
    made = np.fft.irfft(turned, windows.shape[1])
    above: Values = made - made.min(axis=1, keepdims=True) + windows.min(axis=1, keepdims=True)
    return above


def _shaking(length: int, draw: np.random.Generator) -> Values:
    """Delays that owe nothing to each other."""
    mean = np.exp(draw.uniform(*np.log(SHAKEN_MS)))
    kinds = (
        lambda: draw.uniform(0, 2 * mean, length),
        lambda: draw.exponential(mean, length),
        lambda: np.abs(draw.normal(0, mean, length)),
    )
    return kinds[draw.integers(len(kinds))]()
