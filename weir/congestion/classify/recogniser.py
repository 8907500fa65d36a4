"""Weir's own recogniser: who is on a path, from a few seconds of round-trip times.

    recogniser = Recogniser.shipped()
    found = recogniser.recognise(samples)      # of weir.probe.sample, 20 a second
    found.label, found.bbr, found.known, found.kind, found.why

Inference needs numpy alone; `weir ops train` makes the file that it reads.
"""

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir import files
from weir.congestion.classify.beside import Count, can_hear, without
from weir.congestion.classify.classes import BACKGROUNDS, KINDS, WITH_BBR
from weir.congestion.classify.company import SECONDS, Company, shared_out
from weir.congestion.classify.counted import Counted
from weir.congestion.classify.features import Values, features
from weir.congestion.classify.model import DAMAGED, Model, Wide
from weir.congestion.classify.opinions import UNUSUAL, Opinions
from weir.errors import BadInput
from weir.probe.sample import Sample

FORMAT = "weir-recogniser"
VERSION = 3
"""The version of the file and of the features: to be raised when either changes."""
READ = (1, 2, 3)
"""Versions that are read: the first says nothing of kinds, the first two give one opinion alone."""
SHIPPED = Path(__file__).with_name("recogniser.npz")
SHORTEST_MS = 10.0
"""Round-trip time of the shortest of the usual paths, but for idle ones."""
SHORT_BBR = 0.2
"""On shorter ones the first opinion is not believed in BBR that is as likely as this, or likelier:
between two samples a control does there what it is told by elsewhere."""
MISSING_MAX = 0.3
"""With a larger share of samples unanswered nothing is said."""
_MEANINGS = {one.label: one.meaning for one in (*BACKGROUNDS, *KINDS)}
_AMONG = frozenset(kind.label for kind in KINDS if kind.is_among)


@dataclass(frozen=True, slots=True)
class Recognition:
    """What a window of samples was taken for.

    Attributes:
        probabilities: of each background by its label; their sum is 1.
        bbr: probability that BBR is among the background.
        known: False if the path is unlike anything that was learned from: the probabilities are
            then of little use.
        why: the answer and its ground in one sentence, for a person.
        kinds: of each kind (`classes.KINDS`) by its label; what is left of 1 is for none of them.
            Empty where nothing is said of kinds, as where the path is not known.
        kind: the label of the one that is likely enough to be said; None if none is.
        learned: whether what is said of BBR was learned beside such a stream as ours.
    """

    probabilities: Mapping[str, float]
    bbr: float
    known: bool
    why: str
    kinds: Mapping[str, float] = field(default_factory=dict)
    kind: str | None = None
    learned: bool = False

    @property
    def label(self) -> str:
        """The most probable background."""
        return max(self.probabilities, key=lambda label: self.probabilities[label])


