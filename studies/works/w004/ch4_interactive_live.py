"""Work 004, section 4.3, live: the kernel's DCTCP and Cubic through the queues of the figures.

Those of figures 4.8 and 4.9, alone and beside a constant stream of UDP (section 4.3.2). Testbed T3
in the lab, and the same scenario in the simulator beside it. The kernel's DCTCP halves on a loss
(RFC 8257), which that of Linux 3.18, the work's, does not; where the kernel has none it is given it
(docs/lab.md).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from studies.rig.beside_simulated import WORLDS, Result, beside_simulated, flaws, through
from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w004 import ch4_interactive
from studies.works.w004.ch4_interactive import CBR_QUEUES, LINE
from weir.lab import parse
from weir.runs.point import Json, Point
from weir.sim.compare import quantities

QUEUES = {
    name: ch4_interactive.QUEUES[name] for name in ("RED", "PIE", "FQ-CoDel", "DualQ", "DualPI2")
}
"""The queues of figures 4.8 and 4.9."""
_SCENARIO = """
[lab]
seed = {seed}
[hosts]
scalable = {{ congestion = "dctcp" }}
classic = {{}}
client = {{}}
[routers.router]
[[link]]
ends = ["scalable", "router"]
rate = "1 Gbit/s"
[[link]]
ends = ["classic", "router"]
rate = "1 Gbit/s"
[[link]]
name = "line"
ends = ["router", "client"]
rate = "40 Mbit/s"
delay = "3.5 ms"
[[traffic]]
name = "dctcp"
kind = "iperf3"
from = "scalable"
to = "client"
streams = {flows}
stop = "{seconds} s"
[[traffic]]
name = "cubic"
kind = "iperf3"
from = "classic"
to = "client"
streams = {flows}
stop = "{seconds} s"
"""
_AT_ONCE = 3
_SECONDS, _QUICK_SECONDS = 40, 20
_FLOWS, _QUICK_FLOWS = (2, 5), (2,)
_STARVED, _EQUAL, _RATIO, _L4S_MS = 0.25, 0.1, (0.4, 2.5), 2.0  # 004-spec section 14.2


def through_each_queue(*, flows: int, seconds: int, seed: int) -> Json:
    """So many flows of either kind through each queue, live and simulated.

    Returns:
        By queue, and then `live` and `simulated`: Cubic's rate over DCTCP's, the rate of both in
        Mbit/s, and 99 % of the waits of each class in ms.
    """
    text = _SCENARIO.format(flows=flows, seconds=seconds, seed=seed)
    scenarios = {name: through(queue, parse(text, name)) for name, queue in QUEUES.items()}
    return beside_simulated(scenarios, _facts, at_once=_AT_ONCE)


def _facts(result: Mapping[str, Any]) -> dict[str, Any]:
    told = dict(quantities(result))
    rates = [told[name, "goodput, Mbit/s"] for name in ("dctcp", "cubic")]
    waits = {
        subject.removeprefix("line forward, "): value
        for (subject, quantity), value in told.items()
        if quantity == "wait p99, ms" and subject.startswith("line forward, ")
    }
    return {"share": rates[1] / max(rates[0], 1e-3), "mbit_s": sum(rates), "p99_ms": waits}


def _points(quick: bool) -> list[Point]:
    seconds, seeds = (_QUICK_SECONDS, (1,)) if quick else (_SECONDS, (1, 2, 3, 4, 5))
    return [
        Point(through_each_queue, {"flows": flows, "seconds": seconds, "seed": seed})
        for flows in (_QUICK_FLOWS if quick else _FLOWS)
        for seed in seeds
    ]


def _judge(results: Sequence[Json]) -> Outcome:
    """S1, S5 and S6 of 004-spec section 14.2, of the kernel's flows."""
    runs = cast(Sequence[Mapping[str, Any]], results)
    counts = _QUICK_FLOWS if len(runs) < len(_FLOWS) else _FLOWS
    each = len(runs) // len(counts)
    groups = [runs[at : at + each] for at in range(0, len(runs), each)]

    def shares(queue: str, which: str) -> list[float]:
        return [mean([run[queue][which]["share"] for run in group]) for group in groups]

    said = [
        f"{queue} {', '.join(f'{share:.0%}' for share in shares(queue, 'live'))} (simulated "
        f"{', '.join(f'{share:.0%}' for share in shares(queue, 'simulated'))})"
        for queue in QUEUES
    ]
    late = {
        queue: max(run[queue]["live"]["p99_ms"]["l4s"] for run in runs)
        for queue in ("DualQ", "DualPI2")
    }
    starved = max(shares("RED", "live") + shares("PIE", "live"))
    fair = max(abs(share - 1) for share in shares("FQ-CoDel", "live"))
    coupled = shares("DualQ", "live")
    holds = (
        starved < _STARVED
        and fair < _EQUAL
        and _RATIO[0] <= min(coupled)
        and max(coupled) <= _RATIO[1]
        and max(late.values()) < _L4S_MS
    )
    ours = (
        f"Cubic's rate over DCTCP's with {' and '.join(map(str, counts))} of each: "
        f"{'; '.join(said)}. 99 % of L4S packets wait less than {late['DualQ']:.1f} ms (DualQ) and "
        f"{late['DualPI2']:.1f} ms (DualPI2), live"
    )
    interval = "; ".join(
        f"{queue}, {counts[-1]} of each: "
        f"{words([run[queue]['live']['share'] for run in groups[-1]])}"
        for queue in QUEUES
    )
    reason = "; ".join(["today's DCTCP halves on a loss, the work's did not", *flaws(runs)])
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason, interval)


