"""Work 004, chapter 3: adaptive video over DualQ, RED, PIE and FQ-CoDel, figures 3.6 to 3.22.

Testbed T2 (004-spec sections 7.2 and 8.2): 20 Mbit/s, 20 ms, ten minutes, a player among ten long
flows; experiments H1 to H10. The player is the surrogate of section 6.3, which fears variance. One
thing differs from it: a sample of throughput counts what both of its connections brought while a
chunk came. With the chunk alone no level above a single flow's fair share can be reached, so H2 and
H8 were out of reach from the start (004-spec section 8.2, "requires HAS to use both connections").
"""

import itertools
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from studies.rig.access_line import (
    Line,
    control,
    dual_curvy_red,
    dual_pi2,
    fq_codel,
    long_flows,
    mbit_s,
    pie,
    read,
    red,
    sent,
)
from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from weir.lab.scenario import Queue
from weir.runs.point import Json, Point
from weir.sim.traffic import SimulatedTraffic, Video, Web

LINE = Line(rate_bps=20_000_000, rtt_ns=20_000_000)
LEVELS = (230, 331, 477, 688, 991, 1427, 2056, 2962)
"""kbit/s of the video's encodings."""
SECONDS = 600

RED_MAX_PROBABILITY = 0.006
"""Calibrated on the queue of H3."""
DUALQ = dual_curvy_red(range_ns=62_500_000, coupling=2.0)
"""Calibrated on the queue of H1; the coupling equalises windows, as the work says."""
SAMPLES, CAUTION = 10, 2.0
"""The player's: calibrated on H1 alone, then left as they are."""
WEB_SHAPE, WEB_PER_S = 0.9, 22.0
"""Web load beside video: calibrated on H9."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """What streams over which queue among what.

    Attributes:
        queue: in front of the line, named `aqm` in tables.
        player: the congestion control of the video's server.
        background: long flows of each control.
        web: controls of web loads.
    """

    aqm: str
    queue: Queue
    player: str
    background: Mapping[str, int]
    web: tuple[str, ...] = ()


L4S_PACKETS, L4S_PACKETS_P99 = 7, 15
"""Packets that may wait in H2, in the median and at the 99th percentile (004-spec section 14.2)."""
_RENO, _DCTCP = {"reno": 10}, {"dctcp": 10}
_MIXED = {"dctcp": 5, "reno": 5}
_RED = red(ecn=False, max_probability=RED_MAX_PROBABILITY)
EXPERIMENTS = {
    "H1": Experiment("DualQ", DUALQ, "ctcp", _RENO),
    "H2": Experiment("DualQ", DUALQ, "dctcp-windows", _DCTCP),
    "H3": Experiment("RED", _RED, "ctcp", _RENO),
    "H4": Experiment("RED", _RED, "dctcp-windows", _RENO),
    "H5": Experiment("PIE", pie(ecn=False), "ctcp", _RENO),
    "H6": Experiment("FQ-CoDel", fq_codel(), "ctcp", _RENO),
    "H7": Experiment("DualQ", DUALQ, "ctcp", _MIXED),
    "H8": Experiment("DualQ", DUALQ, "dctcp-windows", _MIXED),
    "H9": Experiment("DualQ", DUALQ, "ctcp", _MIXED, ("dctcp", "reno")),
    "H10": Experiment("DualQ", DUALQ, "dctcp-windows", _MIXED, ("dctcp", "reno")),
    "CTCP among Reno": Experiment("DualPI2", dual_pi2(), "ctcp", _RENO),
    "Prague among Prague": Experiment("DualPI2", dual_pi2(), "prague", {"prague": 10}),
    "Prague among both": Experiment("DualPI2", dual_pi2(), "prague", {"prague": 5, "reno": 5}),
    "BBR v3 among BBR v3, FQ": Experiment("FQ-CoDel", fq_codel(), "bbr3", {"bbr3": 10}),
    "BBR v3 among BBR v3, PIE": Experiment("PIE", pie(ecn=False), "bbr3", {"bbr3": 10}),
}


def web_load(kind: str, shape: float, per_s: float) -> SimulatedTraffic:
    """Requests of a control (004-spec section 6.5)."""
    return sent(f"web-{kind}", Web(control(kind), per_s, shape))


def run(
    experiment: str,
    seed: int,
    caution: float = CAUTION,
    of_both: bool = True,
    red_max_probability: float | None = None,
    seconds: int = SECONDS,
    web: Sequence[float] = (WEB_SHAPE, WEB_PER_S),
) -> Json:
    """Ten minutes: the player's levels and rate, the others' rates, the queue.

    Args:
        experiment: a name of `EXPERIMENTS`.
        seed: of the run.
        caution: standard deviations that the player takes off its estimate.
        of_both: whether its samples count both connections.
        red_max_probability: instead of the experiment's.
        seconds: instead of ten minutes.
        web: shape of the objects' sizes, requests a second of each kind.
    """
    setting = EXPERIMENTS[experiment]
    queue = setting.queue
    if red_max_probability is not None:
        calibrated = {**queue.parameters, "max_probability": red_max_probability}
        queue = replace(queue, parameters=calibrated)
    video_player = Video(control(setting.player), SAMPLES, caution, of_both)
    start_ns = random.Random(f"player {seed}").randrange(10**9)
    player = sent("player", video_player, start_ns)
    traffic = [*long_flows(setting.background, seed), player]
    traffic += [web_load(kind, *web) for kind in setting.web]
    answer = LINE.run(queue, traffic, seconds, seed, trace_ns=100_000_000)
    (video,) = (flow for flow in answer["flows"] if flow["name"] == "player")
    levels = video["application"]["level_ns"]
    rates = {kind: cast(Json, mbit_s(answer, kind)) for kind in setting.background}
    return {
        "levels": [span / sum(levels) for span in levels],
        "stalls": video["application"]["stalls"],
        "player": video["goodput_bps"] / 1e6,
        "rates": rates,
        "variation": cast(Json, _variation(answer, setting.background)),
        "queue": LINE.queue(answer),
        "packets": cast(Json, _backlog(answer)),
    }


def _backlog(answer: Mapping[str, Any]) -> list[int]:
    """Median and 99th percentile of the packets that wait, over the looks."""
    looks = read(answer, "queues")
    waiting = sorted(int(packets) for _, _, way, packets, _ in looks if way == "forward")
    return [waiting[len(waiting) * percent // 100] for percent in (50, 99)]


def _variation(answer: Mapping[str, Any], kinds: Mapping[str, int]) -> dict[str, float]:
    """Long flows' standard deviation of the rate in each second, over its mean."""
    delivered: dict[str, list[int]] = {}
    for at_ns, name, *_, acked in read(answer, "connections"):
        if int(at_ns) % 10**9 == 0:
            delivered.setdefault(name, []).append(int(acked))
    spread: dict[str, list[float]] = {kind: [] for kind in kinds}
    for name, bytes_at in delivered.items():
        # The first ten seconds belong to the start.
        rates = [after - before for before, after in itertools.pairwise(bytes_at[10:])]
        spread[name.split(" ")[0]].append(statistics.pstdev(rates) / statistics.fmean(rates))
    return {kind: mean(values) for kind, values in spread.items()}


