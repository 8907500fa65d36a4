"""Work 000, section 5.5.2: what 115 people said, on raters who say what the work says they said.

The people cannot be asked again, and their ratings were not printed. Raters with the printed
means and slopes take their place (000-spec section 8), so these rows show that the statistics find
what is there, and whether the printed tables follow from the printed means and slopes; not what
people think. What people and ratings differ by is assumed.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from studies.rig.desktop import raters
from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from weir.chart import charts
from weir.observe.desktop import ratings
from weir.runs.point import Json, Point

LOSSES = (0.0, 0.5, 3.0, 5.0, 10.0)
_SEEDS, _QUICK_SEEDS = range(1, 41), range(1, 5)
TABLE_5_1 = {
    "images": (75, 31, 44, 44, 31),
    "scenes": (58, 24, 34, 34, 24),
    "video": (66, 28, 38, 38, 28),
    "calls": (53, 26, 27, 27, 26),
}
"""How many rated what at which loss."""
_PAIRS = (
    (0, 0.5),
    (0, 3),
    (0, 5),
    (0, 10),
    (0.5, 3),
    (0.5, 5),
    (0.5, 10),
    (3, 5),
    (3, 10),
    (5, 10),
)
TABLE_5_2 = {
    "images": (
        *(1.99e-01, 6.74e-04, 2.74e-06, 7.73e-06, 1.07e-01),
        *(6.95e-03, 6.13e-03, 2.25e-01, 1.69e-01, 7.85e-01),
    ),
    "calls": (
        *(9.28e-01, 4.53e-01, 5.70e-02, 1.25e-05, 4.69e-01),
        *(8.59e-02, 1.08e-04, 3.13e-01, 1.26e-03, 2.37e-02),
    ),
    "scenes": (
        *(0.075699, 0.000317, 0.000837, 0.000231, 0.188981),
        *(0.272655, 0.141992, 0.810676, 0.834638, 0.659491),
    ),
    "video": (1.02e-05, 1.18e-19, None, None, 8.65e-06, None, None, None, None, None),
}
"""p of each pair; none where there were no ratings (AMB-35)."""
SLOPES = {"images": -0.1041, "scenes": -0.0866, "calls": -0.0979, "video": -0.6565}
"""How opinions fall per percent of loss, in table 5.3."""
_PEOPLE = "needs 115 people; checked on raters with the printed means and slopes"


def opinions(*, seed: int) -> Json:
    """All statistics of one draw of raters, by activity."""
    found = {}
    for activity in raters.ACTIVITIES:
        own = raters.ratings(activity, seed)
        line = ratings.opinion_slope(own)
        found[activity] = {
            "means": {f"{loss:g}": one for loss, (one, _) in ratings.mean_opinions(own).items()},
            "t_tests": {_name(one.pair): one.p for one in ratings.t_tests(own)},
            "honest": {
                _name(one.pair): [one.p, one.low, one.high]
                for one in ratings.honest_differences(own, seed)
            },
            "slope": [line.estimate, line.error],
        }
    return cast(Json, found)


def _name(pair: tuple[float, float]) -> str:
    return f"{pair[0]:g}-{pair[1]:g}"


def _points(quick: bool) -> list[Point]:
    return [Point(opinions, {"seed": seed}) for seed in (_QUICK_SEEDS if quick else _SEEDS)]


def counts() -> Json:
    """How many raters there are of each activity at each loss, as table 5.1 has them."""
    return {name: list(one.values()) for name, one in raters.counts(LOSSES).items()}


def _count_points(quick: bool) -> list[Point]:
    return [Point(counts, {})]


def _judge_counts(results: Sequence[Json]) -> Outcome:
    found = cast(Mapping[str, list[int]], results[0])
    same = all(found[name] == list(row) for name, row in TABLE_5_1.items())
    return Outcome(
        "; ".join(f"{name} {' '.join(map(str, row))}" for name, row in found.items()),
        Verdict.MATCHES if same else Verdict.DIFFERS,
        "two stations with three losses each give the 20 counts from eight numbers of people; "
        + _PEOPLE,
    )


Runs = Sequence[Mapping[str, Any]]


def _runs(results: Sequence[Json]) -> Runs:
    return cast(Runs, results)


def _judge_t_tests(results: Sequence[Json]) -> Outcome:
    shares = {
        activity: {
            pair: mean([run[activity]["t_tests"][pair] < 0.05 for run in _runs(results)])
            for pair in _runs(results)[0][activity]["t_tests"]
        }
        for activity in TABLE_5_2
    }
    wrong, total = [], 0
    for activity, printed in TABLE_5_2.items():
        for pair, p in zip(map(_name, _PAIRS), printed, strict=True):
            if p is None:
                continue
            total += 1
            if (p < 0.05) != (shares[activity][pair] > 0.5):
                wrong.append(f"{activity} {pair}")
    key = [f"{activity} {pair}" for activity, pair in _KEY_PAIRS]
    holds = not set(key) & set(wrong)
    return Outcome(
        f"{total - len(wrong)} of {total} pairs are told apart, or not, as printed, in most of "
        f"{len(results)} draws; otherwise: {', '.join(wrong) or 'none'}",
        Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
        f"{_PEOPLE}; that opinions fall evenly is the printed slopes' word, and the printed tests "
        "disagree with it: most of the fall is below 3 %",
    )


_KEY_PAIRS = (
    *(("video", pair) for pair in ("0-0.5", "0-3", "0.5-3")),
    *(("images", pair) for pair in ("0-5", "0-10", "3-5", "5-10")),
    *(("calls", pair) for pair in ("0-0.5", "0-10", "0.5-10", "3-10")),
    *(("scenes", pair) for pair in ("0-10", "3-5", "0-0.5")),
)
"""What the work's text says of the table."""


