"""Work 000, chapter 4: the bandwidth calendar on G-scale, and what else could decide.

The printed figures follow from no reading of the stated load; the simulator behind them, since made
public, ran on a clock of its own (`weir.calendar.study`, `published_clock`). The figures hold the
stated model to the printed trends, the rows `000-sec-4.4.2-clock-…` ours on the published clock to
that simulator's own results. Rows `000-own-…` are not published: other policies from the field,
other networks, and the offline bound. Policies meet the same requests, seed by seed.
"""

import contextlib
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

from studies.rig.offline_bound import offline_bound, requests_of
from studies.works.row import Outcome, Row, Verdict
from studies.works.w000.ch4_published import EPOCH_1, EPOCH_180
from weir._core import estimate
from weir.calendar.study import POLICIES, Load, named_network
from weir.calendar.study import run as run_study
from weir.chart import charts
from weir.errors import Unavailable
from weir.runs.point import Json, Point

CALIBERS = ("fixed", "local-sjf", "local-ljf", "global-sjf", "global-ljf")
_SEEDS = range(4_000_001, 4_000_011)
# Requests and seeds of a run, in full and reduced. Fewer requests would show an empty network
# filling; only the planning policies are slow enough to ask for it.
_CURVES = ((30_000, 10), (30_000, 3))
_TABLES = ((30_000, 5), (10_000, 2))
_RATES = (0.05, *(tenths / 10 for tenths in range(1, 17)))
_FEW_RATES = (0.05, 0.4, 0.8, 1.6)
_TOPOLOGIES = ("g-scale", "sndlib/geant", "sndlib/nobel-eu", "sndlib/germany50", "topozoo/Abilene")
# The offline bound's loads: requests and how many a second, the last ones within a minute; the most
# time, in s, for a linear program, which must be solved, and for an integer one, which need not.
_BOUND_LOADS = (
    *((30, rate) for rate in (0.05, 0.1, 0.2)),
    *((requests, requests / 60) for requests in (20, 40, 60, 80)),
)
_BOUND_SEEDS = range(7_000_001, 7_000_011)
_PARTS_S, _WHOLE_S = 600.0, 30.0


class Sample(TypedDict):
    """What one run gave; see `weir._core.CalendarFigures`."""

    success: float
    reject_rate: float
    utilisation: float
    index: float
    bytes_on_time_share: float
    bytes_delivered_share: float
    missed: int
    changes_per_request: float


Key = tuple[Any, ...]
Samples = Mapping[Key, Sequence[Sample]]


def run(
    *,
    network: str,
    policy: str,
    rate_per_s: float,
    epoch_s: float,
    published_clock: bool,
    requests: int,
    seeds: Sequence[int],
) -> Json:
    """One sample per seed; with the published simulator's clock its paths, too."""
    document, load = named_network(network), Load(rate_per_s, requests)
    samples = []
    for seed in seeds:
        figures = run_study(
            document,
            policy,
            load,
            seed,
            epoch_s=epoch_s,
            published_clock=published_clock,
            published_paths=published_clock,
        )
        samples.append({key: getattr(figures, key) for key in Sample.__annotations__})
    return samples


def bounded(*, requests: int, rate_per_s: float, seeds: Sequence[int]) -> Json:
    """For each seed, the offline bounds on requests and bytes, and what each policy gets of both.

    `bounds` count parts of requests, `whole` is the bound on requests that are all or nothing. Few
    and large requests on G-scale, so that they are in each other's way.
    """
    network, found = named_network("g-scale"), []
    load = Load(rate_per_s, requests, mean_rate_bps=4e9, mean_span_s=300.0)
    for seed in seeds:
        gets = {}
        for policy in POLICIES:
            figures = run_study(network, policy, load, seed, epoch_s=10.0)
            gets[policy] = [round(figures.success * requests), figures.bytes_on_time_share]
        bookings = figures.bookings
        size = sum(booking.size_bytes for booking in bookings)
        worth_one, worth_bytes = (requests_of(bookings, what) for what in ("requests", "bytes"))
        relaxed = offline_bound(network, worth_one, time_limit_s=_PARTS_S)
        # A request too many for the relaxation is one too many for whole requests.
        whole = int(relaxed.value + 1e-6)
        with contextlib.suppress(Unavailable):
            tighter = offline_bound(network, worth_one, whole=True, time_limit_s=_WHOLE_S)
            whole = min(whole, round(tighter.value))
        in_bytes = offline_bound(network, worth_bytes, time_limit_s=_PARTS_S)
        bounds = [relaxed.value, in_bytes.value / size]
        found.append({"bounds": bounds, "whole": whole, "gets": gets})
    return cast(Json, found)