Run = Mapping[str, Any]
Experiments = dict[str, list[Run]]


def points(experiments: Sequence[str], quick: bool) -> list[Point]:
    """The runs of some experiments."""
    few = (1,) if any(EXPERIMENTS[name].web or " " in name for name in experiments) else (1, 2)
    seeds = few if quick else (1, 2, 3, 4, 5)
    return [
        Point(run, {"experiment": name, "seed": seed}) for name in experiments for seed in seeds
    ]


def levels(runs: Sequence[Run]) -> list[float]:
    """The share of the time at each level."""
    return [mean(shares) for shares in zip(*(run["levels"] for run in runs), strict=True)]


def modal(runs: Sequence[Run]) -> int:
    """The level that was on for longest, in kbit/s."""
    shares = levels(runs)
    return LEVELS[shares.index(max(shares))]


_ALSO = {"H5": (2056, 0.01), "H6": (991, 0.1), "H9": (688, 0.2)}
"""Which other level is seen for at least which share of the time: "sometimes", "often"."""


def is_right(name: str, level: int, runs: Sequence[Run]) -> bool:
    """The condition of 004-spec section 14.2 on the levels of one experiment."""
    also, least = _ALSO.get(name, (level, 0.0))
    return modal(runs) == level and levels(runs)[LEVELS.index(also)] >= least


