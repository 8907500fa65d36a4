"""Work 003, chapter 3: meters of a smart grid share what aggregators in tandem carry.

The relays of `weir relay` on the kernel's Reno, in the lab (003-spec sections 3.2, 3.5 and 3.6).
The last link loses so many packets that the one connection over it is limited by them and not by
its rate, as the work's Markov chain has it. There is no radio: its hop was found to be fair, and a
station's relay is so, too.
"""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from studies.rig import grid
from studies.rig.grid import FRAMEWORKS, METERS
from studies.rig.statistics import words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w003.ch3_window import mean_window, spectrum, throughput_bps
from weir.chart import charts
from weir.numbers import jain
from weir.runs.point import Json, Point

_SECONDS, _QUICK_SECONDS = 40, 12
_SETTLE_S = 4
_SEEDS = (1, 2, 3, 4, 5)
_SEGMENT_BYTES = 1448
_WINDOW_MAX = 200
_PLAIN, _ALONE, _PROPOSED = FRAMEWORKS
_FAIR, _NEAR, _ANALYTIC = 0.99, 0.05, 0.15


def run(*, framework: str, seconds: int, seed: int) -> Json:
    """What arrives of each meter, in Mbit/s, second by second.

    Args:
        framework: one of `FRAMEWORKS`.
        seconds: measured, after a while in which everything begins.
        seed: of the lab.
    """
    seen = grid.carry_out(FRAMEWORKS[framework], seconds + _SETTLE_S, seed)
    settled = [one for one in seen if one[0] - seen[0][0] >= _SETTLE_S]
    return [
        [
            8 * (last - first) / (end - begin) / 1e6
            for first, last in zip(before, after, strict=True)
        ]
        for (begin, before), (end, after) in itertools.pairwise(settled)
    ]


def _points(quick: bool) -> list[Point]:
    seconds, seeds = (_QUICK_SECONDS, _SEEDS[:1]) if quick else (_SECONDS, _SEEDS)
    return [
        Point(run, {"framework": framework, "seconds": seconds, "seed": seed})
        for framework in FRAMEWORKS
        for seed in seeds
    ]


Steps = list[list[float]]
"""By second, by meter: Mbit/s."""


def _runs(results: Sequence[Json]) -> dict[str, list[Steps]]:
    each = len(results) // len(FRAMEWORKS)
    runs = cast(list[Steps], list(results))
    return {name: runs[at * each : (at + 1) * each] for at, name in enumerate(FRAMEWORKS)}


def _meters(steps: Steps) -> list[float]:
    """The mean of each meter over a run."""
    return [statistics.fmean(rates) for rates in zip(*steps, strict=True)]


def _stations(meters: Sequence[float]) -> list[float]:
    """What the meters of each station have together."""
    ends = itertools.accumulate(METERS)
    return [sum(meters[end - count : end]) for count, end in zip(METERS, ends, strict=True)]


def _means(runs: Sequence[Steps]) -> list[float]:
    return [statistics.fmean(rates) for rates in zip(*map(_meters, runs), strict=True)]


def _fairness(runs: Sequence[Steps]) -> list[float]:
    return [jain(_meters(steps)) for steps in runs]


def _totals(runs: Sequence[Steps]) -> list[float]:
    return [sum(_meters(steps)) for steps in runs]


def _analytic_mbit_s() -> float:
    """What the chain gives the connection over the last link."""
    return throughput_bps(grid.LOSS, _WINDOW_MAX, grid.RTT_MS / 1e3, _SEGMENT_BYTES) / 1e6


def _said(rates: Sequence[float]) -> str:
    return " / ".join(f"{rate:.2f}" for rate in rates)


def _judge_alone(results: Sequence[Json]) -> Outcome:
    runs = _runs(results)[_ALONE]
    each = [rate / meters for rate, meters in zip(_stations(_means(runs)), METERS, strict=True)]
    unequal = max(each) / min(each)
    return Outcome(
        f"Mbit/s of stations with 1, 2 and 3 meters: {_said(_stations(_means(runs)))}; a meter of "
        f"one has {unequal:.2f} times that of another",
        Verdict.TREND_HOLDS if unequal > 1.2 else Verdict.DIFFERS,
        "the work's aggregator alone is one queue in the order of arrival; here connections have "
        "equal turns, however many meters they carry",
        f"Jain's index of the meters {words(_fairness(runs), '.3f')}",
    )


def _judge_proposed(results: Sequence[Json]) -> Outcome:
    runs = _runs(results)[_PROPOSED]
    stations, total = _stations(_means(runs)), statistics.fmean(_totals(runs))
    parts = [
        rate / total / (meters / sum(METERS)) for rate, meters in zip(stations, METERS, strict=True)
    ]
    analytic = _analytic_mbit_s()
    is_even = all(abs(part - 1) < _NEAR for part in parts)
    is_analytic = abs(total / analytic - 1) < _ANALYTIC
    return Outcome(
        f"Mbit/s of stations with 1, 2 and 3 meters: {_said(stations)}, analytic "
        f"{_said([analytic * meters / sum(METERS) for meters in METERS])}",
        Verdict.MATCHES if is_even and is_analytic else Verdict.DIFFERS,
        "the chain leaves time-outs out, and a round trip is 10 ms and what the lab adds",
        f"all together {words(_totals(runs))}, analytic {analytic:.2f}",
    )