def _judge_means(results: Sequence[Json]) -> Outcome:
    at = {
        activity: {
            loss: [run[activity]["means"][loss] for run in _runs(results)]
            for loss in _runs(results)[0][activity]["means"]
        }
        for activity in raters.ACTIVITIES
    }
    fall = [
        100 * (1 - low / high) for high, low in zip(at["video"]["0"], at["video"]["3"], strict=True)
    ]
    first = {"images": 4.43, "scenes": 3.31, "video": 3.53}
    near = all(abs(mean(at[name]["0"]) - one) < 0.15 for name, one in first.items())
    matches = near and abs(mean(fall) - 55.2) < 6 and mean(at["images"]["10"]) > 3
    said = ", ".join(f"{name} {mean(at[name]['0']):.2f}" for name in at)
    return Outcome(
        f"at no loss: {said}; video at 3 %: {mean(at['video']['3']):.2f} "
        f"(-{mean(fall):.1f} %); images at 10 %: {mean(at['images']['10']):.2f}",
        Verdict.CANNOT_FOLLOW if matches else Verdict.DIFFERS,
        f"{_PEOPLE}, which are found again: to say whole numbers from 1 to 5 does not move them by "
        "more than 0.15",
        f"fall of video: {words(fall, '.1f')} %",
    )


def _draw_means(results: Sequence[Json], path: Path) -> None:
    runs = _runs(results)
    series = []
    for activity in raters.ACTIVITIES:
        places = []
        for loss in runs[0][activity]["means"]:
            values = [run[activity]["means"][loss] for run in runs]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            places.append((float(loss), mean(values), 1.96 * spread))
        series.append(charts.Series(activity, places))
    charts.lines(path, "Mean opinions of raters (planted)", "packets lost, %", "opinion", series)


def _judge_honest(results: Sequence[Json]) -> Outcome:
    runs = _runs(results)
    share = {
        activity: {
            pair: mean([run[activity]["honest"][pair][0] < 0.05 for run in runs])
            for pair in runs[0][activity]["honest"]
        }
        for activity in raters.ACTIVITIES
    }
    video = min(share["video"].values())
    others = {
        f"{activity} {pair}": one
        for activity, pairs in share.items()
        for pair, one in pairs.items()
        if activity != "video" and not pair.startswith("0-")
    }
    told = [name for name, one in others.items() if one > 0.5]
    same = video > 0.5 and not told
    return Outcome(
        f"video: every pair differs in {100 * video:.0f} % of draws at least; among levels of "
        f"0.5 % and more of the others, told apart in most draws: {', '.join(told) or 'none'}",
        Verdict.MATCHES if same else Verdict.DIFFERS,
        f"{_PEOPLE}: slopes as printed over 10 % are three standard errors of a difference; the "
        "printed t-tests (images 0.5-5, 0.5-10, calls 0.5-10) tell these apart, too",
    )


ROWS = [
    Row(
        "000-tab-5.1",
        "Ratings collected for each activity and loss rate",
        "images 75 31 44 44 31, 360 degrees 58 24 34 34 24, video 66 28 38 38 28, calls 53 26 27 "
        "27 26, at 0, 0.5, 3, 5 and 10 %",
        _count_points,
        _judge_counts,
    ),
    Row(
        "000-tab-5.2",
        "t-tests between loss rates, four activities",
        "33 p-values from 1.18e-19 (video, 0 against 3 %) to 0.928 (calls, 0 against 0.5 %)",
        _points,
        _judge_t_tests,
    ),
    Row(
        "000-fig-5.10",
        "Mean opinion scores against packet loss",
        "images 4.43, 360 degrees 3.31, video 3.53 at no loss; video 1.58 at 3 % (-55.2 %)",
        _points,
        _judge_means,
        _draw_means,
    ),
    Row(
        "000-fig-5.11",
        "Honest significant differences between loss rates, mixed model",
        "video: all pairs differ; others: no difference among levels of 0.5 % and more",
        _points,
        _judge_honest,
    ),
]
