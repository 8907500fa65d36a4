"""Work 004, figures 4.8 and 4.9: long DCTCP and Cubic flows through RED, PIE, FQ-CoDel and DualQ.

Testbed T3 (004-spec sections 7.3 and 8.3): 40 Mbit/s, 7 ms, up to ten flows of each kind, alone or
beside a constant stream of UDP. DCTCP is that of Linux 3.18, which does not fall back on a loss.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from studies.rig.access_line import (
    Line,
    dual_curvy_red,
    dual_pi2,
    fq_codel,
    long_flows,
    mbit_s,
    pie,
    red,
    sent,
)
from studies.rig.scales import fair_rate
from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from weir import Rate
from weir._core import estimate
from weir.chart import charts
from weir.runs.point import Json, Point
from weir.sim.traffic import Udp

LINE = Line(rate_bps=40_000_000, rtt_ns=7_000_000)
QUEUES = {
    "RED": red(ecn=True),
    "PIE": pie(ecn=True),
    "FQ-CoDel": fq_codel(),
    "FQ-CoDel, one queue": fq_codel(queues=1),
    "DualQ": dual_curvy_red(range_ns=250_000_000, coupling=8.0),
    "DualQ, average only": dual_curvy_red(250_000_000, 8.0, coupling_input="average"),
    "DualPI2": dual_pi2(),
}
"""The slope and coupling of DualQ follow from 004-spec section 5.2, for T3; RED's probability was
set on H3 (see `studies.works.w004.ch3_calibration`). Nothing was fitted to the figures here."""

_WARMUP_S = 20
_PAYLOAD = 1448 / 1500
_UDP_PAYLOAD_BYTES = 1472


def run(
    queue: str,
    scalable: int,
    classic: int,
    seconds: int,
    seed: int,
    controls: Sequence[str] = ("dctcp", "cubic"),
    cbr_mbit_s: int = 0,
    cbr_ecn: bool = False,
) -> Json:
    """One run: the rate of each flow in Mbit/s, and what the queue did to each class.

    Args:
        queue: a name of `QUEUES`.
        scalable: flows of the first of `controls`.
        classic: flows of the second.
        seconds: of the run, of which the first 20 are not measured.
        seed: of the run.
        controls: congestion controls.
        cbr_mbit_s: of UDP beside them, which does not answer to drops or marks.
        cbr_ecn: whether that is ECN-capable.
    """
    traffic = long_flows(dict(zip(controls, (scalable, classic), strict=True)), seed)
    if cbr_mbit_s:
        udp = Udp(cbr_mbit_s * 10**6, _UDP_PAYLOAD_BYTES)
        traffic.append(sent("cbr", udp, ecn="ect0" if cbr_ecn else None))
    answer = LINE.run(QUEUES[queue], traffic, seconds, seed, warmup_s=_WARMUP_S)
    return {
        "setting": [queue, scalable, classic, *controls, cbr_mbit_s, cbr_ecn],
        "scalable": cast(Json, mbit_s(answer, controls[0])),
        "classic": cast(Json, mbit_s(answer, controls[1])),
        "cbr": sum(mbit_s(answer, "cbr")),
        "queue": LINE.queue(answer),
    }


Run = Mapping[str, Any]
Runs = dict[tuple[Json, ...], list[Run]]


def by_setting(results: Sequence[Json]) -> Runs:
    """The runs of each setting: queue, flows of each kind, controls, UDP."""
    runs: Runs = {}
    for run in cast(Sequence[Run], results):
        runs.setdefault(tuple(run["setting"]), []).append(run)
    return runs


def share(run: Run) -> float:
    """The mean rate of a classic flow over that of a scalable one."""
    return mean(run["classic"]) / mean(run["scalable"])


def _pairs(quick: bool) -> list[tuple[int, int]]:
    if quick:
        return [(n, n) for n in (1, 2, 5, 10)]
    return [(n, m) for n in range(11) for m in range(11) if n + m > 0]


def _points(queues: Sequence[str], quick: bool) -> list[Point]:
    seconds, seeds = (60, (1, 2)) if quick else (250, (1, 2, 3, 4, 5))
    return [
        Point(run, {"queue": queue, "scalable": n, "classic": m, "seconds": seconds, "seed": seed})
        for queue in queues
        for n, m in _pairs(quick)
        for seed in seeds
    ]


def _mixed(runs: Runs, queue: str, least: int = 1) -> dict[tuple[int, int], list[Run]]:
    """The runs of a queue with at least so many flows of both kinds."""
    return {
        (cast(int, n), cast(int, m)): found
        for (name, n, m, *_), found in runs.items()
        if name == queue and min(cast(int, n), cast(int, m)) >= least
    }


def _of_both(runs: Runs, queue: str) -> str:
    """What Cubic has of DCTCP's rate with equally many flows of each, as text."""
    equal = {n: found for (n, m), found in sorted(_mixed(runs, queue).items()) if n == m}
    shares = ", ".join(f"{mean([*map(share, found)]):.0%}" for found in equal.values())
    return f"{queue}: {shares}"


