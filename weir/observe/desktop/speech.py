"""How well speech survived a call, beside what was said: two distances and a similarity.

LLR and WSS are as Loizou's *Speech Enhancement: Theory and Practice* has them, in frames of 30 ms.
The similarity is NSIM over bands of hearing (Hines and others 2012, 2015), with ViSQOL's mapping to
a scale of 1 to 5; it is like ViSQOL, and is not ViSQOL: scores differ, what loss does to them less.
"""

import math
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from weir import files
from weir.errors import BadInput

Samples: TypeAlias = NDArray[np.float64]

FRAME_S = 0.03
_STEP = 4
"""Frames begin a quarter of their length apart."""
_KEPT = 0.95
"""The best frames that count: a few silent ones would decide otherwise."""
_MOST_LLR = 2.0
"""What a frame's ratio counts at most."""
_MOST_SAMPLES = 3_000_000
"""A minute at 48 kHz, for which some 1 GB of memory is needed."""
_UNKNOWN_BYTES = 0x7FFF_F000
"""Who records into a pipe cannot know how much it will be, and says this or more."""
_EPSILON = float(np.finfo(np.float64).eps)

# Centres and widths of the 25 critical bands, in Hz (Klatt 1982, as Loizou gives them).
_CENTRES = np.array([
    50.0, 120.0, 190.0, 260.0, 330.0, 400.0, 470.0, 540.0, 617.372, 703.378, 798.717, 904.128,
    1020.38, 1148.30, 1288.72, 1442.54, 1610.70, 1794.16, 1993.93, 2211.08, 2446.71, 2701.97,
    2978.04, 3276.17, 3597.63,
])  # fmt: skip
_WIDTHS = np.array([
    70.0, 70.0, 70.0, 70.0, 70.0, 70.0, 70.0, 77.3724, 86.0056, 95.3398, 105.411, 116.256, 127.914,
    140.423, 153.823, 168.154, 183.457, 199.776, 217.153, 235.631, 255.255, 276.072, 298.126,
    321.465, 346.136,
])  # fmt: skip
_LEAST_WEIGHT = math.exp(-30 / (2 * 2.303))
_PEAK_WEIGHT, _NEAR_WEIGHT = 20.0, 1.0
"""Klatt's K_max and K_loc."""


@dataclass(frozen=True, slots=True)
class Quality:
    """What became of speech.

    Attributes:
        wss: weighted spectral slope distance; 0 for the same.
        llr: log-likelihood ratio; 0 for the same.
        nsim: similarity of the spectrograms, 1 for the same.
        score: that, on ViSQOL's scale of 1 to 5.
    """

    wss: float
    llr: float
    nsim: float
    score: float


def quality(clean: Samples, degraded: Samples, rate: int) -> Quality:
    """All measures of one recording.

    Args:
        clean: what was said.
        degraded: what was heard; it may begin later, up to half a second.
        rate: samples a second of both.

    Raises:
        BadInput: too short to tell anything or too long for the memory, silent, or a rate below
            8000 a second.
    """
    if rate < 8000:
        raise BadInput(f"{rate} samples a second: speech needs 8000 at least")
    for samples in (clean, degraded):
        if not len(samples):
            raise BadInput("0 s of speech are too short; give half a second")
        if len(samples) > _MOST_SAMPLES:
            raise BadInput(
                f"{len(samples) / rate:.0f} s of speech: compare it sentence by sentence, up to "
                f"{_MOST_SAMPLES / rate:.0f} s"
            )
    heard = aligned(clean, degraded, rate)
    similarity = nsim(clean, heard, rate)
    if not np.any(clean):
        raise BadInput("nothing was said: every sample is 0")
    distances = wss(clean, heard, rate), llr(clean, heard, rate)
    return Quality(*distances, similarity, score(similarity))


