"""Raters that never lived: opinions drawn from planted effects, to try the statistics on.

The work's 115 people cannot be asked again. What it says of them is planted here (000-spec section
8): the mean opinion at no loss and its slope, how many rated what at which loss (table 5.1), two
stations with three losses each. How much people and ratings differ is an assumption.
"""

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weir.observe.desktop.ratings import Rating

STATIONS = ((0.0, 0.5, 10.0), (0.0, 3.0, 5.0))
"""The losses that a person met, in percent."""
SUBJECT_SD, RATING_SD = 0.5, 0.8
"""How people differ, and ratings of one person; assumed."""


@dataclass(frozen=True)
class Activity:
    """What was rated.

    Attributes:
        counts: people at each station.
        truth: mean opinion at each loss in percent.
    """

    counts: tuple[int, int]
    truth: Mapping[float, float]

    @property
    def slope(self) -> float:
        """Per percent of loss, by the least and the most loss that has an opinion."""
        least, most = min(self.truth), max(self.truth)
        return (self.truth[most] - self.truth[least]) / (most - least)


def _falling(start: float, slope: float) -> dict[float, float]:
    return {loss: start + slope * loss for loss in (0.0, 0.5, 3.0, 5.0, 10.0)}


ACTIVITIES = {
    "images": Activity((31, 44), _falling(4.43, -0.1041)),
    "scenes": Activity((24, 34), _falling(3.31, -0.0866)),
    # The work shows the calls' begin in a figure only.
    "calls": Activity((26, 27), _falling(3.5, -0.0979)),
    # Beyond 3 % the work has no opinions on video, though it counts some (AMB-35).
    "video": Activity((28, 38), {0.0: 3.53, 0.5: 2.85, 3.0: 1.58}),
}


def ratings(activity: str, seed: int, is_whole: bool = True) -> list[Rating]:
    """One rating of each person at each loss of the person's station.

    Args:
        activity: one of `ACTIVITIES`.
        seed: of all that differs.
        is_whole: whether people say whole numbers from 1 to 5; otherwise the planted values are
            neither rounded nor cut, so that slopes are what was planted.
    """
    one = ACTIVITIES[activity]
    random = np.random.default_rng([seed, *activity.encode()])
    found = []
    for station, (count, losses) in enumerate(zip(one.counts, STATIONS, strict=True)):
        for person in range(count):
            level = random.normal(0, SUBJECT_SD)
            for loss in losses:
                value = random.normal(0, RATING_SD) + level
                if loss in one.truth:
                    value += one.truth[loss]
                    said = float(np.clip(np.rint(value), 1, 5)) if is_whole else value
                    found.append(Rating(f"{activity}-{station}-{person}", activity, loss, said))
    return found


def counts(losses: Sequence[float]) -> dict[str, dict[float, int]]:
    """How many rated each activity at each loss: what table 5.1 has."""
    return {
        name: {
            loss: sum(count for count, own in zip(one.counts, STATIONS, strict=True) if loss in own)
            for loss in losses
        }
        for name, one in ACTIVITIES.items()
    }


def main() -> None:
    """Prints all ratings of the first seed as the CSV that `weir observe desktop ratings` reads."""
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(("subject", "activity", "loss_percent", "rating"))
    for name in ACTIVITIES:
        for one in ratings(name, 1):
            rows.writerow((one.subject, one.activity, f"{one.loss_percent:g}", f"{one.rating:g}"))


if __name__ == "__main__":
    main()