def _class(found: Sequence[Run], name: str, what: str) -> float:
    return mean([run["queue"][name][what] for run in found])


def _is_collided(run: Run) -> bool:
    """Whether a flow shared its queue: it is far from the equal rate."""
    rates = [*run["scalable"], *run["classic"]]
    equal = LINE.rate_bps / 1e6 * _PAYLOAD / len(rates)
    return any(abs(rate / equal - 1) > 0.25 for rate in rates)


def _judge_single(results: Sequence[Json]) -> Outcome:
    """S1, S3 and S5 of 004-spec section 14.2."""
    runs = by_setting(results)
    worst = {
        queue: max(mean([*map(share, found)]) for found in _mixed(runs, queue, 2).values())
        for queue in ("RED", "PIE")
    }
    fair = [run for found in _mixed(runs, "FQ-CoDel").values() for run in found]
    apart = [run for run in fair if not _is_collided(run)]
    unequal = max(abs(share(run) - 1) for run in apart)
    queues = {
        numbers: mean([run["queue"]["mean_ms"] for run in found])
        for numbers, found in _mixed(runs, "PIE").items()
    }
    held = mean([*queues.values()])
    many = _mixed(runs, "PIE", 10)[10, 10]
    drops, marks = _class(many, "all", "dropped"), _class(many, "all", "marked")
    holds = (
        max(worst.values()) < 0.25
        and unequal < 0.1
        and 18 <= held <= 22
        and drops > 0.1
        and marks < 0.01
    )
    ours = (
        f"Cubic's rate over DCTCP's with 1, 2, … flows of each: "
        f"{'; '.join(_of_both(runs, queue) for queue in _SINGLE)}. With two or more of each it is "
        f"at most {worst['RED']:.0%} (RED) and {worst['PIE']:.0%} (PIE). FQ-CoDel: within "
        f"{unequal:.1%} but for {len(fair) - len(apart)} of {len(fair)} runs where flows collided. "
        f"PIE's mean queue is {held:.1f} ms; with 10 flows of each it drops {drops:.0%} and "
        f"marks {marks:.1%}"
    )
    interval = "; ".join(
        f"{queue}, 5 of each: {words([*map(share, _mixed(runs, queue)[5, 5])])}"
        for queue in _SINGLE
    )
    (most, worst_ms), away = max(queues.items(), key=lambda one: one[1]), _away(queues)
    reason = (
        f"PIE drops what it would mark from a probability of 10 % on, and this DCTCP answers to no "
        f"drop: near it, with {away} of DCTCP, the queue is above 22 ms, at most {worst_ms:.0f} ms "
        f"({most[0]} + {most[1]})"
        if away
        else ""
    )
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason, interval)


def _away(queues: Mapping[tuple[int, int], float]) -> str:
    """With which numbers of DCTCP flows the queue is longer than PIE's target by a tenth."""
    numbers = sorted({flows for (flows, _), queue_ms in queues.items() if queue_ms > 22})
    return f"{numbers[0]} to {numbers[-1]} flows" if numbers else ""


