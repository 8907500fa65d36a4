"""Work 002, chapter 3: deadline-bound flows through one switch port, PEQ against PDQ and D3.

The printed curves are lost; what is left are trends and a few numbers in prose (section 6 of the
specification). Every run is a million slots; policies meet the same flows, so that differences are
taken run by run. Intervals are 95 % over the seeds, which no policy was developed on.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict, cast

from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from weir._core import deadline_figures, deadline_run, estimate
from weir.chart import charts
from weir.runs.point import Json, Point

SEEDS = range(7_002_001, 7_002_011)
# D3 without state is there twice: requests reach a switch in random order or always in the same;
# the printed text does not say which was simulated (A8 of the specification's register).
_PUBLISHED = ("peq", "pdq", "d3-stateful", "d3-fixed-order", "d3")
_POLICIES = (*_PUBLISHED, "weir")
GROUPS = {
    "deadline": ("3.5", "3.6", "3.7", "3.8"),
    "servers": ("3.9", "3.10", "3.11"),
    "load": ("3.12", "3.13", "3.14"),
    "size": ("3.15", "3.16"),
}
_QUICK = {"slots": 100_000, "instances": 100}


class Sample(TypedDict):
    """What one run of one policy gave; see `weir._core.DeadlineSample`."""

    on_time: int
    on_time_share: float
    optimum: int | None
    completion_slots: float
    last_end_slot: float


def run(setting: str, policy: str, seeds: list[int]) -> Json:
    """One sample per seed."""
    return [
        {key: getattr(sample, key) for key in Sample.__annotations__}
        for sample in deadline_run(setting, policy, seeds)
    ]


@dataclass(frozen=True)
class Figure:
    """A figure as settings along its axis, each run under every policy.

    `readings` are those of `weir._core.deadline_figures`.
    """

    number: str
    title: str
    axis: str
    x: list[float]
    settings: list[str]
    policies: Sequence[str]

    @classmethod
    def of(
        cls, number: str, policies: Sequence[str] = _POLICIES, **readings: str | int
    ) -> "Figure":
        """The figure called `number`, such as `"3.5"`."""
        found = {entry["id"]: entry for entry in json.loads(deadline_figures(json.dumps(readings)))}
        entry = found[number]
        settings = [json.dumps(setting) for _, setting in entry["points"]]
        x = [at for at, _ in entry["points"]]
        return cls(number, entry["title"], entry["axis"], x, settings, policies)

    def points(self, seeds: Sequence[int] = SEEDS) -> list[Point]:
        """All settings under the first policy, then under the next."""
        return [
            Point(run, {"setting": setting, "policy": policy, "seeds": [*seeds]})
            for policy in self.policies
            for setting in self.settings
        ]

    def curves(self, results: Sequence[Json]) -> "Curves":
        """The results of the points, in their order."""
        samples = iter(cast(Sequence[list[Sample]], results))
        return Curves(self, {policy: [next(samples) for _ in self.x] for policy in self.policies})


@dataclass(frozen=True)
class Curves:
    """A figure, run: for each policy the samples of every seed at each point."""

    figure: Figure
    samples: dict[str, list[list[Sample]]]

    @property
    def x(self) -> list[float]:
        """The figure's axis."""
        return self.figure.x

    def values(self, policy: str, value: Callable[[Sample], float]) -> list[list[float]]:
        """One list per point, with a value per seed."""
        return [[value(sample) for sample in point] for point in self.samples[policy]]

    def percent(self, policy: str) -> list[list[float]]:
        """Application throughput in percent."""
        return self.values(policy, _percent)

    def lead(self, policy: str, other: str) -> list[tuple[float, float]]:
        """By how many points one policy is ahead of another, with its margin, at each x."""
        pairs = zip(self.percent(policy), self.percent(other), strict=True)
        return [_difference(ours, theirs) for ours, theirs in pairs]

    def mean_lead(self, policy: str, other: str) -> str:
        """The lead on average over the axis, in words with its interval."""
        by_seed = [
            [mean(values) for values in zip(*self.percent(name), strict=True)]
            for name in (policy, other)
        ]
        return f"{_leads([_difference(*by_seed)])} points"


