"""The decision: which congestion control to use beside a background that is known with doubt.

Every control that the host offers is judged by what it would get and leave in each meeting of the
interaction table, weighted by how likely that background is and by what is known of the path
(`known`). A meeting is worth

    (1 - fairness) * ln(own) + fairness * ln(Jain's index of all streams),

`own` a share of the path's rate, and the index as it is once a late stream has come to its share
(`reach`). With `fairness` 1 only the index counts, in which one's own stream is as bad off starved
as starving others; with 0 only one's own goodput. Proportional fairness (the sum of all logarithms,
F. Kelly 1997) is no good here: beside BBR and CUBIC it is worth more that CUBIC has 7 % instead of
1 than that one's own stream has 46 % instead of 6. The work's own rule has no doubt and no weights
(`one_level_tree`). What the path itself leaves to each control bounds all of it (`reach`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Protocol, runtime_checkable

from weir.congestion.choice.interaction import Interaction
from weir.congestion.choice.known import Echoes, Known
from weir.congestion.choice.reach import Outcome, Reach
from weir.congestion.choice.response import BBR_LOSS_MAX
from weir.congestion.classify.classes import KIND
from weir.congestion.options import FAIRNESS, check_fairness
from weir.congestion.path import PathState
from weir.errors import BadInput

HYSTERESIS = math.log(1.03)
"""A control is left for one that is worth more by three hundredths of an index or a goodput."""
ALONE = 1.03
"""Where nobody is seen a control that gives way to none has to get more by three hundredths."""
IDLE = "B0-C0"
"""The label of a path that nobody else is on."""
SPARE = 1.1
"""What another control is expected to get is in time by a tenth, or it is not taken for it."""
GENTLE = ("cubic", "reno")
"""What takes the place of a control that does not give way, the first that the host offers."""
_LEAST = 1e-3  # of the path's rate: less than this is nothing, and its logarithm no use
_UNLIKELY = 0.02  # backgrounds below it say nothing


class Recognised(Protocol):
    """What a recogniser says of a background, as far as the choice needs it.

    Attributes:
        probabilities: of each background, by label.
        bbr: that BBR is in it.
        known: whether the path is like any that the recogniser has learned.
        why: the reason, for a person.
    """

    @property
    def probabilities(self) -> Mapping[str, float]: ...  # noqa: D102 - see above
    @property
    def bbr(self) -> float: ...  # noqa: D102 - see above
    @property
    def known(self) -> bool: ...  # noqa: D102 - see above
    @property
    def why(self) -> str: ...  # noqa: D102 - see above


@runtime_checkable
class OfKind(Protocol):
    """What a recogniser may say beside that: of what kind the background is.

    Attributes:
        kinds: the probability of each kind, by its label.
        kind: the one that is sure enough to be said; None if none is.
    """

    @property
    def kinds(self) -> Mapping[str, float]: ...  # noqa: D102 - see above
    @property
    def kind(self) -> str | None: ...  # noqa: D102 - see above


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the sender wants.

    Attributes:
        fairness: weight of Jain's index against one's own goodput, 0 to 1.
        share: of the path's rate that a deadline needs, 0 without one. A control that is expected
            to reach it, one that is not in use by a tenth, goes before one that is not.
    """

    fairness: float = FAIRNESS
    share: float = 0.0

    def __post_init__(self) -> None:
        """Checks the domains."""
        check_fairness(self.fairness)
        if not self.share >= 0:
            raise BadInput(f"a share of {self.share:g} of the path's rate is needed: 0 or more")


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a control is expected to do beside the background.

    Attributes:
        worth: the mean of the meetings' worth.
        own: mean share of the path's rate for one's own stream.
        of_fair: the same as a multiple of an equal share.
        jain: mean of Jain's index.
    """

    worth: float
    own: float
    of_fair: float
    jain: float


@dataclass(frozen=True, slots=True)
class Choice:
    """A congestion control, and why.

    Attributes:
        control: its name in the kernel.
        why: the reason, for a person.
        expected: of each control that was weighed; empty where nothing could be.
    """

    control: str
    why: str
    expected: Mapping[str, Expectation]


def one_level_tree(recognised: Recognised) -> Choice:
    """The work's rule (001-spec 6.3, figure 6.8): BBR beside BBR, else CUBIC."""
    if recognised.bbr > 0.5:
        return Choice("bbr", f"{recognised.why}: BBR beside BBR", {})
    return Choice("cubic", f"{recognised.why}: CUBIC where there is no BBR", {})


