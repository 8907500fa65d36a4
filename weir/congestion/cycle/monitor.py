"""Listening: who comes and goes on a path while a transfer sends, heard by a prober beside it.

Silence tells more, and costs what is not sent in it. The transfer's own streams are heard with the
others and taken out (`weir.congestion.classify.beside`); what that leaves is whether BBR is among
them, and that decides (001-spec 6.3). It is said only where it speaks against the control in use;
sooner where what the stream gets bears it out: beside BBR a stream of CUBIC loses most of what it
had, and one of BBR gains where CUBIC takes the place of BBR. For some seconds a window holds what
was there before and after, and such ones are seldom known: what bears them out makes up for that.
Where nothing does, sure looks are enough in windows that begin after the first look that was in
doubt: what changed then is in none of them.

What else sounds like nothing that was learned says nothing; but where most sounds so BBR is not
taken for what the rest says, since by mistake it would harm others. And where nobody was, a stream
of BBR sounded like what is known, and then mostly does not, somebody has come whom it may harm.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from weir.congestion.choice.decide import IDLE, Recognised, gives_way
from weir.congestion.classify.beside import Count
from weir.probe.sample import Sample

SURE = 0.6
"""The probability, in each of so many looks, that the control does not suit who is there."""
LOOKS = 13
"""More than five seconds: a stream that begins looks like BBR for as long as it is in a window."""
BORNE_OUT = 3
"""So many looks do where the stream's own rate bears out what is heard; unknown ones count, too."""
AFTER_S = 5.5
"""What changed so long ago is in no window any more, which is five seconds long."""
VERY_SURE = {False: (3, 0.97), True: (5, 0.9)}
"""So many looks in a row do after that where each is so sure, by whether the stream is BBR's."""
SURE_LEARNED = 0.7
"""Likewise where that was learned beside such a stream as ours, if that is not BBR's: its looks
follow each other, and of many streams that share a path one is often squeezed for a while."""
LEARNED = (2, 0.95)
"""So many of these in a row do, each so sure: windows that hold a change were learned, too."""
COMPANY = 14
"""Looks of which most are unknown, where before nearly all were known: somebody has come."""
_KNOWN_BEFORE = 7  # looks, nearly all of which were
_KNOWN_LEAST = 2  # of those that are borne out, before BBR is taken
_LOST, _GAINED = 0.5, 1.25  # of the rate before: with so little or so much it does
_HAS_S = 2.0  # so long is measured what the stream has
_NOW_S = 1.0  # so long is now,
_BEFORE_S = 10.0  # and so long before
_BETWEEN_S = 3.0  # with as much between them, in which it changes
_LOOK_S = 1.0  # half of it while something speaks against the control
_SETTLE_S = 2.0  # in which a new control finds its place
_DOUBT = 0.4  # a look that says as much against the control is in doubt: something may have changed
_CALM_S = 5.0  # without one for so long nothing has
_LONGER = 4  # windows of 20 s in place of 5
_OLD_S = 7.0  # what was heard longer ago is too old
_KEPT_S = 20.0


@runtime_checkable
class Ear(Protocol):
    """What can tell who else is there.

    Attributes:
        rate_hz: of the samples that it wants.
    """

    @property
    def rate_hz(self) -> float: ...  # noqa: D102 - see above

    def beside(
        self,
        samples: Sequence[Sample],
        own: str,
        streams: int = 1,
        counts: Sequence[Count] = (),
    ) -> Recognised | None:
        """Who is there beside so many streams under `own`; None while that cannot be told.

        `counts` are of these streams as each of the samples came; none where they are not known.
        """


@runtime_checkable
class Learned(Protocol):
    """What may be said beside that: whether it was learned beside such a stream as ours."""

    @property
    def learned(self) -> bool: ...  # noqa: D102 - see above


