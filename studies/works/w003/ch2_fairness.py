"""Work 003, figures 2.12 to 2.14: three flows with equal round trips, plain and in turns.

What is not given is chosen here: they begin 10 s apart (003-spec section 2.14) and run for 180 s
over 10 Mbit/s, 50 packets of which wait at most. Jain's index is taken each second from when all
three send (section 1.6).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w003.ch2_network import Setting, rows, run
from weir.chart import charts
from weir.numbers import jain
from weir.runs.point import Json, Point

_SECONDS = 180
_APART_S = 10.0
_SEEDS = 10
_QUEUE = 50
_RATE_BPS = 10_000_000
# R4 of 003-spec section 11.
_PLAIN = (0.85, 0.95)
_IN_TURNS = 0.995


def fairness(*, kind: str, seconds: float, seed: int) -> Json:
    """Jain's index in each second, and the flows' rates in kbit/s; `kind` is plain or turns."""
    starts_s = tuple(number * _APART_S + (seed * 0.37 + number * 0.11) % 1 for number in range(3))
    setting = Setting(
        "V2",
        starts_s,
        seconds,
        _QUEUE,
        linked_ack="strict" if kind == "turns" else None,
        rate_bps=_RATE_BPS,
        seed=seed,
    )
    looks = rows(run(setting, sample="1 s")["traces"]["connections"])
    delivered: dict[str, dict[int, int]] = {f"flow-{number}": {} for number in (1, 2, 3)}
    for look in looks:
        if look["traffic"] in delivered:
            second = int(look["time_ns"]) // 10**9
            delivered[look["traffic"]][second] = int(look["delivered_bytes"])
    first = round(2 * _APART_S) + 2
    rates = [
        [(known[second + 1] - known[second]) * 8e-3 for known in delivered.values()]
        for second in range(first, round(seconds) - 1)
    ]
    return {"jain": [jain(each) for each in rates if any(each)], "rates_kbps": rates}


def _points(*kinds: str) -> Any:
    def points(quick: bool) -> list[Point]:
        seeds = range(1, 3) if quick else range(1, _SEEDS + 1)
        return [
            Point(fairness, {"kind": kind, "seconds": _SECONDS, "seed": seed})
            for kind in kinds
            for seed in seeds
        ]

    return points


Run = dict[str, Any]


def _means(results: Sequence[Json]) -> list[float]:
    return [mean(run["jain"]) for run in cast(Sequence[Run], results)]


def _plain(results: Sequence[Json]) -> Outcome:
    found = _means(results)
    ours = f"Jain index {words(found, '.4f')}"
    return Outcome(ours, *_of_plain(mean(found)), ours)


def _of_plain(index: float) -> tuple[Verdict, str]:
    if _PLAIN[0] <= index <= _PLAIN[1]:
        return Verdict.TREND_HOLDS, ""
    reason = (
        f"it follows from when the flows begin, the queue and how long a sample is, none of which "
        f"is given: {_PLAIN[0]} to {_PLAIN[1]} was expected (R4)"
    )
    return Verdict.DIFFERS, reason


def _turns(results: Sequence[Json]) -> Outcome:
    found = _means(results)
    ours = f"Jain index {words(found, '.4f')}"
    verdict = Verdict.MATCHES if mean(found) > _IN_TURNS else Verdict.DIFFERS
    reason = (
        "each second over 10 Mbit/s, which is chosen here: a turn is 16 KiB where few wait, and "
        "over 1.5 Mbit/s a second has too few turns for more than 0.99"
    )
    return Outcome(ours, verdict, reason, ours)


def _both(results: Sequence[Json]) -> Outcome:
    half = len(results) // 2
    plain, turns = _means(results[:half]), _means(results[half:])
    gain = 100 * (mean(turns) / mean(plain) - 1)
    ours = f"{words(plain, '.4f')} plain, {words(turns, '.4f')} in turns (+{gain:.1f} %)"
    if mean(turns) <= _IN_TURNS:
        return Outcome(ours, Verdict.DIFFERS)
    return Outcome(ours, *_of_plain(mean(plain)), f"in turns: {words(turns, '.4f')}")


def _plot_rates(results: Sequence[Json], path: Path) -> None:
    rates = cast(Sequence[Run], results)[0]["rates_kbps"]
    series = [
        charts.Series(
            f"flow {number + 1}", [(float(at), each[number], 0.0) for at, each in enumerate(rates)]
        )
        for number in range(3)
    ]
    charts.lines(path, "Three flows", "s", "kbit/s", series)


def _plot_index(results: Sequence[Json], path: Path) -> None:
    runs = cast(Sequence[Run], results)
    series = [
        charts.Series(name, [(float(at), index, 0.0) for at, index in enumerate(run["jain"])])
        for name, run in (("plain", runs[0]), ("in turns", runs[len(runs) // 2]))
    ]
    charts.lines(path, "Jain's index of three flows", "s", "index", series)


ROWS = [
    Row(
        "003-fig-2.12",
        "Three CUBIC flows over one bottleneck, plain",
        "Jain index 0.8914",
        _points("plain"),
        _plain,
        _plot_rates,
    ),
    Row(
        "003-fig-2.13",
        "The same with weighted round robin on the proxy",
        "Jain index 0.9993 (+12.1 %)",
        _points("turns"),
        _turns,
        _plot_rates,
    ),
    Row(
        "003-fig-2.14",
        "The Jain index of both over time",
        "Jain index 0.8914 plain, 0.9993 with weighted round robin (+12.1 %)",
        _points("plain", "turns"),
        _both,
        _plot_index,
    ),
]