def _setting(
    policy: str,
    rate_per_s: float,
    epoch_s: float = 180.0,
    *,
    network: str = "g-scale",
    published_clock: bool = False,
) -> dict[str, Json]:
    return {
        "network": network,
        "policy": policy,
        "rate_per_s": rate_per_s,
        "epoch_s": epoch_s,
        "published_clock": published_clock,
    }


def _row(
    id_: str,
    title: str,
    published: str,
    settings: Callable[[bool], Mapping[Key, Mapping[str, Json]]],
    judge: Callable[[Samples], Outcome],
    draw: Callable[[Samples, Path], None] | None = None,
    sizes: tuple[tuple[int, int], tuple[int, int]] = _CURVES,
) -> Row:
    """A row of runs by key, in full size and reduced."""

    def points(quick: bool) -> list[Point]:
        requests, seeds = sizes[quick]
        return [
            Point(run, {**arguments, "requests": requests, "seeds": [seed]})
            for arguments in settings(quick).values()
            for seed in _SEEDS[:seeds]
        ]

    def samples(results: Sequence[Json]) -> Samples:
        quick = len(results) == len(settings(True)) * sizes[True][1]
        runs = iter(cast(Sequence[list[Sample]], results))
        return {
            key: [sample for one in itertools.islice(runs, sizes[quick][1]) for sample in one]
            for key in settings(quick)
        }

    def plot(results: Sequence[Json], path: Path) -> None:
        if draw:
            draw(samples(results), path)

    shown = plot if draw else None
    return Row(id_, title, published, points, lambda results: judge(samples(results)), shown)


def _mean(samples: Sequence[Sample], figure: str) -> float:
    return statistics.fmean(cast(Mapping[str, float], sample)[figure] for sample in samples)


def _ratio(samples: Samples, a: Key, b: Key) -> tuple[float, float]:
    """The mean ratio of performance indices and half its interval."""
    return estimate([x["index"] / y["index"] for x, y in zip(samples[a], samples[b], strict=True)])


def _percent(ratio: tuple[float, float]) -> str:
    return f"{100 * (ratio[0] - 1):+.1f} ± {100 * ratio[1]:.1f} %"


# --- figure 4.2: the stated model ---


def _sweep(epoch_s: float, rates: Sequence[float]) -> dict[Key, dict[str, Json]]:
    return {
        (policy, rate): _setting(policy, rate, epoch_s) for rate in rates for policy in CALIBERS
    }


def _three_minutes(quick: bool) -> dict[Key, dict[str, Json]]:
    return _sweep(180.0, _FEW_RATES if quick else _RATES)


def _one_second(quick: bool) -> dict[Key, dict[str, Json]]:
    return _sweep(1.0, (0.4, 1.6) if quick else _RATES)


def _rates(samples: Samples) -> list[float]:
    return sorted({rate for _, rate in samples})


def _draw(figure: str, label: str) -> Callable[[Samples, Path], None]:
    def draw(samples: Samples, path: Path) -> None:
        series = [
            charts.Series(
                policy,
                [
                    (rate, *estimate([cast(Any, one)[figure] for one in samples[policy, rate]]))
                    for rate in _rates(samples)
                ],
            )
            for policy in CALIBERS
        ]
        charts.lines(path, f"G-scale: {label}", "requests per second", label, series)

    return draw


def _judge_loads(samples: Samples) -> Outcome:
    rates = _rates(samples)
    means = {
        (policy, rate, figure): _mean(samples[policy, rate], figure)
        for policy, rate in samples
        for figure in ("reject_rate", "utilisation")
    }
    grows = all(
        means[policy, a, "reject_rate"] <= means[policy, b, "reject_rate"]
        for policy in CALIBERS
        for a, b in itertools.pairwise(rates)
    )
    last = rates[-1]
    by_use = sorted(CALIBERS, key=lambda policy: means[policy, last, "utilisation"])
    ordered = by_use[0] == "fixed" and by_use[-1] == "global-ljf"
    missed = sum(sample["missed"] for runs in samples.values() for sample in runs)
    shown = ", ".join(f"{policy} {_both(samples[policy, last])}" for policy in CALIBERS)
    holds = grows and ordered and not missed
    return Outcome(
        f"rejects {'grow' if grows else 'do not grow'} with load; at {last:g}/s "
        f"rejects/utilisation: {shown}; deadlines missed: {missed}",
        Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
        "values are printed as curves only",
    )


