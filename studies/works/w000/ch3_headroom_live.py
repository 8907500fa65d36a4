"""Work 000, figures 3.4, 3.6 and 3.7, live: elephants on OpenFlow switches, marked and routed.

The six switches of the work in a lab, at a five-hundredth of its rates (`ch3_live`). The switch at
which an elephant enters marks it CS1, its path is that of the provider's controller, and what links
carry is read from their counters.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from studies.rig.statistics import margin, mean, words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w000.ch3_live import (
    RATES,
    Run,
    elephants,
    flaws,
    fluid_gbit_s,
    gbit_s,
    setting,
    used,
    utilisation,
)
from weir import Bytes, Rate
from weir._core import headroom_expectation
from weir.chart import charts
from weir.runs.point import Json, Point

_FULL, _QUICK = (60, (1, 2, 3)), (12, (1,))
"""Elephants of a run, and its seeds."""
_SERVICES = {"SH": "static", "DH": "dynamic"}
_W = (0.0, 0.5, 1.0)
_LAMBDAS = (0.04, 0.1)
_SCALED = "at a five-hundredth of the rates and five times as fast, from an empty network on"

Key = tuple[Any, ...]
Runs = Mapping[Key, Sequence[Run]]


def row(
    id_: str,
    title: str,
    published: str,
    settings: Callable[[bool], Mapping[Key, Mapping[str, Json]]],
    judge: Callable[[Runs], Outcome],
    draw: Callable[[Runs, Path], None] | None = None,
) -> Row:
    """A live row of runs by key, in full size and reduced; one lab at a time."""

    def points(quick: bool) -> list[Point]:
        flows, seeds = _QUICK if quick else _FULL
        return [
            Point(elephants, {**arguments, "flows": flows, "seed": seed})
            for arguments in settings(quick).values()
            for seed in seeds
        ]

    def runs(results: Sequence[Json]) -> Runs:
        quick = len(results) == len(settings(True)) * len(_QUICK[1])
        seeds = len((_QUICK if quick else _FULL)[1])
        found = cast(Sequence[Run], results)
        keys = settings(quick)
        return {key: found[at * seeds : (at + 1) * seeds] for at, key in enumerate(keys)}

    def plot(results: Sequence[Json], path: Path) -> None:
        if draw:
            draw(runs(results), path)

    shown = plot if draw else None
    return Row(id_, title, published, points, lambda got: judge(runs(got)), shown, live=1)


def each(runs: Runs) -> list[Run]:
    """All runs."""
    return [run for some in runs.values() for run in some]


# --- figure 3.4 ---

_LINK_LAMBDAS = (0.022, 0.034)
_HEADROOM = Rate("600 Mbit/s")
_SHAPE, _LEAST = 4.0, Bytes("1.5 GB")


def _link_settings(quick: bool) -> dict[Key, dict[str, Json]]:
    """All between B and C, each way a link: its 10 Gbit/s stand for the headroom of 600 Mbit/s."""
    faster = 1e10 / _HEADROOM.bit_per_s
    size: Json = {"pareto": [2 * faster, _SHAPE]}
    # Half of them go each way.
    return {(x,): setting("static", 1.0, 2 * x, size=size) for x in _LINK_LAMBDAS}


def _judge_link(runs: Runs) -> Outcome:
    scale = _HEADROOM.bit_per_s / 1e10 * 1e3
    live = {x: [scale * gbit_s(run) for run in some] for (x,), some in runs.items()}
    fluid = {x: mean([scale * fluid_gbit_s(run) for run in some]) for (x,), some in runs.items()}
    said = []
    for x, rates in live.items():
        printed, shared = (
            headroom_expectation(x, _SHAPE, _LEAST, _HEADROOM, processor_sharing=sharing)
            for sharing in (False, True)
        )
        said.append(
            f"{words(rates, '.0f')} Mbit/s at {x}/s (fluid, same flows: {fluid[x]:.0f}; the "
            f"printed model {printed.throughput_bps / 1e6:.0f}, processor sharing "
            f"{shared.throughput_bps / 1e6:.0f})"
        )
    first, last = _LINK_LAMBDAS
    near = all(abs(mean(live[x]) / fluid[x] - 1) < 0.25 for x in live)
    falls = mean(live[first]) > mean(live[last])
    reason = f"{_SCALED}: with few flows the queue has not grown to its mean{flaws(each(runs))}"
    holds = near and falls
    return Outcome("; ".join(said), Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason)


# --- figure 3.6 ---


def _one(service: str) -> Callable[[bool], dict[Key, dict[str, Json]]]:
    return lambda quick: {(service,): setting(_SERVICES[service], 1.0, 0.1)}


def _judge_links(service: str, runs: Runs) -> Outcome:
    """All runs count together: a single short one does not come by every path."""
    some = each(runs)
    busy = set().union(*(used(run) for run in some))
    shown = {link: mean([utilisation(run, link) for run in some]) for link in sorted(busy)}
    said = ", ".join(f"{_called(link)} {share:.2f}" for link, share in shown.items())
    links = len(some[0]["carried_bytes"])
    direct = {"B-C.forward", "B-C.backward"}
    if service == "SH":
        verdict = Verdict.MATCHES if busy == direct else Verdict.DIFFERS
    else:
        more = Verdict.TREND_HOLDS if busy > direct else Verdict.DIFFERS
        verdict = Verdict.MATCHES if len(busy) == links else more
    reason = f"shares of the links' rates by their counters, {_SCALED}{flaws(some)}"
    return Outcome(f"{len(busy)} of {links} links in use: {said}", verdict, reason)


def _called(link: str) -> str:
    name, _, way = link.partition(".")
    return name if way == "forward" else name[::-1]


# --- figure 3.7 ---


def _throughput_settings(quick: bool) -> dict[Key, dict[str, Json]]:
    return {
        (name, w): setting(service, w, 0.1)
        for w in (_W[:: len(_W) - 1] if quick else _W)
        for name, service in _SERVICES.items()
    }


def _judge_throughput(runs: Runs) -> Outcome:
    live = {key: [gbit_s(run) for run in some] for key, some in runs.items()}
    fluid = {key: mean([fluid_gbit_s(run) for run in some]) for key, some in runs.items()}
    said = ", ".join(
        f"{name} {words(live[name, w])} at w = {w:g} (fluid, same flows: {fluid[name, w]:.2f})"
        for name, w in live
    )
    means = {key: mean(rates) for key, rates in live.items()}
    holds = means["SH", 1.0] < min(means["SH", 0.0], means["DH", 1.0])
    near = all(abs(means[key] / fluid[key] - 1) < 0.25 for key in means)
    return Outcome(
        f"Gbit/s at the work's rates: {said}",
        Verdict.TREND_HOLDS if holds and near else Verdict.DIFFERS,
        f"{_SCALED}; 5 % of a link are headers{flaws(each(runs))}",
        _interval(gains(runs, ("DH", 1.0), ("SH", 1.0))),
    )


def _interval(some: Sequence[float]) -> str:
    """The gain's, where there are several runs."""
    return f"gain of DH at w = 1: {words(some)}" if len(some) > 1 else ""


