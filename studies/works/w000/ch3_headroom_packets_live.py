"""Work 000, figure 3.5, live: the kernel's Reno elephants beside bursts of UDP, in the lab.

The setting of `studies.works.w000.ch3_headroom_packets` at a tenth of its rates and buffers, so
that queues are as long in time, and the same scenario in the simulator beside it. Elephants begin
as in the work, twelve seconds apart in the mean, and go on to the end.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from studies.rig.beside_simulated import WORLDS, Result, beside_simulated, flaws, through
from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w000 import ch3_headroom_packets
from studies.works.w000.ch3_headroom_packets import ARRIVALS_PER_S, BURSTS
from weir.lab import parse
from weir.runs.point import Json, Point

_BUFFER_PACKETS = 1000
SERVICES = {
    service: replace(queue, limit=_BUFFER_PACKETS)
    for service, queue in ch3_headroom_packets.QUEUES.items()
}
_SCENARIO = """
[lab]
seed = {seed}
[hosts]
users = {{}}
readers = {{}}
senders = {{ congestion = "reno" }}
[routers.west]
[routers.east]
[[link]]
ends = ["users", "west"]
rate = "100 Mbit/s"
[[link]]
ends = ["senders", "west"]
[[link]]
name = "line"
ends = ["west", "east"]
rate = "100 Mbit/s"
delay = "30 ms"
[[link]]
ends = ["east", "readers"]
[[traffic]]
name = "background"
kind = "ppbp"
from = "users"
to = "readers"
burst_rate = "{burst_kbit_s} kbit/s"
burst_interval = "{interval_us} us"
stop = "{seconds} s"
{elephants}
"""
_ELEPHANT = """
[[traffic]]
name = "elephant-{number}"
kind = "iperf3"
from = "senders"
to = "readers"
dscp = "CS1"
start = "{start_ms} ms"
stop = "{seconds} s"
"""
_AT_ONCE = 2
_SECONDS, _QUICK_SECONDS = 40, 20
_LEAST_S = 5
"""No elephant begins later than so long before the end."""


def background_loss(*, burst_mbit_s: int, bursts_per_s: int, seconds: int, seed: int) -> Json:
    """The share of the background's packets that is lost, by service, live and simulated.

    Args:
        burst_mbit_s: what each burst adds in the work; here a tenth.
        bursts_per_s: how many begin in a second.
        seconds: of the run.
        seed: of the run.
    """
    draw = random.Random(f"elephants {seed}")
    starts_s, at_s = [], 0.0
    while at_s < seconds - _LEAST_S:
        starts_s.append(at_s)
        at_s += draw.expovariate(ARRIVALS_PER_S)
    text = _SCENARIO.format(
        burst_kbit_s=100 * burst_mbit_s,
        interval_us=round(1e6 / bursts_per_s),
        seconds=seconds,
        seed=seed,
        elephants="".join(
            _ELEPHANT.format(number=number, start_ms=round(1e3 * start_s), seconds=seconds)
            for number, start_s in enumerate(starts_s)
        ),
    )
    scenarios = {name: through(queue, parse(text, name)) for name, queue in SERVICES.items()}
    return beside_simulated(scenarios, _loss, at_once=_AT_ONCE)


def _loss(result: Result) -> Json:
    """The first traffic's loss; when all has arrived the lab has counted it."""
    if "traffic" in result:
        background = result["traffic"][0]
        return 1 - float(background["received_packets"] / background["sent_packets"])
    background = result["flows"][0]
    return float(background["lost_packets"] / background["sent_packets"])


def _points(quick: bool) -> list[Point]:
    seconds, seeds = (_QUICK_SECONDS, (1,)) if quick else (_SECONDS, (1, 2, 3, 4, 5))
    return [
        Point(
            background_loss,
            {
                "burst_mbit_s": mbit_s,
                "bursts_per_s": per_s,
                "seconds": seconds,
                "seed": seed,
            },
        )
        for mbit_s, per_s, _ in BURSTS
        for seed in seeds
    ]


def _judge(results: Sequence[Json]) -> Outcome:
    runs = cast(Sequence[dict[str, dict[str, Any]]], results)
    each = len(runs) // len(BURSTS)
    groups = [runs[at : at + each] for at in range(0, len(runs), each)]
    loss = {
        (service, world): [mean([run[service][world] for run in group]) for group in groups]
        for service in SERVICES
        for world in WORLDS
    }
    best_effort = loss["best effort", "live"]
    said = ", ".join(
        f"{live:.2%} at {burstiness} (simulated {simulated:.2%})"
        for live, simulated, (*_, burstiness) in zip(
            best_effort, loss["best effort", "simulated"], BURSTS, strict=True
        )
    )
    headroom = [max(loss["headroom", world]) for world in WORLDS]
    ours = f"best effort: {said}; headroom: {headroom[0]:.4%} at most (simulated {headroom[1]:.4%})"
    seconds = _SECONDS if each > 1 else _QUICK_SECONDS
    # As of the simulated row: the calmer half against the burstier.
    grows = 0 < sum(best_effort[:2]) < sum(best_effort[2:])
    reason = "; ".join(
        [
            f"a tenth of the work's rates and buffers; {seconds} s, in which slow starts weigh "
            "more. The kernel's segments leave in trains, which meet a full queue together, so "
            "that fewer of the losses are the background's",
            *flaws(runs),
        ]
    )
    interval = words([100 * run["best effort"]["live"] for run in groups[-1]])
    return Outcome(
        ours,
        Verdict.TREND_HOLDS if grows and headroom[0] == 0 else Verdict.DIFFERS,
        reason,
        f"best effort at {BURSTS[-1][2]}: {interval} %",
    )


ROWS = [
    Row(
        "000-own-3.5-live",
        "Figure 3.5 with the kernel's own Reno, at a tenth of the rates, in the lab and simulated",
        "SH none; best effort 0.8 % at burstiness 0.572, 0.083/s; grows with burstiness",
        _points,
        _judge,
        live=1,
    )
]