def opposed_batch(run: Curves) -> Outcome:
    """Figure 3.1."""
    count = {policy: [mean(p) for p in run.values(policy, _on_time)] for policy in _POLICIES}
    ratios = [peq / pdq for peq, pdq in zip(count["peq"], count["pdq"], strict=True)]
    best = [mean(p) for p in run.values("weir", lambda sample: float(sample["optimum"] or 0))]
    ours = f"PEQ/PDQ {listed(ratios, 2)} for {listed(run.x)} flows; Weir/optimum " + listed(
        [weir / most for weir, most in zip(count["weir"], best, strict=True)], 2
    )
    grows = ratios == sorted(ratios) and ratios[-1] > 2
    reason = "sizes 2-198 due at 250 - size (the workload is not printed)"
    last = [run.values(policy, _on_time)[-1] for policy in ("peq", "pdq")]
    ratio = words([peq / pdq for peq, pdq in zip(*last, strict=True)])
    interval = f"PEQ/PDQ {ratio} for {run.x[-1]:g} flows"
    return Outcome(ours, Verdict.MATCHES if grows else Verdict.DIFFERS, reason, interval)


def opposed_batch_time(run: Curves) -> Outcome:
    """Figure 3.2."""

    def ratios(value: Callable[[Sample], float], policy: str = "peq") -> list[float]:
        pairs = zip(run.values(policy, value), run.values("pdq", value), strict=True)
        return [mean(ours) / mean(pdq) for ours, pdq in pairs]

    completion = ratios(lambda sample: sample["completion_slots"])
    last = ratios(lambda sample: sample["last_end_slot"])
    ours = (
        f"PEQ/PDQ {listed(completion, 2)} in mean completion time, {listed(last, 2)} in the end of "
        f"the last flow on time, for {listed(run.x)} flows"
    )
    reason = '"time taken" fits the mean completion time, not the end of the last flow'
    half = all(0.35 < ratio < 0.55 for ratio in completion)
    return Outcome(ours, Verdict.TREND_HOLDS if half else Verdict.DIFFERS, reason)


def periodic(run: Curves) -> Outcome:
    """Figure 3.3."""
    lead = run.lead("peq", "pdq")
    ours = f"PEQ - PDQ {_leads(lead)} points at intervals of {listed(run.x)} slots" + _own(run)
    grows = lead[0][0] < lead[5][0] < lead[6][0] < lead[7][0]
    reason = "differences are in percentage points; the ratio falls up to 30 slots before it rises"
    interval = f"{_leads(lead[-1:])} points at the last interval"
    return Outcome(ours, Verdict.TREND_HOLDS if grows else Verdict.DIFFERS, reason, interval)


def near_optimal(run: Curves) -> Outcome:
    """Figure 3.4."""
    shares = {policy: run.values(policy, _of_optimum) for policy in _POLICIES}
    share = {policy: [mean(point) for point in shares[policy]] for policy in _POLICIES}
    small = [at for at, x in enumerate(run.x) if x <= 12]
    means = {policy: mean([share[policy][at] for at in small]) for policy in _POLICIES}
    ours = (
        f"up to 12 flows PDQ {means['pdq']:.1f} %, PEQ {means['peq']:.1f} %, Weir "
        f"{means['weir']:.1f} %; with 40 flows {share['pdq'][-1]:.1f}, {share['peq'][-1]:.1f}, "
        f"{share['weir'][-1]:.1f} %"
    )
    close = abs(means["pdq"] - 98.5) < 1 and abs(means["peq"] - 99) < 1
    reason = "cushions of mean 60 slots (number of flows and deadlines are not printed)"
    by_seed = zip(*(shares["peq"][at] for at in small), strict=True)
    interval = f"PEQ {words([mean(values) for values in by_seed], '.1f')} % up to 12 flows"
    return Outcome(ours, Verdict.MATCHES if close else Verdict.DIFFERS, reason, interval)