def gains(runs: Runs, service: Key, over: Key) -> list[float]:
    """Ratios of throughputs, seed by seed."""
    pairs = zip(runs[service], runs[over], strict=True)
    return [gbit_s(run) / gbit_s(other) for run, other in pairs]


def _draw_throughput(runs: Runs, path: Path) -> None:
    series = [
        charts.Series(
            name,
            [
                (w, mean(rates), margin(rates))
                for (of, w), some in runs.items()
                if of == name
                for rates in [[gbit_s(run) for run in some]]
            ],
        )
        for name in _SERVICES
    ]
    title = f"SH and DH on switches, 0.1 flows/s; {RATES} times the lab's rates"
    charts.lines(path, title, "w", "mean throughput, Gbit/s", series)


def _gain_settings(quick: bool) -> dict[Key, dict[str, Json]]:
    return {
        (name, x): setting(service, 1.0, x) for x in _LAMBDAS for name, service in _SERVICES.items()
    }


def _judge_gain(runs: Runs) -> Outcome:
    found = {x: gains(runs, ("DH", x), ("SH", x)) for x in _LAMBDAS}
    fluid = {
        x: mean([fluid_gbit_s(run) for run in runs["DH", x]])
        / mean([fluid_gbit_s(run) for run in runs["SH", x]])
        for x in _LAMBDAS
    }
    said = ", ".join(
        f"{words(some)} at {x:g}/s (fluid, same flows: {fluid[x]:.2f})" for x, some in found.items()
    )
    low, high = (mean(found[x]) for x in _LAMBDAS)
    holds = high > max(1.05, low)
    return Outcome(
        f"gain of DH over SH at w = 1: {said}",
        Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
        f"{_SCALED}, so that the load of SH is not yet what it becomes{flaws(each(runs))}",
    )


