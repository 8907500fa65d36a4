"""Work 000, chapter 4, live: Calibers as built, the calendar with switches that keep its promises.

The architecture of section 4.2 in a lab (`studies.rig.calibers`): agents carry real files over the
kernel's TCP at the rates that the calendar allots, switches shape what enters, and their counters
tell what was carried. Requests are few and large, as in row `000-own-4.3-bound`, and the calendar's
simulator meets the very same ones.
"""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from studies.rig.offline_bound import offline_bound, requests_of
from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w000.ch4_calendar import CALIBERS
from weir import extras
from weir._core import calendar_study, six_routers
from weir.calendar.study import Load, named_network
from weir.runs.point import Json, Point

_LINK_BPS = 20_000_000
_CONTENT = 0.95
"""The share of packets that is a file's content."""
_MEAN_RATE_BPS, _MEAN_SPAN_S, _LEAST_SPAN_S = 8e6, 15.0, 5.0
_EPOCH_S, _SHORT_S = 0.75, 0.1
"""A twentieth of the mean span, as three minutes are of the work's hour; and far below it."""
_LOADS = (0.5, 1.5)
_FULL, _QUICK = (60, (1, 2)), (12, (1,))
"""Requests of a run, and its seeds."""
_ON_TIME = 0.9
"""Fewer of those admitted on time than this, and the promise was not kept."""
_BOUND_S = 60.0
_SCALED = "links of 20 Mbit/s, requests for 8 Mbit/s over 20 s in the mean"

Key = tuple[Any, ...]
Run = Mapping[str, Any]
Runs = Mapping[Key, Sequence[Run]]


def calendar(
    *, network: str, policy: str, rate_per_s: float, epoch_s: float, requests: int, seed: int
) -> Json:
    """One run: what `studies.rig.calibers` saw, what is simulated of it, and the offline bound.

    Args:
        network: `six-routers`, `g-scale`, or a topology of topohub.
        policy: of the calendar.
        rate_per_s: of Poisson arrivals of requests.
        epoch_s: between redistributions.
        requests: how many come.
        seed: of the requests.
    """
    with extras.named():
        from studies.rig import calibers
    load = Load(rate_per_s, requests, _MEAN_RATE_BPS, _MEAN_SPAN_S)
    promised = _with_capacity(network, round(_LINK_BPS * calibers.SHARE * _CONTENT))
    study = {
        "network": promised,
        "policy": policy,
        "epoch_s": epoch_s,
        "clock": "true",
        "workload": load.workload(seed, _LEAST_SPAN_S),
    }
    simulated = calendar_study(json.dumps(study))
    asked = [
        calibers.Request(
            one.arrival_ns / 1e9,
            one.source,
            one.destination,
            one.size_bytes,
            (one.deadline_ns - one.arrival_ns) / 1e9,
        )
        for one in simulated.bookings
    ]
    bound = offline_bound(promised, requests_of(simulated.bookings), time_limit_s=_BOUND_S)
    figures = ("success", "reject_rate", "utilisation", "index", "missed")
    found = calibers.carry_out(_with_capacity(network, _LINK_BPS), policy, epoch_s, asked)
    return cast(
        Json,
        found
        | {"simulated": {name: getattr(simulated, name) for name in figures}}
        # A request too many for the relaxation is one too many for whole requests.
        | {"bound": int(bound.value + 1e-6)},
    )


def _with_capacity(network: str, capacity_bps: int) -> dict[str, Any]:
    if network == "six-routers":
        document: dict[str, Any] = json.loads(six_routers())
    else:
        document = named_network(network)
    links = [{**link, "capacity_bps": capacity_bps} for link in document["links"]]
    return {**document, "links": links}


def _setting(
    policy: str, rate_per_s: float, epoch_s: float = _EPOCH_S, network: str = "six-routers"
) -> dict[str, Json]:
    return {
        "network": network,
        "policy": policy,
        "rate_per_s": rate_per_s,
        "epoch_s": epoch_s,
    }


