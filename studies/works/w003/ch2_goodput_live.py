"""Work 003, figure 2.6, with the kernel's TCP: goodput of many flows, plain and joined.

The network is the simulator's (`ch2_network`), link by link, as a lab: the same 1.5 Mbit/s, delays
and queue of 1000 packets. Joined flows go by `weir relay join` and `split`, whose one connection
crosses the narrow link (003-spec section 2.14, V2 and V3) or ends before it (V1). Beside each run
the simulator has the same flows, which recover from losses as today's kernel does (RACK).
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from studies.rig import beside_simulated, relayed
from studies.rig.joined import Seen, take
from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w003.ch2_goodput import curves
from studies.works.w003.ch2_network import (
    BOTTLENECK_BPS,
    Setting,
    flows_of,
    run,
    scenario,
    starts,
)
from weir.errors import TransferFailed
from weir.lab import Lab
from weir.runs.point import Json, Point

_CROSSING = ("V2", "V3")
VARIANTS = ("regular", "V1", *_CROSSING)
FLOWS, _QUICK_FLOWS = (1, 100, 200, 400, 800), (1, 100)
_SECONDS, _QUICK_SECONDS = 120, 10
"""What waits behind a hole at the end is as much as eight seconds of data: a full queue's."""
_SEEDS, _QUICK_SEEDS = (1, 2, 3), (1,)
_AT_ONCE = 10
"""Labs at a time: each has 130 packets a second on its narrow link."""
_PORT, _SPLIT_PORT = 7600, 7500
_NAME_BYTES = 4
"""What says whose a connection is, before its data."""
_START_S = 20.0
"""The connections and the first data take at most so long."""
_SPREAD_S = 1.0
_NEAR = 0.05
"""How near live and simulated goodput are."""


def goodput(*, variant: str, flows: int, seconds: float, seed: int) -> Json:
    """Data that servers got as a share of the bottleneck: `{"line": {"live", "simulated"}}`.

    Args:
        variant: one of `VARIANTS`.
        flows: how many.
        seconds: from when the first data arrive.
        seed: of the lab and of the simulator.

    Raises:
        Unsupported: this machine has no labs.
        TransferFailed: a program ended before its time, or no data came.
    """
    setting = Setting(
        "V2" if variant == "regular" else variant,
        starts(flows, _SPREAD_S, seed),
        seconds,
        linked_ack=None if variant == "regular" else "none",
        recovery="rack",
        seed=seed,
    )
    delivered = sum(flow["delivered_bytes"] for flow in flows_of(run(setting)))
    both: dict[str, Json] = {"simulated": delivered * 8 / (seconds * BOTTLENECK_BPS)}
    if beside_simulated.has_labs():
        both["live"] = _live(setting, flows)
    return {"line": both}


def _live(setting: Setting, flows: int) -> float:
    """What arrives of so many of the kernel's flows, as a share of the bottleneck."""
    with (
        Lab.up(replace(scenario(setting), traffic=())) as lab,
        contextlib.ExitStack() as stack,
    ):
        to = lab.address("server")
        ends = (lab, "server", relayed.SERVER, to, _PORT)
        server = stack.enter_context(relayed.program(*ends))
        relayed.heard(server)
        if setting.linked_ack is not None:
            to = _joined(lab, stack)
        part = (to, _PORT, 0, flows)
        stack.enter_context(relayed.program(lab, "clients", relayed.CLIENTS, *part))
        seen = Seen()
        while (share := counted(seen, flows, setting.seconds)) is None:
            take(seen, relayed.heard(server))
            if seen.within(0, _START_S + setting.seconds)[0] >= _START_S + setting.seconds:
                raise TransferFailed(f"no data of {flows} flows came within {_START_S:.0f} s")
        return share


def _joined(lab: Lab, stack: contextlib.ExitStack) -> str:
    """Both relays, and the address that clients go to."""
    near, far, server = (lab.address(host) for host in ("p1", "p2", "server"))
    split = ("--listen", f"{far}:{_SPLIT_PORT}", "--from", near, "--to", f"{server}:{_PORT}")
    stack.enter_context(relayed.relay(lab, "p2", "split", *split))
    join = ("--listen", f"{near}:{_PORT}", "--split", f"{far}:{_SPLIT_PORT}")
    stack.enter_context(relayed.join(lab, "p1", *join, "--server", f"{server}:{_PORT}"))
    return near


