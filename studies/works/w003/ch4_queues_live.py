"""Work 003, chapter 4: queues that part the flows, in place of the small windows, live.

The cell is that of `ch4_wlan_live`. Its access point has FQ-CoDel or DualPI2 and no proxy beside
it; the simulator has the same cell with as recent a TCP.
"""

import statistics
from collections.abc import Sequence
from typing import Any, cast

from studies.rig import beside_simulated, wireless
from studies.works.row import Outcome, Row, Verdict
from studies.works.w003 import ch4_wlan, ch4_wlan_live
from weir.lab.scenario import Queue
from weir.numbers import jain
from weir.runs.point import Json, Point
from weir.sim.traffic import Tcp

CLIENTS = 4
WINDOWS = "windows"
"""The work's way: a proxy keeps two segments of each client's under way."""
WAYS = (WINDOWS, "fq-codel", "dual-pi2")
_SPAN_S, _QUICK_SPAN_S = [4, 12], [2, 5]
_SEED = 1


def run(*, way: str, seconds: Sequence[int], seed: int) -> Json:
    """What a cell of four clients shows, as `ch4_wlan_live.run` tells it.

    Args:
        way: one of `WAYS`.
        seconds: of the while before, and of what is measured.
        seed: of both worlds.
    """
    if way == WINDOWS:
        return ch4_wlan_live.run(clients=CLIENTS, way="clamped", seconds=seconds, seed=seed)
    span_s = (seconds[0], seconds[1])
    cell = ch4_wlan.Way(Tcp("reno"), way)
    both: dict[str, Json] = {"simulated": ch4_wlan.run(cell, CLIENTS, 0, span_s, seed)}
    if beside_simulated.has_labs():
        names = ch4_wlan.client_names(CLIENTS)
        scenario = ch4_wlan_live.scenario(names, seed, Queue(way))
        both["live"] = ch4_wlan_live.facts(wireless.carry_out(scenario, names, None, span_s))
    return {"cell": both}


def _points(quick: bool) -> list[Point]:
    span_s = _QUICK_SPAN_S if quick else _SPAN_S
    return [Point(run, {"way": way, "seconds": span_s, "seed": _SEED}) for way in WAYS]


def _judge(results: Sequence[Json]) -> Outcome:
    found = {
        way: cast(dict[str, dict[str, dict[str, Any]]], result)["cell"]
        for way, result in zip(WAYS, results, strict=True)
    }
    told = "; ".join(
        f"{way}: {_figures(both['live'])} (simulated {_figures(both['simulated'])})"
        for way, both in found.items()
    )
    best = {
        world: _best({way: found[way][world] for way in WAYS}) for world in ("live", "simulated")
    }
    flaws = dict.fromkeys(flaw for both in found.values() for flaw in both["live"]["flaws"])
    return Outcome(
        f"{CLIENTS} clients: {told}",
        Verdict.OURS if best["live"] == best["simulated"] else Verdict.DIFFERS,
        f"the lowest ping has {best['live']}, simulated {best['simulated']}"
        + "".join(f"; {flaw}" for flaw in flaws),
    )


def _best(of: dict[str, dict[str, Any]]) -> str:
    return min(of, key=lambda way: float(of[way]["ping_ms"]))


def _figures(one: dict[str, Any]) -> str:
    rates = one["video_kbps"]
    over_time = statistics.fmean(one["jain_by_second"])
    return (
        f"{sum(rates) / 1e3:.2f} Mbit/s, Jain {jain(rates):.4f} (by second {over_time:.3f}), "
        f"ping {one['ping_ms']:.0f} ms"
    )


ROWS = [
    Row(
        "003-own-4.4-live",
        "WLAN: FQ-CoDel and DualPI2 at the access point beside small windows, live",
        "not published: the work has one queue for all",
        _points,
        _judge,
        live=1,
    )
]