def aligned(clean: Samples, degraded: Samples, rate: int) -> Samples:
    """What was heard, shifted to where it agrees best and as long as what was said."""
    size = 1 << (len(clean) + len(degraded)).bit_length()
    spectrum = np.fft.rfft(degraded, size) * np.conj(np.fft.rfft(clean, size))
    agreement = np.fft.irfft(spectrum, size)
    most = min(rate, size) // 2
    shifts = np.concatenate([np.arange(most), np.arange(-most, 0)])
    shift = int(shifts[np.argmax(agreement[shifts])])
    moved = degraded[shift:] if shift >= 0 else np.concatenate([np.zeros(-shift), degraded])
    missing = len(clean) - len(moved)
    return np.concatenate([moved, np.zeros(missing)]) if missing > 0 else moved[: len(clean)]


def llr(clean: Samples, degraded: Samples, rate: int) -> float:
    """Log-likelihood ratio: how badly one's prediction fits the other, by the mean of most frames.

    Per frame log((d R d) / (c R c)), with the coefficients c of clean and d of degraded speech and
    the autocorrelation R of clean speech.
    """
    order = 10 if rate < 10_000 else 16
    frames, others = (_frames(one, rate) for one in (clean, degraded))
    count = min(len(frames), len(others))
    first, own = _predicted(frames[:count], order)
    _, theirs = _predicted(others[:count], order)
    lags = np.abs(np.subtract.outer(np.arange(order + 1), np.arange(order + 1)))
    matrix = first[:, lags]
    above = np.einsum("fi,fij,fj->f", theirs, matrix, theirs)
    below = np.einsum("fi,fij,fj->f", own, matrix, own)
    ratio = np.where((above > 0) & (below > 0), above / np.where(below > 0, below, 1), np.inf)
    return _most(np.minimum(np.log(ratio), _MOST_LLR))


def wss(clean: Samples, degraded: Samples, rate: int) -> float:
    """Weighted spectral slope distance: of slopes between neighbours of 25 critical bands."""
    levels, others = (_band_levels(one, rate) for one in (clean, degraded))
    count = min(len(levels), len(others))
    levels, others = levels[:count], others[:count]
    slopes, other_slopes = np.diff(levels), np.diff(others)
    weights = (_slope_weights(levels, slopes) + _slope_weights(others, other_slopes)) / 2
    distances = np.sum(weights * (slopes - other_slopes) ** 2, axis=1) / np.sum(weights, axis=1)
    return _most(distances)


def _frames(samples: Samples, rate: int) -> Samples:
    """Frames under a Hann window, a row each; as in Loizou's programs the last one is left out."""
    length = round(FRAME_S * rate)
    if len(samples) < length + length // _STEP:
        raise BadInput(f"speech of {len(samples)} samples is shorter than a frame of {length}")
    step = length // _STEP
    turns = 2 * np.pi * np.arange(1, length + 1) / (length + 1)
    # Nothing is quite silent, so that every frame has a prediction.
    rows = np.lib.stride_tricks.sliding_window_view(samples + _EPSILON, length)[::step][:-1]
    framed: Samples = rows * (0.5 * (1 - np.cos(turns)))
    return framed


def _most(values: Samples) -> float:
    kept = np.sort(values)[: max(1, round(_KEPT * len(values)))]
    return float(np.mean(kept))


def _predicted(frames: Samples, order: int) -> tuple[Samples, Samples]:
    """Autocorrelation and prediction error filter of each frame, by Levinson's recursion."""
    length = frames.shape[1]
    correlation = np.stack(
        [np.sum(frames[:, : length - lag] * frames[:, lag:], axis=1) for lag in range(order + 1)],
        axis=1,
    )
    filters = np.zeros((len(frames), order + 1))
    filters[:, 0] = 1
    error = correlation[:, 0]
    for at in range(1, order + 1):
        # By hand, for all frames at once; scipy has it for one at a time.
        missed = np.sum(filters[:, :at] * correlation[:, at:0:-1], axis=1)
        reflection = -missed / error
        filters[:, 1 : at + 1] += reflection[:, None] * filters[:, :at][:, ::-1]
        error = error * (1 - reflection**2)
    return correlation, filters


