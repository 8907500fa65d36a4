"""Work 000, chapter 3: elephant flows in a provider's headroom, on default paths or spread out.

Static headroom (SH) leaves elephant flows on default paths, dynamic headroom (DH) gives each the
path with fewest of them. A run is 100 000 flows over the six routers of figure 3.6a; both services
meet the same flows, so gains are taken seed by seed. Rows `000-ch-3.8-…` show what the extensions
that the work names as future gain; it has no values to compare with.
"""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, cast

from studies.works.row import Outcome, Row, Verdict
from weir import Bytes, Rate
from weir._core import (
    default_paths,
    estimate,
    g_scale,
    headroom_expectation,
    simulate_headroom,
    six_routers,
)
from weir.chart import charts
from weir.runs.point import Json, Point

_FULL: dict[str, Json] = {"flows": 100_000, "seeds": [*range(3_000_001, 3_000_031)]}
_QUICK: dict[str, Json] = {"flows": 30_000, "seeds": [*range(3_000_001, 3_000_011)]}
_NETWORKS = {"six-routers": six_routers, "g-scale": g_scale}
# Equation 3.5 samples at the end of each second; what it calls idle is idle throughout.
_IDLE = 0.001
_TOLERANCE = 0.02

SH: Json = {"service": "static"}
DH: Json = {"service": "dynamic"}


class Sample(TypedDict):
    """What one run gave; see `weir._core.HeadroomSample`."""

    mean_throughput_bps: float
    total_throughput_bps: float
    mean_completion_s: float
    detoured_share: float
    utilisation: list[float]
    occupancy: list[float]


Key = tuple[Any, ...]
Samples = Mapping[Key, Sequence[Sample]]


def run(
    *,
    network: str,
    w: float,
    arrivals_per_s: float,
    sizes: Json,
    service: Json,
    sharing: str,
    limits_bps: Json,
    flows: int,
    seeds: Sequence[int],
) -> Json:
    """One sample per seed.

    Args:
        network: `six-routers` or `g-scale`.
        w: how much of the traffic is between B and C: 0 none more than between others, 1 all.
        arrivals_per_s: elephant flows over the whole network.
        sizes: their distribution, in bytes.
        service: the options of a headroom service.
        sharing: the fluid simulator's sharing model.
        limits_bps: the distribution of what ends of flows can do, or nothing for no limit.
        flows: how many arrive in a run.
        seeds: of the runs.
    """
    document: dict[str, Any] = json.loads(_NETWORKS[network]())
    workload = {
        "flows": flows,
        "arrivals": {"poisson": {"rate_per_s": arrivals_per_s}},
        "sizes": {"bytes": sizes},
        "pairs": pairs(document["nodes"], w),
    }
    samples = []
    for seed in seeds:
        study = {"network": document, "sharing": sharing, "workload": workload | {"seed": seed}}
        headroom = {"study": study, "service": service, "limits_bps": limits_bps}
        found = simulate_headroom(json.dumps(headroom))
        samples.append({key: getattr(found, key) for key in Sample.__annotations__})
    return samples


def pairs(nodes: Sequence[str], w: float) -> list[dict[str, Json]]:
    """Section 3.6.2: every pair alike, and from there to all traffic between B and C."""
    ordered = list(itertools.permutations(nodes, 2))
    even = (1 - w) / len(ordered)
    favoured = {("B", "C"), ("C", "B")}
    return [
        {"from": a, "to": b, "share": even + (w / 2 if (a, b) in favoured else 0)}
        for a, b in ordered
    ]


def pareto(mean_gb: float, shape: float) -> Json:
    """A Pareto distribution of sizes by its mean."""
    return {"pareto": {"shape": shape, "minimum": mean_gb * 1e9 * (shape - 1) / shape}}


def setting(
    service: Json,
    w: float,
    arrivals_per_s: float,
    *,
    sizes: Json = None,
    sharing: str = "equal-split",
    limits_bps: Json = None,
    network: str = "six-routers",
) -> dict[str, Json]:
    """Arguments of `run` but for the number of flows and the seeds; as published by default."""
    return {
        "network": network,
        "w": w,
        "arrivals_per_s": arrivals_per_s,
        "sizes": sizes or pareto(20, 4),
        "service": service,
        "sharing": sharing,
        "limits_bps": limits_bps,
    }