def _row(
    id_: str,
    title: str,
    published: str,
    settings: Callable[[bool], Mapping[Key, Mapping[str, Json]]],
    judge: Callable[[Runs], Outcome],
) -> Row:
    """A live row of runs by key, in full size and reduced; one lab at a time."""

    def points(quick: bool) -> list[Point]:
        requests, seeds = _QUICK if quick else _FULL
        return [
            Point(calendar, {**arguments, "requests": requests, "seed": seed})
            for arguments in settings(quick).values()
            for seed in seeds
        ]

    def judged(results: Sequence[Json]) -> Outcome:
        runs = iter(cast(Sequence[Run], results))
        quick = len(results) == len(settings(True)) * len(_QUICK[1])
        seeds = len((_QUICK if quick else _FULL)[1])
        return judge({key: [*itertools.islice(runs, seeds)] for key in settings(quick)})

    return Row(id_, title, published, points, judged, live=1)


# --- what a run says ---


def _success(run: Run) -> float:
    return mean([one["on_time"] for one in run["transfers"]])


def _rejects(run: Run) -> float:
    return 1 - mean([one["admitted"] for one in run["transfers"]])


def _utilisation(run: Run) -> float:
    """By the counters of the links between switches, to the end of the last transfer."""
    carried = mean(list(run["carried_bytes"].values()))
    return 8 * carried / float(run["seconds"]) / _LINK_BPS


def _index(run: Run) -> float:
    return _success(run) / (1 - _utilisation(run))


def _kept(runs: Sequence[Run]) -> str:
    """What became of the promises, in words."""
    transfers = [one for run in runs for one in run["transfers"] if one["admitted"]]
    counted = [one for one in transfers if one.get("promised_bytes")]
    promised = sum(one["promised_bytes"] for one in counted)
    carried = sum(one["carried_bytes"] for one in counted)
    late = sum(not one["on_time"] for one in transfers)
    share = f", switches carried {carried / promised:.2f} of the rates promised" if promised else ""
    return f"{len(transfers)} admitted, {late} of them late{share}"


def _are_on_time(runs: Sequence[Run]) -> bool:
    admitted = [one for run in runs for one in run["transfers"] if one["admitted"]]
    return not admitted or mean([one["on_time"] for one in admitted]) >= _ON_TIME


def _each(runs: Runs) -> list[Run]:
    return [run for some in runs.values() for run in some]


def _reason(runs: Runs, *more: str) -> str:
    flaws = sorted({flaw for run in _each(runs) for flaw in run["flaws"]})
    return "; ".join([_SCALED, *more, *flaws])


def _beside(some: Sequence[Run], live: Callable[[Run], float], simulated: str) -> str:
    """A figure live and simulated, in words."""
    foreseen = mean([run["simulated"][simulated] for run in some])
    return f"{words([live(run) for run in some], '.2f')} (simulated {foreseen:.2f})"


# --- the rows ---


def _sweep(quick: bool) -> dict[Key, dict[str, Json]]:
    policies = ("fixed", "local-ljf") if quick else CALIBERS
    return {(policy, rate): _setting(policy, rate) for rate in _LOADS for policy in policies}


def _judge_loads(runs: Runs) -> Outcome:
    said = [
        f"{policy} at {rate:g}/s rejects {_beside(some, _rejects, 'reject_rate')}, "
        f"utilisation {_beside(some, _utilisation, 'utilisation')}"
        for (policy, rate), some in runs.items()
    ]
    light, heavy = (
        mean([_rejects(run) for (_, rate), some in runs.items() if rate == at for run in some])
        for at in _LOADS
    )
    holds = light <= heavy and _are_on_time(_each(runs))
    return Outcome(
        f"{'; '.join(said)}; {_kept(_each(runs))}",
        Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
        _reason(runs, "values are printed as curves only"),
    )