def quality(runs: Sequence[Run]) -> float:
    """The mean level in kbit/s."""
    return sum(share * rate for share, rate in zip(levels(runs), LEVELS, strict=True))


def _described(name: str, runs: Sequence[Run]) -> str:
    shares = [
        f"{rate} for {share:.0%}"
        for rate, share in zip(LEVELS, levels(runs), strict=True)
        if share >= 0.05
    ]
    setting = EXPERIMENTS[name]
    return f"{name} ({setting.aqm}, {setting.player}) {', '.join(shares)} of the time"


# --- levels ---


def _judge_levels(stated: Mapping[str, int], runs: Experiments) -> Outcome:
    """Whether the level that is on for longest is the stated one."""
    ours = "kbit/s: " + "; ".join(_described(name, runs[name]) for name in stated)
    right = [is_right(name, level, runs[name]) for name, level in stated.items()]
    interval = "; ".join(
        f"{name}: {words([quality([run]) for run in runs[name]], '.0f')} kbit/s" for name in stated
    )
    missed = [name for name, hit in zip(stated, right, strict=True) if not hit]
    first, last = (quality(runs[name]) for name in stated)
    least, most = stated.values()
    ordered = least != most and (first - last) * (least - most) > 0
    verdict = Verdict.MATCHES
    if missed:
        unstated = Verdict.CANNOT_FOLLOW if _UNSTATED.issuperset(missed) else Verdict.DIFFERS
        verdict = Verdict.TREND_HOLDS if ordered else unstated
    reason = "; ".join(_WHY[name] for name in missed)
    return Outcome(ours, verdict, reason, interval)


_UNSTATED = {"H2", "H4", "H6", "H7", "H8", "H10"}
"""Where the level hangs on how the work's player decides, which it does not say (AMB-9), or on a
web load that it states inconsistently (AMB-12)."""
_WHY = {
    "H1": "H1 is what the player was calibrated on",
    "H2": "H2: a flow's mean share is the same as in H1, and after each pause between chunks DCTCP "
    "begins again under 75 % marks; how the work's player made 2 056 of it is not stated (AMB-9)",
    "H3": "H3: between two levels",
    "H4": "H4: without marks this DCTCP halves as Reno does, and so does CTCP below 41 segments: "
    "H3 and H4 are the same here; the work found CTCP the better competitor, without a cause",
    "H5": "H5: between two levels",
    "H6": "H6: equal rates are steady, so this player, which fears variance only, does not fall "
    "to 991; how the work's player decides is not stated (AMB-9)",
    "H7": "H7: near the boundary of two levels (004-spec section 8.2)",
    "H8": "H8: between two levels",
    "H9": "H9: the web load is not stated consistently (AMB-12)",
    "H10": "H10: the web load is not stated consistently (AMB-12); in some runs L4S is overloaded, "
    "and what the player sends again, not ECN-capable, waits behind it",
}


# --- rates of the flows ---


def _rates(name: str, runs: Experiments) -> str:
    parts = []
    for kind in EXPERIMENTS[name].background:
        flows = [
            mean([run["rates"][kind][i] for run in runs[name]]) for i in _flows(runs, name, kind)
        ]
        variation = mean([run["variation"][kind] for run in runs[name]])
        parts.append(
            f"{kind} {mean(flows):.2f} ({min(flows):.2f} to {max(flows):.2f}, from second to "
            f"second ± {variation:.0%})"
        )
    player = _player(runs[name])
    return f"{name}: {', '.join(parts)}, player {player:.2f}"