def _row(
    id_: str,
    title: str,
    published: str,
    settings: Mapping[Key, Mapping[str, Json]],
    judge: Callable[[Samples], Outcome],
    draw: Callable[[Samples, Path], None] | None = None,
) -> Row:
    def points(quick: bool) -> list[Point]:
        size = _QUICK if quick else _FULL
        return [Point(run, {**arguments, **size}) for arguments in settings.values()]

    def samples(results: Sequence[Json]) -> Samples:
        return dict(zip(settings, cast(Sequence[list[Sample]], results), strict=True))

    def plot(results: Sequence[Json], path: Path) -> None:
        if draw:
            draw(samples(results), path)

    shown = plot if draw else None
    return Row(id_, title, published, points, lambda results: judge(samples(results)), shown)


def _throughput(samples: Sequence[Sample]) -> tuple[float, float]:
    """Mean and half the interval in Gbit/s."""
    return estimate([sample["mean_throughput_bps"] / 1e9 for sample in samples])


def _gain(samples: Sequence[Sample], over: Sequence[Sample]) -> tuple[float, float]:
    """The mean ratio of throughputs and half its interval; runs are paired by seed."""
    pairs = zip(samples, over, strict=True)
    return estimate([a["mean_throughput_bps"] / b["mean_throughput_bps"] for a, b in pairs])


def _words(value: tuple[float, float], digits: int = 3) -> str:
    return f"{value[0]:.{digits}f} ± {value[1]:.{digits}f}"


def _is_near(value: float, published: float) -> bool:
    return abs(value / published - 1) <= _TOLERANCE


# --- figure 3.4 ---

# Mean service time in s, shape and smallest size in MB; the sizes are derived (section 3.5).
_LINKS = {"26.6 s, 4": (4.0, 1500), "2.6 s, 4": (4.0, 150), "19 s, 2.1": (2.1, 750)}
_ARRIVALS = [milli / 1000 for milli in range(22, 37, 2)]


def analytic() -> Json:
    """Utilisation, flows under way and Mbit/s for each curve and arrival rate, then under PS."""
    headroom = Rate("600 Mbit/s")
    table = {}
    for name, (shape, minimum_mb) in _LINKS.items():
        minimum = Bytes(f"{minimum_mb} MB")
        rows = []
        for arrivals in _ARRIVALS:
            found = headroom_expectation(arrivals, shape, minimum, headroom)
            shared = headroom_expectation(
                arrivals, shape, minimum, headroom, processor_sharing=True
            )
            row = [found.utilisation, found.flows, found.throughput_bps / 1e6]
            rows.append([*row, shared.throughput_bps / 1e6])
        table[name] = rows
    return table


def _judge_analytic(results: Sequence[Json]) -> Outcome:
    (table,) = cast(Sequence[dict[str, list[list[float]]]], results)
    long, short, heavy = (dict(zip(_ARRIVALS, table[name], strict=True))[0.034] for name in _LINKS)
    ours = (
        f"at 0.034/s: utilisation {long[0]:.3f}, {long[1]:.3f} flows, {long[2]:.1f} Mbit/s (26.6 "
        f"s); {short[0]:.3f}, {short[2]:.0f} Mbit/s (2.6 s); {heavy[0]:.3f}, {heavy[2]:.1f} Mbit/s "
        f"(19 s, shape 2.1). Processor sharing, whatever the shape: {long[3]:.1f} and "
        f"{heavy[3]:.1f} Mbit/s"
    )
    holds = (
        _is_near(long[1], 5.86)
        and _is_near(long[2], 102)
        and short[2] == 600
        and _is_near(heavy[0], 0.65)
        and abs(short[0] - 0.1) < 0.01
    )
    reason = "the printed utilisation of 0.92 contradicts the printed 5.86 flows, which need 0.907"
    return Outcome(ours, Verdict.MATCHES if holds else Verdict.DIFFERS, reason)


def _draw_analytic(results: Sequence[Json], path: Path) -> None:
    (table,) = cast(Sequence[dict[str, list[list[float]]]], results)
    series = [
        charts.Series(name, [(x, row[2], 0.0) for x, row in zip(_ARRIVALS, rows, strict=True)])
        for name, rows in table.items()
    ]
    title = "Static headroom as M/G/1 (mean service time, shape)"
    charts.lines(path, title, "arrivals per second", "mean throughput, Mbit/s", series)


# --- figure 3.6 ---


def shares() -> Json:
    """The share of default paths that cross each link, in the order of the links' numbers."""
    crossed = [count for _, count in default_paths(six_routers())]
    return [count / sum(crossed) for count in crossed]


