"""Work 000, section 3.2, live: SH of a Tier-2 provider stacked on that of its Tier-1, on switches.

The scenario `tiers` in a lab and in the simulator: elephants that customers have marked cross both
providers, which mark nothing again. Beside it the same without classes, all in one queue.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from studies.rig.beside_simulated import WORLDS, Result, beside_simulated, flaws
from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from weir import Time
from weir.lab import load
from weir.runs.point import Json, Point
from weir.shipped import scenario

_KINDS = ("headroom", "best effort")
_SECONDS, _QUICK_SECONDS = 30, 10


def stacked(*, seconds: int, seed: int) -> Json:
    """What best effort loses, in percent, and what each elephant gets, in Mbit/s.

    Args:
        seconds: of the run.
        seed: of the bursts.
    """
    whole = load(scenario("tiers"))
    stop = Time(f"{seconds} s")
    whole = replace(
        whole, seed=seed, traffic=tuple(replace(one, stop=stop) for one in whole.traffic)
    )
    plain = replace(whole, switching=replace(whole.switching, classes=()))
    kinds = dict(zip(_KINDS, (whole, plain), strict=True))
    return beside_simulated(kinds, _facts, at_once=1)


def _facts(result: Result) -> Json:
    flows = result.get("traffic") or result["flows"]
    bursts = [flow for flow in flows if flow["name"].startswith("bursts")]
    sent, received = (sum(flow[x] for flow in bursts) for x in ("sent_packets", "received_packets"))
    if "flows" in result:
        # What is on the way at the end is not lost.
        received = sent - sum(flow["lost_packets"] for flow in bursts)
    elephants = [
        flow.get("received_rate_bps", flow.get("goodput_bps")) / 1e6
        for flow in flows
        if flow["name"].startswith("elephant")
    ]
    return {"lost_percent": 100 * (1 - received / sent), "elephants_mbit_s": elephants}


def _points(quick: bool) -> list[Point]:
    seconds, seeds = (_QUICK_SECONDS, (1,)) if quick else (_SECONDS, (1, 2, 3))
    return [Point(stacked, {"seconds": seconds, "seed": seed}) for seed in seeds]


def _judge(results: Sequence[Json]) -> Outcome:
    runs = cast(Sequence[dict[str, dict[str, Any]]], results)
    lost = {
        (kind, world): [run[kind][world]["lost_percent"] for run in runs]
        for kind in _KINDS
        for world in WORLDS
    }

    def both(kind: str, world: str) -> str:
        rates = [mean(run[kind][world]["elephants_mbit_s"]) for run in runs]
        return f"{words(lost[kind, world], '.3f')} % lost, an elephant {words(rates, '.1f')} Mbit/s"

    said = "; ".join(
        f"{kind}: {both(kind, 'live')} (simulated {both(kind, 'simulated')})" for kind in _KINDS
    )
    spares = max(*lost["headroom", "live"], *lost["headroom", "simulated"]) == 0
    harms = min(mean(lost["best effort", world]) for world in WORLDS) > 0
    return Outcome(
        said,
        Verdict.TREND_HOLDS if spares and harms else Verdict.DIFFERS,
        "; ".join(["links of 40 Mbit/s between providers; best effort of both", *flaws(runs)]),
    )


ROWS = [
    Row(
        "000-own-3.2-tiers-live",
        "SH of a Tier-2 on SH of its Tier-1, on switches and simulated: what best effort loses",
        "stacks recursively, without marking again; best effort loses nothing",
        _points,
        _judge,
        live=1,
    )
]
