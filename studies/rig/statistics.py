"""Means over independent runs with their 95 % intervals, for every row of every work.

The interval is Student's, as `weir sim --seeds` has it: both have it from the core.
"""

import statistics
from collections.abc import Sequence

from weir._core import estimate


def mean(values: Sequence[float]) -> float:
    """The number as a float, whatever was read from JSON."""
    return float(statistics.fmean(values))


def margin(values: Sequence[float]) -> float:
    """Half the 95 % interval of the values' mean; 0 for a single value, which has none."""
    return estimate(values)[1] if len(values) > 1 else 0.0


def words(values: Sequence[float], form: str = ".2f") -> str:
    """Mean and 95 % interval over runs, as text; the mean alone of a single run."""
    if len(values) == 1:
        return f"{values[0]:{form}}"
    mean, margin = estimate(values)
    return f"{mean:{form}} ± {margin:{form}}"