def _judge_shares(results: Sequence[Json]) -> Outcome:
    (found,) = cast(Sequence[list[float]], results)
    percent = [round(100 * share, 2) for share in found]
    by_value = {value: [n for n, p in enumerate(percent, 1) if p == value] for value in percent}
    ours = ", ".join(
        f"{value} % on {', '.join(map(str, by_value[value]))}" for value in sorted(by_value)[::-1]
    )
    holds = by_value[max(by_value)] == [2, 10]
    return Outcome(ours, Verdict.MATCHES if holds else Verdict.DIFFERS)


def _judge_links(name: str, samples: Samples) -> Outcome:
    (runs,) = samples.values()
    occupancy = [
        estimate([sample["occupancy"][link] for sample in runs]) for link in range(len(_links()))
    ]
    exact = [estimate([sample["utilisation"][link] for sample in runs])[0] for link in (1, 4, 6)]
    used = [number for number, (mean, _) in enumerate(occupancy, 1) if mean > _IDLE]
    groups = {"2 and 10": (2, 10), "5 and 13": (5, 13), "the others": (1, 3, 4, 6, 7, 8, 9)}
    parts = []
    for (group, links), utilisation in zip(groups.items(), exact, strict=True):
        mean = sum(occupancy[link - 1][0] for link in links) / len(links)
        parts.append(f"{group} {mean:.3f} (exact time average {utilisation:.3f})")
    ours = f"links {'; '.join(parts)}; {len(used)} of {len(occupancy)} in use"
    holds = used == [2, 10] if name == "SH" else len(used) == len(occupancy)
    interval = f"link 2: {_words(occupancy[1])}"
    return Outcome(ours, Verdict.MATCHES if holds else Verdict.DIFFERS, interval=interval)


def _links() -> list[str]:
    return [name for name, _ in default_paths(six_routers())]


# --- figure 3.7 ---

_W = [tenth / 10 for tenth in range(11)]
_LAMBDA = [hundredth / 100 for hundredth in range(1, 11)]
_STATED = {("SH", 0.0): 8.46, ("DH", 0.0): 9.45, ("SH", 1.0): 3.68, ("DH", 1.0): 8.71}
_SERVICES = {"SH": SH, "DH": DH}


def _judge_throughput(samples: Samples) -> Outcome:
    found = {key: _throughput(runs) for key, runs in samples.items()}
    corners = [f"{name} {_words(found[name, w])} at w = {w:g}" for name, w in _STATED]
    near = all(_is_near(found[key][0], stated) for key, stated in _STATED.items())
    above = all(found["DH", w][0] > found["SH", w][0] for w in _W)
    falls = all(
        found[name, a][0] > found[name, b][0]
        for name in _SERVICES
        for a, b in itertools.pairwise(_W)
    )
    ours = f"Gbit/s: {', '.join(corners)}; both fall with w"
    verdict = Verdict.MATCHES if near and above and falls else Verdict.DIFFERS
    return Outcome(ours, verdict, interval=f"DH at w = 1: {_words(found['DH', 1.0])} Gbit/s")


def _draw_throughput(samples: Samples, path: Path) -> None:
    series = [
        charts.Series(name, [(w, *_throughput(samples[name, w])) for w in _W]) for name in _SERVICES
    ]
    charts.lines(path, "SH and DH, 0.1 flows/s", "w", "mean throughput, Gbit/s", series)


# Mean size in GB and shape, w, and the highest arrival rate: beyond it SH has no steady state.
_CURVES = [
    *((20, 4.0, w, 0.1) for w in (0.0, 0.5, 1.0)),
    *((20, 2.1, w, 0.1) for w in (0.0, 0.5, 1.0)),
    (40, 4.0, 0.5, 0.08),
    (40, 4.0, 1.0, 0.06),
]


def _gain_settings() -> dict[Key, dict[str, Json]]:
    return {
        (name, mean_gb, shape, w, arrivals): setting(
            service, w, arrivals, sizes=pareto(mean_gb, shape)
        )
        for mean_gb, shape, w, highest in _CURVES
        for arrivals in _LAMBDA
        if arrivals <= highest
        for name, service in _SERVICES.items()
    }


def _gains(samples: Samples) -> dict[Key, list[tuple[float, float, float]]]:
    """For each curve: arrival rate, gain and half the gain's interval."""
    return {
        curve[:3]: [
            (arrivals, *_gain(samples["DH", *curve[:3], arrivals], runs))
            for (name, *place, arrivals), runs in samples.items()
            if name == "SH" and tuple(place) == curve[:3]
        ]
        for curve in _CURVES
    }