def _flows(runs: Experiments, name: str, kind: str) -> range:
    return range(len(runs[name][0]["rates"][kind]))


def _spread(runs: Sequence[Run], kind: str) -> float:
    """The slowest long flow's rate over the fastest one's."""
    flows = [mean(rates) for rates in zip(*(run["rates"][kind] for run in runs), strict=True)]
    return min(flows) / max(flows)


def _of(runs: Sequence[Run], kind: str) -> float:
    return mean([mean(run["rates"][kind]) for run in runs])


def _varies(runs: Sequence[Run], kind: str) -> float:
    return mean([run["variation"][kind] for run in runs])


def _judge_rates(holds: Callable[[Experiments], bool], why: str, runs: Experiments) -> Outcome:
    ours = "Mbit/s: " + "; ".join(_rates(name, runs) for name in runs)
    interval = "; ".join(
        f"{name}, player: {words([run['player'] for run in found])} Mbit/s"
        for name, found in runs.items()
    )
    verdict = Verdict.TREND_HOLDS if holds(runs) else Verdict.DIFFERS
    return Outcome(ours, verdict, why, interval)


def _judge_sawtooth(runs: Experiments) -> Outcome:
    """Judge H1 and H2: the queue makes the sawtooth, the player chooses the stream's rate."""
    smaller = _varies(runs["H2"], "dctcp") < _varies(runs["H1"], "reno") / 2
    faster = _player(runs["H2"]) > _player(runs["H1"])
    why = "" if faster else "the sawtooth is smaller; the stream is not faster, as in figure 3.6"
    outcome = _judge_rates(lambda _: smaller, why, runs)
    unstated = smaller and not faster
    return replace(outcome, verdict=Verdict.CANNOT_FOLLOW) if unstated else outcome


def _player(runs: Sequence[Run]) -> float:
    return mean([run["player"] for run in runs])


# --- queues ---


def _waits(runs: Sequence[Run], name: str, what: str) -> float:
    return mean([run["queue"][name][what] for run in runs])


def _judge_waits(holds: Callable[[Experiments], bool], runs: Experiments) -> Outcome:
    said = []
    for name, found in runs.items():
        classes = [key for key, value in found[0]["queue"].items() if isinstance(value, dict)]
        waits = [
            f"{one} {_waits(found, one, 'p50_ms'):.1f} / {_waits(found, one, 'p99_ms'):.1f}"
            for one in classes
            if _waits(found, one, "p99_ms") > 0
        ]
        mean_ms = mean([run["queue"]["mean_ms"] for run in found])
        said.append(f"{name} ({EXPERIMENTS[name].aqm}) {', '.join(waits)}, mean {mean_ms:.1f}")
    ours = f"ms waited, median / 99th percentile: {'; '.join(said)}"
    reason = "percentiles are exact to 1/16"
    if "H2" in runs:
        median, p99 = l4s_packets(runs["H2"])
        ours += f"; in H2 {median:.1f} / {p99:.1f} packets wait"
        if median > L4S_PACKETS or p99 > L4S_PACKETS_P99:
            medians = ", ".join(str(run["packets"][0]) for run in runs["H2"])
            asked = f"{L4S_PACKETS} and {L4S_PACKETS_P99} packets"
            reason += f"; {asked} are asked for H2, whose medians are {medians}"
    interval = "; ".join(
        f"{name}: mean {words([run['queue']['mean_ms'] for run in found], '.1f')} ms"
        for name, found in runs.items()
    )
    verdict = Verdict.TREND_HOLDS if holds(runs) else Verdict.DIFFERS
    return Outcome(ours, verdict, reason, interval)


def h1_and_h2_waits(runs: Experiments) -> bool:
    """004-spec section 14.2, of H1 and H2: Classic below 25 ms, L4S at most so many packets."""
    median, p99 = l4s_packets(runs["H2"])
    few = median <= L4S_PACKETS and p99 <= L4S_PACKETS_P99
    return few and 15 <= _waits(runs["H1"], "classic", "p99_ms") <= 25


