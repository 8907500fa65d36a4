"""The background traffic that is told apart.

The work's six classes are of at most two streams of CUBIC or BBR (001-spec 5.1). Weir's own
recogniser knows further ones.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mixture:
    """Background traffic by how many streams there are of each congestion control."""

    bbr: int
    cubic: int

    @property
    def label(self) -> str:
        """The work's name of it: `B1-C0`, but `B1-B1` and `C1-C1` for two streams of a kind."""
        if (self.bbr, self.cubic) in ((2, 0), (0, 2)):
            return "B1-B1" if self.bbr else "C1-C1"
        return f"B{self.bbr}-C{self.cubic}"

    @property
    def controls(self) -> tuple[str, ...]:
        """The congestion control of each stream."""
        return ("bbr",) * self.bbr + ("cubic",) * self.cubic

    @property
    def meaning(self) -> str:
        """In words."""
        kinds = [(self.bbr, "BBR"), (self.cubic, "CUBIC")]
        streams = [
            f"{('one', 'two')[count - 1]} stream{'s' * (count > 1)} of {name}"
            for count, name in kinds
            if count
        ]
        return " and ".join(streams) or "nobody"

    @property
    def has_bbr(self) -> bool:
        """Scenario 1, which decides between CUBIC and BBR (001-spec 6.1)."""
        return self.bbr > 0

    @property
    def is_heterogeneous(self) -> bool:
        """Scenario 2 (001-spec 6.2); an idle path is homogeneous (A-11)."""
        return self.bbr > 0 and self.cubic > 0


CLASSES = (
    Mixture(bbr=0, cubic=0),
    Mixture(bbr=0, cubic=1),
    Mixture(bbr=1, cubic=0),
    Mixture(bbr=1, cubic=1),
    Mixture(bbr=2, cubic=0),
    Mixture(bbr=0, cubic=2),
)
"""In the work's order; classifiers call them by their number here."""

SIX_LABELS = tuple(mixture.label for mixture in CLASSES)
"""The labels of the work's classes."""


@dataclass(frozen=True, slots=True)
class Further:
    """A background that the work does not have, and Weir's own recogniser tells apart.

    Attributes:
        label: its name.
        has_bbr: scenario 1, as of a mixture.
        meaning: in words.
    """

    label: str
    has_bbr: bool
    meaning: str


FURTHER = (
    Further("R1", False, "one stream of Reno"),
    Further("R2", False, "two streams of which one or both are Reno, the other CUBIC"),
    Further("Cn", False, "three to eight streams of CUBIC or Reno"),
    Further("Bn", True, "three to eight streams of BBR"),
    Further("Bn-Cn", True, "BBR beside CUBIC or Reno, three to eight streams, or BBR and Reno"),
    Further("app", False, "TCP that its application limits: messages or web objects, with pauses"),
    Further("udp", False, "UDP, on and off, above the link's rate while it is on"),
)

BACKGROUNDS: tuple[Mixture | Further, ...] = (*CLASSES, *FURTHER)
"""All that Weir's own recogniser tells apart, the work's six first."""

ALL_LABELS = tuple(background.label for background in BACKGROUNDS)
"""The labels of every background, the work's six first."""

WITH_BBR = frozenset(background.label for background in BACKGROUNDS if background.has_bbr)
"""The labels of those that BBR is in."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What holds a background, beside who is in it: the answer to a second question.

    Attributes:
        label: its name.
        nearest: the backgrounds beside which controls fare as beside it, as far as those go.
        meaning: in words.
        is_among: whether it can be heard where one's own stream fills the queue as well.
    """

    label: str
    nearest: tuple[str, ...]
    meaning: str
    is_among: bool = False


KINDS = (
    # Before a queue of one product at most BBR has three quarters and leaves it a fifth, between
    # what it does beside CUBIC and beside itself; CUBIC has 0.4 at 20 ms and 0.1 at 65 ms.
    Kind("bbr3", ("B1-C0", "B0-C1"), "BBR, version 3", is_among=True),
    Kind("app-limited", ("app",), "TCP that its application limits"),
)
"""Kinds that are looked for in any background; what is of none of them is as its label says.

DCTCP and Prague behind a queue that marks, and streams that losses at random hold back, are none:
round-trip times do not tell them (docs/recognition-appendix.md).
"""

KIND = {kind.label: kind for kind in KINDS}
"""The kinds by their labels."""


SEVERAL = (3, 8)
"""So many streams at least and at most has a background of several, unless more are asked for."""

MIXED = (2, 3, 3, 4, 4, 5, 6, 8)
"""So many streams has one of BBR among others, each number as likely as it is frequent here."""


def greedy_controls(
    label: str, draw: random.Random, many: tuple[int, int] = SEVERAL
) -> list[str] | None:
    """The control of each stream; None for an unknown label, and where streams are not greedy.

    Args:
        label: of a background.
        draw: decides what the label leaves open.
        many: how many streams a background of several has, least and most.
    """
    for mixture in CLASSES:
        if mixture.label == label:
            return list(mixture.controls)
    return _DRAWN[label](draw, many) if label in _DRAWN else None


def _two_with_reno(draw: random.Random, _: tuple[int, int]) -> list[str]:
    return ["reno", draw.choice(("reno", "cubic"))]


def _many_of_loss(draw: random.Random, many: tuple[int, int]) -> list[str]:
    count = _count(draw, many)
    return [draw.choice(("cubic", "cubic", "reno")) for _ in range(count)]


def _many_of_bbr(draw: random.Random, many: tuple[int, int]) -> list[str]:
    return ["bbr"] * _count(draw, many)


def _count(draw: random.Random, many: tuple[int, int]) -> int:
    """Uniform, as recordings have it by their seeds; of more streams the logarithm is."""
    if many == SEVERAL:
        return draw.randint(*many)
    return round(math.exp(draw.uniform(*map(math.log, many))))


def _both(draw: random.Random, among: tuple[int, int]) -> list[str]:
    many = draw.choice(MIXED) if among == SEVERAL else _count(draw, among)
    if many == 2:  # BBR and CUBIC is the work's B1-C1.
        return ["bbr", "reno"]
    bbr = draw.randint(1, many - 1)
    return ["bbr"] * bbr + [draw.choice(("cubic", "cubic", "reno")) for _ in range(many - bbr)]


_DRAWN: dict[str, Callable[[random.Random, tuple[int, int]], list[str]]] = {
    "R1": lambda *_: ["reno"],
    "R2": _two_with_reno,
    "Cn": _many_of_loss,
    "Bn": _many_of_bbr,
    "Bn-Cn": _both,
}
