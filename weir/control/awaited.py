"""Switches that are there and leave what they were asked without an answer, told once.

One that is busy is waited for, however long it takes. So is one that hangs, and says nothing but
that it is there: nothing reaches it any more, which nobody would know.
"""

import enum
import math

# So long an answer may take before it is said that it is missing.
PATIENCE_S = 10.0
# A controller that stood still has not read what has come: no more than this passes at a time.
STEP_MAX_S = 1.0


class Asked(enum.Enum):
    """What a switch is asked, in words."""

    RULES = "told its rules and meters"
    CHANGES = "confirmed its changes"
    PORTS = "told its ports' counters"


RULES, CHANGES, PORTS = Asked


class Awaited:
    """The answers that are awaited. It reads no clock: `news` tells it the time."""

    def __init__(self) -> None:
        # When each was asked first, in seconds that have passed here.
        self._since_s: dict[tuple[str, Asked], float] = {}
        self._told: set[str] = set()
        self._passed_s, self._now_s = 0.0, math.inf

    def asked(self, switch: str, what: Asked) -> None:
        """A switch is asked; of several questions of a kind the first counts."""
        self._since_s.setdefault((switch, what), self._passed_s)

    def answered(self, switch: str, what: Asked) -> None:
        """It has answered, be it by a refusal."""
        self._since_s.pop((switch, what), None)

    def gone(self, switch: str) -> None:
        """Nothing is awaited from a switch whose connection has ended or begins."""
        for what in Asked:
            self._since_s.pop((switch, what), None)
        self._told.discard(switch)

    def news(self, now_s: float) -> list[str]:
        """Who does not answer, and who does again, in words for an operator.

        Args:
            now_s: the time, in seconds of any steady clock.
        """
        self._passed_s += min(max(now_s - self._now_s, 0.0), STEP_MAX_S)
        self._now_s = now_s
        late: dict[str, list[str]] = {}
        for (switch, what), since_s in self._since_s.items():
            if self._passed_s - since_s >= PATIENCE_S:
                late.setdefault(switch, []).append(what.value)
        words = [f"switch {x} answers again" for x in sorted(self._told - late.keys())]
        for switch, missing in late.items():
            if switch not in self._told:
                lacking = " nor ".join(missing)
                words.append(
                    f"switch {switch} has not {lacking} for {PATIENCE_S:.0f} s, though asked"
                )
        self._told = set(late)
        return words