def sweep(run: Curves, *, rising: bool) -> Outcome:
    """Figures 3.5 to 3.14: PEQ above PDQ, stateful D3, D3, and each curve in one direction."""
    interval = f"PEQ - PDQ {run.mean_lead('peq', 'pdq')}, mean of the axis"
    order = ["peq", "pdq", "d3-stateful", "d3-fixed-order"]
    behind = [pair for pair in itertools.pairwise(order) if not _not_below(run.lead(*pair))]
    wrong = [policy for policy in _PUBLISHED if not _goes(run.percent(policy), rising=rising)]
    if behind or wrong not in ([], ["d3"]):
        reason = f"order of {behind}, direction of {wrong}"
        return Outcome(_summary(run), Verdict.DIFFERS, reason, interval)
    direction = "rise" if rising else "fall"
    reason = f"D3 in random order does not {direction}, D3 in fixed order does" if wrong else ""
    return Outcome(_summary(run), Verdict.TREND_HOLDS, reason, interval)


def sizes(run: Curves, tuned: Curves) -> Outcome:
    """Figures 3.15 and 3.16, with the arrivals as stated and tuned to each size limit."""
    lead = run.lead("peq", "pdq")
    above = _not_below(lead) and all(_goes(run.percent(p), rising=False) for p in _PUBLISHED)
    ours = f"{_summary(run)}. PEQ - PDQ {_leads(lead)} for limits of {listed(run.x)}"
    ours += f"; with arrivals tuned to full load at each limit {_leads(tuned.lead('peq', 'pdq'))}"
    reason = "" if above else "small flows are light load, where PDQ is ahead: PEQ never reorders"
    if not above and _not_below(tuned.lead("peq", "pdq")):
        reason += "; with arrivals tuned to full load PEQ is not behind at any limit"
    interval = f"PEQ - PDQ {run.mean_lead('peq', 'pdq')}, mean of the axis"
    verdict = Verdict.TREND_HOLDS if above else Verdict.DIFFERS
    return Outcome(ours, verdict, reason, interval)


def _on_time(sample: Sample) -> float:
    return float(sample["on_time"])


def _percent(sample: Sample) -> float:
    return 100 * sample["on_time_share"]


def _of_optimum(sample: Sample) -> float:
    return 100 * sample["on_time"] / (sample["optimum"] or 1)


