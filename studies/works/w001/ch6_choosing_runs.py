"""What the rows of choosing share: a trial as JSON, and some trials of one kind together."""

import hashlib
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from studies.rig.trial import Trial, carry_out
from weir.chart.panels import Curve, Panel
from weir.congestion.choice.interaction import SHIPPED as SHIPPED_TABLE
from weir.congestion.classify.recogniser import SHIPPED as SHIPPED_MODEL
from weir.runs.point import Json, Point

CHOSEN, OPS = "auto", "OPS-"
"""A control that Weir chooses; what those begin with that it chooses as the work's tool does."""

OWN, OTHER = "#d55e00", "#0072b2"


def learned() -> str:
    """The digest of what a choice is made from; an argument of points, whose results it decides."""
    digest = hashlib.sha256(SHIPPED_MODEL.read_bytes())
    digest.update(SHIPPED_TABLE.read_bytes())
    return digest.hexdigest()[:16]


def points(
    run: Callable[..., Json], background: str, controls: Sequence[str], seconds: float, seed: int
) -> list[Point]:
    """A point of `run` for each control of a file beside `background`.

    Where Weir chooses, the digest of what it chooses by is among the arguments. What was measured
    of fixed controls, the oracle's and chance's stays true when that changes.
    """
    common: dict[str, Json] = {"background": background, "seconds": seconds, "seed": seed}
    return [
        Point(run, common | {"control": control, "learned": learned() if is_chosen else None})
        for control in controls
        for is_chosen in [control == CHOSEN or control.startswith(OPS)]
    ]


def facts(background: str, control: str, trial: Trial) -> Json:
    """Carries a trial out: what became of it, Mbit/s by the second, and what was chosen."""
    outcome = carry_out(trial)
    together = [math.fsum(shares) for shares in zip(*outcome.others, strict=True)]
    return {
        "background": background,
        "control": control,
        "own_mbps": _by_second(outcome.own, outcome.step_s),
        "others_mbps": _by_second(together, outcome.step_s),
        "jain_of_means": outcome.jain_of_means,
        "mean_of_jain": outcome.mean_of_jain,
        "chosen": list(outcome.controls),
        "at_s": [one["at_s"] for one in outcome.choices if one["event"] == "choice"],
        "intact": outcome.intact,
        "damaged": outcome.damaged,
        "flaws": list(outcome.flaws),
    }


def _by_second(series: Sequence[float], step_s: float) -> list[float]:
    group = round(1 / step_s)
    groups = (series[begin : begin + group] for begin in range(0, len(series), group))
    return [round(sum(values) / len(values) / 1e6, 1) for values in groups]


@dataclass(frozen=True)
class Runs:
    """Runs of one kind under different seeds.

    Attributes:
        each: what `facts` gave of each.
    """

    each: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, results: Iterable[Json]) -> "Runs":
        """From what came back of points."""
        return cls([cast(Mapping[str, Any], one) for one in results])

    @property
    def own(self) -> list[float]:
        """The file's mean goodput in each run, Mbit/s, probing included."""
        return [statistics.fmean(one["own_mbps"]) for one in self.each]

    @property
    def others(self) -> list[float]:
        """The background's, all its streams together."""
        return [statistics.fmean(one["others_mbps"]) for one in self.each]

    @property
    def jain(self) -> float:
        """Mean of the runs' indices, each of the means over its run."""
        return statistics.fmean(one["jain_of_means"] for one in self.each)

    @property
    def jain_by_interval(self) -> float:
        """Mean of the runs' indices, each the mean over its intervals (A-22)."""
        return statistics.fmean(one["mean_of_jain"] for one in self.each)

    @property
    def flaws(self) -> list[str]:
        """Why some run should not be believed."""
        return [flaw for one in self.each for flaw in one["flaws"]]

    def words(self) -> str:
        """Goodput of both and the indices."""
        return (
            f"{statistics.fmean(self.others):.0f} and {statistics.fmean(self.own):.0f} Mbit/s, "
            f"Jain {self.jain:.2f} ({self.jain_by_interval:.2f} by interval)"
        )

    def panel(self, title: str) -> Panel:
        """The first run over time."""
        one = self.each[0]
        own, others = (statistics.fmean(one[whose]) for whose in ("own_mbps", "others_mbps"))
        return Panel(
            title,
            f"{own:.0f} beside {others:.0f} Mbit/s, Jain's index {one['jain_of_means']:.2f}",
            (
                Curve("the file", one["own_mbps"], OWN),
                Curve("background", one["others_mbps"], OTHER),
            ),
            1.0,
            list(zip(one["at_s"], one["chosen"], strict=True)),
        )


Found: TypeAlias = Mapping[str, Mapping[str, Runs]]
"""By background and control."""


def found(results: Sequence[Json]) -> Found:
    """What `facts` gave, by background and control, each in the order of its first run."""
    each: dict[str, dict[str, list[Json]]] = {}
    for result in cast(Sequence[Mapping[str, Any]], results):
        of_one = each.setdefault(result["background"], {})
        of_one.setdefault(result["control"], []).append(result)
    return {
        background: {control: Runs.of(runs) for control, runs in of_one.items()}
        for background, of_one in each.items()
    }


def arrived(all_runs: Iterable[Runs]) -> str:
    """Criterion H8, a file that arrived is bit by bit the one that was sent, in words."""
    each = [one for runs in all_runs for one in runs.each]
    intact, damaged = (sum(one[key] for one in each) for key in ("intact", "damaged"))
    return f"H8: {intact} of {intact + damaged} files that arrived are bit by bit as they were sent"
