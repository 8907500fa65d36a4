"""What a window of round-trip times tells, in numbers that mean the same on any path.

A queue is known by its shape: how deep it falls when a sender backs off, how fast and how bent it
grows, how often it empties, what repeats after eight round trips. Heights are taken relative to the
window's spread, to its level, and in ms (which tells a queue from the jitter of hosts); times in
seconds and in round trips, those of the least one seen and those of the median. Nothing is taken
relative to an empty path, which may never be seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Counts = NDArray[np.intp]

_TINY_MS = 0.02
"""Added to a spread, so that none is 0."""
_QUANTILES = (0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98)
_LOW, _MEDIAN, _HIGH = 0, 4, 8
_STEP_QUANTILES = np.array((0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0))
_STEPS_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
_STEPS_ROUND_TRIPS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_LAGS_S = np.array((0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0))
_LAGS_ROUND_TRIPS = np.array((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 24), dtype=np.float64)
"""BBR's gains repeat after eight."""
_EDGES_HZ = np.array((0.15, 0.3, 0.6, 1.0, 1.7, 2.8, 4.5, 7.0, 10.0))
_EDGES_PER_ROUND_TRIP = np.array((0.005, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5))
_LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
_ABOVE_LOW = (0.01, 0.03, 0.1, 0.3, 0.5)
_BLOCKS_S = (0.1, 0.2, 0.5, 1.0)
_DEGREE = 4


def features(windows: Values, rate_hz: float) -> Values:
    """The features of each window.

    Args:
        windows: round-trip times in ms, a window in each row, evenly spaced; NaN where there is
            none. Of 1 s at least.
        rate_hz: samples a second.

    Returns:
        A row for each window; always finite.
    """
    gone = np.isnan(windows).mean(axis=1)
    views = _Views.of(np.maximum(filled(windows), 1e-3), rate_hz)
    groups = [
        gone[:, None],
        *_heights(views),
        *_steps(views),
        *_repetition(views),
        *_spectrum(views),
        *_levels(views),
        *_roughness(views),
        *_trend(views),
    ]
    return np.concatenate(groups, axis=1)


def filled(windows: Values) -> Values:
    """Windows with what is missing (NaN) interpolated in time; 0 where nothing is there at all."""
    whole = windows.copy()
    places = np.arange(windows.shape[1])
    for number in np.flatnonzero(np.isnan(windows).any(axis=1)):
        row = whole[number]
        gone = np.isnan(row)
        row[gone] = 0.0 if gone.all() else np.interp(places[gone], places[~gone], row[~gone])
    return whole


@dataclass(frozen=True, slots=True)
class _Views:
    """Windows without gaps, and what several groups of features look at."""

    rtt: Values
    rate_hz: float
    quantiles: Values
    spread: Values
    shape: Values
    """0 at the low quantile, 1 at the high one."""

    @classmethod
    def of(cls, rtt: Values, rate_hz: float) -> "_Views":
        quantiles = np.quantile(rtt, _QUANTILES, axis=1).T
        spread = quantiles[:, _HIGH] - quantiles[:, _LOW] + _TINY_MS
        shape = (rtt - quantiles[:, [_LOW]]) / spread[:, None]
        return cls(rtt, rate_hz, quantiles, spread, shape)

    @property
    def low(self) -> Values:
        return self.quantiles[:, _LOW]

    @property
    def median(self) -> Values:
        return self.quantiles[:, _MEDIAN]

    @property
    def centred(self) -> Values:
        found: Values = self.shape - self.shape.mean(axis=1, keepdims=True)
        return found

    def samples(self, round_trips: Values, of: Values) -> Values:
        """Lengths of so many round trips, in samples."""
        lengths: Values = round_trips[None, :] * of[:, None] / 1e3 * self.rate_hz
        return lengths


def _heights(views: _Views) -> Iterator[Values]:
    quantiles, low, spread = views.quantiles, views.low, views.spread
    yield np.log(np.stack([low, spread, spread / low], axis=1))
    yield (quantiles - low[:, None]) / spread[:, None]
    yield np.log(quantiles / views.median[:, None])
    least, most = views.rtt.min(axis=1), views.rtt.max(axis=1)
    beyond = (most - quantiles[:, _HIGH]) / spread, (low - least) / spread
    yield np.stack([np.log(most / least), *beyond], axis=1)
    centred = views.centred
    deviation = centred.std(axis=1) + 1e-9
    moments = [(centred**power).mean(axis=1) / deviation**power for power in (3, 4)]
    yield np.stack([np.log(deviation), *moments], axis=1)


