"""Work 000, tables 2.1 to 2.3 and figures 2.4 to 2.7: how long ports wait for credits.

The work measured a cluster that is gone. Its worked example is computed again; its campaign is
drawn again on the plan of its cluster; its figures are those of a smaller fabric of its kind,
simulated packet by packet, with what only a simulator can know beside them: how much congestion
the counter misses.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from studies.works.row import Outcome, Row, Verdict
from studies.works.w000 import ch2_fabric
from weir.chart import charts
from weir.format import percent
from weir.observe.infiniband import dump, waiting
from weir.observe.infiniband.statistics import Category, Tally, box
from weir.runs.point import Json, Point

PUBLISHED_ROUNDS: dict[Category, int] = {
    ("Spine", "down"): 63129,
    ("Leaf", "down"): 63527,
    ("Leaf", "up"): 63679,
    ("ToR", "down"): 60217,
    ("ToR", "up"): 60131,
    ("DAVSpine", "down"): 1422,
    ("DAVLeaf", "down"): 1192,
    ("DAVLeaf", "up"): 1133,
    ("GladeSpine", "down"): 1455,
    ("GladeLeaf", "down"): 1165,
    ("GladeLeaf", "up"): 1172,
}
"""Table 2.1."""
ORDER = tuple(PUBLISHED_ROUNDS)
_WORKS_DAYS = 23
_SEEDS = (1, 2, 3, 4, 5, 6, 7, 8)
_OTHER_SEEDS = (101, 102, 103, 104)
_ROUNDS = 1
_MIXES = range(1, 13)
"""Mixes whose numbers are drawn: their ranges were written down before any result was seen."""
_MIX_SEED = 200


def golden() -> Json:
    """Table 2.3: FITF with the work's tick of 22 ns, and with that of 32 bytes on a lane of FDR."""
    ticks, apart_ns, took_ns = 6656811, 120953793, (18350267, 24841529)
    lane = 32 * dump.FDR.symbol_ns
    return {
        "fitf": waiting.fitf(ticks, 22, apart_ns, took_ns),
        "fitf_lane": waiting.fitf(ticks, lane, apart_ns, took_ns),
        "waited_ms": ticks * 22 / 1e6,
        "most_ms": (apart_ns + took_ns[1]) / 1e6,
    }


def _judge_golden(results: Sequence[Json]) -> Outcome:
    (found,) = cast(Sequence[dict[str, float]], results)
    return Outcome(
        f"{found['fitf']:.4f}",
        Verdict.MATCHES if round(found["fitf"], 3) == 1.179 else Verdict.DIFFERS,
        f"6 656 811 ticks of 22 ns are {found['waited_ms']:.1f} ms, more than the "
        f"{found['most_ms']:.1f} ms from the first query to the last answer: the tick is shorter. "
        f"With 32 bytes of a lane, which such switches tell, it is {found['fitf_lane']:.3f}",
    )


def _judge_campaign(results: Sequence[Json]) -> Outcome:
    found: dict[Category, int] = dict.fromkeys(ORDER, 0)
    for result in cast(Sequence[dict[str, int]], results):
        for name, count in result.items():
            kind, way = name.split()
            found[kind, way] += count
    total, published = sum(found.values()), sum(PUBLISHED_ROUNDS.values())
    ratio = {
        one: found[one] / total * published / PUBLISHED_ROUNDS[one]
        for one in ORDER
    }  # fmt: skip
    main = [one for one in ORDER if one[0] in ("ToR", "Leaf")]
    near = all(abs(ratio[one] - 1) < 0.1 for one in main)
    order = sorted(ORDER, key=found.__getitem__)[-5:]
    holds = near and set(order) == set(ORDER[:5])
    said = ", ".join(f"{_name(one)} {found[one]}" for one in ORDER)
    far = ", ".join(f"{_name(one)} {ratio[one]:.2f}" for one in ORDER if abs(ratio[one] - 1) >= 0.1)
    return Outcome(
        f"{total} rounds: {said}",
        Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
        "uniform draws of a switch and of its ports that are up, on the plan of the cluster; "
        f"shares over published ones that are off by a tenth or more: {far}. That spines were "
        "drawn less often than their number says is not explained by the text",
    )


