"""Work 000, chapter 3's future work, live: the extensions of DH on OpenFlow switches.

Twins of the rows `000-ch-3.8-…` in the lab of `ch3_live`, for which there is no published value.
"""

from functools import partial
from typing import Any

from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w000.ch3_headroom_live import Key, Runs, each, gains, row
from studies.works.w000.ch3_live import TIMES, flaws, fluid_gbit_s, gbit_s, setting
from weir.runs.point import Json

_ENDS: Json = [1e9, 2.5e9, 1e10]
"""What ends can do, in bit/s: a third each."""
_SETUP_S = 5.0
_RATES: dict[str, Json] = {
    "DH": None,
    "by rate": {"measure": "rate"},
    "Weir": {"measure": "weir"},
}
_HOPS: dict[str, Json] = {
    "DH": None,
    "1 hop more": {"hop_limit": {"hops_more": 1}},
    "default length where 2 meet": {"hop_limit": {"hops_more": 0, "from_flows": 2}},
    "Weir": {"measure": "weir"},
}
_MERGED = {"SH": "static", "DH": "dynamic", "merged": "merged"}
_BEHIND = 0.8
"""Few elephants decide nothing finer: one that carries less than so much of DH's is behind."""


def _rates(quick: bool) -> dict[Key, dict[str, Json]]:
    return {
        (name,): setting("dynamic", 0.5, 0.2, options=options, limits_bps=_ENDS)
        for name, options in _RATES.items()
    }


def _hops(quick: bool) -> dict[Key, dict[str, Json]]:
    return {
        (name,): setting("dynamic", 0.0, 0.3, options=options) for name, options in _HOPS.items()
    }


def _merged(quick: bool) -> dict[Key, dict[str, Json]]:
    options: dict[str, Json] = {"setup_ns": round(_SETUP_S / TIMES * 1e9)}
    return {
        (name,): setting(service, 1.0, 0.27, options=options, size={"lognormal": [1.0, 2.0]})
        for name, service in _MERGED.items()
    }


def _judge(over: str, runs: Runs) -> Outcome:
    """What each gains over one of them, seed by seed; the last must not be far behind."""
    said = []
    for key in runs:
        if key != (over,):
            some = gains(runs, key, (over,))
            foreseen = mean([fluid_gbit_s(run) for run in runs[key]]) / mean(
                [fluid_gbit_s(run) for run in runs[over,]]
            )
            said.append(f"{key[0]} {words(some)} (fluid, same flows: {foreseen:.2f})")
    (last,) = list(runs)[-1]
    holds = mean(gains(runs, (last,), (over,))) >= _BEHIND
    shares = [gbit_s(run) / fluid_gbit_s(run) for run in each(runs)]
    return Outcome(
        f"throughput over {over}: {', '.join(said)}",
        Verdict.OURS if holds else Verdict.DIFFERS,
        f"few elephants, from an empty network on; the kernel's TCP had {min(shares):.2f} to "
        f"{max(shares):.2f} of the fluid model's throughput{flaws(each(runs))}",
    )


def _row(id_: str, title: str, settings: Any, over: str) -> Row:
    judge = partial(_judge, over)
    return row(id_, title, "not published: named as future work", settings, judge)


ROWS = [
    _row(
        "000-own-3.8-rates-live",
        "DH on switches that knows what the ends of flows can do (1, 2.5 or 10 Gbit/s)",
        _rates,
        "DH",
    ),
    _row(
        "000-own-3.8-hops-live",
        "DH on switches with limits of hops against thrashing, and with paths weighed by length",
        _hops,
        "DH",
    ),
    _row(
        "000-own-3.8-merged-live",
        "SH and DH merged on switches: a path takes 5 s to set up (sizes of up to 50 GB)",
        _merged,
        "DH",
    ),
]
