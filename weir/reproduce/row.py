"""What a published result is, and what obtaining ours returns."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How our value stands to the published one."""

    MATCHES = "matches"
    TREND_HOLDS = "trend holds"
    CANNOT_FOLLOW = "cannot follow from the stated inputs"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What we obtained: in words with units, the verdict, and why where it needs a reason."""

    ours: str
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One published table or figure.

    Attributes:
        id: work and place, such as `000-fig-1.4`.
        title: what it shows.
        published: the printed value or trend, in words with units.
        obtain: runs it again.
    """

    id: str
    title: str
    published: str
    obtain: Callable[[], Outcome]

    @property
    def work(self) -> str:
        """The number of the work it is from."""
        return self.id.split("-", 1)[0]