def _judge_gain(samples: Samples) -> Outcome:
    gains = _gains(samples)
    at = {(*curve, x): (gain, margin) for curve, line in gains.items() for x, gain, margin in line}
    top = at[20, 4.0, 1.0, 0.1]
    shape = [(at[20, 2.1, w, x][0] / at[20, 4.0, w, x][0] - 1) for w in (0, 0.5) for x in _LAMBDA]
    shape_top = at[20, 2.1, 1.0, 0.1][0] / top[0] - 1
    corners = [f"{_words(at[20, 4.0, w, 0.1], 2)} at w = {w:g}" for w in (0, 0.5, 1)]
    ours = (
        f"at 0.1/s {', '.join(corners)}; shape 2.1 instead of 4 changes gains by at most "
        f"{100 * max(map(abs, shape)):.1f} % up to w = 0.5, and by {100 * shape_top:+.1f} % at "
        f"w = 1, 0.1/s; 40 GB at w = 1: {_words(at[40, 4.0, 1.0, 0.05], 2)} at 0.05/s, "
        f"{_words(at[40, 4.0, 1.0, 0.06], 2)} at 0.06/s"
    )
    rises = all(
        line[-1][1] > line[0][1] and all(b[1] + b[2] + a[2] >= a[1] for a, b in pairs)
        for line in gains.values()
        for pairs in [list(itertools.pairwise(line))]
    )
    ordered = all(at[20, 4.0, 0, x][0] < at[20, 4.0, 1, x][0] for x in _LAMBDA)
    larger = all(at[40, 4.0, 1.0, x][0] > at[20, 4.0, 1.0, x][0] for x in _LAMBDA[1:6])
    stated = _STATED["DH", 1.0] / _STATED["SH", 1.0]
    small = max(map(abs, shape)) < 0.05
    holds = _is_near(top[0], stated) and rises and ordered and larger and small
    reason = (
        f"the stated throughputs give {stated:.3f}, printed as 2.4; with 40 GB and w = 1, SH has "
        "no steady state above 0.0625/s (AMB-14), so that curve ends at 0.06/s"
    )
    verdict = Verdict.MATCHES if holds else Verdict.DIFFERS
    return Outcome(ours, verdict, reason, f"gain at w = 1, 0.1/s: {_words(top)}")


def _draw_gain(samples: Samples, path: Path) -> None:
    series = [
        charts.Series(f"w = {w:g}, {mean} GB, {shape:g}", line)
        for (mean, shape, w), line in _gains(samples).items()
    ]
    title = "Gain of DH over SH (concentration, mean size, shape)"
    charts.lines(path, title, "arrivals per second", "gain", series)


# --- extensions: ours, with nothing published to compare with ---

_tcp = partial(setting, sharing="max-min")
_LOADS = ((0.0, (0.1, 0.2, 0.3)), (0.5, (0.1, 0.2, 0.25)), (1.0, (0.1, 0.2)))
_BETWEEN = {
    (f"w = {w:g}", f"{arrivals:g}/s"): (w, arrivals) for w, rates in _LOADS for arrivals in rates
}
# What ends can do: a third each, in bit/s.
_ENDS: Json = {"empirical": [1e9, 2.5e9, 1e10]}
_RATES: dict[str, Json] = {
    "DH": DH,
    "by rate": {"measure": "rate"},
    "Weir": {"measure": "weir"},
}
_HOPS: dict[str, Json] = {
    "DH": {"paths_max": 32},
    "1 hop more": {"paths_max": 32, "hop_limit": {"hops_more": 1}},
    "default length where 2 meet": {
        "paths_max": 32,
        "hop_limit": {"hops_more": 0, "from_flows": 2},
    },
    "Weir": {"paths_max": 32, "measure": "weir"},
}
# Most flows are short, most bytes are in long ones.
_MIXED: Json = {"lognormal": {"median": 1e9, "sigma": 2.0}}
_SETUPS = (0.2, 1.0, 5.0, 20.0)


def _rate_settings() -> dict[Key, dict[str, Json]]:
    return {
        (name, *place): _tcp(service, w, arrivals, limits_bps=_ENDS)
        for place, (w, arrivals) in _BETWEEN.items()
        for name, service in _RATES.items()
    }


def _hop_settings() -> dict[Key, dict[str, Json]]:
    six = {
        (name, *place): _tcp(service, w, arrivals)
        for place, (w, arrivals) in _BETWEEN.items()
        for name, service in _HOPS.items()
    }
    other = {
        (name, "G-scale", f"{arrivals:g}/s"): _tcp(service, 0.0, arrivals, network="g-scale")
        for arrivals in (0.1, 0.2, 0.3, 0.4)
        for name, service in _HOPS.items()
    }
    return six | other