def _campaign_points(quick: bool) -> list[Point]:
    days = 1 if quick else _WORKS_DAYS
    return [Point(ch2_fabric.campaign, {"days": days, "seed": 1})]


def _points(quick: bool) -> list[Point]:
    seeds = _SEEDS[:1] if quick else (*_SEEDS, *_OTHER_SEEDS)
    settings: list[dict[str, Json]] = [{"rounds": _ROUNDS, "seed": seed} for seed in seeds]
    if not quick:
        settings.append({"rounds": _ROUNDS, "seed": _OTHER_SEEDS[0], "wider": True})
        settings += [{"rounds": _ROUNDS, "seed": _MIX_SEED + mix, "mix": mix} for mix in _MIXES]
    return [Point(ch2_fabric.simulated_rounds, one) for one in settings]


Tallies = dict[Category, Tally]
Claims = Callable[[Tallies], dict[str, bool]]
"""What the work says of a figure: each of its claims, and whether it holds."""


def _tried(
    judge: Callable[[Sequence[Json]], Outcome], claims: Claims
) -> Callable[[Sequence[Json]], Outcome]:
    """The same judgement, but told from mixes that nobody chose.

    The text names the kinds of traffic and no numbers. Those that were made up were adjusted after
    results were seen: what holds for them holds by choice. So the verdict is that of numbers that
    are drawn: a trend holds if each claim does in more than half of the mixes.
    """

    def judged(results: Sequence[Json]) -> Outcome:
        outcome = judge(results[: len(_SEEDS)])
        others = results[len(_SEEDS) :][: len(_OTHER_SEEDS)]
        wider, *mixes = results[len(_SEEDS) + len(others) :] or [None]
        if wider is None:
            return outcome
        said = (
            "numbers that were made up, and adjusted after results were seen: "
            f"{outcome.verdict}, with {len(others)} other seeds {judge(others).verdict}, on a "
            f"fabric of twice the hosts {judge([wider]).verdict}"
        )
        outcome = replace(outcome, reason="; ".join(filter(None, (outcome.reason, said))))
        return _of_mixes(outcome, mixes, claims) if mixes else outcome

    return judged


def _of_mixes(outcome: Outcome, mixes: Sequence[Json], claims: Claims) -> Outcome:
    """The verdict by drawn mixes, with how often each claim holds."""
    found = [claims(ch2_fabric.merged([one])) for one in mixes]
    counts = {claim: sum(one[claim] for one in found) for claim in found[0]}
    said = ", ".join(f"{claim} in {count}" for claim, count in counts.items())
    holds = min(counts.values()) > len(mixes) / 2
    decides = (
        "how long, how often and how fast hosts send the text leaves open, and it decides; ranges "
        "and judgement were fixed before any result of these mixes, each of one round a port"
    )
    return replace(
        outcome,
        reason=outcome.reason if holds else f"{decides}; {outcome.reason}",
        ours=f"of {len(mixes)} mixes whose numbers were drawn: {said}; with numbers that were made "
        f"up: {outcome.ours}",
        verdict=Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
    )


def _name(category: Category) -> str:
    return " ".join(category)


def _truth(results: Sequence[Json]) -> str:
    """How far the counter tells of congestion, which the work could not know."""
    runs = [cast(dict[str, Any], one)["truth"] for one in results]
    off = max(cast(dict[str, Any], one)["lost_error"] for one in results)
    waited, explained, congested, seen = (sum(run[place] for run in runs) for place in range(4))
    return (
        f"of the time that ports waited, {percent(explained / waited)} was before a buffer of "
        "which one output had more than half; of the time that a port was congested so, "
        f"{percent(1 - seen / congested)} was not seen by any port that waited; what the counters "
        f"say that a port lost is within {100 * off:.1f} % of the truth"
    )


def _claims_of_shares(tallies: Tallies) -> dict[str, bool]:
    share = {one: tallies[one].waiting_share for one in ORDER}
    return {
        "ToR up above half": share["ToR", "up"] > 0.5,
        "ToR down above half": share["ToR", "down"] > 0.5,
        "GladeLeaf up above down": share["GladeLeaf", "up"] > share["GladeLeaf", "down"],
    }


