"""The work's recogniser in use: k nearest neighbours under time warping (001-spec 5.7, 6.4).

It learns from recordings of the kernel's own TCP, made by `weir ops collect`: of the same probing,
passive or beside the same pattern of bursts, since our own bursts shape what is seen. Windows are
of one value a second, in ms as they are, and begin where a pattern begins. So it knows the path
that was recorded and no other: a window that is far from all of them is called unknown, which the
work's has no word for.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weir.congestion.classify.classes import BACKGROUNDS, WITH_BBR
from weir.congestion.classify.recogniser import Recognition
from weir.congestion.classify.warping import BAND, KnnIndex
from weir.congestion.recordings import KERNEL, KERNEL_ACTIVE, Recording, load
from weir.errors import BadInput
from weir.probe.pattern import Pattern
from weir.probe.sample import Sample

SECONDS = 20
"""Length of a window of passive probing, when nothing else is said (001-spec 6.4)."""
UNUSUAL = 3.0
"""Unknown is what is farther from its nearest neighbour than any that is known is, so many times.

Those that are known are compared with each other for it. A window of the recorded path, probed on a
busy machine, was 1.6 times as far; another base round-trip time alone makes it several times.
"""
_MEANINGS = {background.label: background.meaning for background in BACKGROUNDS}


class KnnRecogniser:
    """Tells a background by the recorded windows that are most like it.

    The defaults are the work's.

    Args:
        pattern: of the bursts meanwhile, None for passive probing.
        count: how many neighbours vote (k).
        band: how far apart in time values that are compared may be, in s (warping window).
        seconds: of a window; None for the pattern's length, or 20.
        file: of recordings to learn from; None for those that come along.

    Raises:
        BadInput: the file cannot be read, has none of this probing and length, or too little.

    Attributes:
        rate_hz: samples a second, as recorded.
        requests: of each, likewise.
        seconds: of a window, the only length.
    """

    def __init__(
        self,
        pattern: Pattern | None = None,
        count: int = 1,
        band: int = BAND,
        seconds: int | None = None,
        file: Path | None = None,
    ) -> None:
        learned = _recordings(pattern, file)
        self.rate_hz, self.requests = learned[0].rate_hz, learned[0].requests
        length = seconds or (pattern.seconds if pattern else SECONDS)
        self.seconds = (float(length),)
        self._count = count
        self._labels: list[str] = []
        windows: list[NDArray[np.float64]] = []
        for one in learned:
            means = by_second(one.rtt_ms, one.rate_hz)
            for begin in range(0, len(means) - length + 1, pattern.seconds if pattern else length):
                windows.append(means[begin : begin + length])
                self._labels.append(one.label)
        if not windows:
            raise BadInput(f"no recording has the {length} s of a window")
        if len({window.tobytes() for window in windows}) < 2:
            raise BadInput(f"a single window of {length} s is recorded: nothing to compare it with")
        self._index = KnnIndex(np.array(windows), band)
        self._usual = max(self._index.nearest(one, 2)[-1][1] for one in windows)

    def recognise(self, samples: Sequence[Sample]) -> Recognition:
        """Who is on the path of these samples; the last ones are looked at.

        Raises:
            BadInput: they are fewer than a window has.
        """
        count = round(self.seconds[0] * self.rate_hz)
        if len(samples) < count:
            raise BadInput(f"{len(samples)} samples are fewer than the {count} of a window")
        means = [np.nan if one.mean_ns is None else one.mean_ns / 1e6 for one in samples[-count:]]
        return self.of_window(by_second(np.array(means), self.rate_hz))

    def of_window(self, window: NDArray[np.float64]) -> Recognition:
        """The answer for a series with one value a second, in ms."""
        near = self._index.nearest(window, self._count)
        votes = Counter(self._labels[index] for index, _ in near)
        # With equally many votes those of the nearest count (001-spec 5.7): they come first.
        label, most = votes.most_common(1)[0]
        far = near[0][1] / self._usual
        known = far <= UNUSUAL
        why = f"{_MEANINGS.get(label, label)} ({most} of {len(near)} nearest neighbours)"
        if not known:
            why = (
                f"unknown: the nearest of {len(self._labels)} recorded windows is {far:.1f} times "
                "as far as they are from each other; the path is not the recorded one"
            )
        shares = {each: count / len(near) for each, count in votes.items()}
        bbr = sum(share for each, share in shares.items() if each in WITH_BBR)
        return Recognition(probabilities=shares, bbr=bbr, known=known, why=why)


def by_second(rtt_ms: NDArray[np.float64], rate_hz: float) -> NDArray[np.float64]:
    """The mean of each whole second; one without any reply repeats that before it (A-12)."""
    rate = round(rate_hz)
    whole = rtt_ms[: len(rtt_ms) // rate * rate].reshape(-1, rate)
    is_there = np.isfinite(whole)
    counts = is_there.sum(axis=1)
    means = np.where(is_there, whole, 0.0).sum(axis=1) / np.maximum(counts, 1)
    answered = np.flatnonzero(counts)
    if not len(answered):
        raise BadInput("no request was answered: there is nothing to recognise")
    before = np.maximum.accumulate(np.where(counts > 0, np.arange(len(counts)), answered[0]))
    filled: NDArray[np.float64] = means[before]
    return filled


def _recordings(wanted: Pattern | None, file: Path | None) -> list[Recording]:
    """The recordings of the same probing, all at one rate."""
    file = file or (KERNEL_ACTIVE if wanted else KERNEL)
    there = load(file)
    pattern = str(wanted) if wanted else None
    found = [one for one in there if one.pattern == pattern]
    if not found:
        known = sorted({one.pattern or "passive" for one in there})
        raise BadInput(
            f"no recordings to recognise {pattern or 'passive probing'} by: {file.name} has "
            f"{', '.join(known) or 'none'}; weir ops collect --pattern {pattern or 'passive'} "
            "makes them, --recordings FILE takes them"
        )
    first = found[0]
    if first.rate_hz != round(first.rate_hz):
        raise BadInput(f"{file}: {first.rate_hz:g} samples a second: a whole number is needed")
    for one in found:
        if (one.rate_hz, one.requests) != (first.rate_hz, first.requests):
            raise BadInput(
                f"{file}: recordings of {first.rate_hz:g} samples of {first.requests} a second and "
                f"of {one.rate_hz:g} of {one.requests}: all have to be alike"
            )
    return found