def _judge_dual(results: Sequence[Json]) -> Outcome:
    """S6 and S7 of 004-spec section 14.2."""
    runs = by_setting(results)
    mixed = _mixed(runs, "DualQ")
    few = [mean([*map(share, mixed[n, n])]) for n in (1, 2, 5)]
    delay = max(_class(mixed[n, n], "l4s", "p99_ms") for n in (1, 2, 5))
    marks = _class(mixed[10, 10], "l4s", "marked")
    holds = all(0.4 <= ratio <= 2.5 for ratio in few) and few == sorted(few, reverse=True)
    holds = holds and delay < 2 and marks > 0.9
    ours = (
        f"Cubic's rate over DCTCP's with 1, 2, … flows of each: "
        f"{'; '.join(_of_both(runs, queue) for queue in _DUAL)}. DualQ: 99 % of L4S packets wait "
        f"less than {delay:.1f} ms with up to 5 of each; with 10, {marks:.1%} are marked"
    )
    reason = (
        "slope and coupling are not published: 1/4 s and 8 as 004-spec section 5.2 derives; with "
        "10 of each, DCTCP's two segments fill the link and Cubic starves. DualPI2 couples for "
        "equal rates at 25 ms, not at 7 ms"
    )
    interval = "; ".join(
        f"DualQ, {n} of each: {words([*map(share, mixed[n, n])])}" for n in (1, 2, 5, 10)
    )
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason, interval)


def _draw(queues: Sequence[str]) -> Callable[[Sequence[Json], Path], None]:
    def draw(results: Sequence[Json], path: Path) -> None:
        runs = by_setting(results)
        series = [
            charts.Series(
                queue,
                [
                    (n, *estimate([share(run) for run in found]))
                    for (n, m), found in sorted(_mixed(runs, queue).items())
                    if n == m
                ],
            )
            for queue in queues
        ]
        title = "DCTCP beside Cubic at 40 Mbit/s, 7 ms"
        charts.lines(path, title, "flows of each", "Cubic's rate over DCTCP's", series)

    return draw


_SINGLE = ["RED", "PIE", "FQ-CoDel"]
_DUAL = ["DualQ", "DualPI2"]


# --- section 4.3.2: beside a constant stream ---

CBR_QUEUES = ["FQ-CoDel", "DualQ", "DualPI2"]


def _cbr_points(quick: bool) -> list[Point]:
    seconds, seeds = (60, (1, 2)) if quick else (250, (1, 2, 3, 4, 5))
    return [
        Point(
            run,
            {
                "queue": queue,
                "scalable": n,
                "classic": n,
                "seconds": seconds,
                "seed": seed,
                "cbr_mbit_s": rate,
                "cbr_ecn": ecn,
            },
        )
        for queue in CBR_QUEUES
        for n in ((1, 5) if quick else (1, 2, 5, 10))
        for rate in (10, 20)
        for ecn in (False, True)
        for seed in seeds
    ]


def cbr_kept(found: Sequence[Run]) -> float:
    """What the constant stream got, in Mbit/s."""
    return mean([run["cbr"] for run in found])


def cbr_left(found: Sequence[Run]) -> float:
    """The mean rate of a responsive flow over its equal share of what the stream leaves."""
    _, n, m, _, _, rate, _ = found[0]["setting"]
    taken = Rate.from_bit_per_s(rate * 10**6)
    fair = fair_rate(Rate.from_bit_per_s(LINE.rate_bps), taken, n + m)
    equal = fair.bit_per_s / 1e6 * _PAYLOAD
    return mean([mean([*run["scalable"], *run["classic"]]) / equal for run in found])