def counted(seen: Seen, flows: int, seconds: float) -> float | None:
    """The share of the bottleneck that arrived in that time; None before it is over.

    It begins when what arrives is more than the connections' names, so that how long the
    connections take counts no more than in the simulator.
    """
    totals = [(at, sum(counts.values())) for at, counts in seen.arrived]
    begins = [place for place, (_, total) in enumerate(totals) if total > flows * _NAME_BYTES]
    if not begins:
        return None
    begin_s, before = totals[max(begins[0] - 1, 0)]
    ends = (one for one in totals if one[0] - begin_s >= seconds)
    end_s, after = next(ends, (begin_s, before))
    return (after - before) * 8 / (end_s - begin_s) / BOTTLENECK_BPS if end_s > begin_s else None


# --- the row ---

Found = Mapping[tuple[str, str, int], list[float]]
"""By world, variant and number of flows, the shares of all seeds."""


def _points(quick: bool) -> list[Point]:
    seconds = _QUICK_SECONDS if quick else _SECONDS
    return [
        Point(goodput, {"variant": variant, "flows": flows, "seconds": seconds, "seed": seed})
        for variant in VARIANTS
        for flows in (_QUICK_FLOWS if quick else FLOWS)
        for seed in (_QUICK_SEEDS if quick else _SEEDS)
    ]


def _found(results: Sequence[Json]) -> Found:
    made = next(made for made in map(_points, (True, False)) if len(made) == len(results))
    found: dict[tuple[str, str, int], list[float]] = {}
    for point, result in zip(made, results, strict=True):
        both = cast(dict[str, Any], result)["line"]
        variant, flows = (point.arguments[name] for name in ("variant", "flows"))
        for world in beside_simulated.WORLDS:
            key = (world, cast(str, variant), cast(int, flows))
            found.setdefault(key, []).append(both[world])
    return found


def _judge(results: Sequence[Json]) -> Outcome:
    found = _found(results)
    counts = sorted({flows for _, _, flows in found})
    ours = "; ".join(
        f"{variant}: "
        + ", ".join(
            f"{flows}: {words(found['live', variant, flows], '.3f')} "
            f"(simulated {words(found['simulated', variant, flows], '.3f')})"
            for flows in counts
        )
        for variant in VARIANTS
    )
    most = counts[-1]
    plain = mean(found["live", "regular", most])
    joined = [mean(found["live", variant, most]) for variant in _CROSSING]
    far = {
        flows
        for world, variant, flows in found
        if world == "live"
        and abs(mean(found["live", variant, flows]) - mean(found["simulated", variant, flows]))
        > _NEAR
    }
    holds = min(joined) >= plain and not far
    reason = (
        f"with {most} flows joined ones whose one connection crosses the line (V2, V3) have "
        f"{min(joined):.3f} or more and plain {plain:.3f}: today's recovery (RACK) wastes less "
        "than that of old senders (003-own-2.6-choices)"
    )
    if far:
        reason += f"; live and simulated differ by more than {_NEAR} with " + ", ".join(
            map(str, sorted(far))
        )
    interval = f"plain with {most} flows: {words(found['live', 'regular', most], '.3f')}"
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason, interval)


def _draw(results: Sequence[Json], path: Path) -> None:
    found = _found(results)
    named = {
        f"{variant}, {world}": {
            flows: found[world, variant, flows] for flows in sorted({key[2] for key in found})
        }
        for variant in VARIANTS
        for world in beside_simulated.WORLDS
    }
    curves(path, "Goodput over the bottleneck's rate, live and simulated", named)


ROWS = [
    Row(
        "003-own-2.6-live",
        "Goodput of 1 to 800 of the kernel's flows, each by itself and joined by `weir relay`",
        "aggregated flat at 0.944, regular falls from 0.952 to 0.778",
        _points,
        _judge,
        _draw,
        live=_AT_ONCE,
    )
]
