"""Work 004, figures 3.23 and 3.24: web objects over DualQ, DCTCP's beside Reno's.

Testbed T2 (004-spec sections 6.5, 7.2 and 8.2): 100 requests a second of each kind, sizes from 1 KB
to 1 MB, alone (W1) or beside five long flows of each (W2); over DualPI2, with Prague and BBR v3, in
the same place for comparison. Sizes have the stated shape of 0.9; W1 also with that of the web load
beside video, which was calibrated (`studies.works.w004.ch3_streaming`).
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from studies.rig.access_line import dual_pi2, long_flows, mbit_s, read
from studies.rig.scales import reference_time
from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w004.ch3_streaming import DUALQ, LINE, web_load
from weir import Bytes, Rate, Time
from weir.lab.scenario import Queue
from weir.runs.point import Json, Point

_PER_S = 100.0
_SHAPE = 0.9
SMALLER_SHAPE = 1.5
"""With which the load is a third: 4.6 Mbit/s (AMB-12)."""
_BIN_MS, _BINS = 20, 50


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of two controls, ECN-capable ones first, through a queue."""

    aqm: str
    queue: Queue
    kinds: tuple[str, str]
    long_flows: int = 0
    shape: float = _SHAPE


LOADS = {
    "W1": Load("DualQ", DUALQ, ("dctcp", "reno")),
    "W1, smaller": Load("DualQ", DUALQ, ("dctcp", "reno"), shape=SMALLER_SHAPE),
    "W2": Load("DualQ", DUALQ, ("dctcp", "reno"), 5),
    "Prague": Load("DualPI2", dual_pi2(), ("prague", "cubic")),
    "BBR v3": Load("DualPI2", dual_pi2(), ("bbr3", "cubic")),
}


def run(load: str, seconds: int, seed: int) -> Json:
    """How long the objects of each kind took, and of the long flows rate, RTT and window.

    Args:
        load: a name of `LOADS`.
        seconds: of the run.
        seed: of the run.
    """
    setting = LOADS[load]
    traffic = long_flows(dict.fromkeys(setting.kinds, setting.long_flows), seed)
    traffic += [web_load(kind, setting.shape, _PER_S) for kind in setting.kinds]
    answer = LINE.run(setting.queue, traffic, seconds, seed, trace_ns=100_000_000)
    objects: dict[str, list[tuple[int, float]]] = {f"web-{kind}": [] for kind in setting.kinds}
    for _, name, size, took_ns in read(answer, "requests"):
        objects[name].append((int(size), int(took_ns) / 1e6))
    windows = _windows(answer, setting.kinds) if setting.long_flows else {}
    return {
        "web": {kind: of_objects(objects[f"web-{kind}"]) for kind in setting.kinds},
        "rates": {kind: cast(Json, mbit_s(answer, kind)) for kind in setting.kinds},
        "windows": cast(Json, windows),
        "queue": LINE.queue(answer),
    }