def l4s_packets(runs: Sequence[Run]) -> tuple[float, float]:
    """Median and 99th percentile of the packets that wait, where all are L4S."""
    return mean([run["packets"][0] for run in runs]), mean([run["packets"][1] for run in runs])


def red_waits(runs: Experiments) -> bool:
    """Likewise, of H3 and H4: a median of 50 to 65 ms."""
    return all(50 <= _waits(found, "all", "p50_ms") <= 65 for found in runs.values())


def pie_and_fq_waits(runs: Experiments) -> bool:
    """Likewise, of H5: a mean of 18 to 22 ms; FQ-CoDel's is lower."""
    means = [mean([run["queue"]["mean_ms"] for run in runs[name]]) for name in ("H5", "H6")]
    return 18 <= means[0] <= 22 and means[1] < means[0]


def mixed_waits(runs: Experiments) -> bool:
    """Whether 99 % of L4S packets wait less than a tenth of what Classic ones do (H7 and H8)."""
    return all(
        _waits(found, "l4s", "p99_ms") < 0.1 * _waits(found, "classic", "p99_ms")
        for found in runs.values()
    )


# --- the rows ---

Judge = Callable[[Experiments], Outcome]


def _row(id_: str, title: str, published: str, names: Sequence[str], judge: Judge) -> Row:
    def of(results: Sequence[Json]) -> Outcome:
        runs = cast(Sequence[Run], results)
        seeds = len(runs) // len(names)
        return judge({name: [*runs[i * seeds : (i + 1) * seeds]] for i, name in enumerate(names)})

    return Row(f"004-fig-{id_}", title, published, lambda quick: points(names, quick), of)


def _levels(id_: str, title: str, published: str, stated: Mapping[str, int]) -> Row:
    return _row(id_, title, published, [*stated], lambda runs: _judge_levels(stated, runs))


def _throughput(
    id_: str,
    title: str,
    published: str,
    names: Sequence[str],
    holds: Callable[[Experiments], bool],
    why: str = "",
) -> Row:
    return _row(id_, title, published, names, lambda runs: _judge_rates(holds, why, runs))


def _queues(
    id_: str, title: str, published: str, names: Sequence[str], holds: Callable[[Experiments], bool]
) -> Row:
    return _row(id_, title, published, names, lambda runs: _judge_waits(holds, runs))


def _is_fair(kind: str) -> Callable[[Experiments], bool]:
    return lambda runs: all(_spread(found, kind) > 0.85 for found in runs.values())


def _is_equal_by_queue(runs: Experiments) -> bool:
    """Equal within 2 % in each run, but for two flows whose hashes collide.

    Of a dozen flows some do in one run of fifteen, with 1024 queues; a flow that shares its queue
    with one of the player's has less, too.
    """
    return all(
        sorted(run["rates"]["reno"])[2] > 0.98 * max(run["rates"]["reno"]) for run in runs["H6"]
    )


_OWN = [name for name in EXPERIMENTS if " " in name]


def _judge_own(runs: Experiments) -> Outcome:
    said = "; ".join(
        f"{_described(name, found)}, player {mean([run['player'] for run in found]):.2f} Mbit/s, "
        f"queue {mean([run['queue']['mean_ms'] for run in found]):.1f} ms, line "
        f"{mean([run['queue']['utilisation'] for run in found]):.0%} used"
        for name, found in runs.items()
    )
    # That each level has its share of the time is all that can be wrong with it.
    whole = all(abs(sum(levels(found)) - 1) < 1e-6 for found in runs.values())
    return Outcome(f"kbit/s: {said}", Verdict.OURS if whole else Verdict.DIFFERS)