def _steps(views: _Views) -> Iterator[Values]:
    """How it changes within some time: the depth of a fall, the slope of a rise."""
    count, length = views.rtt.shape
    lags = [np.full(count, max(1, round(step * views.rate_hz))) for step in _STEPS_S]
    trips = views.samples(np.array(_STEPS_ROUND_TRIPS), views.median)
    lags += list(np.clip(np.rint(trips), 1, length // 2).astype(np.intp).T)
    logarithm = np.log(views.rtt)
    for lag in lags:
        yield _step_quantiles(logarithm, lag)
        yield _step_quantiles(views.shape, lag)


def _step_quantiles(values: Values, lag: Counts) -> Values:
    """Quantiles of the differences of samples that are `lag` apart, each row by its own lag."""
    length = values.shape[1]
    ends = np.arange(length)[None, :] + lag[:, None]
    later = np.take_along_axis(values, np.minimum(ends, length - 1), axis=1)
    # Those that end beyond the window sort behind all others.
    steps = np.sort(np.where(ends < length, later - values, np.inf), axis=1)
    places = np.rint(_STEP_QUANTILES[None, :] * (length - lag - 1)[:, None]).astype(np.intp)
    found: Values = np.take_along_axis(steps, places, axis=1)
    return found


def _repetition(views: _Views) -> Iterator[Values]:
    """Autocorrelation."""
    count, length = views.rtt.shape
    size = 1 << (2 * length - 1).bit_length()
    power = np.abs(np.fft.rfft(views.centred, size)) ** 2
    products = np.fft.irfft(power, size)[:, :length] / (length - np.arange(length))
    correlation = products / np.maximum(products[:, :1], 1e-9)
    for trip in (views.median, views.low):
        lags = views.samples(_LAGS_ROUND_TRIPS, trip)
        # A lag that most of the window lies within says nothing.
        yield np.where(lags < 0.6 * length, _at(correlation, lags), 0.0)
    yield _at(correlation, np.tile(_LAGS_S * views.rate_hz, (count, 1)))


def _spectrum(views: _Views) -> Iterator[Values]:
    """Shares of the power between frequencies, and where it is highest."""
    count, length = views.rtt.shape
    power = np.abs(np.fft.rfft(views.centred * np.hanning(length))) ** 2
    power[:, 0] = 0.0
    total = np.maximum(power.sum(axis=1), 1e-12)
    below = np.cumsum(power, axis=1) / total[:, None]
    bin_hz = views.rate_hz / length
    edges = [np.tile(_EDGES_HZ, (count, 1))]
    edges += [
        _EDGES_PER_ROUND_TRIP[None, :] / (trip[:, None] / 1e3) for trip in (views.median, views.low)
    ]
    for hz in edges:
        within = _at(below, hz / bin_hz)
        whole = np.concatenate([np.zeros((count, 1)), within, np.ones((count, 1))], axis=1)
        yield np.log(np.maximum(np.diff(whole, axis=1), 1e-4))
    peak_hz = power.argmax(axis=1) * bin_hz
    in_trips = np.log(peak_hz * views.median / 1e3 + 1e-5)
    yield np.stack([np.log(peak_hz + 1e-3), in_trips, power.max(axis=1) / total], axis=1)


def _levels(views: _Views) -> Iterator[Values]:
    """Time spent below some heights, how often they are crossed, and how long a visit lasts."""
    length = views.rtt.shape[1]
    for level in _LEVELS:
        below = views.shape < level
        share = below.mean(axis=1)
        crossings = (below[:, 1:] != below[:, :-1]).sum(axis=1)
        visit_s = (share + 1e-3) * length / views.rate_hz / (1 + crossings / 2)
        trips = np.log(visit_s / (views.median / 1e3))
        yield np.stack([share, crossings / length * views.rate_hz, trips], axis=1)
    above = [(views.rtt < views.low[:, None] * (1 + part)).mean(axis=1) for part in _ABOVE_LOW]
    yield np.stack(above, axis=1)


def _roughness(views: _Views) -> Iterator[Values]:
    """What happens from sample to sample, and between and within blocks of them."""
    count, length = views.rtt.shape
    spread = views.spread
    for block_s in _BLOCKS_S:
        size = max(1, round(block_s * views.rate_hz))
        blocks = views.rtt[:, : length // size * size].reshape(count, -1, size)
        between = blocks.mean(axis=2).std(axis=1)
        within = np.median(blocks.std(axis=2), axis=1)
        parts = [between, between / spread, within, within / spread]
        yield np.log(np.stack(parts, axis=1) + 1e-3)
    first = np.diff(views.rtt, axis=1)
    typical = np.median(np.abs(first), axis=1)
    bend = np.median(np.abs(np.diff(first, axis=1)), axis=1)
    sizes = [typical, np.abs(first).mean(axis=1), bend, bend / (typical + 1e-3)]
    yield np.log(np.stack(sizes, axis=1) + 1e-3)
    yield np.stack([np.log(typical / spread + 1e-4), (first > 0).mean(axis=1)], axis=1)


def _trend(views: _Views) -> Iterator[Values]:
    """Legendre polynomials over the whole window, and what they leave."""
    centred = views.centred
    places = np.linspace(-1, 1, centred.shape[1])
    basis = np.polynomial.legendre.legvander(places, _DEGREE)[:, 1:]
    found = centred @ basis / (basis**2).sum(axis=0)
    left = (centred - found @ basis.T).std(axis=1) / (centred.std(axis=1) + 1e-9)
    yield np.concatenate([found, np.log(left + 1e-3)[:, None]], axis=1)


def _at(rows: Values, places: Values) -> Values:
    """Values of each row between its places, by linear interpolation; the last one beyond."""
    last = rows.shape[1] - 1
    inside = np.clip(places, 0, last)
    before = np.minimum(inside.astype(np.intp), last - 1)
    share = inside - before
    left = np.take_along_axis(rows, before, axis=1)
    right = np.take_along_axis(rows, before + 1, axis=1)
    between: Values = left * (1 - share) + right * share
    return between
