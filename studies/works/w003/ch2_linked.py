"""Work 003, figures 2.7 to 2.9: one flow whose acknowledgements are linked, leg by leg.

The network is as drawn, with the bottleneck behind the split (V1). The client's window is what the
join end's receive window lets it be (003-spec section 2.7.8), 128 KiB here.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w003.ch2_network import Setting, relay_of, rows, run, starts
from weir.chart import charts
from weir.runs.point import Json, Point

_SECONDS = 180
_WINDOW = 128 << 10
_QUEUE = 50
_LOOKS_PER_S = 10
# R2 of 003-spec section 11.
_DIFFERENCE_MOST = 0.03


def legs(*, linked_ack: str, seconds: float, seed: int) -> Json:
    """What came to the join end and what servers acknowledged, queues and the client's window.

    The window is the smaller of the congestion window and what the join end lets the client send.
    """
    setting = Setting(
        "V1",
        starts(1, 1.0, seed),
        seconds,
        _QUEUE,
        linked_ack=linked_ack,
        window=_WINDOW,
        seed=seed,
    )
    result = run(setting, sample="100 ms")
    relay = rows(result["traces"]["relays"])
    client = [
        min(int(look["window_bytes"]), _WINDOW)
        for look in rows(result["traces"]["connections"])
        if look["traffic"] == "flow-1"
    ]
    looks = relay[-len(client) :]

    def column(title: str) -> list[int]:
        return [int(look[title]) for look in looks]

    return {
        "first": column("received_bytes"),
        "third": column("acknowledged_bytes"),
        "join": column("join_queue_bytes"),
        "split": column("split_queue_bytes"),
        "window": client,
        "ahead_bytes_max": relay_of(result)["ahead_bytes_max"],
    }


def _points(quick: bool) -> list[Point]:
    seeds = range(1, 3) if quick else range(1, 11)
    return [
        Point(legs, {"linked_ack": mode, "seconds": _SECONDS, "seed": seed})
        for mode in ("strict", "none")
        for seed in seeds
    ]


Run = dict[str, Any]


def _halves(results: Sequence[Json]) -> tuple[Sequence[Run], Sequence[Run]]:
    runs = cast(Sequence[Run], results)
    return runs[: len(runs) // 2], runs[len(runs) // 2 :]


def _per_s(totals: Sequence[int]) -> list[int]:
    whole = totals[::_LOOKS_PER_S]
    return [after - before for before, after in pairwise(whole)]


def _difference(found: Run) -> float:
    """By how much the throughputs of first and third leg differ in the mean."""
    first, third = _per_s(found["first"]), _per_s(found["third"])
    return abs(mean(first) - mean(third)) / mean(third)


def _lag(found: Run) -> int:
    return int(
        max(first - third for first, third in zip(found["first"], found["third"], strict=True))
    )


def _throughput(results: Sequence[Json]) -> Outcome:
    linked, plain = _halves(results)
    differences = [100 * _difference(found) for found in linked]
    ours = (
        f"first and third leg differ by {words(differences)} % in the mean; without linked "
        f"acknowledgements by {words([100 * _difference(found) for found in plain])} %"
    )
    is_right = mean(differences) < 100 * _DIFFERENCE_MOST
    verdict = Verdict.MATCHES if is_right else Verdict.DIFFERS
    return Outcome(ours, verdict, "", f"{words(differences)} %")


def _bytes(results: Sequence[Json]) -> Outcome:
    linked, plain = _halves(results)
    lags = [_lag(found) / 1e3 for found in linked]
    ahead = max(found["ahead_bytes_max"] for found in linked)
    ours = (
        f"at most {words(lags, '.0f')} kB came to the join end that no server had acknowledged, "
        f"within the client's window of up to {max(map(_window, linked)) / 1e3:.0f} kB; without "
        f"linked acknowledgements {words([_lag(found) / 1e3 for found in plain], '.0f')} kB. "
        f"The client saw {ahead} bytes acknowledged that its server had not"
    )
    is_right = all(_lag(found) <= _window(found) for found in linked) and ahead == 0
    return Outcome(ours, Verdict.MATCHES if is_right else Verdict.DIFFERS)


def _window(found: Run) -> int:
    return int(max(found["window"]))


def _held(found: Run) -> int:
    return int(max(map(sum, zip(found["join"], found["split"], strict=True))))


def _queues(results: Sequence[Json]) -> Outcome:
    linked, plain = _halves(results)
    both = [_held(found) for found in linked]
    beside = max(map(_held, plain)) / 1e3
    ours = (
        f"client's window up to {max(map(_window, linked)) / 1e3:.0f} kB; join end "
        f"{max(max(found['join']) for found in linked) / 1e3:.0f} kB, split end "
        f"{max(max(found['split']) for found in linked) / 1e3:.0f} kB, both "
        f"{max(both) / 1e3:.0f} kB at most; without linked acknowledgements both "
        f"{beside:.0f} kB"
    )
    is_right = all(held <= _window(found) for held, found in zip(both, linked, strict=True))
    return Outcome(ours, Verdict.MATCHES if is_right else Verdict.DIFFERS)


def _line(name: str, values: Sequence[float], step_s: float) -> charts.Series:
    return charts.Series(name, [(at * step_s, value, 0.0) for at, value in enumerate(values)])


def _plot_throughput(results: Sequence[Json], path: Path) -> None:
    found = cast(Sequence[Run], results)[0]
    series = [
        _line(name, [8e-3 * value for value in _per_s(found[leg])], 1.0)
        for name, leg in (("before the join", "first"), ("after the split", "third"))
    ]
    charts.lines(path, "Throughput of the outer legs", "s", "kbit/s", series)


def _plot_bytes(results: Sequence[Json], path: Path) -> None:
    found = cast(Sequence[Run], results)[0]
    series = [
        _line(name, [1e-6 * value for value in found[leg][::_LOOKS_PER_S]], 1.0)
        for name, leg in (("before the join", "first"), ("after the split", "third"))
    ]
    charts.lines(path, "Received on the outer legs", "s", "MB", series)


def _plot_queues(results: Sequence[Json], path: Path) -> None:
    found = cast(Sequence[Run], results)[0]
    series = [
        _line(name, [1e-3 * value for value in found[key][::_LOOKS_PER_S]], 1.0)
        for name, key in (("client's window", "window"), ("join end", "join"), ("split", "split"))
    ]
    charts.lines(path, "What waits in both ends", "s", "kB", series)


ROWS = [
    Row(
        "003-fig-2.7",
        "Throughput before the join and after the split, coupled by Linked-ACK",
        "about equal",
        _points,
        _throughput,
        _plot_throughput,
    ),
    Row(
        "003-fig-2.8",
        "Bytes received before the join and after the split",
        "the curves nearly overlap",
        _points,
        _bytes,
        _plot_bytes,
    ),
    Row(
        "003-fig-2.9",
        "Client's congestion window and the queues of both proxies",
        "each queue below the window, their sum typically too",
        _points,
        _queues,
        _plot_queues,
    ),
]