def _band_levels(samples: Samples, rate: int) -> Samples:
    """The energy in each critical band of each frame, in dB."""
    length = round(FRAME_S * rate)
    size = 1 << (2 * length - 1).bit_length()
    half = size // 2
    power = np.abs(np.fft.fft(_frames(samples, rate), size)[:, :half]) ** 2
    centres, widths = (np.floor(_CENTRES / (rate / 2) * half), _WIDTHS / (rate / 2) * half)
    away = (np.arange(half) - centres[:, None]) / widths[:, None]
    weights = np.exp(-11 * away**2 + (np.log(_WIDTHS[0]) - np.log(_WIDTHS))[:, None])
    weights[weights < _LEAST_WEIGHT] = 0
    levels: Samples = 10 * np.log10(np.maximum(power @ weights.T, 1e-10))
    return levels


def _slope_weights(levels: Samples, slopes: Samples) -> Samples:
    """How much each slope counts: most at the highest peak, and near any peak (Klatt 1982)."""
    count = slopes.shape[1]
    near = np.empty_like(slopes)
    # The next peak: uphill, to the right where the slope rises and to the left where it falls. To
    # the right Loizou's program takes the band before it, and so do all that compare with it.
    rising = levels[:, count - 1]
    for at in range(count - 1, -1, -1):
        near[:, at] = rising
        rising = np.where(slopes[:, at] > 0, rising, levels[:, max(at - 1, 0)])
    falling = levels[:, 0]
    for at in range(count):
        falling = np.where(slopes[:, at] <= 0, falling, levels[:, at + 1])
        near[:, at] = np.where(slopes[:, at] > 0, near[:, at], falling)
    peak = levels.max(axis=1, keepdims=True)
    far = _PEAK_WEIGHT / (_PEAK_WEIGHT + peak - levels[:, :count])
    close = _NEAR_WEIGHT / (_NEAR_WEIGHT + near - levels[:, :count])
    weights: Samples = far * close
    return weights


# --- NSIM ---

_BANDS, _LOWEST_HZ = 21, 50.0
_LONG_S, _HOP = 0.08, 4
_PATCH, _SEARCH = 20, 6
"""Frames of a patch, and by how many it may have moved."""
_FLOOR_DB = 45.0
"""Below the loudest band of a frame nothing is heard."""
_C1, _C3 = 1e-4, 4.5e-4
_WINDOW = np.array([0.0113, 0.0838, 0.0113, 0.0838, 0.6193, 0.0838, 0.0113, 0.0838, 0.0113])
_QUIET_DB = 35.0
"""A patch so much quieter than the loudest has no speech."""


def nsim(clean: Samples, degraded: Samples, rate: int) -> float:
    """Similarity of the two spectrograms, by the mean over patches with speech and over bands."""
    loudness = np.sqrt(np.mean(clean**2) / max(float(np.mean(degraded**2)), _EPSILON))
    picture = _spectrogram(clean, rate)
    other = _spectrogram(degraded * loudness, rate)
    top = picture.max()
    floor = top - 2 * _FLOOR_DB
    spoken = picture.max(axis=1) > top - _QUIET_DB
    picture, other = (_floored(one, floor) - floor for one in (picture, other))
    begins = range(0, len(picture) - _PATCH + 1, _PATCH)
    kept = [at for at in begins if spoken[at : at + _PATCH].mean() > 0.5]
    if not kept:
        raise BadInput(f"{len(clean) / rate:.1f} s without speech tell nothing of its quality")
    frames = [_frame_similarity(picture, other, by) for by in range(-_SEARCH, _SEARCH + 1)]
    # A patch counts by where it is found best again.
    best = [max(float(np.mean(one[at : at + _PATCH])) for one in frames) for at in kept]
    return float(np.mean(best))


