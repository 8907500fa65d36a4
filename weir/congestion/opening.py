"""The beginning of a transfer that sends while it learns who is on its path.

Silence would tell more, and costs what is not sent in it. The kernel's counters say within a second
or two whether the path has room, or is filled by us alone (`weir.congestion.path`): nobody is there
then who could be harmed. Where others fill it a prober beside the file hears who they are, once our
own beginning has gone by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir.congestion.choice.decide import IDLE, Recognised
from weir.congestion.monitor import Ear
from weir.congestion.path import PathState
from weir.probe.sample import Sample

OPENING_MAX_S = 12.0
"""After that silence has to tell."""
SURE = 0.97
"""That BBR is there or not, before a control is chosen by what was heard."""
BEGINNING_S = 3.0
"""In which our own stream, which finds its place, sounds like others: only the kernel tells."""
LOOK_S = 0.05
"""Between two looks at what the kernel tells."""
_HEAR_S = 1.0  # between two questions to the ear


@dataclass(frozen=True, slots=True)
class Nobody:
    """A path that nobody else fills; see `weir.congestion.choice.decide.Recognised`.

    Attributes:
        why: what shows it.
    """

    why: str
    bbr: float = 0.0
    known: bool = True

    @property
    def probabilities(self) -> Mapping[str, float]:
        """What each background has: all of it nobody."""
        return {IDLE: 1.0}


class Opening:
    """Takes what is seen and heard of a path while a transfer sends, once it has begun.

    Args:
        ear: tells who is there beside a stream of ours.
        own: that stream's congestion control, by the kernel's name.
    """

    def __init__(self, ear: Ear, own: str) -> None:
        self._ear = ear
        self._own = own
        self._samples: list[Sample] = []
        self._next_s = 0.0

    @property
    def samples(self) -> Sequence[Sample]:
        """All of them."""
        return self._samples

    def learns(
        self, seconds: float, sample: Sample | None, path: PathState | None
    ) -> Recognised | None:
        """Who is there, once that is sure.

        Args:
            seconds: since it is listened to.
            sample: the prober's latest; None if there is none.
            path: what the kernel's counters say by now.
        """
        if path and path.use in ("room", "ours"):
            return Nobody(path_words(path))
        if sample is None:
            return None
        self._samples.append(sample)
        if seconds < self._next_s:
            return None
        self._next_s = seconds + _HEAR_S
        heard = self._ear.beside(self._samples, self._own)
        if heard and heard.known and max(heard.bbr, 1 - heard.bbr) >= SURE:
            return heard
        return None


def path_words(path: PathState) -> str:
    """What a path does, for a person."""
    if path.use == "ours":
        return "no sign of others"
    if path.lost:
        return f"the path loses {100 * path.loss:.1g} % at random"
    return "the path has room"
