"""Learning who is on a path while one's own stream sends on it, before anything was chosen.

`monitor` asks whether a choice still suits; here nothing was chosen, and nothing is lost by a
choice that one more second would have made better. So the first answer counts that is sure and was
given twice, unless most are unknown; four times if it is that BBR is there, since BBR that is taken
by mistake harms others, and streams that have just begun sound like it for a moment. Many streams
of CUBIC sound like it for longer: what was learned beside a stream like ours may deny it, and then
nothing is known. After ten seconds it is the middle answer, with the doubt that is left.

What the kernel's counters say goes before what is heard in one thing: one's own stream and another
of its kind may sound like one. A path that was not quiet has somebody on it, unless it has room.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from weir.congestion.choice.decide import IDLE, OfKind, Recognised
from weir.congestion.classify.beside import Count
from weir.congestion.cycle.monitor import Ear, Learned
from weir.congestion.cycle.probing import PROBE_MAX_S
from weir.congestion.path import PathState
from weir.probe.sample import Sample

_SOMEBODY = "B0-C1"  # who is not heard beside one's own stream is like it
_SURE = 0.9  # that BBR is there, or not: a later answer can still be followed
_DENIED = 0.2  # with less BBR is denied by what was learned beside a stream like ours
_LOOK_S = 0.5
_IN_A_ROW = {False: 2, True: 4}  # so many looks do, by whether they say that BBR is there
_KEPT_S = 20.0
_LIKE_OURS = 0.5  # with less it is not likely that all share evenly


@dataclass(frozen=True, slots=True)
class Amended:
    """What was heard, with what else is known.

    Attributes:
        heard: what it is made of.
        probabilities: the backgrounds'.
        words: what is known, for a person.
        is_denied: whether that speaks against what was heard.
    """

    heard: Recognised
    probabilities: Mapping[str, float]
    words: str
    is_denied: bool = False

    @property
    def bbr(self) -> float:
        """That BBR is there."""
        return self.heard.bbr

    @property
    def known(self) -> bool:
        """Whether the path is like any that was learned, and nothing speaks against it."""
        return self.heard.known and not self.is_denied

    @property
    def why(self) -> str:
        """The reason, for a person."""
        return f"{self.heard.why}; {self.words}"

    @property
    def kinds(self) -> Mapping[str, float]:
        """The probability of each kind, by its label."""
        return self.heard.kinds if isinstance(self.heard, OfKind) else {}

    @property
    def kind(self) -> str | None:
        """The kind that is said; None if none is."""
        return self.heard.kind if isinstance(self.heard, OfKind) else None


def somebody(heard: Recognised) -> Recognised:
    """What was heard, where somebody is known to be there."""
    left = dict(heard.probabilities)
    alone = left.pop(IDLE, 0.0)
    if not alone:
        return heard
    probabilities = left | {_SOMEBODY: left.get(_SOMEBODY, 0.0) + alone}
    return Amended(heard, probabilities, "the path was not quiet")


def _middle(said: Sequence[Recognised]) -> Recognised:
    """What says of BBR what half of all say, or more, and half of all, or less.

    Where half of all know nothing, or more, nothing is known.
    """
    known = sorted((one for one in said if one.known), key=lambda one: one.bbr)
    if 2 * len(known) > len(said):
        return known[len(known) // 2]
    return next(one for one in reversed(said) if not one.known)


class Learning:
    """Takes the samples of a path on which one stream of ours sends.

    Args:
        ear: tells who else is there.
        own: the stream's congestion control, by the kernel's name.
    """

    def __init__(self, ear: Ear, own: str) -> None:
        self._ear = ear
        self._own = own
        self.samples: list[Sample] = []
        self._counts: list[Count] = []  # as each of these came
        self._sure: list[bool] = []  # what the last looks said of BBR, surely and alike
        self._said: list[Recognised] = []
        self._taken = 0

    @property
    def seconds(self) -> float:
        """So long it has listened."""
        return self._taken / self._ear.rate_hz

    @property
    def _is_known(self) -> bool:
        """Whether most of what was said is known: of many doubtful answers some look sure."""
        return 2 * sum(one.known for one in self._said) > len(self._said)

    @property
    def _denies_bbr(self) -> bool:
        """Whether what was learned beside a stream like ours says that BBR is not there."""
        if len(self._counts) < len(self.samples):
            return False
        heard = self._ear.beside(self.samples, self._own, 1, self._counts)
        return isinstance(heard, Learned) and heard.learned and heard.bbr < _DENIED

    def hears(
        self, sample: Sample, path: PathState | None, count: Count | None = None
    ) -> Recognised | None:
        """Who else is there, once that is known, or has to be.

        Args:
            sample: the next one.
            path: what the kernel's counters say by now.
            count: what they tell of the stream as the sample came; None where that is not known.
        """
        self.samples.append(sample)
        self._counts += [count] if count else []
        for kept in (self.samples, self._counts):
            del kept[: -round(_KEPT_S * self._ear.rate_hz)]
        self._taken += 1
        if self._taken % round(_LOOK_S * self._ear.rate_hz):
            return None
        heard = self._ear.beside(self.samples, self._own)
        if heard is None:
            return None
        if heard.known and heard.bbr > 0.5 and self._denies_bbr:
            words = "what our own stream has speaks against BBR"
            heard = Amended(heard, heard.probabilities, words, is_denied=True)
        self._said.append(heard)
        if heard.known and max(heard.bbr, 1 - heard.bbr) >= _SURE:
            has_bbr = heard.bbr >= _SURE
            self._sure = [*(one for one in self._sure if one == has_bbr), has_bbr]
        else:
            self._sure.clear()
        agree = bool(self._sure) and len(self._sure) >= _IN_A_ROW[self._sure[-1]]
        agree = agree and self._is_known
        if not agree and self.seconds < PROBE_MAX_S:
            return None
        if not agree:
            heard = _middle(self._said)
        return heard if path and path.use == "room" else somebody(heard)


def are_like_ours(known: Recognised, like_ours: Collection[str]) -> bool:
    """Whether others are streams that share evenly with one of CUBIC, as likely as not.

    Args:
        known: who is there.
        like_ours: backgrounds of such streams, by label.
    """
    likely = sum(p for label, p in known.probabilities.items() if label in like_ours)
    return known.known and likely >= _LIKE_OURS