def score(similarity: float) -> float:
    """NSIM on the scale of 1 to 5 (ViSQOL 3's exponential for speech, 5 for the same)."""
    mapped = 1.2031409 * (1.15594553 + math.exp(4.685115504 * (similarity - 0.76552319)))
    return min(5.0, max(1.0, mapped))


def _spectrogram(samples: Samples, rate: int) -> Samples:
    """Levels in dB, a row for each frame of 80 ms, of bands that are equally wide to the ear."""
    length = round(_LONG_S * rate)
    if len(samples) < length * 6:
        raise BadInput(f"{len(samples) / rate:.2f} s of speech are too short; give half a second")
    rows = np.lib.stride_tricks.sliding_window_view(samples, length)[:: length // _HOP]
    power = np.abs(np.fft.rfft(rows * np.hamming(length))) ** 2 / length
    hertz = np.fft.rfftfreq(length, 1 / rate)
    # Glasberg and Moore's scale; a gammatone filter of order 4 by its response's magnitude.
    highest = min(8000.0, rate / 2)
    low, high = (21.4 * math.log10(1 + 0.00437 * one) for one in (_LOWEST_HZ, highest))
    centres = (10 ** (np.linspace(low, high, _BANDS) / 21.4) - 1) / 0.00437
    widths = 1.019 * 24.7 * (0.00437 * centres + 1)
    response = (1 + ((hertz - centres[:, None]) / widths[:, None]) ** 2) ** -4.0
    levels: Samples = 10 * np.log10(np.maximum(power @ response.T, 1e-12))
    return levels


def _floored(levels: Samples, floor: float) -> Samples:
    lowest = np.maximum(levels.max(axis=1, keepdims=True) - _FLOOR_DB, floor)
    floored: Samples = np.maximum(levels, lowest)
    return floored


def _frame_similarity(picture: Samples, other: Samples, by: int) -> Samples:
    """Each frame beside the other's that comes `by` frames later: the mean over bands."""
    moved = other[np.clip(np.arange(len(picture)) + by, 0, len(other) - 1)]
    mean, other_mean = _smooth(picture), _smooth(moved)
    spread = np.sqrt(np.maximum(_smooth(picture**2) - mean**2, 0))
    other_spread = np.sqrt(np.maximum(_smooth(moved**2) - other_mean**2, 0))
    common = _smooth(picture * moved) - mean * other_mean
    level = (2 * mean * other_mean + _C1) / (mean**2 + other_mean**2 + _C1)
    structure = (common + _C3) / (spread * other_spread + _C3)
    similar: Samples = np.mean(level * structure, axis=1)
    return similar


def _smooth(values: Samples) -> Samples:
    """A weighted mean over neighbours in time and in band; beyond the edges stand the edges."""
    rows, columns = values.shape
    wide = np.pad(values, 1, mode="edge")
    total = np.zeros(values.shape)
    for number, weight in enumerate(_WINDOW):
        down, right = divmod(number, 3)
        total += weight * wide[down : down + rows, right : right + columns]
    return total


def load(path: Path) -> tuple[Samples, int]:
    """A WAV file's samples from -1 to 1, its channels' mean, and their rate.

    Raises:
        BadInput: it cannot be read, is cut, or its samples are not of 16 bits.
    """
    try:
        with files.opened(path) as source, wave.open(source) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            count = file.getnframes()
            content = file.readframes(min(count, _MOST_SAMPLES + 1))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except (wave.Error, EOFError) as error:
        raise BadInput(f"{path} is no WAV file of plain samples: {error or 'it is cut'}") from None
    if width != 2:
        raise BadInput(f"{path} has samples of {8 * width} bits; those of 16 are read")
    found = len(content) // (2 * channels)
    if found < min(count, _MOST_SAMPLES + 1) and count * 2 * channels < _UNKNOWN_BYTES:
        raise BadInput(f"{path} is cut: it has {found} of {count} samples")
    samples = np.frombuffer(content, "<i2", found * channels).astype(np.float64) / 32768
    return samples.reshape(-1, channels).mean(axis=1), rate