def _judge_fairness(results: Sequence[Json]) -> Outcome:
    runs = _runs(results)
    fair = {
        name: [statistics.fmean(map(jain, steps)) for steps in made] for name, made in runs.items()
    }
    best = statistics.fmean(fair[_PROPOSED])
    others = max(statistics.fmean(fair[name]) for name in (_PLAIN, _ALONE))
    said = ", ".join(f"{name} {words(values, '.4f')}" for name, values in fair.items())
    return Outcome(
        f"mean of Jain's index of the meters, by second: {said}",
        Verdict.MATCHES if best > _FAIR and best > others else Verdict.DIFFERS,
        "the values are in the figure only",
    )


def _judge_without(results: Sequence[Json]) -> Outcome:
    runs = _runs(results)[_PLAIN]
    meters = _means(runs)
    return Outcome(
        f"Mbit/s of the six meters: {_said(meters)}",
        Verdict.TREND_HOLDS if max(meters) / min(meters) > 1.2 else Verdict.DIFFERS,
        "no aggregation: stations that are nearer have shorter round trips; values are in the "
        "figure only",
        f"Jain's index {words(_fairness(runs), '.3f')}",
    )


def _judge_with(results: Sequence[Json]) -> Outcome:
    runs = _runs(results)[_PROPOSED]
    meters, analytic = _means(runs), _analytic_mbit_s() / sum(METERS)
    is_even = max(meters) / min(meters) < 1 + 2 * _NEAR
    is_analytic = abs(statistics.fmean(meters) / analytic - 1) < _ANALYTIC
    return Outcome(
        f"Mbit/s of the six meters: {_said(meters)}, analytic {analytic:.2f}",
        Verdict.MATCHES if is_even and is_analytic else Verdict.DIFFERS,
        "the chain leaves time-outs out",
        f"Jain's index {words(_fairness(runs), '.4f')}",
    )


def _judge_totals(results: Sequence[Json]) -> Outcome:
    totals = {name: _totals(runs) for name, runs in _runs(results).items()}
    means = {name: statistics.fmean(values) for name, values in totals.items()}
    ratio = means[_PROPOSED] / means[_ALONE]
    holds = abs(ratio - 1) < _NEAR and means[_PROPOSED] > means[_PLAIN]
    # How likely a mean of ten seconds is that is a tenth below, by the chain's own spectrum.
    mean = mean_window(grid.LOSS, _WINDOW_MAX)
    rate = spectrum(grid.LOSS, _WINDOW_MAX, 0.9 * mean)
    said = ", ".join(f"{name} {words(values)}" for name, values in totals.items())
    return Outcome(
        f"Mbit/s of all meters together: {said}; the proposal has {ratio:.3f} of aggregation alone",
        Verdict.MATCHES if holds else Verdict.DIFFERS,
        f"by the chain's spectrum a mean of a tenth less has the exponent {rate:.4f} by round trip",
    )


def _draw_stations(name: str) -> Callable[[Sequence[Json], Path], None]:
    def draw(results: Sequence[Json], path: Path) -> None:
        steps = _runs(results)[name][0]
        series = [
            charts.Series(
                f"{meters} meters" if meters > 1 else "1 meter",
                [(second + 1, _stations(rates)[at], 0.0) for second, rates in enumerate(steps)],
            )
            for at, meters in enumerate(METERS)
        ]
        charts.lines(path, f"Stations, {name}", "s", "Mbit/s", series)

    return draw


def _draw_fairness(results: Sequence[Json], path: Path) -> None:
    series = [
        charts.Series(name, [(at + 1, jain(rates), 0.0) for at, rates in enumerate(runs[0])])
        for name, runs in _runs(results).items()
    ]
    charts.lines(path, "Six meters", "s", "Jain's index", series)


_ROWS: Mapping[str, tuple[str, str, Callable[[Sequence[Json]], Outcome], str | None]] = {
    "3.5": (
        "Smart grid: throughput of each base station, aggregation without scheduling",
        "clearly unequal",
        _judge_alone,
        _ALONE,
    ),
    "3.6": (
        "Smart grid: throughput of each base station, aggregation with scheduling",
        "in proportion to the number of terminals; the analytic mean fits",
        _judge_proposed,
        _PROPOSED,
    ),
    "3.7": (
        "Smart grid: Jain index over time, three frameworks",
        "the proposed one close to 1",
        _judge_fairness,
        None,
    ),
    "3.8": (
        "Smart grid: throughput of each terminal without the proposal",
        "unequal",
        _judge_without,
        _PLAIN,
    ),
    "3.9": (
        "Smart grid: throughput of each terminal with the proposal",
        "equal, at the analytic mean",
        _judge_with,
        _PROPOSED,
    ),
    "3.10": (
        "Smart grid: distribution of total throughput, three policies",
        "the proposal close to aggregation only",
        _judge_totals,
        None,
    ),
}

ROWS = [
    Row(
        f"003-fig-{number}",
        title,
        published,
        _points,
        judge,
        _draw_stations(drawn) if drawn else (_draw_fairness if number == "3.7" else None),
        live=1,
    )
    for number, (title, published, judge, drawn) in _ROWS.items()
]
