"""The beginning of a transfer that sends while it learns who is on its path.

While its connections are made, which takes some round trips, nothing of the file is on its way: the
path is as silent as it will ever be, for nothing. On a path that nobody else fills echo requests
then all take the same time, but for the noise of the hosts; behind others' packets they do not, and
each control of theirs moves the queue. Nor does that time become shorter once we send, unless it
had somebody's queue in it: who is there gives way to us, at the latest when our first slow start
overflows. So nobody is there where that silence was quiet and its round-trip time stays the least.
Everything else is left to a longer silence, which ends once it has been quiet for long enough.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir.congestion.choice.decide import IDLE
from weir.congestion.choice.response import BBR_LOSS_MAX
from weir.congestion.cycle.samples import RATE_HZ, SILENT_LEAST
from weir.congestion.path import PathState, path_words
from weir.probe.sample import Sample

OPENING_S = 3.0
"""By then, since the first byte, others would have shown themselves."""
_QUIET_S = 0.6  # of a longer silence: so long it is to be quiet in a row,
_QUIET_ROUNDS = 8  # and for so many round trips, in which BBR asks once for more
_NOISE_NS = 500_000  # of hosts: where others send, round-trip times differ by 0.7 ms and more
_REST = 0.05  # of the samples on either side are the hosts', and left out;
_REST_SHORT = 0.10  # of the late ones of a short silence, in which a few weigh more


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
    """Takes the samples of a path from before the first byte on."""

    def __init__(self) -> None:
        self._silent: list[int] = []

    def hears_silence(self, sample: Sample) -> None:
        """A sample from before the first byte."""
        self._silent += sample.replies_ns

    @property
    def silent(self) -> int:
        """So many answers came before the first byte."""
        return len(self._silent)

    @property
    def was_quiet(self) -> bool:
        """Whether nobody moved the queue before the first byte."""
        return self.silent >= SILENT_LEAST and _is_quiet(self._silent, _REST_SHORT)

    @property
    def is_quiet(self) -> bool:
        """Whether a longer silence has been quiet for long enough by now."""
        rounds_s = _QUIET_ROUNDS * min(self._silent, default=0) / 1e9
        latest = self._silent[-round(RATE_HZ * max(_QUIET_S, rounds_s)) :]
        return len(latest) >= RATE_HZ * max(_QUIET_S, rounds_s) - 1 and _is_quiet(latest, _REST)

    def shows_others(self, samples: Sequence[Sample]) -> bool:
        """Whether a later sample shows that somebody's queue stood before the first byte."""
        least_ns = min(self._silent, default=0) - _NOISE_NS
        return any(reply < least_ns for sample in samples for reply in sample.replies_ns)

    def finds_nobody(self, seconds: float, path: PathState | None) -> Nobody | None:
        """That nobody is there, as soon as it shows; the silence was quiet.

        Args:
            seconds: since the first byte.
            path: what the kernel's counters say by now.
        """
        if path and (path.loss >= BBR_LOSS_MAX or not path.goodput_bps):
            return None  # what squeezes us so may have paused in the silence, as BBR does
        if path and path.use == "room":
            return Nobody(path_words(path))
        return Nobody("no sign of others") if seconds >= OPENING_S else None


def _is_quiet(rtts_ns: Sequence[int], rest_late: float) -> bool:
    seen = sorted(rtts_ns)
    early, late = round(_REST * len(seen)), round(rest_late * len(seen))
    return seen[-1 - late] - seen[early] <= _NOISE_NS
