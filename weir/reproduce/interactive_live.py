"""Work 004, figures 4.8 and 4.9, live: the kernel's DCTCP and Cubic through the same queues.

Testbed T3 in the lab, and the same scenario in the simulator beside it. The kernel's DCTCP halves
on a loss (RFC 8257), which that of Linux 3.18, the work's, does not; where the kernel has none it
is given it (docs/lab.md).
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from weir.reproduce.access_line import mean, words
from weir.reproduce.beside_simulated import beside_simulated, flaws
from weir.reproduce.row import Json, Outcome, Point, Row, Verdict
from weir.sim.compare import quantities

# Of figures 4.8 and 4.9 (`weir.reproduce.interactive`), as scenarios write them.
QUEUES = {
    "RED": 'discipline = "red"',
    "PIE": 'discipline = "pie", variant = "linux-3.18", target = "20 ms", '
    'update_interval = "30 ms", max_burst = "100 ms", derandomize = false',
    "FQ-CoDel": 'discipline = "fq-codel"',
    "DualQ": 'discipline = "dual-curvy-red", range = "250 ms", coupling_factor = 8.0, '
    'classifier = "any-ect"',
    "DualPI2": 'discipline = "dual-pi2", classifier = "any-ect"',
}
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
queue = {{ {queue} }}
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
    texts = {
        name: _SCENARIO.format(queue=queue, flows=flows, seconds=seconds, seed=seed)
        for name, queue in QUEUES.items()
    }
    return beside_simulated(texts, _facts, at_once=_AT_ONCE)


def _facts(result: Mapping[str, Any]) -> Json:
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


ROWS = [
    Row(
        "004-own-4.3-live",
        "Figures 4.8 and 4.9 on the kernel's own DCTCP and Cubic, in the lab and simulated",
        "RED, PIE: DCTCP starves Cubic; FQ-CoDel equal; DualQ about equal, L4S without a queue",
        _points,
        _judge,
        live=True,
    )
]