def _judge_index(samples: Samples) -> Outcome:
    rates = _rates(samples)
    light = {policy: _mean(samples[policy, rates[0]], "index") for policy in CALIBERS}
    over_fixed = {rate: _ratio(samples, ("global-ljf", rate), ("fixed", rate)) for rate in rates}
    over_local = {
        rate: _ratio(samples, ("global-ljf", rate), ("local-ljf", rate)) for rate in rates
    }
    best = max(rates, key=lambda rate: over_fixed[rate][0])
    local = max(abs(ratio - 1) for ratio, _ in over_local.values())
    near = all(abs(ratio - 1) - margin < 0.05 for ratio, margin in over_local.values())
    ordered = all(
        _mean(samples["fixed", rate], "index") <= _mean(samples[policy, rate], "index") + 1e-9
        for policy in CALIBERS
        for rate in rates
    )
    holds = ordered and near and over_fixed[best][0] > 1.1
    return Outcome(
        f"at {rates[0]:g}/s fixed {light['fixed']:.3f}, global-LJF {light['global-ljf']:.3f}; most "
        f"over fixed at {best:g}/s: {_percent(over_fixed[best])}; global-LJF and local-LJF differ "
        f"by at most {100 * local:.1f} %; the index still rises at {rates[-1]:g}/s",
        Verdict.CANNOT_FOLLOW if holds else Verdict.DIFFERS,
        "at 0.05/s the load stated is 11 % of the network and nobody is refused, so no policy can "
        "have an index above 1.13 (AMB-30); the order of policies, +20 % over fixed and 3 % over "
        "local are there, at heavy load",
        f"global-LJF over fixed at {best:g}/s: {_percent(over_fixed[best])}",
    )


def _judge_one_second(samples: Samples) -> Outcome:
    gaps = {
        (scope, rate): _ratio(samples, (f"{scope}-ljf", rate), (f"{scope}-sjf", rate))
        for scope in ("local", "global")
        for rate in _rates(samples)
    }
    shown = ", ".join(
        f"{scope} at {rate:g}/s {_percent(gap)}"
        for (scope, rate), gap in gaps.items()
        if rate in (0.4, 0.8, 1.6)
    )
    small = all(gap < 1.03 for (_, rate), (gap, _) in gaps.items() if rate <= 0.4)
    return Outcome(
        f"LJF over SJF in index: {shown}",
        Verdict.TREND_HOLDS if small else Verdict.DIFFERS,
        "the gap is small up to 0.4/s; at heavy load it does not close (AMB-47)",
    )


# --- the results published with the simulator ---


def _published(
    table: Mapping[str, Mapping[float, tuple[float, float, float, float]]],
    epoch_s: float,
    few: Sequence[float],
) -> Callable[[bool], dict[Key, dict[str, Json]]]:
    def settings(quick: bool) -> dict[Key, dict[str, Json]]:
        return {
            (policy, rate, clock): _setting(policy, rate, epoch_s, published_clock=clock)
            for policy, rows in table.items()
            for rate in (few if quick else rows)
            for clock in (True, False)
        }

    return settings


_FAR_SD = 4.0
"""How many of their standard deviations a value may be off where the trend holds."""


def _judge_published(
    table: Mapping[str, Mapping[float, tuple[float, float, float, float]]], reason: str
) -> Callable[[Samples], Outcome]:
    """Ours on the published clock within one standard deviation of their ten seeds."""

    def judge(samples: Samples) -> Outcome:
        rates = sorted({rate for _, rate, _ in samples})
        far = []
        for policy, rate, clock in samples:
            if not clock:
                continue
            theirs = table[policy][rate]
            for figure, mean, deviation in (
                ("reject_rate", theirs[0], theirs[1]),
                ("utilisation", theirs[2], theirs[3]),
            ):
                off = abs(_mean(samples[policy, rate, True], figure) - mean)
                # Four decimals are printed.
                if off > max(deviation, 0.00005):
                    far.append((off / max(deviation, 0.00005), policy, rate, figure))
        cells = 2 * sum(clock for *_, clock in samples)
        at = rates[0]
        shown = "; ".join(
            f"{policy} {_both(samples[policy, at, True])} (stated clock "
            f"{_both(samples[policy, at, False])})"
            for policy in table
        )
        worst = max(far, default=None)
        tail = (
            f"; farthest {worst[1]} {worst[3]} at {worst[2]:g}/s: {worst[0]:.1f} sd"
            if worst
            else ""
        )
        return Outcome(
            f"rejects/utilisation at {at:g}/s: {shown}; {cells - len(far)} of {cells} values "
            f"within one sd{tail}",
            _beside(worst[0] if worst else 0.0, _same_order(table, samples)),
            reason if far else "",
        )

    return judge


