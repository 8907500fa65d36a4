"""Work 003, figure 2.17: a connection over two paths becomes one over plain TCP.

The kernel's Multipath TCP at the client, a relay's ends between, a server that knows nothing of it
(003-spec section 2.11). Beyond the figure: one of the paths is cut for a while, and comes back.
"""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from studies.rig import multipath
from studies.rig.statistics import words
from studies.works.row import Outcome, Row, Verdict
from weir.chart import charts
from weir.runs.point import Json, Point

_SECONDS, _QUICK_SECONDS = 50, 36
_CUT_S = (10.0, 20.0)
_BEGUN_S, _LATER_S, _END_S = 2.0, 3.0, 5.0
"""What is counted begins after the first, during a cut after the second; the last is the end's."""
_SEEDS = (1, 2, 3)
_EXACT, _KEPT = 0.03, 0.9


def run(*, protocol: str, seconds: int, seed: int) -> Json:
    """Second by second: the instant in s, Mbit/s at the server, and those of each path.

    Args:
        protocol: of the client, "mptcp" or "tcp".
        seconds: how long it sends.
        seed: of the lab.
    """
    cut_s = _CUT_S if protocol == "mptcp" else None
    seen = multipath.carry_out(protocol, seconds, seed, cut_s)
    return [
        {
            "at_s": later.at_s - seen[0].at_s,
            "server": _mbit_s(before.arrived_bytes, later.arrived_bytes, later.at_s - before.at_s),
            "paths": [
                _mbit_s(first, last, later.at_s - before.at_s)
                for first, last in zip(before.path_bytes, later.path_bytes, strict=True)
            ],
        }
        for before, later in itertools.pairwise(seen)
    ]


def _mbit_s(first: float, last: float, seconds: float) -> float:
    return 8 * (last - first) / seconds / 1e6


def _points(quick: bool) -> list[Point]:
    seconds, seeds = (_QUICK_SECONDS, _SEEDS[:1]) if quick else (_SECONDS, _SEEDS)
    plain = [Point(run, {"protocol": "tcp", "seconds": 10, "seed": 1})]
    return plain + [
        Point(run, {"protocol": "mptcp", "seconds": seconds, "seed": seed}) for seed in seeds
    ]


Steps = Sequence[dict[str, Any]]


def _between(steps: Steps, begin_s: float, end_s: float) -> tuple[float, float]:
    """The means at the server and of all paths together."""
    chosen = [step for step in steps if begin_s < step["at_s"] <= end_s]
    server = statistics.fmean(step["server"] for step in chosen)
    return server, statistics.fmean(sum(step["paths"]) for step in chosen)


def _parts(steps: Steps) -> Iterator[tuple[float, float]]:
    """Before, during and long after the cut."""
    begin, end = _CUT_S
    yield _between(steps, _BEGUN_S, begin)
    yield _between(steps, begin + _LATER_S, end)
    yield _between(steps, steps[-1]["at_s"] - _END_S, steps[-1]["at_s"])


def _judge(results: Sequence[Json]) -> Outcome:
    plain, *runs = cast(list[Steps], list(results))
    one = _between(plain, _BEGUN_S, plain[-1]["at_s"])[0]
    before, during, after = (
        list(zip(*parts, strict=True)) for parts in zip(*map(_parts, runs), strict=True)
    )
    ratios = [server / paths for server, paths in zip(*before, strict=True)]
    is_sum = all(abs(ratio - 1) < _EXACT for ratio in ratios)
    is_more = min(before[0]) > 1.2 * one
    goes_on = min(during[0]) > _KEPT * one
    is_back = min(after[0]) > _KEPT * statistics.fmean(before[0])
    return Outcome(
        f"Mbit/s at the server {words(before[0])}, sum of the subflows {words(before[1])}; one "
        f"path by plain TCP {one:.2f}; second path cut {words(during[0])}, restored "
        f"{words(after[0])}",
        Verdict.MATCHES if is_sum and is_more and goes_on and is_back else Verdict.DIFFERS,
        "the kernel's own MPTCP instead of the work's; the cut is ours",
        f"server over subflows {words(ratios, '.3f')}",
    )


def _draw(results: Sequence[Json], path: Path) -> None:
    steps = cast(Steps, results[1])
    places = {
        "server": [(step["at_s"], step["server"], 0.0) for step in steps],
        "first path": [(step["at_s"], step["paths"][0], 0.0) for step in steps],
        "second path": [(step["at_s"], step["paths"][1], 0.0) for step in steps],
    }
    series = [charts.Series(name, values) for name, values in places.items()]
    charts.lines(path, "Two paths, one of them cut for 10 s", "s", "Mbit/s", series)


ROWS = [
    Row(
        "003-fig-2.17",
        "Multipath TCP turned into plain TCP",
        "the server's throughput is the sum of the subflows",
        _points,
        _judge,
        _draw,
        live=1,
    )
]