def _difference(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    return estimate([a - b for a, b in zip(ours, theirs, strict=True)])


def _not_below(leads: Sequence[tuple[float, float]]) -> bool:
    return all(mean + margin >= 0 for mean, margin in leads)


def _goes(points: Sequence[Sequence[float]], *, rising: bool) -> bool:
    """Whether no step goes the wrong way beyond its interval."""
    steps = [_difference(after, before) for before, after in itertools.pairwise(points)]
    return _not_below(steps if rising else [(-mean, margin) for mean, margin in steps])


def _summary(run: Curves) -> str:
    """Shares on time from the first to the last point of each policy, and Weir's lead."""
    parts = []
    for policy in _POLICIES:
        first, last = (words(run.percent(policy)[at], ".1f") for at in (0, -1))
        parts.append(f"{policy} {first} to {last}")
    axis = f"{run.figure.axis} {run.x[0]:g} to {run.x[-1]:g}"
    return f"on time in %, {axis}: {', '.join(parts)}{_own(run)}"


def _own(run: Curves) -> str:
    """At how many points no published policy is ahead of Weir's beyond noise."""
    leads = [run.lead("weir", policy) for policy in _PUBLISHED]
    ahead = sum(_not_below(at) for at in zip(*leads, strict=True))
    closest = min((lead for points in leads for lead in points), key=lambda lead: lead[0])
    return (
        f"; Weir is not behind at {ahead} of {len(run.x)} points, smallest lead {_leads([closest])}"
    )


def listed(values: Sequence[float], digits: int | None = None) -> str:
    """Numbers between commas, each as short as it goes or with so many digits."""
    return ", ".join(f"{v:g}" if digits is None else f"{v:.{digits}f}" for v in values)


def _leads(leads: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{mean:+.2f} ± {margin:.2f}" for mean, margin in leads)


def curves_row(
    id_: str,
    title: str,
    published: str,
    judge: Callable[..., Outcome],
    *figures: Callable[..., Figure],
    shown: tuple[str, Callable[[Sample], float]] = ("flows on time, %", _percent),
) -> Row:
    """A row that runs `figures` and judges their curves; of a single one it draws `shown`."""

    def points(quick: bool) -> list[Point]:
        reduced = _QUICK if quick else {}
        return [point for figure in figures for point in figure(**reduced).points()]

    def curves(results: Sequence[Json]) -> list[Curves]:
        found = []
        for drawn in (make() for make in figures):
            count = len(drawn.settings) * len(drawn.policies)
            found.append(drawn.curves(results[:count]))
            results = results[count:]
        return found

    def plot(results: Sequence[Json], path: Path) -> None:
        label, value = shown
        run = curves(results)[0]
        series = [
            charts.Series(
                policy,
                [
                    (x, *estimate(each))
                    for x, each in zip(run.x, run.values(policy, value), strict=True)
                ],
            )
            for policy in run.figure.policies
        ]
        charts.lines(path, title, run.figure.axis, label, series)

    drawn = plot if id_.startswith("002-fig") else None
    return Row(id_, title, published, points, lambda results: judge(*curves(results)), drawn)


def _sweep_rows() -> list[Row]:
    shown = {
        "deadline": ("PEQ above PDQ, Statefull D3 and D3; no curve falls", True),
        "servers": ("PEQ above PDQ, Statefull D3 and D3; more servers, less on time", False),
        "load": ("all fall as the load rises; PEQ highest", False),
    }
    rows = []
    for group, (published, rising) in shown.items():
        for number in GROUPS[group]:
            figure = partial(Figure.of, number)
            judge = partial(sweep, rising=rising)
            rows.append(curves_row(f"002-fig-{number}", figure().title, published, judge, figure))
    for number in GROUPS["size"]:
        figure, tuned = (partial(Figure.of, number, probability=p) for p in ("fixed", "tuned"))
        published = "on-time share falls as flows grow; PEQ above all others at every limit"
        rows.append(
            curves_row(f"002-fig-{number}", figure().title, published, sizes, figure, tuned)
        )
    return rows


# Two hundred batches a seed take the intervals below a percent.
_OPPOSED = partial(Figure.of, "3.1", instances=200)

ROWS = [
    curves_row(
        "002-fig-3.1",
        "One batch, large flows tight and small ones loose: flows on time",
        "PEQ over PDQ grows with the number of flows and passes 2",
        opposed_batch,
        _OPPOSED,
    ),
    curves_row(
        "002-fig-3.2",
        "The batch of figure 3.1: time to complete the flows",
        "PEQ takes almost half of PDQ's time while completing more",
        opposed_batch_time,
        _OPPOSED,
        shown=("mean completion time, slots", lambda sample: sample["completion_slots"]),
    ),
    curves_row(
        "002-fig-3.3",
        "24 servers that each issue a flow at every interval",
        "PEQ's lead over PDQ grows with the interval towards that of one batch",
        periodic,
        partial(Figure.of, "3.3"),
    ),
    curves_row(
        "002-fig-3.4",
        "One batch, relative to the optimum",
        "PDQ about 98.5 %, PEQ about 99 % of the optimum",
        near_optimal,
        partial(Figure.of, "3.4"),
        shown=("flows on time, % of the optimum", _of_optimum),
    ),
    *_sweep_rows(),
]