ROWS = [
    _levels(
        "3.6",
        "Adaptive streaming over DualQ: segment quality with CTCP and DCTCP",
        "CTCP 1 427 kbit/s, DCTCP 2 056 kbit/s sustained",
        {"H1": 1427, "H2": 2056},
    ),
    _throughput(
        "3.7",
        "DualQ: throughput of each flow, Reno background, CTCP stream",
        "sawtooth, fair on average",
        ["H1"],
        _is_fair("reno"),
    ),
    _row(
        "3.8",
        "DualQ: throughput of each flow, DCTCP background, DCTCP stream",
        "much smaller sawtooth, the stream higher on average",
        ["H1", "H2"],
        _judge_sawtooth,
    ),
    _queues(
        "3.9",
        "DualQ: distribution of the queue",
        "Classic about 20 ms at most; L4S a couple of packets",
        ["H1", "H2"],
        h1_and_h2_waits,
    ),
    _levels(
        "3.10",
        "Adaptive streaming over RED: segment quality with CTCP and DCTCP",
        "CTCP about 1 427 kbit/s, DCTCP about 991 kbit/s",
        {"H3": 1427, "H4": 991},
    ),
    _throughput(
        "3.11",
        "RED: throughput of each flow, CTCP stream",
        "about fair (curves only)",
        ["H3"],
        _is_fair("reno"),
    ),
    _throughput(
        "3.12",
        "RED: throughput of each flow, DCTCP stream without ECN",
        "the stream below the background",
        ["H4"],
        lambda runs: _player(runs["H4"]) < _of(runs["H4"], "reno"),
        "as with CTCP in figure 3.11: without marks both halve alike",
    ),
    _queues(
        "3.13",
        "RED: distribution of the queue",
        "about 60 ms most of the time",
        ["H3", "H4"],
        red_waits,
    ),
    _levels(
        "3.14",
        "Adaptive streaming over PIE and FQ-CoDel: segment quality with CTCP",
        "PIE 1 427, sometimes 2 056 kbit/s; FQ-CoDel 1 427, often 991 kbit/s",
        {"H5": 1427, "H6": 1427},
    ),
    _throughput(
        "3.15", "PIE: throughput of each flow", "about fair (curves only)", ["H5"], _is_fair("reno")
    ),
    _throughput(
        "3.16",
        "FQ-CoDel: throughput of each flow",
        "strictly equal rates",
        ["H6"],
        _is_equal_by_queue,
        "flows whose hashes collide share what one queue has",
    ),
    _queues(
        "3.17",
        "PIE and FQ-CoDel: distribution of the queue",
        "PIE 20 ms on average; FQ-CoDel low",
        ["H5", "H6"],
        pie_and_fq_waits,
    ),
    _levels(
        "3.18",
        "DualQ, mixed background: segment quality with CTCP and DCTCP",
        "CTCP 991 kbit/s, DCTCP 2 056 kbit/s",
        {"H7": 991, "H8": 2056},
    ),
    _throughput(
        "3.19",
        "DualQ, mixed background: throughput of each flow, CTCP stream",
        "DCTCP flows faster than Reno ones",
        ["H7"],
        lambda runs: _of(runs["H7"], "dctcp") > _of(runs["H7"], "reno"),
    ),
    _throughput(
        "3.20",
        "DualQ, mixed background: throughput of each flow, DCTCP stream",
        "the stream higher than with CTCP",
        ["H7", "H8"],
        lambda runs: (
            mean([run["player"] for run in runs["H8"]])
            > mean([run["player"] for run in runs["H7"]])
        ),
    ),
    _queues(
        "3.21",
        "DualQ, mixed background: distribution of the queues",
        "the L4S queue very shallow in both",
        ["H7", "H8"],
        mixed_waits,
    ),
    _levels(
        "3.22",
        "DualQ, mixed background and web load: segment quality",
        "CTCP alternates 688 and 991 kbit/s, DCTCP 2 056 kbit/s",
        {"H9": 991, "H10": 2056},
    ),
    Row(
        "004-own-3.3-modern",
        "Adaptive streaming over DualPI2, and with Prague and BBR v3",
        "not published; time at each level",
        lambda quick: points(_OWN, quick),
        lambda results: _judge_own(
            {
                name: [*cast(Sequence[Run], results)][
                    i * len(results) // len(_OWN) : (i + 1) * len(results) // len(_OWN)
                ]
                for i, name in enumerate(_OWN)
            }
        ),
    ),
]
