"""What a published result is, how ours is obtained, and how the two compare."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from weir.runs.point import Json, Point


class Verdict(StrEnum):
    """How our value stands to the published one."""

    MATCHES = "matches"
    TREND_HOLDS = "trend holds"
    CANNOT_FOLLOW = "cannot follow from the stated inputs"
    DIFFERS = "differs"
    OURS = "ours, with nothing published"
    NOT_BUILT = "not yet built"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What we obtained.

    Attributes:
        ours: in words with units.
        verdict: how it stands to what was published.
        reason: why, where the verdict needs one.
        interval: the 95 % interval of the headline value in words, where there is one.
    """

    ours: str
    verdict: Verdict
    reason: str = ""
    interval: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    """One published table or figure.

    Attributes:
        id: work and place, such as `000-fig-1.4`.
        title: what it shows.
        published: the printed value or trend, in words with units.
    """

    id: str
    title: str
    published: str

    @property
    def work(self) -> str:
        """The number of the work it is from."""
        return self.id.split("-", 1)[0]


@dataclass(frozen=True, slots=True)
class Row(Published):
    """A published table or figure that can be run again.

    Attributes:
        points: the runs that it needs, at its full size or, if asked, at a reduced one. Runs that
            several rows need are made once.
        judge: compares; takes the results in the order of the points, those of `then` after them.
        plot: draws the same results as an SVG into a file.
        then: runs on what `points` gave, which are known only when their results are: each has the
            results that it needs among its arguments, so that they are part of what it is.
        live: how many of the points, which measure real hosts, this machine carries at a time: they
            run here, with nothing else beside them. 0 where they measure none, and run anywhere.
    """

    points: Callable[[bool], Sequence[Point]]
    judge: Callable[[Sequence[Json]], Outcome]
    plot: Callable[[Sequence[Json], Path], None] | None = None
    live: int = 0
    then: Callable[[Sequence[Json]], Sequence[Point]] | None = None