def _beside(farthest_sd: float, same_order: bool) -> Verdict:
    if not farthest_sd:
        return Verdict.MATCHES
    holds = same_order and farthest_sd <= _FAR_SD
    return Verdict.TREND_HOLDS if holds else Verdict.DIFFERS


def _same_order(
    table: Mapping[str, Mapping[float, tuple[float, float, float, float]]], samples: Samples
) -> bool:
    """Whether policies whose published rejects differ by more than noise stand in that order."""
    for rate in {rate for _, rate, clock in samples if clock}:
        for one, other in itertools.permutations(table, 2):
            (low, low_sd, *_), (high, high_sd, *_) = table[one][rate], table[other][rate]
            if high - low <= 2 * (low_sd + high_sd):
                continue
            ours = [_mean(samples[policy, rate, True], "reject_rate") for policy in (one, other)]
            if ours[0] > ours[1]:
                return False
    return True


def _both(samples: Sequence[Sample]) -> str:
    return f"{_mean(samples, 'reject_rate'):.4f}/{_mean(samples, 'utilisation'):.4f}"


def _row_of(policy: str, table: Mapping[str, Mapping[float, Sequence[float]]], at: float) -> str:
    reject, reject_sd, use, use_sd = table[policy][at]
    return f"{policy} {reject:.4f} ± {reject_sd:.4f} / {use:.4f} ± {use_sd:.4f}"


# --- ours: others' policies, networks, the bound ---

# Where deadlines are an hour away, answers that wait a minute change nothing but the time it takes.
_ON_PUBLISHED = tuple(policy for policy in POLICIES if policy != "weir-held")


def _baselines(quick: bool) -> dict[Key, dict[str, Json]]:
    rates = (0.2, 0.8) if quick else (0.1, 0.2, 0.4, 0.8, 1.6)
    return {(policy, rate): _setting(policy, rate) for rate in rates for policy in _ON_PUBLISHED}


def _topologies(quick: bool) -> dict[Key, dict[str, Json]]:
    networks = _TOPOLOGIES[1:2] if quick else _TOPOLOGIES
    policies = [policy for policy in _ON_PUBLISHED if policy not in CALIBERS[1:4]]
    return {
        (policy, network): _setting(policy, 0.8, network=network)
        for network in networks
        for policy in policies
    }


def _judge_table(samples: Samples) -> Outcome:
    """Requests and bytes on time, by place, of every policy."""
    places = list(dict.fromkeys(place for _, place in samples))
    words = []
    for place in places:
        shown = ", ".join(
            f"{policy} {_mean(runs, 'success'):.3f}/{_mean(runs, 'bytes_on_time_share'):.3f}"
            for (policy, at), runs in samples.items()
            if at == place
        )
        words.append(f"{f'{place:g}/s' if isinstance(place, float) else place}: {shown}")
    late = sum(
        sample["missed"]
        for (policy, _), runs in samples.items()
        for sample in runs
        if policy != "none"
    )
    return Outcome(
        "; ".join(words) + f"; admitted and missed: {late}",
        Verdict.DIFFERS if late else Verdict.OURS,
        "" if not late else "what was admitted was to be on time",
    )


def _bound_points(quick: bool) -> list[Point]:
    seeds = _BOUND_SEEDS[: 1 if quick else None]
    return [
        Point(bounded, {"requests": requests, "rate_per_s": rate, "seeds": [seed]})
        for requests, rate in _BOUND_LOADS
        for seed in seeds
    ]