# --- best effort beside both ---

_KINDS = {"best effort": "best effort", **_SERVICES}


def _loss_settings(quick: bool) -> dict[Key, dict[str, Json]]:
    """As many elephants as the headroom carries: best effort has 40 % of its link."""
    return {(name,): setting(kind, 1.0, 0.06, best_effort=True) for name, kind in _KINDS.items()}


def _lost(run: Run) -> float:
    return float(100 * (1 - run["received"] / max(1, run["sent"])))


def _judge_loss(runs: Runs) -> Outcome:
    lost = {name: [_lost(run) for run in some] for (name,), some in runs.items()}
    rates = {name: mean([gbit_s(run) for run in some]) for (name,), some in runs.items()}
    links = {name: max(len(used(run)) for run in some) for (name,), some in runs.items()}
    said = "; ".join(
        f"elephants as {name}: {words(percent, '.3f')} % of best effort lost, elephants "
        f"{rates[name]:.2f} Gbit/s, {links[name]} links in use"
        for name, percent in lost.items()
    )
    plain, headroom = mean(lost["best effort"]), max(*lost["SH"], *lost["DH"])
    return Outcome(
        said,
        Verdict.TREND_HOLDS if headroom == 0 < plain else Verdict.DIFFERS,
        f"w = 1, 0.06/s, bursts of 8 Mbit/s in the mean, {_SCALED}{flaws(each(runs))}",
    )


ROWS = [
    row(
        "000-own-3.4-live",
        "Figure 3.4 on switches: mean throughput of SH on one link against arrival rate",
        "at 0.034/s 102 Mbit/s of 600, at 0.022/s 569 (derived)",
        _link_settings,
        _judge_link,
    ),
    row(
        "000-own-3.6c-live",
        "Figure 3.6c on switches: links in use under SH, all traffic between B and C, 0.1/s",
        "links 2 and 10 highly used, all others idle",
        _one("SH"),
        lambda runs: _judge_links("SH", runs),
    ),
    row(
        "000-own-3.6d-live",
        "Figure 3.6d on switches: links in use under DH, all traffic between B and C, 0.1/s",
        "all links used",
        _one("DH"),
        lambda runs: _judge_links("DH", runs),
    ),
    row(
        "000-own-3.7a-live",
        "Figure 3.7a on switches: throughput of SH and DH against the concentration of traffic",
        "uniform: 8.46 (SH) and 9.45 Gbit/s (DH); all between B and C: 3.68 and 8.71 Gbit/s",
        _throughput_settings,
        _judge_throughput,
        _draw_throughput,
    ),
    row(
        "000-own-3.7b-live",
        "Figure 3.7b on switches: gain of DH over SH against arrival rate, w = 1",
        "grows with rate and concentration to 2.4",
        _gain_settings,
        _judge_gain,
    ),
    row(
        "000-own-3.7-loss-live",
        "Best effort beside elephants that come and go on switches: as best effort, SH and DH",
        "none is lost beside SH or DH; some is where elephants are best effort",
        _loss_settings,
        _judge_loss,
    ),
]