class Recogniser:
    """Tells which background is on a path.

    Attributes:
        rate_hz: samples a second that it wants.
        requests: echo requests of a sample that it needs; more do no harm.
        seconds: lengths of the windows that it knows, shortest first.
        labels: of the backgrounds that it knows.
        models: what it learned of usual paths and the kernel's, by the length of windows.
        wide: what it learned of a wide range of paths, likewise; nothing in an older one.
        kinds: the labels of the kinds that it knows; none in an older one.
        company: what was learned beside one stream of ours; None for nothing.
    """

    company: Company | None = None

    def __init__(
        self,
        rate_hz: int,
        labels: Sequence[str],
        models: Mapping[int, Model],
        provenance: str = "",
        kinds: Sequence[str] = (),
        wide: Mapping[int, Wide] | None = None,
    ) -> None:
        self.rate_hz = rate_hz
        self.requests = 1
        self.seconds = tuple(sorted(models))
        self.labels = tuple(labels)
        self.provenance = provenance
        self.models: Mapping[int, Model] = dict(models)
        self.kinds = tuple(kinds)
        self.wide: Mapping[int, Wide] = dict(wide or {})

    @classmethod
    def shipped(cls) -> "Recogniser":
        """The one that comes with Weir."""
        found = cls.load(SHIPPED)
        found.company = Company.shipped()
        return found

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Recogniser":
        """Reads what `save` wrote.

        Raises:
            BadInput: the file cannot be read, is not a recogniser, or one of another version.
        """
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as held:
                about = json.loads(str(held["about"]))
                if about["format"] != FORMAT:
                    raise BadInput(
                        f"{path}: not a recogniser's file: its format is {about['format']!r}"
                    )
                if about["version"] not in READ:
                    raise BadInput(
                        f"{path}: a recogniser of version {about['version']}, not "
                        f"{READ[0]} to {READ[-1]}: train it again"
                    )
                models = {
                    seconds: Model.of_arrays(str(seconds), held) for seconds in about["seconds"]
                }
                wide = {
                    seconds: Wide.of_arrays(f"wide/{seconds}", held)
                    for seconds in about.get("wide", ())
                }
            said, kinds = about["provenance"], about.get("kinds", ())
            return cls(about["rate_hz"], about["labels"], models, said, kinds, wide)
        except DAMAGED as error:
            raise BadInput(f"{path}: not a recogniser's file: {error}") from None

    @staticmethod
    def is_one(path: str | os.PathLike[str]) -> bool:
        """Whether the file is a recogniser, of whatever version."""
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as held:
                return bool(json.loads(str(held["about"]))["format"] == FORMAT)
        except DAMAGED:
            return False

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it into one file.

        Raises:
            OSError: the file cannot be written.
        """
        about = {
            "format": FORMAT,
            "version": VERSION,
            "rate_hz": self.rate_hz,
            "seconds": self.seconds,
            "labels": self.labels,
            "provenance": self.provenance,
            "kinds": self.kinds,
            "wide": tuple(sorted(self.wide)),
        }
        learned: dict[str, Model | Wide]
        learned = {str(seconds): model for seconds, model in self.models.items()}
        learned |= {f"wide/{seconds}": wide for seconds, wide in self.wide.items()}
        arrays: dict[str, Any] = {
            key: array.astype(np.float16) if key.endswith(("weights", "landmarks")) else array
            for name, one in learned.items()
            for key, array in one.arrays(name).items()
        }
        with files.whole(Path(path)) as partial, partial.open("wb") as file:
            np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)

    def recognise(self, samples: Sequence[Sample]) -> Recognition:
        """Says what is on the path of these samples.

        The last ones are looked at, as many as the longest window that there are enough for. It
        learned from passive probing alone: beside bursts of our own the answer is unknown.

        Args:
            samples: in order, evenly spaced, at `rate_hz` or a multiple of it.

        Raises:
            BadInput: they are fewer than the shortest window has, or come at another rate.
        """
        return self._heard(samples, _least_ms(samples))

    def beside(
        self,
        samples: Sequence[Sample],
        own: str,
        streams: int = 1,
        counts: Sequence[Count] = (),
    ) -> Recognition | None:
        """Says who else is on the path of these samples, on which streams of our own send.

        Args:
            samples: in order, evenly spaced, at `rate_hz`.
            own: their congestion control, by the kernel's name. They send all they can.
            streams: so many are ours.
            counts: of our one stream, when each of the samples came; none where they are not known.

        Returns:
            None if they are too few, or nothing is known of such streams.
        """
        # Beside several only the longest windows tell whether BBR is there.
        size = self.seconds[0 if streams == 1 else -1] * self.rate_hz
        if not can_hear(own, streams) or len(samples) < size:
            return None
        # A BBR of ours beside one of version 3 sounds like two of ours.
        kinds = frozenset[str]() if own == "bbr" else _AMONG

        def of_others(shares: Mapping[str, float]) -> float:
            return without(own, shares, streams)[1]

        heard = self._heard(samples[-size:], _least_ms(samples), kinds, of_others)
        others, bbr = without(own, heard.probabilities, streams)
        ours = own.upper() if streams == 1 else f"{streams} streams of {own.upper()}"
        why = f"beside our own {ours}, {heard.why}"
        found = replace(heard, probabilities=others, bbr=bbr, why=why)
        if counts and (learned := self._learned(samples, own, streams, counts)):
            shares, usual = learned
            others, bbr = shared_out(own, heard.probabilities, shares)
            is_short = _least_ms(samples) < SHORTEST_MS and bbr >= SHORT_BBR
            known = heard.known or (usual >= UNUSUAL and not is_short)
            window = _first_replies_ms(samples[-size:])
            why = f"beside our own {ours}, {_why(others, known, window, SECONDS)}"
            found = Recognition(others, bbr, known, why, heard.kinds, heard.kind, learned=True)
        return found

    def _learned(
        self, samples: Sequence[Sample], own: str, streams: int, counts: Sequence[Count]
    ) -> tuple[Sequence[float], float] | None:
        """What was learned beside one stream of ours says, and how usual this is for it.

        None where nothing was learned, or too little is seen.
        """
        company, rtt_ms = self.company, _first_replies_ms(samples)
        if company is None or streams != 1 or own not in company.models:
            return None
        if np.isnan(rtt_ms[-SECONDS * self.rate_hz :]).mean() > MISSING_MAX:
            return None
        acked, window = np.array(counts, dtype=np.float64).T
        seen = Counted(rtt_ms[None, :], acked[None, :], window[None, :])
        (shares,), (usual,) = company.judge(own, seen)
        return shares.tolist(), float(usual)

    def of_series(self, rtt_ms: Values) -> Recognition:
        """As `recognise`, of round-trip times in ms at `rate_hz`; NaN is a missing one.

        Raises:
            BadInput: they are fewer than the shortest window has.
        """
        rtt_ms = np.asarray(rtt_ms, dtype=np.float64)
        return self._heard_in(rtt_ms, np.fmin.reduce(rtt_ms))

    def _heard(
        self,
        samples: Sequence[Sample],
        least_ms: float,
        kinds: Collection[str] | None = None,
        of_others: Callable[[Mapping[str, float]], float] | None = None,
    ) -> Recognition:
        """As `recognise`.

        Args:
            samples: likewise.
            least_ms: the shortest round trip that the path was seen to have.
            kinds: that are said; None for all.
            of_others: how likely it is, by the labels' probabilities, that others' BBR is there;
                None where all are others.
        """
        if any(one.segment and not one.segment.upper().startswith("S") for one in samples):
            return self._nothing("unknown: bursts of our own were on the path")
        return self._heard_in(self._series(samples), least_ms, kinds, of_others)

    def _heard_in(
        self,
        rtt_ms: Values,
        least_ms: float,
        kinds: Collection[str] | None = None,
        of_others: Callable[[Mapping[str, float]], float] | None = None,
    ) -> Recognition:
        """As `of_series`, with what `_heard` takes."""
        fitting = [one for one in self.seconds if one * self.rate_hz <= len(rtt_ms)]
        if not fitting:
            raise BadInput(
                f"{len(rtt_ms)} samples: a window has {self.seconds[0] * self.rate_hz} at least "
                f"({self.seconds[0]} s at {self.rate_hz} Hz)"
            )
        seconds = fitting[-1]
        window = rtt_ms[-seconds * self.rate_hz :]
        gone = np.isnan(window).mean()
        if gone > MISSING_MAX:
            return self._nothing(f"unknown: {gone:.0%} of the samples of {seconds} s have no reply")
        opinions = self.opinions(window[None, :], seconds)
        first = self._by_label(opinions.shares[0])
        bbr = of_others(first) if of_others else _bbr(first)
        is_short = bool(least_ms < SHORTEST_MS and bbr >= SHORT_BBR)
        (found,), (usual,), (is_second,) = opinions.weighed(np.array([is_short]))
        known = bool(usual >= UNUSUAL)
        shares = self._by_label(found)
        heard = self._said(shares, known, _why(shares, known, window, seconds))
        if is_short and not known:
            why = f"unknown: round trips of {least_ms:.1f} ms are too short to tell"
            return replace(heard, why=why)
        of = self.kinds if kinds is None else kinds
        # Kinds were learned on usual paths.
        is_asked = known and of and not is_second
        return self._with_kinds(heard, window, seconds, of) if is_asked else heard

    def judge(self, windows: Values, seconds: int) -> tuple[Values, Values]:
        """The labels' probabilities and the p-values for many windows of one length."""
        opinions = self.opinions(windows, seconds)
        is_short = np.fmin.reduce(windows, axis=1) < SHORTEST_MS
        shares, usual, _ = opinions.weighed(is_short & (opinions.bbr >= SHORT_BBR))
        return shares, usual

    def opinions(self, windows: Values, seconds: int) -> Opinions:
        """What is said of windows of one length."""
        model, wide = self.models[seconds], self.wide.get(seconds)
        found = features(windows, self.rate_hz)
        with_bbr = np.array([label in WITH_BBR for label in self.labels])
        shares = model.probabilities(found)
        bbr = shares[:, with_bbr].sum(axis=1)
        usual = model.p_values(found, bbr > 0.5)
        if wide is None:
            return Opinions(shares, bbr, usual)
        second = wide.probabilities(found)
        bbr_too = second[:, with_bbr].sum(axis=1)
        return Opinions(shares, bbr, usual, second, bbr_too, wide.p_values(found, model))

    def _by_label(self, shares: Values) -> dict[str, float]:
        return dict(zip(self.labels, shares.tolist(), strict=True))

    def judge_kinds(self, windows: Values, seconds: int) -> Values:
        """The probabilities of none of the kinds (the first column) and of each."""
        return self.models[seconds].of_kinds(features(windows, self.rate_hz))

    def said_kinds(self, shares: Values, seconds: int) -> NDArray[np.intp]:
        """The kind that is said of each window, from 1; 0 where none is likely enough.

        Args:
            shares: what `judge_kinds` gives.
            seconds: the windows' length.
        """
        best = shares.argmax(axis=1)
        least = np.concatenate([[np.inf], self.models[seconds].levels])
        return np.where(shares.max(axis=1) >= least[best], best, 0)

    def _with_kinds(
        self, heard: Recognition, window: Values, seconds: int, of: Collection[str]
    ) -> Recognition:
        shares = self.judge_kinds(window[None, :], seconds)
        every = dict(zip(self.kinds, shares[0, 1:].tolist(), strict=True))
        kinds = {kind: share for kind, share in every.items() if kind in of}
        (number,) = self.said_kinds(shares, seconds)
        kind = self.kinds[number - 1] if number else None
        if kind not in kinds:
            return replace(heard, kinds=kinds)
        why = f"{_MEANINGS.get(kind, kind)} ({kinds[kind]:.0%}); by who is there: {heard.why}"
        return replace(heard, kinds=kinds, kind=kind, why=why)

    def _nothing(self, why: str) -> Recognition:
        return self._said(dict.fromkeys(self.labels, 1 / len(self.labels)), False, why)

    def _said(self, shares: Mapping[str, float], known: bool, why: str) -> Recognition:
        return Recognition(probabilities=shares, bbr=_bbr(shares), known=known, why=why)

    def _series(self, samples: Sequence[Sample]) -> Values:
        """The first reply of each sample, at `rate_hz`."""
        if len(samples) < 2:
            raise BadInput(
                f"{len(samples)} samples are too few: a window has {self.seconds[0]} s of them"
            )
        period_ns = (samples[-1].at_ns - samples[0].at_ns) / (len(samples) - 1)
        every = round(1e9 / period_ns / self.rate_hz) if period_ns > 0 else 0
        if every < 1 or abs(period_ns * every * self.rate_hz / 1e9 - 1) > 0.01:
            raise BadInput(
                f"samples come every {period_ns / 1e6:g} ms; the recogniser takes {self.rate_hz} "
                "a second or a whole multiple"
            )
        # So that the last one is among them.
        taken = samples[(len(samples) - 1) % every :: every]
        return _first_replies_ms(taken)


def _first_replies_ms(samples: Sequence[Sample]) -> Values:
    """NaN where a sample has none."""
    return np.array([next(iter(sample.replies_ns), np.nan) for sample in samples]) / 1e6


def _least_ms(samples: Sequence[Sample]) -> float:
    """The shortest round trip; NaN of none."""
    return float(np.fmin.reduce(_first_replies_ms(samples), initial=np.nan))


def _bbr(shares: Mapping[str, float]) -> float:
    """The probability that BBR is there."""
    return min(sum(share for label, share in shares.items() if label in WITH_BBR), 1.0)


def _why(shares: Mapping[str, float], known: bool, window: Values, seconds: int) -> str:
    first, second = sorted(shares, key=lambda label: -shares[label])[:2]
    least, most = np.nanmin(window), np.nanmax(window)
    seen = f"the round-trip time moved between {least:.1f} and {most:.1f} ms in {seconds} s"
    if not known:
        return f"unknown: {seen} in a way unlike anything that was learned from"
    answer = f"{_MEANINGS.get(first, first)} ({shares[first]:.0%}): {seen}"
    if shares[second] >= 0.1:
        answer += f"; or {_MEANINGS.get(second, second)} ({shares[second]:.0%})"
    return answer