def _judge_bound(results: Sequence[Json]) -> Outcome:
    found = [one for runs in cast(Sequence[list[Any]], results) for one in runs]
    runs = len(found) // len(_BOUND_LOADS)
    own = {policy: _of_bound(policy, found, runs) for policy in ("weir", "weir-held")}
    shares = {
        policy: [
            statistics.fmean(one["gets"][policy][0] / one["whole"] for one in found),
            statistics.fmean(one["gets"][policy][1] / one["bounds"][1] for one in found),
        ]
        for policy in found[0]["gets"]
    }
    shown = ", ".join(f"{policy} {a:.3f}/{b:.3f}" for policy, (a, b) in shares.items())
    above = any(
        one["gets"][policy][0] > one["whole"]
        or one["gets"][policy][1] > one["bounds"][1] * (1 + 1e-6)
        for one in found
        for policy in shares
    )
    words = "; ".join(
        f"{policy} {', '.join(said)}, below 0.95 at {sum(share < 0.95 for share, _ in worst)}"
        for policy, (said, worst) in own.items()
    )
    ends = (
        f"{policy} {min(worst)[0]:.3f} ± {min(worst)[1]:.3f}" for policy, (_, worst) in own.items()
    )
    return Outcome(
        f"of the bound on whole requests (of the linear one), {runs} instance(s) a load, "
        f"{len(_BOUND_LOADS)} loads: {words}. All loads, whole requests/bytes: {shown}",
        Verdict.DIFFERS if above else Verdict.OURS,
        "" if not above else "nothing can be above the bound",
        f"worst load: {', '.join(ends)}" if runs > 1 else "",
    )


def _of_bound(
    policy: str, found: Sequence[Any], runs: int
) -> tuple[list[str], list[tuple[float, float]]]:
    """What a policy gets of the bounds at each load: in words, and as mean and interval."""
    said, shares = [], []
    for number, (requests, rate) in enumerate(_BOUND_LOADS):
        group = found[number * runs : (number + 1) * runs]
        share = estimate([one["gets"][policy][0] / one["whole"] for one in group])
        parts = statistics.fmean(one["gets"][policy][0] / one["bounds"][0] for one in group)
        said.append(f"{requests} at {rate:.2g}/s {share[0]:.3f} ({parts:.3f})")
        shares.append(share)
    return said, shares


_OWN_WAYS = (
    "its paths are used, too, where the text leaves them open; the public scheduler orders by "
    "data left instead of by completion, lets the last flow paced keep what need not be taken, and "
    "redistributes on another link than the text says; none of this is copied, nor its failed "
    "pacing that is never undone"
)
_FIELD = "not published; every value is of requests/bytes on time"

ROWS = [
    _row(
        "000-fig-4.2a",
        "Bandwidth calendar on G-scale: reject rate and utilisation against load",
        "rejects grow with load; utilisation highest for global-LJF, lowest for fixed",
        _three_minutes,
        _judge_loads,
        _draw("utilisation", "utilisation"),
    ),
    _row(
        "000-fig-4.2b",
        "Bandwidth calendar on G-scale: performance index against load",
        "at 0.05/s global-LJF 2.16, fixed 1.80 (+20 %); 3 % above local-LJF; largest at 0.4/s",
        _three_minutes,
        _judge_index,
        _draw("index", "success / (1 - utilisation)"),
    ),
    _row(
        "000-sec-4.4.2",
        "Figure 4.2 with epochs of a second: longest against shortest first",
        "the difference between SJF and LJF becomes negligible",
        _one_second,
        _judge_one_second,
        _draw("index", "success / (1 - utilisation)"),
    ),
    _row(
        "000-sec-4.4.2-clock-180",
        "The published simulator's own results, 3-minute epochs, on its clock and on the stated; "
        "not live: no network has that simulator's clock",
        "rejects / utilisation at 0.05/s: "
        + "; ".join(_row_of(policy, EPOCH_180, 0.05) for policy in CALIBERS),
        _published(EPOCH_180, 180.0, (0.05,)),
        _judge_published(EPOCH_180, _OWN_WAYS),
    ),
    _row(
        "000-sec-4.4.2-clock-1",
        "The published simulator's own results with epochs of a second; not live, as of 180 s",
        "rejects / utilisation at 0.95/s: "
        + "; ".join(_row_of(policy, EPOCH_1, 0.95) for policy in CALIBERS),
        _published(EPOCH_1, 1.0, (0.95,)),
        _judge_published(EPOCH_1, _OWN_WAYS),
    ),
    _row(
        "000-own-4.1-policies",
        "Policies from the field on the load of figure 4.2",
        _FIELD,
        _baselines,
        _judge_table,
        sizes=_TABLES,
    ),
    _row(
        "000-own-4.2-topologies",
        "Policies from the field on real networks of topohub, 10 Gbit/s links, 0.8 requests/s",
        _FIELD,
        _topologies,
        _judge_table,
        sizes=_TABLES,
    ),
    Row(
        "000-own-4.3-bound",
        "Every policy against the offline bound on small instances",
        "not published; values are of a bound. Live, beside the same bound: 000-own-4.1-live",
        _bound_points,
        _judge_bound,
    ),
]
