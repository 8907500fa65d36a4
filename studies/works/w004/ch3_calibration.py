"""Work 004: the free parameters of the models, each set on one experiment and then left alone.

004-spec section 17, step 9, in its order. What follows from these runs stands in
`studies.works.w004.ch3_streaming`; all other rows of the work were run with it as it is.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from studies.rig.statistics import mean
from studies.works.row import Outcome, Row, Verdict
from studies.works.w004.ch3_streaming import (
    CAUTION,
    LEVELS,
    RED_MAX_PROBABILITY,
    SECONDS,
    WEB_PER_S,
    WEB_SHAPE,
    levels,
    run,
)
from weir.runs.point import Json, Point

_RED = (0.006, 0.01, 0.02)
_CAUTIONS = (1.0, 1.5, 2.0, 2.5, 3.0)
_WEB = ((0.9, 100.0), (0.9, 22.0), (1.2, 100.0), (1.5, 100.0))


def _points(quick: bool) -> list[Point]:
    tried: list[tuple[str, str, Json]] = [
        *(("H3", "red_max_probability", probability) for probability in _RED),
        *(("H1", "caution", caution) for caution in _CAUTIONS),
        *(("H9", "web", web) for web in _WEB),
    ]
    seconds, seeds = (300, (1,)) if quick else (SECONDS, (1, 2, 3, 4, 5))
    return [
        Point(run, {"experiment": name, key: value, "seconds": seconds, "seed": seed})
        for name, key, value in tried
        for seed in seeds
    ]


Run = Mapping[str, Any]


def _share(runs: Sequence[Run], level: int) -> float:
    return levels(runs)[LEVELS.index(level)]


# Between two runs of one setting: what was kept may be so much worse than the best.
_NOISE = 0.05


def _judge(results: Sequence[Json]) -> Outcome:
    runs = cast(Sequence[Run], results)
    count = len(_RED) + len(_CAUTIONS) + len(_WEB)
    seeds = len(runs) // count
    groups = iter([runs[i * seeds : (i + 1) * seeds] for i in range(count)])
    red = {p: mean([one["queue"]["all"]["p50_ms"] for one in next(groups)]) for p in _RED}
    settled = {c: _share(next(groups), 1427) for c in _CAUTIONS}
    both = {}
    for web in _WEB:
        found = next(groups)
        both[web] = (_share(found, 688), _share(found, 991))
    ours = (
        "RED's largest probability, median queue of H3 in ms: "
        + ", ".join(f"{p:g}: {wait:.0f}" for p, wait in red.items())
        + "; the player's caution c at m = 10, time of H1 at 1427 kbit/s: "
        + ", ".join(f"{c:g}: {share:.0%}" for c, share in settled.items())
        + "; web load of H9 (shape, requests/s of each kind), time at 688 and at 991 kbit/s: "
        + ", ".join(
            f"{shape:g}, {per_s:g}: {low:.0%} and {high:.0%}"
            for (shape, per_s), (low, high) in both.items()
        )
    )
    rarer = {web: min(shares) for web, shares in both.items()}
    short = (
        (abs(red[RED_MAX_PROBABILITY] - 60) - min(abs(wait - 60) for wait in red.values())) / 60,
        max(settled.values()) - settled[CAUTION],
        max(rarer.values()) - rarer[WEB_SHAPE, WEB_PER_S],
    )
    reason = (
        "kept: the queue nearest 60 ms; most time at 1427; most of the rarer of 688 and 991, each "
        "to within 5 points. "
        "DualQ's slope of 1/16 s with k = 2 (T2) and 1/4 s with 8 (T3) are those of 004-spec "
        "section 5.2.1, unchanged: figures 3.9 and 4.9 show that they give 20 ms and equal rates"
    )
    return Outcome(ours, Verdict.OURS if max(short) <= _NOISE else Verdict.DIFFERS, reason)


ROWS = [
    Row(
        "004-own-3.2-calibration",
        "The free parameters of the models of work 004, each set on one experiment",
        "not published: RED's probability, the player, the web load beside it",
        _points,
        _judge,
    )
]