def _merged_settings() -> dict[Key, dict[str, Json]]:
    return {
        (name, f"w = {w:g}", f"set-up {setup_s:g} s"): _tcp(
            {"service": service, "setup_ns": int(setup_s * 1e9)}, w, 0.27, sizes=_MIXED
        )
        for w in (0.0, 0.5, 1.0)
        for setup_s in _SETUPS
        for name, service in (("SH", "static"), ("DH", "dynamic"), ("merged", "merged"))
    }


def _judge_own(gains: Mapping[str, Sequence[str]], samples: Samples) -> Outcome:
    """What services gain over each of others; the last of each list must not be behind."""
    parts, best, holds = [], (0.0, 0.0), True
    for base, names in gains.items():
        lines = []
        for place in dict.fromkeys(tuple(place) for _, *place in samples):
            found = [_gain(samples[name, *place], samples[base, *place]) for name in names]
            changes = [(100 * (gain - 1), 100 * margin) for gain, margin in found]
            words = [
                f"{name} {change:+.1f} ± {margin:.1f}"
                for name, (change, margin) in zip(names, changes, strict=True)
            ]
            lines.append(f"{', '.join(place)}: {', '.join(words)}")
            holds &= sum(changes[-1]) >= 0
            best = max(best, changes[-1]) if base == "DH" else best
        parts.append(f"throughput over {base} in %: {'; '.join(lines)}")
    return Outcome(
        ". ".join(parts),
        Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
        "the work has no result that ours could be compared with",
        f"most for {names[-1]} over DH: {best[0]:+.1f} ± {best[1]:.1f} %",
    )


def _own_row(
    id_: str,
    title: str,
    settings: Mapping[Key, Mapping[str, Json]],
    gains: Mapping[str, Sequence[str]],
) -> Row:
    judge = partial(_judge_own, gains)
    return _row(id_, title, "named as future work, no result", settings, judge)


ROWS = [
    Row(
        "000-fig-3.4",
        "Static headroom (SH) as M/G/1: mean throughput against arrival rate",
        "at 0.034/s: 5.86 flows and 102 Mbit/s; near 600 Mbit/s; utilisation 0.92, 0.1 and 0.65",
        lambda quick: [Point(analytic, {})],
        _judge_analytic,
        _draw_analytic,
    ),
    Row(
        "000-fig-3.6b",
        "Share of source-destination pairs that cross each link of the six-node network",
        "links 2 and 10 highest (derived: 13.04 %, then 6.52 % and 4.35 %)",
        lambda quick: [Point(shares, {})],
        _judge_shares,
    ),
    _row(
        "000-fig-3.6c",
        "Utilisation of each link under SH, all traffic between B and C, 0.1/s",
        "links 2 and 10 highly used, all others idle",
        {("SH",): setting(SH, 1.0, 0.1)},
        partial(_judge_links, "SH"),
    ),
    _row(
        "000-fig-3.6d",
        "Utilisation of each link under dynamic headroom (DH), all traffic between B and C, 0.1/s",
        "all links used",
        {("DH",): setting(DH, 1.0, 0.1)},
        partial(_judge_links, "DH"),
    ),
    _row(
        "000-fig-3.7a",
        "Throughput of SH and DH against the concentration of traffic, 0.1/s",
        "uniform: 8.46 (SH) and 9.45 Gbit/s (DH); all between B and C: 3.68 and 8.71 Gbit/s",
        {(name, w): setting(service, w, 0.1) for w in _W for name, service in _SERVICES.items()},
        _judge_throughput,
        _draw_throughput,
    ),
    _row(
        "000-fig-3.7b",
        "Gain of DH over SH against arrival rate",
        "grows with rate and concentration to 2.4; shape matters little, larger flows gain more",
        _gain_settings(),
        _judge_gain,
        _draw_gain,
    ),
    _own_row(
        "000-ch-3.8-rates",
        "DH that knows what the ends of flows can do (1, 2.5 or 10 Gbit/s)",
        _rate_settings(),
        {"DH": ["by rate", "Weir"]},
    ),
    _own_row(
        "000-ch-3.8-hops",
        "DH with limits of hops against thrashing, and with paths weighed by length",
        _hop_settings(),
        {"DH": ["1 hop more", "default length where 2 meet", "Weir"]},
    ),
    _own_row(
        "000-ch-3.8-merged",
        "SH and DH merged: a path is set up where that saves time (sizes from 20 MB to 50 GB)",
        _merged_settings(),
        {"DH": ["merged"], "SH": ["merged"]},
    ),
]