def choose(
    recognised: Recognised,
    offered: Iterable[str],
    current: str,
    wanted: Wanted,
    interaction: Interaction | None = None,
    path: PathState | None = None,
    fallback: str | None = None,
    echoes: Echoes | None = None,
) -> Choice:
    """The control that is worth most beside what was recognised.

    Args:
        recognised: who is on the path.
        offered: controls that the host lets this user have.
        current: the one in use, kept when the best is hardly better.
        wanted: what the sender wants.
        interaction: what the controls do; the shipped table by default.
        path: what it does to packets; None, or where it bounds no control, the table alone counts.
        fallback: the control that is wanted in doubt; None for what harms least.
        echoes: how long they took beside the control in use, if any were sent.
    """
    table = interaction or Interaction.shipped()
    allowed = frozenset(offered)
    if not recognised.known:
        return _in_doubt(recognised.why, allowed, current, fallback)
    there = _with_kind(recognised, table)
    is_idle = there.get(IDLE, 0.0) > 0.5
    # A stream to which many others leave a few packets hardly sees their queue, and takes its
    # overflow for loss at random. But where echoes wait in a queue it is filled, whatever the path
    # loses; and on a path that did lose so much at random nobody would be heard. BBR may have
    # filled it itself.
    is_filled = echoes is not None and echoes.wait and gives_way(current)
    is_overflow = not is_idle and path is not None and (is_filled or path.loss >= BBR_LOSS_MAX)
    reach = Reach(None if is_overflow else path, current)
    known = Known.of(path, echoes.least_s if echoes else None, is_alone=is_idle)
    likely = {
        label: probability for label, probability in there.items() if probability >= _UNLIKELY
    }
    expected = {
        control: found
        for control in sorted(allowed & table.controls)
        if (found := expectation(table, known, likely, control, wanted.fairness, reach)) is not None
    }
    if not expected:
        why = f"{recognised.why}, beside which nothing was measured"
        return _in_doubt(why, allowed, current, fallback)
    order = {
        control: _order(found, wanted.share * (1.0 if control == current else SPARE))
        for control, found in expected.items()
    }
    best = max(order, key=order.__getitem__)
    # Where nobody is seen a change costs nothing, and whom the control in use has squeezed shows
    # only after a while.
    if is_idle and not gives_way(best) and not wanted.share:
        gentle = max(filter(gives_way, order), key=order.__getitem__, default=best)
        if expected[best].own <= ALONE * expected[gentle].own:
            best = gentle
    here = None if is_idle else order.get(current)
    if best != current and here is not None and not _is_better(order[best], here):
        return Choice(
            current, f"{recognised.why}: {best} would hardly be better than {current}", expected
        )
    why = f"{recognised.why}: {_in_words(best, expected[best])}"
    if beyond := table.limits(known):
        why += f" ({beyond})"
    if wanted.share:
        why += f", where the deadline takes {wanted.share:.2f} of the path's rate"
    return Choice(best, why, expected)


def gives_way(control: str) -> bool:
    """Whether a control gives way to streams of CUBIC or Reno where the queue is short."""
    return not control.startswith("bbr")


def _in_doubt(why: str, allowed: frozenset[str], current: str, fallback: str | None) -> Choice:
    """What harms least, whoever is there: the control in use, unless that is BBR.

    Beside BBR a stream of CUBIC harms itself alone; BBR takes six sevenths from one of CUBIC.
    """
    if not gives_way(current) and current != fallback:
        for control in GENTLE:
            if control in allowed:
                return Choice(control, f"{why}: {control} harms least", {})
    return Choice(current, f"{why}: {current} is kept", {})


def _with_kind(recognised: Recognised, table: Interaction) -> Mapping[str, float]:
    """Backgrounds by their probabilities; a kind that is said takes the place of what it is not.

    A kind that the table has meetings with is a background of its own, and another is taken for
    those that it is nearest to.
    """
    if not isinstance(recognised, OfKind) or recognised.kind not in KIND:
        return recognised.probabilities
    kind, sure = KIND[recognised.kind], recognised.kinds[recognised.kind]
    there = {label: (1 - sure) * share for label, share in recognised.probabilities.items()}
    rows = (kind.label,) if kind.label in table.backgrounds else kind.nearest
    for row in rows:
        there[row] = there.get(row, 0.0) + sure / len(rows)
    return there


def expectation(
    table: Interaction,
    known: Known,
    likely: Mapping[str, float],
    control: str,
    fairness: float,
    reach: Reach,
) -> Expectation | None:
    """Means over backgrounds and their meetings; None where one was never measured."""
    weights: list[float] = []
    outcomes: list[Outcome] = []
    for label, probability in likely.items():
        found = table.on(label, control, known)
        if not found:
            return None
        outcomes += [reach.outcome(meeting) for meeting, _ in found]
        weights += [probability * count for _, count in found]

    def mean(values: Sequence[float]) -> float:
        return math.fsum(map(mul, weights, values)) / math.fsum(weights)

    return Expectation(
        worth=mean([worth(outcome, fairness) for outcome in outcomes]),
        own=mean([outcome.own for outcome in outcomes]),
        of_fair=mean([outcome.of_fair for outcome in outcomes]),
        jain=mean([outcome.jain for outcome in outcomes]),
    )


def worth(outcome: Outcome, fairness: float) -> float:
    """What an outcome is worth to who weighs fairness so."""
    own = math.log(max(outcome.own, _LEAST))
    return (1 - fairness) * own + fairness * math.log(max(outcome.settled, _LEAST))


def _order(expected: Expectation, share: float) -> tuple[bool, float]:
    """In time first, then worth; those that would be late by how little late they are."""
    in_time = expected.own >= share
    return in_time, expected.worth if in_time else expected.own


def _is_better(new: tuple[bool, float], old: tuple[bool, float]) -> bool:
    """Whether what is best by `_order` is so by enough."""
    in_time, value = new
    if in_time != old[0]:
        return True
    return value > (old[1] + HYSTERESIS if in_time else old[1] * math.exp(HYSTERESIS))


def _in_words(control: str, expected: Expectation) -> str:
    return (
        f"{control} should get {expected.of_fair:.2f} of an equal share "
        f"(Jain's index {expected.jain:.2f})"
    )