class Listener:
    """Takes the samples of a path, one by one, while a file's streams under one control send on it.

    Args:
        ear: tells who else is there.
        own: the streams' congestion control, by the kernel's name.
        patience: how many times as many looks as usual have to say the same.
        had_bps: what they had when this begins; None where that is not known.
        is_alone: whether the control was taken because nobody else was there.
        streams: so many are the file's.

    Attributes:
        stands: whether the last look that said something said that the control suits who is there.
    """

    def __init__(
        self,
        ear: Ear,
        own: str,
        patience: int = 1,
        had_bps: float | None = None,
        *,
        is_alone: bool = False,
        streams: int = 1,
    ) -> None:
        self._ear = ear
        self._own = own
        self._streams = streams
        # Beside several a window is four times as long, and holds a change for as long.
        self._longer = 1 if streams == 1 else _LONGER
        self._patience = patience * self._longer
        self._had_bps = had_bps
        self._fears_company = is_alone and not gives_way(own)
        self._carried: deque[tuple[float, int]] = deque()
        self._count: Count | None = None
        self._taken = -round(_SETTLE_S * ear.rate_hz)
        self._samples: deque[Sample] = deque(maxlen=round(_KEPT_S * ear.rate_hz))
        self._counts: deque[Count] = deque(maxlen=self._samples.maxlen)  # as each of these came
        self._against: list[bool] = []  # whether known, of the looks in a row that speak against it
        self._very_sure = 0  # looks in a row
        self._learned = 0  # likewise, of what was learned beside such a stream
        self._doubted: tuple[int, int] | None = None  # the first and last look in doubt, in samples
        self._told = 0  # when the last known look was, in samples
        self._known: deque[bool] = deque(
            maxlen=self._patience * COMPANY
        )  # what the last looks were
        self._was_known = False
        self.stands = False

    @property
    def samples(self) -> Sequence[Sample]:
        """The latest."""
        return list(self._samples)

    def hears(self, sample: Sample) -> Recognised | None:
        """Who else is there, once it is sure that the control does not suit them.

        Or somebody unknown, where the control may harm them and was taken because nobody was there.
        """
        self._taken += 1
        if self._taken <= 0:
            return None
        self._samples.append(sample)
        if self._count:
            self._counts.append(self._count)
        if not self._is_due:
            return None
        counts = list(self._counts) if len(self._counts) == len(self._samples) else []
        heard = self._ear.beside(self.samples, self._own, self._streams, counts)
        if heard is None:
            return None
        self._known.append(heard.known)
        against, suits = self._doubt(heard)
        is_learned = isinstance(heard, Learned) and heard.learned and self._own != "bbr"
        least = SURE_LEARNED if is_learned else SURE
        is_sure = is_learned and heard.known and against >= LEARNED[1]
        self._learned = self._learned + 1 if is_sure else 0
        is_borne_out = self._bears_out()
        if heard.known:
            self._told = self._taken
            self._weigh(against)
            before = list(self._known)[-_KNOWN_BEFORE:]
            self._was_known = self._was_known or sum(before) >= _KNOWN_BEFORE - 1
            self.stands = suits >= SURE
        else:
            if self._taken - self._told > _OLD_S * self._ear.rate_hz:
                self.forget()
            if self._fears_company and self._has_come:
                return heard
            if self._fears_company or not is_borne_out or against < least:
                return None
        self._against = [*self._against, heard.known] if against >= least else []
        return heard if self._is_said(is_borne_out) else None

    def carries(self, at_s: float, count: Count) -> None:
        """What the streams' counters tell by then.

        Args:
            at_s: on any clock that only goes forward.
            count: of all of them together, since they began.
        """
        self._count = count
        self._carried.append((at_s, count.acked_bytes))
        while at_s - self._carried[0][0] > _NOW_S + _BETWEEN_S + _BEFORE_S:
            self._carried.popleft()

    @property
    def own_bps(self) -> float | None:
        """What the streams get now; None while that is not known."""
        return self._rate(_HAS_S, 0.0)

    @property
    def _is_due(self) -> bool:
        """Whether to look now: oftener while something speaks against the control."""
        often = max(1, round(_LOOK_S / 2 * self._ear.rate_hz))
        if self._taken % often:
            return False
        seldom = max(1, round(_LOOK_S * self._ear.rate_hz))
        is_doubtful = bool(self._against) or self._doubted is not None
        return not self._taken % seldom or is_doubtful or self._bears_out()

    def _weigh(self, against: float) -> None:
        """Notes since when known looks are in doubt, and how many in a row are very sure."""
        _, least = VERY_SURE[self._own == "bbr"]
        self._very_sure = self._very_sure + 1 if against >= least else 0
        first, last = self._doubted or (self._taken, self._taken)
        is_calm = self._taken - last > _CALM_S * self._ear.rate_hz
        if against > _DOUBT:
            self._doubted = (self._taken if is_calm else first, self._taken)
        elif is_calm:
            self._doubted = None

    @property
    def _is_very_sure(self) -> bool:
        """Whether very sure looks speak against the control, in windows that hold no change."""
        looks, _ = VERY_SURE[self._own == "bbr"]
        if self._doubted is None or self._very_sure < self._patience * looks:
            return False
        first, _ = self._doubted
        is_after = self._taken - first >= self._longer * AFTER_S * self._ear.rate_hz
        return is_after and (self._own == "bbr" or self._is_known)

    def _is_said(self, is_borne_out: bool) -> bool:
        """Whether enough looks in a row speak against the control."""
        if self._is_very_sure or self._learned >= self._patience * LEARNED[0]:
            return True
        known = sum(self._against)
        if is_borne_out:
            is_said = len(self._against) >= self._patience * BORNE_OUT
            return is_said and (self._own == "bbr" or (self._against[-1] and known >= _KNOWN_LEAST))
        return known >= self._patience * LOOKS and (self._own == "bbr" or self._is_known)

    @property
    def _is_known(self) -> bool:
        """Whether most of the last looks are: of many doubtful ones some look sure."""
        return 2 * sum(self._known) > len(self._known)

    @property
    def _has_come(self) -> bool:
        """Whether most of the last looks knew nobody, and nearly all did before."""
        unknown = sum(not known for known in self._known)
        return self._was_known and 2 * unknown > self._patience * COMPANY

    def _bears_out(self) -> bool:
        """Whether the stream's own rate has changed as it does where the control does not suit."""
        now = self._rate(_NOW_S, 0.0)
        before = self._rate(_BEFORE_S, _NOW_S + _BETWEEN_S) or self._had_bps
        if now is None or not before:
            return False
        return now >= _GAINED * before if self._own == "bbr" else now <= _LOST * before

    def _rate(self, span_s: float, ago_s: float) -> float | None:
        """The rate over a span that ended some time ago, or the half of it that is known."""
        if not self._carried:
            return None
        end_s = self._carried[-1][0] - ago_s
        inside = [one for one in self._carried if end_s - span_s <= one[0] <= end_s]
        if len(inside) < 2 or inside[-1][0] - inside[0][0] < span_s / 2:
            return None
        return 8 * (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])

    def _doubt(self, heard: Recognised) -> tuple[float, float]:
        """The probabilities that the control does not suit, and that it does."""
        if self._own != "bbr":
            return heard.bbr, 1 - heard.bbr
        # Beside nobody any does.
        suits = heard.bbr + heard.probabilities.get(IDLE, 0.0)
        return 1 - suits, suits

    def rest(self) -> None:
        """What was heard was not beside streams that send all they can: all of it begins anew."""
        self._samples.clear()
        self._counts.clear()
        self._carried.clear()
        self._known.clear()
        self._doubted = None
        self.forget()

    def forget(self) -> None:
        """What was heard is not to be followed, or is too old: the looks in a row begin anew."""
        self._against = []
        self._very_sure = self._learned = 0
        self.stands = False