def of_objects(taken: Sequence[tuple[int, float]]) -> Json:
    """Quantiles of (size in bytes, ms); of the time also over the least that the size needs."""
    rtt, rate = Time.from_ns(LINE.rtt_ns), Rate.from_bit_per_s(LINE.rate_bps)
    least = [reference_time(Bytes.from_count(size), rtt, rate).ns / 1e6 for size, _ in taken]
    ratios = sorted(ms / ideal for (_, ms), ideal in zip(taken, least, strict=True))
    spans = sorted(ms for _, ms in taken)
    bins = [0] * _BINS
    for ms in spans:
        if ms < _BIN_MS * _BINS:
            bins[int(ms) // _BIN_MS] += 1
    return {
        "count": len(spans),
        "ratio": [ratios[len(ratios) * percent // 100] for percent in (50, 95)],
        "ms": [spans[len(spans) * percent // 100] for percent in (50, 95)],
        "bins": bins,
    }


def _windows(answer: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, list[float]]:
    """Each kind's long flows: mean window in segments, and its deviation over its mean."""
    seen: dict[str, list[int]] = {}
    for at_ns, name, _, window, *_ in read(answer, "connections"):
        if int(at_ns) >= 10 * 10**9:
            seen.setdefault(name, []).append(int(window))
    found: dict[str, list[float]] = {}
    for kind in kinds:
        flows = [windows for name, windows in seen.items() if name.split(" ")[0] == kind]
        spread = [statistics.pstdev(windows) / statistics.fmean(windows) for windows in flows]
        found[kind] = [mean([*map(statistics.fmean, flows)]) / 1448, mean(spread)]
    return found


Run = Mapping[str, Any]


def of_web(runs: Sequence[Run], kind: str, what: str, index: int) -> float:
    """A quantile of the objects of a kind."""
    return mean([run["web"][kind][what][index] for run in runs])


def cluster_ms(runs: Sequence[Run], kind: str) -> int | None:
    """Where, above 160 ms, objects of a kind cluster: the begin of those 20 ms.

    That is the span that stands out most over a less frequent one between 160 ms and it; none if
    counts only fall.
    """
    bins = [sum(counts) for counts in zip(*(run["web"][kind]["bins"] for run in runs), strict=True)]
    late = bins[160 // _BIN_MS :]
    rise = [count - min(late[: at + 1]) for at, count in enumerate(late)]
    # A rise of a few objects is noise.
    if max(rise) < max(5, sum(late) // 100):
        return None
    return 160 + _BIN_MS * rise.index(max(rise))


def _points(loads: Sequence[str], quick: bool) -> list[Point]:
    seconds, seeds = (120, (1, 2)) if quick else (600, (1, 2, 3, 4, 5))
    return [
        Point(run, {"load": load, "seconds": seconds, "seed": seed})
        for load in loads
        for seed in seeds
    ]


def described(runs: Sequence[Run], kind: str) -> str:
    """The objects of a kind in words."""
    cluster = cluster_ms(runs, kind)
    where = f"a cluster at {cluster} to {cluster + _BIN_MS} ms" if cluster else "no cluster"
    return (
        f"{kind} {of_web(runs, kind, 'ratio', 0):.2f} / {of_web(runs, kind, 'ratio', 1):.2f}, "
        f"95 % within {of_web(runs, kind, 'ms', 1):.0f} ms, {where}"
    )


_HEAD = "time over the least for its size, median / 95th percentile: "


def _judge_w1(results: Sequence[Json]) -> Outcome:
    runs = cast(Sequence[Run], results)
    fourth = len(runs) // 4
    alone, smaller, prague, bbr = (runs[i * fourth : (i + 1) * fourth] for i in range(4))
    ours = (
        f"{_HEAD}{described(alone, 'dctcp')}; {described(alone, 'reno')}. With shape "
        f"{SMALLER_SHAPE}: {described(smaller, 'dctcp')}; {described(smaller, 'reno')}. Over "
        f"DualPI2: {described(prague, 'prague')}; {described(prague, 'cubic')} beside it; "
        f"{described(bbr, 'bbr3')}; {described(bbr, 'cubic')} beside it"
    )
    ratios = [run["web"]["dctcp"]["ratio"][0] for run in alone]
    late = [run["web"]["reno"]["ms"][1] for run in alone]
    interval = f"DCTCP's median {words(ratios)}; Reno's 95th percentile {words(late, '.0f')} ms"
    reason = (
        "a request opens a connection, so that one with a timeout cannot end before 260 ms: two "
        "round trips and SRTT + 200 ms; queues add to both"
    )
    holds = mean(ratios) < 1.5 and mean(late) > 200
    holds = holds and 200 <= (cluster_ms(alone, "reno") or 0) < 400
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason, interval)


def _judge_w2(results: Sequence[Json]) -> Outcome:
    runs = cast(Sequence[Run], results)
    half = len(runs) // 2
    alone, beside = runs[:half], runs[half:]
    said = []
    for kind in ("dctcp", "reno"):
        window, spread = (mean([run["windows"][kind][i] for run in beside]) for i in (0, 1))
        rate = mean([mean(run["rates"][kind]) for run in beside])
        said.append(f"{kind} {window:.1f} segments ± {spread:.0%}, {rate:.2f} Mbit/s")
    ours = (
        f"{_HEAD}{described(beside, 'dctcp')}; {described(beside, 'reno')}. Long flows: "
        f"{'; '.join(said)}"
    )
    windows = [run["windows"]["dctcp"][0] / run["windows"]["reno"][0] for run in beside]
    steady = mean([run["windows"]["dctcp"][1] for run in beside]) < mean(
        [run["windows"]["reno"][1] for run in beside]
    )
    worse = of_web(beside, "reno", "ratio", 1) > of_web(alone, "reno", "ratio", 1)
    good = of_web(beside, "dctcp", "ratio", 0) < of_web(beside, "reno", "ratio", 0) / 2
    holds = steady and worse and good and 0.5 <= mean(windows) <= 2
    reason = (
        "200 requests a second offer 14.4 Mbit/s of 20 (AMB-12): what is left is less than two "
        "segments a round trip for each flow; windows are equal, rates are not"
    )
    interval = f"DCTCP's window over Reno's {words(windows)}"
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason, interval)


ROWS = [
    Row(
        "004-fig-3.23",
        "Web objects over DualQ: completion time against size; Prague and BBR v3 over DualPI2",
        "DCTCP near the minimum; Reno far above, with a cluster at 200 ms",
        lambda quick: _points(["W1", "W1, smaller", "Prague", "BBR v3"], quick),
        _judge_w1,
    ),
    Row(
        "004-fig-3.24",
        "Web objects beside long flows over DualQ",
        "DCTCP still very good, Reno worse; all long flows get a fair share",
        lambda quick: _points(["W1", "W2"], quick),
        _judge_w2,
    ),
]
