"""The background traffic that is told apart.

The work's six classes are of at most two streams of CUBIC or BBR (001-spec 5.1). Weir's own
recogniser knows further ones.
"""

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

LABELS = tuple(mixture.label for mixture in CLASSES)


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