def _judge_shares(results: Sequence[Json]) -> Outcome:
    tallies = ch2_fabric.merged(results)
    share = {one: tallies[one].waiting_share for one in ORDER if one in tallies}
    claims = _claims_of_shares(tallies)
    said = ", ".join(f"{_name(one)} {percent(value)}" for one, value in share.items())
    reason = f"{_truth(results)}"
    if not claims["ToR down above half"]:
        reason += "; ToR ports down wait where a host is slower than its link, here by a tenth"
    return Outcome(
        f"intervals with waiting: {said}",
        _verdict(claims),
        reason,
        f"ToR down ± {percent(tallies['ToR', 'down'].waiting_margin())}",
    )


def _verdict(claims: Mapping[str, bool]) -> Verdict:
    return Verdict.TREND_HOLDS if all(claims.values()) else Verdict.DIFFERS


def _spread(values: Sequence[float]) -> float:
    found = box(values)
    return found.q3 - found.q1 if found else math.nan


def _spreads(tallies: Tallies, means: bool = False) -> dict[Category, float]:
    """How high each box is."""
    values = {one: tallies[one].means if means else tallies[one].maxima for one in ORDER}
    return {one: _spread(some) for one, some in values.items() if some}


def _tor_and_others(spreads: Mapping[Category, float]) -> tuple[float, float]:
    """The wider spread of ToR ports, and the widest of leaf and spine."""
    tor = (spreads.get(("ToR", way), 0.0) for way in ("up", "down"))
    others = (("Leaf", "up"), ("Leaf", "down"), ("Spine", "down"))
    return max(tor), max(spreads.get(one, 0.0) for one in others)


def _below(tallies: Tallies) -> float:
    """The share of the rounds that waited whose maximum is below 10 %; NaN of none."""
    everything = [one for tally in tallies.values() for one in tally.maxima]
    return float(np.mean(np.array(everything) < 0.1)) if everything else math.nan


def _claims_of_maxima(tallies: Tallies) -> dict[str, bool]:
    spreads = _spreads(tallies)
    tor, others = _tor_and_others(spreads)
    widest = max(spreads, key=spreads.__getitem__, default=("", ""))
    return {
        "most below 10 %": _below(tallies) > 0.5,
        "disks spread most": widest[0].startswith("Glade"),
        "ToR above leaf and spine": tor > others,
    }


def _judge_maxima(results: Sequence[Json]) -> Outcome:
    tallies = ch2_fabric.merged(results)
    spreads = _spreads(tallies)
    widest = max(spreads, key=spreads.__getitem__)
    tor, others = _tor_and_others(spreads)
    claims = _claims_of_maxima(tallies)
    return Outcome(
        f"{percent(_below(tallies))} of the rounds that waited have a maximum below 10 %; the "
        f"widest spread is {_name(widest)}, {spreads[widest]:.2f}; ToR {tor:.3f}, leaf and spine "
        f"{others:.3f}",
        _verdict(claims),
        _what_differs(claims),
    )


def _claims_of_means(tallies: Tallies) -> dict[str, bool]:
    tor, others = _tor_and_others(_spreads(tallies, means=True))
    return {"ToR above leaf and spine": tor > others}


def _judge_means(results: Sequence[Json]) -> Outcome:
    tallies = ch2_fabric.merged(results)
    claims = _claims_of_means(tallies)
    spreads = _spreads(tallies, means=True)
    said = ", ".join(f"{_name(one)} {value:.3f}" for one, value in spreads.items())
    return Outcome(f"height of the box: {said}", _verdict(claims), _what_differs(claims))


def _what_differs(claims: Mapping[str, bool]) -> str:
    wrong = [claim for claim, is_so in claims.items() if not is_so]
    return f"not here: {', '.join(wrong)}" if wrong else "a smaller fabric, a hundredth of the time"


def _claims_of_outliers(tallies: Tallies) -> dict[str, bool]:
    boxes = [box(tallies[one].maxima) for one in ORDER]
    tops = [one.outliers[-1] for one in boxes if one and one.outliers]
    return {
        "outliers above 0.6": max(tops, default=0.0) > 0.6,
        "values of 1 or more": sum(tally.whole for tally in tallies.values()) > 0,
    }