def _judge_cbr(results: Sequence[Json]) -> Outcome:
    """The CBR condition of 004-spec section 14.2."""
    runs = by_setting(results)
    said, kept_right, left_right = [], [], []
    for (queue, n, m, _, _, rate, ecn), found in runs.items():
        flows = cast(int, n) + cast(int, m)
        kept, left = cbr_kept(found), cbr_left(found)
        if queue == "FQ-CoDel":
            equal = min(float(cast(int, rate)), LINE.rate_bps / 1e6 / (flows + 1))
            kept_right.append(abs(kept / equal - 1) < 0.1)
        elif queue == "DualQ":
            left_right.append(abs(left - 1) < 0.15)
        if rate == 20 and n in (1, 5):
            shares = mean([*map(share, found)])
            kind = "ECT" if ecn else "not ECT"
            said.append(
                f"{queue} {n}+{m}, {kind}: UDP {kept:.1f}, flows {left:.0%} of an equal share of "
                f"the rest, Cubic/DCTCP {shares:.2f}"
            )
    ours = (
        f"of 20 Mbit/s offered, with DCTCP + Cubic flows: {'; '.join(said)}. FQ-CoDel gives UDP "
        f"its equal share in {sum(kept_right)} of {len(kept_right)} settings; DualQ leaves the "
        f"flows theirs in {sum(left_right)} of {len(left_right)}"
    )
    holds = all(kept_right) and all(left_right)
    reason = (
        "the flows share what UDP leaves, but as in figure 4.9 not evenly between the kinds once "
        "DCTCP's two segments a round trip are more than an equal share"
    )
    one = runs["FQ-CoDel", 1, 1, "dctcp", "cubic", 20, False]
    interval = f"FQ-CoDel 1+1: UDP {words([run['cbr'] for run in one])} Mbit/s"
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason, interval)


# --- our own: today's scalable control, and BBR, through the same queues ---

_MODERN = ["prague", "bbr3"]


def _modern_points(quick: bool) -> list[Point]:
    seconds, seeds = (60, (1,)) if quick else (250, (1, 2, 3, 4, 5))
    return [
        Point(
            run,
            {
                "queue": queue,
                "scalable": n,
                "classic": n,
                "seconds": seconds,
                "seed": seed,
                "controls": [control, "cubic"],
            },
        )
        for control in _MODERN
        for queue in (*_SINGLE, *_DUAL)
        for n in ((2, 5) if quick else (1, 2, 5, 10))
        for seed in seeds
    ]


def _judge_modern(results: Sequence[Json]) -> Outcome:
    runs = by_setting(results)
    said = []
    for control in _MODERN:
        parts = []
        for queue in (*_SINGLE, *_DUAL):
            # In the order of the points: of the number of flows.
            found = [
                one
                for (name, _, _, first, *_), one in runs.items()
                if (name, first) == (queue, control)
            ]
            shares = ", ".join(f"{mean([*map(share, one)]):.0%}" for one in found)
            parts.append(f"{queue} {shares}")
        said.append(f"{control}: {'; '.join(parts)}")
    ours = f"Cubic's rate over that of {'. '.join(said)}"
    counts = sorted({cast(int, n) for _, n, *_ in runs})
    reason = (
        f"with {', '.join(map(str, counts))} flows of each. "
        "Every ECN-capable packet is L4S here; BBR v3 sends none and shares the Classic queue"
    )
    everywhere = len(runs) == len(_MODERN) * len((*_SINGLE, *_DUAL)) * len(counts)
    return Outcome(ours, Verdict.OURS if everywhere else Verdict.DIFFERS, reason)


ROWS = [
    Row(
        "004-fig-4.8",
        "AQMs under long flows: RED, PIE, FQ-CoDel (120 combinations, 40 Mbit/s, 7 ms)",
        "RED, PIE: DCTCP starves Cubic, PIE holds 20 ms; FQ-CoDel equal but for collisions",
        lambda quick: _points(_SINGLE, quick),
        _judge_single,
        _draw(_SINGLE),
    ),
    Row(
        "004-fig-4.9",
        "AQMs under long flows: DualQ, and DualPI2 beside it",
        "DCTCP and Cubic equal; L4S without a queue; marking near 100 % with ten flows of each",
        lambda quick: _points(_DUAL, quick),
        _judge_dual,
        _draw(_DUAL),
    ),
    Row(
        "004-sec-4.3.2",
        "Long flows beside 10 or 20 Mbit/s of UDP: FQ-CoDel, DualQ, and DualPI2 beside them",
        "FQ-CoDel caps UDP at an equal share; DualQ lets it keep its rate, the others share the "
        "remaining 30 or 20 Mbit/s evenly",
        _cbr_points,
        _judge_cbr,
    ),
    Row(
        "004-own-4.3-modern",
        "Prague and BBR v3 in DCTCP's place beside Cubic, every queue",
        "not published; rate of a Cubic flow over that of the other",
        _modern_points,
        _judge_modern,
    ),
]
