"""What our own stream's counters tell beside round-trip times, in numbers that fit any path.

Who else is on a path moves our stream as well as the queue: beside BBR one of CUBIC is squeezed,
where others lose with us the queue falls with our window, and where they do not it falls without.
What the kernel tells of a connection (TCP_INFO) and the simulator alike is taken: the bytes that
were acknowledged, and the congestion window. Rates are relative to what the stream had of late,
round-trip times to the least and the greatest of late.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weir.congestion.classify.features import Values, filled

HISTORY_S = 20
"""So much of the past is looked at, as far as it is there."""
_BIN_S = 0.5
_EARLIER_S = 2.5  # length of the bins of what was before the window
_SPANS_S = (0.5, 1.0, 2.0, 3.0, 5.0)
_LATELY_S = (1.0, 2.0)
_QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
_FALLEN = 0.85  # of the window, within a tenth of a second: a loss of ours, or BBR's drain
_DROPPED = 0.3  # of the spread of round-trip times, within a fifth of a second
_WITH_S = 1.0  # a drop so near to a fall of ours came with it
_PACKET_BYTES = 1448
_CLIP = 4.0  # logarithms


@dataclass(frozen=True, slots=True)
class Counted:
    """Several pasts of one stream, a row each, evenly spaced, of `HISTORY_S` at most.

    Attributes:
        rtt_ms: NaN where there is none.
        acked: bytes acknowledged by then; NaN from before anything was counted.
        window: bytes of the congestion window; likewise.
    """

    rtt_ms: Values
    acked: Values
    window: Values


def counted(seen: Counted, rate_hz: int, seconds: float) -> Values:
    """Features of the last so many seconds, and of what was before them.

    Args:
        seen: pasts that are at least as long; of longer ones only so much is looked at.
        rate_hz: samples a second, an even number.
        seconds: of the window.

    Returns:
        A row for each; always finite.
    """
    whole = _padded(seen, rate_hz)
    size = round(seconds * rate_hz)
    bins = _Bins.of(whole, rate_hz)
    groups = [*_levels(bins, seconds), *_window(whole, size, rate_hz), *_shapes(bins, seconds)]
    found: Values = np.nan_to_num(np.concatenate(groups, axis=1), nan=0.0, posinf=0.0, neginf=0.0)
    return np.clip(found, -50.0, 50.0)


def _padded(seen: Counted, rate_hz: int) -> Counted:
    """Gives all full length: NaN before the beginning of each."""
    size = HISTORY_S * rate_hz

    def one(values: Values) -> Values:
        lately = values[:, -size:]
        short = size - lately.shape[1]
        return np.pad(lately, ((0, 0), (short, 0)), constant_values=np.nan)

    gone = np.isnan(one(seen.acked))
    rtt = np.where(gone, np.nan, np.maximum(filled(one(seen.rtt_ms)), 1e-3))
    return Counted(rtt, one(seen.acked), one(seen.window))


@dataclass(frozen=True, slots=True)
class _Bins:
    """Means of half a second each, oldest first; NaN where nothing was counted."""

    rate: Values  # relative to the mean of the past
    rtt: Values  # 0 at the least of the past, 1 at the greatest
    window: Values  # logarithm, relative to the mean of the past
    count: int  # in a second

    @classmethod
    def of(cls, seen: Counted, rate_hz: int) -> "_Bins":
        size = round(_BIN_S * rate_hz)
        rows = len(seen.acked)
        ends = seen.acked[:, size - 1 :: size]
        rate = np.diff(ends, axis=1, prepend=seen.acked[:, :1]) / _BIN_S
        rate[:, 0] *= size / (size - 1)
        mean = _mean(rate)[:, None]
        least, most = _least(seen.rtt_ms)[:, None], -_least(-seen.rtt_ms)[:, None]
        rtt = _mean(seen.rtt_ms.reshape(rows, -1, size), 2)
        window = _mean(seen.window.reshape(rows, -1, size), 2)
        return cls(
            rate / np.maximum(mean, 1.0),
            (rtt - least) / (most - least + 0.5),
            _log(window / np.maximum(_mean(window)[:, None], 1.0)),
            round(1 / _BIN_S),
        )


def _levels(bins: _Bins, seconds: float) -> Iterator[Values]:
    """What our stream had lately, beside what it had before."""
    inside = round(seconds * bins.count)
    in_window = _mean(bins.rate[:, -inside:])
    before = _mean(bins.rate[:, : -inside - 4])
    best = -_least(-_smooth(bins.rate))
    spans = [_mean(bins.rate[:, -max(1, round(span * bins.count)) :]) for span in _SPANS_S]
    yield np.stack([_log(one / np.maximum(best, 1e-9)) for one in spans], axis=1)
    yield np.stack([_log(one / np.maximum(before, 1e-9)) for one in spans], axis=1)
    there = (~np.isnan(bins.rate)).sum(axis=1) / bins.rate.shape[1]
    yield np.stack([there, _log(in_window / np.maximum(best, 1e-9))], axis=1)
    for values in (bins.rtt, bins.window):
        past = _mean(values[:, : -inside - 4])
        now = [_mean(values[:, -round(span * bins.count) :]) for span in _LATELY_S]
        yield np.stack([*now, *(one - past for one in now), past], axis=1)


def _shapes(bins: _Bins, seconds: float) -> Iterator[Values]:
    """How each went, in half seconds within the window, more roughly before it."""
    inside = round(seconds * bins.count)
    for values in (_log(bins.rate), bins.rtt, bins.window):
        yield values[:, -inside:]
    rates = bins.rate[:, -inside:]
    yield np.stack([np.nanstd(rates, axis=1), _correlation(rates[:, 1:], rates[:, :-1])], axis=1)
    yield _correlation(rates, bins.rtt[:, -inside:])[:, None]
    size = round(_EARLIER_S * bins.count)
    for values in (_log(bins.rate), bins.rtt, bins.window):
        earlier = values[:, : values.shape[1] - inside]
        short = -earlier.shape[1] % size
        earlier = np.pad(earlier, ((0, 0), (short, 0)), constant_values=np.nan)
        yield _mean(earlier.reshape(len(earlier), -1, size), 2)


def _window(seen: Counted, size: int, rate_hz: int) -> Iterator[Values]:
    """Our congestion window, and how the queue went with it."""
    rtt, window = seen.rtt_ms[:, -size:], seen.window[:, -size:]
    spent_s = (size - 1) / rate_hz
    rate = (seen.acked[:, -1] - seen.acked[:, -size]) / spent_s
    base_s, mean_s = _least(seen.rtt_ms) / 1e3, _mean(rtt) / 1e3
    mean = np.maximum(_mean(window), 1.0)
    yield np.stack(
        [
            _log(mean / _PACKET_BYTES),
            _log(rate * base_s / mean),
            _log(rate * mean_s / mean),
            _log(rate * base_s / _PACKET_BYTES),
        ],
        axis=1,
    )
    most = np.maximum(-_least(-window), 1.0)
    yield np.nanquantile(window / most[:, None], _QUANTILES, axis=1).T
    yield _log(window[:, -1] / mean)[:, None]
    spread = np.maximum(-_least(-rtt) - _least(rtt), 0.5)
    ours = _falls(window, 2, _FALLEN * window[:, :-2])
    theirs = _falls(rtt, 4, rtt[:, :-4] - _DROPPED * spread[:, None])
    near = round(_WITH_S * rate_hz)
    wide = np.pad(ours, ((0, 0), (near, near)))
    views = np.lib.stride_tricks.sliding_window_view(wide, 2 * near + 1, axis=1)
    with_us = theirs & views.any(axis=2)
    since = np.where(ours.any(axis=1), np.argmax(ours[:, ::-1], axis=1), size) / rate_hz
    at_fall = np.where(ours, (rtt - _least(rtt)[:, None]) / spread[:, None], np.nan)
    depth = np.where(ours, _log(np.roll(window, -3, axis=1) / np.maximum(window, 1.0)), np.nan)
    yield np.stack(
        [
            _begins(ours),
            since,
            _mean(at_fall),
            _mean(depth),
            _begins(theirs),
            _begins(with_us),
            _begins(theirs & ~with_us),
        ],
        axis=1,
    )
    together = _correlation(window, rtt)
    lag = max(1, rate_hz // 5)
    moves = _correlation(window[:, lag:] - window[:, :-lag], rtt[:, lag:] - rtt[:, :-lag])
    slope = _slope(np.log(np.maximum(window, 1.0)))
    left = np.sqrt(np.maximum(1 - together**2, 0.0)) * np.nanstd(rtt, axis=1)
    yield np.stack([together, moves, slope, _log(left + 0.05)], axis=1)


def _falls(values: Values, lag: int, least: Values) -> NDArray[np.bool_]:
    """Where a value so many samples later is below the least of its place."""
    fallen = values[:, lag:] < least
    return np.pad(fallen, ((0, 0), (0, lag)))


def _begins(there: NDArray[np.bool_]) -> Values:
    """How often something begins to be there."""
    found: Values = (there[:, 1:] & ~there[:, :-1]).sum(axis=1).astype(np.float64)
    return found


def _smooth(values: Values) -> Values:
    return (values[:, 1:] + values[:, :-1]) / 2


def _slope(values: Values) -> Values:
    places = np.linspace(-1, 1, values.shape[1])
    found: Values = values @ places / (places**2).sum()
    return found


def _correlation(one: Values, other: Values) -> Values:
    first, second = (values - _mean(values)[:, None] for values in (one, other))
    size = np.sqrt(_mean(first**2) * _mean(second**2))
    found: Values = np.where(size > 1e-9, _mean(first * second) / np.maximum(size, 1e-9), 0.0)
    return found


def _log(values: Values) -> Values:
    """The logarithm, within bounds."""
    found: Values = np.clip(np.log(np.maximum(values, 1e-9)), -_CLIP, 3 * _CLIP)
    return found


def _mean(values: Values, axis: int = 1) -> Values:
    """Without what is not there; NaN where nothing is."""
    there = ~np.isnan(values)
    count = there.sum(axis=axis)
    total = np.where(there, values, 0.0).sum(axis=axis)
    found: Values = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return found


def _least(values: Values) -> Values:
    """Likewise."""
    found: Values = np.fmin.reduce(values, axis=1)
    return found