def _judge_outliers(results: Sequence[Json]) -> Outcome:
    tallies = ch2_fabric.merged(results)
    said = []
    for one in ORDER:
        found = box(tallies[one].maxima)
        if found is None or not found.outliers:
            said.append(f"{_name(one)} none of {len(tallies[one].maxima)}")
            continue
        count = f"{len(found.outliers)} of {found.count}"
        said.append(f"{_name(one)} {count}, to {found.outliers[-1]:.2f}")
    whole = sum(tally.whole for tally in tallies.values())
    return Outcome(
        f"outliers among rounds that waited: {'; '.join(said)}; {whole} values of 1 or more",
        _verdict(_claims_of_outliers(tallies)),
        "values of 1 or more come of answers that take longer or shorter than the one before",
    )


def _judge_examples(results: Sequence[Json]) -> Outcome:
    first = cast(dict[str, Any], results[0])["examples"]
    grew = {
        name: sum(b[1] > a[1] for a, b in itertools.pairwise(line)) for name, line in first.items()
    }
    holds = grew["few"] <= 5 and grew["most"] >= 90
    return Outcome(
        f"one port whose counter grew in {grew['few']} of 99 intervals, one in {grew['most']}",
        Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
        "of all rounds the one that waited in fewest intervals, from two on, and in most",
    )


def _draw_examples(results: Sequence[Json], path: Path) -> None:
    first = cast(dict[str, Any], results[0])["examples"]
    series = []
    for name, line in first.items():
        top = max(count for _, count in line) or 1
        places = [(at / 1e6, count / top, 0.0) for at, count in line]
        series.append(charts.Series(f"{name}: {top} ticks", places))
    charts.lines(path, "Two rounds", "ms", "PortXmitWait over its last value", series)


def _boxes(path: Path, title: str, tallies: dict[Category, Tally], means: bool) -> None:
    kinds = ("ToR", "Leaf", "Spine", "GladeLeaf", "GladeSpine", "DAVLeaf", "DAVSpine")
    series = {}
    for way in ("up", "down"):
        groups = []
        for kind in kinds:
            tally = tallies.get((kind, way), Tally())
            groups.append((tally.means if means else tally.maxima) or [0.0])
        series[way] = groups
    charts.boxes(path, title, "kind of switch", "FITF", kinds, series)


def _draw_maxima(results: Sequence[Json], path: Path) -> None:
    tallies = ch2_fabric.merged(results[: len(_SEEDS)])
    _boxes(path, "Largest FITF of each round", tallies, means=False)


def _draw_means(results: Sequence[Json], path: Path) -> None:
    tallies = ch2_fabric.merged(results[: len(_SEEDS)])
    _boxes(path, "Mean of the FITF above 0 of each round", tallies, means=True)


ROWS = [
    Row(
        "000-tab-2.3",
        "Worked example of FITF",
        "the golden pair of queries gives 1.179",
        lambda quick: [Point(golden, {})],
        _judge_golden,
    ),
    Row(
        "000-tab-2.1",
        "Querying rounds by kind of switch and direction",
        "1 165 (GladeLeaf down) to 63 679 (leaf up); 318 222 in all",
        _campaign_points,
        _judge_campaign,
    ),
    Row(
        "000-fig-2.4",
        "PortXmitWait over two querying rounds of 10 s",
        "one port constant but for 19 998 ticks (0.44 ms); one growing in nearly every interval",
        _points,
        _judge_examples,
        _draw_examples,
    ),
    Row(
        "000-fig-2.5",
        "Intervals of 100 ms with and without a stall, by kind of switch",
        "ToR ports: 60 % of about 6 million intervals show a stall",
        _points,
        _tried(_judge_shares, _claims_of_shares),
    ),
    Row(
        "000-fig-2.6",
        "Largest forced idle time fraction (FITF) of each round",
        "below 10 % in most rounds; GladeLeaf down up to 85 %; "
        "ToR spreads more than leaf and spine",
        _points,
        _tried(_judge_maxima, _claims_of_maxima),
        _draw_maxima,
    ),
    Row(
        "000-fig-2.7",
        "Mean of the non-zero FITF of each round",
        "ToR spreads more than leaf and spine, against expectation",
        _points,
        _tried(_judge_means, _claims_of_means),
        _draw_means,
    ),
    Row(
        "000-tab-2.2",
        "Outliers of FITF by kind of switch",
        "maxima 0.409 to 1.179; 66 values of 1 or more",
        _points,
        _tried(_judge_outliers, _claims_of_outliers),
    ),
]