# --- section 4.3.2: beside a constant stream ---

CBR_MBIT_S = 20
_CBR = """
[[traffic]]
name = "cbr"
kind = "udp"
from = "classic"
to = "client"
rate = "{mbit_s} Mbit/s"
payload = "{payload} B"
stop = "{seconds} s"
"""
_PAYLOAD_BYTES, _PACKET_BYTES, _SEGMENT_BYTES = 1472, 1500, 1448
_CBR_SECONDS, _CBR_FLOWS = 30, (1, 5)


def beside_cbr(*, flows: int, seconds: int, seed: int) -> Json:
    """So many flows of either kind beside UDP, live and simulated, through the queues of the row.

    Returns:
        By queue and whether UDP is ECN-capable, and then `live` and `simulated`: what UDP got, as
        packets of IP; what all other flows got over what it was to leave; and Cubic's rate over
        DCTCP's. Rates are in Mbit/s.
    """
    text = _SCENARIO.format(flows=flows, seconds=seconds, seed=seed)
    text += _CBR.format(mbit_s=CBR_MBIT_S, payload=_PAYLOAD_BYTES, seconds=seconds)
    beside = {"not ECT": parse(text, "not ECT"), "ECT": parse(f'{text}ecn = "ect0"\n', "ECT")}
    scenarios = {
        f"{name}, {cbr}": through(QUEUES[name], scenario)
        for name in CBR_QUEUES
        for cbr, scenario in beside.items()
    }
    return beside_simulated(scenarios, partial(_cbr_facts, seconds), at_once=_AT_ONCE)


def _cbr_facts(seconds: int, result: Result) -> Json:
    facts = _facts(result)
    flows = result.get("traffic") or result["flows"]
    (received,) = (flow["received_packets"] for flow in flows if flow["name"] == "cbr")
    left = (LINE.rate_bps / 1e6 - CBR_MBIT_S) * _SEGMENT_BYTES / _PACKET_BYTES
    return {
        "cbr": received * _PACKET_BYTES * 8 / seconds / 1e6,
        "left": facts["mbit_s"] / left,
        "share": facts["share"],
    }


def _cbr_points(quick: bool) -> list[Point]:
    seconds, seeds = (_QUICK_SECONDS, (1,)) if quick else (_CBR_SECONDS, (1, 2, 3, 4, 5))
    return [
        Point(beside_cbr, {"flows": flows, "seconds": seconds, "seed": seed})
        for flows in _CBR_FLOWS
        for seed in seeds
    ]


def _judge_cbr(results: Sequence[Json]) -> Outcome:
    """The CBR condition of 004-spec section 14.2, of the kernel's flows."""
    runs = cast(Sequence[dict[str, Any]], results)
    each = len(runs) // len(_CBR_FLOWS)
    said, right = [], True
    for number, flows in enumerate(_CBR_FLOWS):
        group = runs[number * each : (number + 1) * each]
        equal = min(CBR_MBIT_S, LINE.rate_bps / 1e6 / (2 * flows + 1))
        for name in group[0]:
            live, simulated = (
                {
                    what: mean([run[name][world][what] for run in group])
                    for what in ("cbr", "left", "share")
                }
                for world in WORLDS
            )
            if name.startswith("FQ-CoDel"):
                right &= abs(live["cbr"] / equal - 1) < 0.1
            elif name.startswith("DualQ"):
                right &= abs(live["left"] - 1) < 0.15
            said.append(
                f"{name}, {flows}+{flows}: UDP {live['cbr']:.1f} ({simulated['cbr']:.1f}), flows "
                f"{live['left']:.0%} ({simulated['left']:.0%}), Cubic/DCTCP {live['share']:.2f} "
                f"({simulated['share']:.2f})"
            )
    ours = (
        f"of {CBR_MBIT_S} Mbit/s offered, what UDP got, what the flows got of the rest, and how "
        f"they shared it (simulated): {'; '.join(said)}"
    )
    interval = "; ".join(
        f"{name} {_CBR_FLOWS[-1]}+{_CBR_FLOWS[-1]}: UDP "
        f"{words([run[name]['live']['cbr'] for run in runs[-each:]], '.1f')} Mbit/s"
        for name in runs[0]
    )
    reason = "; ".join(["the means include the slow starts", *flaws(runs)])
    return Outcome(ours, Verdict.TREND_HOLDS if right else Verdict.DIFFERS, reason, interval)


ROWS = [
    Row(
        "004-own-4.3-live",
        "Figures 4.8 and 4.9 on the kernel's own DCTCP and Cubic, in the lab and simulated",
        "RED, PIE: DCTCP starves Cubic; FQ-CoDel equal; DualQ about equal, L4S without a queue",
        _points,
        _judge,
        live=1,
    ),
    Row(
        "004-own-4.3.2-live",
        "The kernel's long flows beside 20 Mbit/s of UDP: FQ-CoDel, DualQ, and DualPI2 beside them",
        "FQ-CoDel caps UDP at an equal share; DualQ lets it keep its rate, the others share the "
        "remaining 20 Mbit/s evenly",
        _cbr_points,
        _judge_cbr,
        live=1,
    ),
]
