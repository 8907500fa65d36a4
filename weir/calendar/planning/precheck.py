"""What would be answered, without asking: prechecks, and the counter-offers of a refusal.

A precheck takes as long as an answer. A policy that does not plan ahead decides on a copy of the
plan, which takes a time in proportion to the active transfers. So what a refusal searches for (the
largest size, the latest start that would do) has a budget in these terms, and is left out where
requests come too fast for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from weir.calendar.clock import NS_PER_S
from weir.calendar.planning.engine import RecordedEngine, Verdict, Wanted
from weir.calendar.problem import Problem
from weir.calendar.records import Submission

# Prechecks that one search may take, and how near it comes: 1 % more would be refused.
TRIES_MAX = 16
NEAR = 0.008
# A size is told with so many digits, rounded down.
DIGITS = 4
# A precheck costs so much, and one more for each transfer that is copied for it; so many may be
# spent in a second of searches. Together they take a few hundredths of the time of one processor.
COST = 100
SPENT_PER_S = 20_000
# What is smaller is not worth an offer.
SIZE_LEAST = 1_000_000


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a request would be answered now.

    Attributes:
        refusal: why not; None where it would be admitted.
        verdict: the engine's answer, if it came so far.
        promised_bytes: of the size, if less than all of it.
        costs: of those whose rates would change, whose they are, the rates now and then.
    """

    asked: Submission
    refusal: Problem | None
    verdict: Verdict | None = None
    promised_bytes: int | None = None
    costs: dict[str, tuple[str, int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class Budget:
    """What searches may spend on prechecks, by calendar time."""

    left: float = SPENT_PER_S
    at_ns: int = 0

    def spend(self, now_ns: int, cost: int) -> bool:
        """Takes so much out of it; False where it is not there."""
        since_s = max(0, now_ns - self.at_ns) / NS_PER_S
        self.left = min(SPENT_PER_S, self.left + since_s * SPENT_PER_S)
        self.at_ns = now_ns
        if self.left < cost:
            return False
        self.left -= cost
        return True


class Search:
    """A search for what would be admitted in the place of what was refused.

    `asks` says how a request is put to the engine, which copies so many flows to be asked; `offer`
    is the flow that holds room for it, and would do so no longer.
    """

    def __init__(
        self,
        engine: RecordedEngine,
        asks: Callable[[int, Submission], Wanted],
        budget: Budget,
        now_ns: int,
        copied: int,
        offer: str | None = None,
    ) -> None:
        self._engine = engine
        self._asks = asks
        self._budget = budget
        self._now_ns = now_ns
        self._cost = COST + copied
        self._offer = offer
        self.tries = 0

    def largest(self, asked: Submission, guess: int) -> int | None:
        """The largest size that would be admitted; None where none is, or none was found.

        Never one that would be refused; with 1 % more it would be, unless the search was cut off.
        """
        whole = replace(asked, least_bytes=None)
        low, high = 0, asked.size_bytes
        while high > low * (1 + NEAR) and high > SIZE_LEAST:
            guess = min(max(guess, low + 1), high - 1)
            admitted = self._admits(replace(whole, size_bytes=guess))
            if admitted is None:
                break
            low, high = (guess, high) if admitted else (low, guess)
            guess = self._next_size(low, high, admitted)
        return _rounded(low) or None

    def _next_size(self, low: int, high: int, admitted: bool) -> int:
        if self.tries == 1:
            # The guess is good as a rule: right beside it the search ends.
            return int(low * (1 + NEAR)) if admitted else int(high * (1 - NEAR / 2))
        return int((low * high) ** 0.5) if low else high // 4

    def latest_start(self, asked: Submission) -> int | None:
        """The latest start before the one asked for that would do; None where none would."""
        if asked.start_ns is None or not self._admits(replace(asked, start_ns=None)):
            return None
        low, high = self._now_ns, asked.start_ns
        near_ns = max(NS_PER_S, int((asked.deadline_ns - low) * NEAR))
        while high - low > near_ns:
            middle = low + (high - low) // 2
            admitted = self._admits(replace(asked, start_ns=middle))
            if admitted is None:
                break
            low, high = (middle, high) if admitted else (low, middle)
        return low

    def lanes(self, asked: Submission) -> tuple[tuple[tuple[str, ...], int], ...]:
        """The paths, more than were asked for, over which all of it would be admitted; or none.

        Each with the rate on it at first.
        """
        able = asked.paths_able
        if able <= asked.paths_max:
            return ()
        verdict = self._verdict(replace(asked, paths_max=able))
        return verdict.lanes if verdict is not None and verdict.accepted else ()

    def _admits(self, asked: Submission) -> bool | None:
        """Whether the engine would; None where it may not be asked any more."""
        verdict = self._verdict(asked)
        return None if verdict is None else verdict.accepted

    def _verdict(self, asked: Submission) -> Verdict | None:
        if self.tries >= TRIES_MAX or not self._budget.spend(self._now_ns, self._cost):
            return None
        self.tries += 1
        wanted = self._asks(self._now_ns, asked)
        return self._engine.precheck(self._now_ns, asked.id, wanted, self._offer)


def _rounded(size_bytes: int) -> int:
    unit: int = 10 ** max(0, len(str(size_bytes)) - DIGITS)
    return size_bytes // unit * unit
