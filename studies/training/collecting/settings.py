"""A collection as it was asked for: from words to settings."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from studies.training.collecting.recorder import Setting
from weir.congestion.classify.classes import ALL_LABELS, SIX_LABELS
from weir.congestion.options import PASSIVE
from weir.congestion.recordings import NetworkPath
from weir.errors import BadInput
from weir.numbers import number
from weir.probe import Pattern, Plan

T = TypeVar("T")
WORKS_PATH = "500 Mbit/s, 65 ms, 6 MiB, fifo"
"""The path of chapters 5 to 7 of work 001 (001-spec 2.3)."""
_SEED_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Request:
    """What `weir ops collect` was asked.

    Attributes:
        classes: labels between commas, or `six` or `all`.
        paths: as `NetworkPath.parse` reads them; None for the work's.
        patterns: of active probing, or `passive`; None for that.
        seconds: how long a recording is.
        runs: of each class, path and pattern.
        seed: of the first run; the next has the next.
        warmup_s: how long the traffic runs before it is probed.
        rate_hz: samples a second.
        requests: of a sample.
    """

    classes: str
    paths: Sequence[str] | None
    patterns: Sequence[str] | None
    seconds: str
    runs: int
    seed: int
    warmup_s: float
    rate_hz: str
    requests: int

    def settings(self) -> list[Setting]:
        """The settings of every run: the first run of each comes before the second of any.

        Raises:
            BadInput: something of it cannot be right.
        """
        if self.runs < 1:
            raise BadInput(f"--runs {self.runs}: at least one is needed")
        if not 0 <= self.seed <= _SEED_MAX - self.runs:
            raise BadInput(f"--seed {self.seed}: a whole number from 0 is needed")
        if not 0 <= self.warmup_s <= 3600:
            raise BadInput(f"--warmup {self.warmup_s:g}: 0 to 3600 s are possible")
        plan = Plan(
            rate_hz=number("--rate", self.rate_hz),
            requests=self.requests,
            seconds=number("--seconds", self.seconds),
        )
        return [
            Setting(label, path, plan, self.warmup_s, pattern, seed)
            for seed, path, pattern, label in itertools.product(
                range(self.seed, self.seed + self.runs),
                _each_once([NetworkPath.parse(text) for text in self.paths or [WORKS_PATH]]),
                _each_once([_pattern(text) for text in self.patterns or [PASSIVE]]),
                self._labels(),
            )
        ]

    def _labels(self) -> list[str]:
        sets = {"six": SIX_LABELS, "all": ALL_LABELS}
        words = [word.strip() for word in self.classes.split(",")]
        labels = [label for word in words for label in sets.get(word, (word,))]
        for label in labels:
            if label not in ALL_LABELS:
                raise BadInput(
                    f"--classes: there is no class {label!r}; the classes are "
                    f"{', '.join(ALL_LABELS)}, six and all"
                )
        return _each_once(labels)


def _each_once(found: Sequence[T]) -> list[T]:
    return list(dict.fromkeys(found))


def _pattern(text: str) -> Pattern | None:
    return None if text == PASSIVE else Pattern.parse(text)