def _judge_index(runs: Runs) -> Outcome:
    said = [
        f"{policy} {_beside(some, _index, 'index')} at {rate:g}/s"
        for (policy, rate), some in runs.items()
    ]
    heavy = {
        policy: mean([_index(x) for x in some])
        for (policy, at), some in runs.items()
        if at == _LOADS[-1]
    }
    holds = heavy["local-ljf"] >= 0.95 * heavy["fixed"] and _are_on_time(_each(runs))
    return Outcome(
        f"{', '.join(said)}; {_kept(_each(runs))}",
        Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
        _reason(runs, "few requests tell no smaller difference than 5 %"),
    )


def _epochs(quick: bool) -> dict[Key, dict[str, Json]]:
    return {
        (policy, epoch_s): _setting(policy, _LOADS[-1], epoch_s)
        for epoch_s in (_EPOCH_S, _SHORT_S)
        for policy in ("local-sjf", "local-ljf")
    }


def _judge_epochs(runs: Runs) -> Outcome:
    said = [
        f"{policy} {_beside(some, _index, 'index')} with epochs of {epoch_s:g} s"
        for (policy, epoch_s), some in runs.items()
    ]
    index = {key: mean([_index(run) for run in some]) for key, some in runs.items()}
    gap = abs(index["local-ljf", _SHORT_S] / index["local-sjf", _SHORT_S] - 1)
    holds = gap <= 0.1 and _are_on_time(_each(runs))
    return Outcome(
        f"index: {', '.join(said)}; {_kept(_each(runs))}",
        Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
        _reason(runs, "negligible is taken as 10 % at most"),
    )


def _field(quick: bool) -> dict[Key, dict[str, Json]]:
    policies = ("local-ljf", "weir", "weir-all")
    return {(policy,): _setting(policy, _LOADS[-1]) for policy in policies}


def _judge_field(runs: Runs) -> Outcome:
    said = [
        f"{policy} {_beside(some, _success, 'success')}, of the bound "
        f"{words([_success(run) * len(run['transfers']) / run['bound'] for run in some])}"
        for (policy,), some in runs.items()
    ]
    return Outcome(
        f"requests on time: {'; '.join(said)}; {_kept(_each(runs))}",
        Verdict.OURS if _are_on_time(_each(runs)) else Verdict.DIFFERS,
        _reason(runs),
    )


def _topologies(quick: bool) -> dict[Key, dict[str, Json]]:
    networks = ("topozoo/Abilene",) if quick else ("g-scale", "topozoo/Abilene")
    return {(x,): _setting("local-ljf", _LOADS[-1], network=x) for x in networks}


def _judge_topologies(runs: Runs) -> Outcome:
    said = [
        f"{network} {_beside(some, _success, 'success')} on time, utilisation "
        f"{_beside(some, _utilisation, 'utilisation')}"
        for (network,), some in runs.items()
    ]
    return Outcome(
        f"local-ljf: {'; '.join(said)}; {_kept(_each(runs))}",
        Verdict.OURS if _are_on_time(_each(runs)) else Verdict.DIFFERS,
        _reason(runs),
    )


ROWS = [
    _row(
        "000-own-4.2a-live",
        "Calibers as built, over switches: reject rate and utilisation against load",
        "rejects grow with load; utilisation highest for global-LJF, lowest for fixed",
        _sweep,
        _judge_loads,
    ),
    _row(
        "000-own-4.2b-live",
        "Calibers as built, over switches: performance index against load",
        "global-LJF above fixed by 20 %, local-LJF within 3 % of it",
        _sweep,
        _judge_index,
    ),
    _row(
        "000-own-4.4.2-live",
        "Calibers as built, over switches: longest against shortest first by the length of epochs",
        "the difference between SJF and LJF becomes negligible with short ones",
        _epochs,
        _judge_epochs,
    ),
    _row(
        "000-own-4.1-live",
        "Weir's policies and local-LJF over switches, beside the offline bound",
        "not published; requests on time, and as a share of the bound on them",
        _field,
        _judge_field,
    ),
    _row(
        "000-own-4.2-topologies-live",
        "Calibers as built over the switches of real networks",
        "not published; requests on time",
        _topologies,
        _judge_topologies,
    ),
]
