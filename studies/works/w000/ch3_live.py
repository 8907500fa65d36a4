"""What the live rows of work 000, chapter 3, share: elephants that come and go on six switches.

The rates are a five-hundredth of the work's, whose links are taken to have 10 Gbit/s, and all
happens five times as fast: sizes are a 2 500th, there are five times as many arrivals in a second.
A run is kept as it was seen; what the fluid model makes of the same flows on the same paths is
computed when it is judged.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, cast

from studies.rig.statistics import mean
from studies.works.w000.ch3_headroom import pairs
from weir import Time, extras
from weir._core import simulate_trace
from weir.runs.point import Json

RATES, TIMES = 500, 5
"""How many times slower, and how many times sooner, than in the work."""
LINK_BPS = 10**10 // RATES
CARRIED = 0.995 * 1448 / 1514
"""The share of a link's rate that is content of TCP: the switches' port, headers, Ethernet's."""
_SWITCHES = "ABCDEF"
_QUEUE, _DEEP = Time("100 ms"), Time("400 ms")
_SIZE_MAX_GB = 50.0

Run = Mapping[str, Any]
"""What `elephants` gives."""


def elephants(
    *,
    service: str,
    options: Json,
    w: float,
    arrivals_per_s: float,
    size: Json,
    limits_bps: Json,
    flows: int,
    best_effort: bool,
    seed: int,
) -> Json:
    """One run, as `studies.rig.elephant_arrivals` tells it. All arguments are as in the work.

    Args:
        service: "static", "dynamic", "merged", or "best effort".
        options: other options of a headroom service; `setup_ns` is that of the lab.
        w: how much of the traffic is between B and C; see `ch3_headroom.pairs`.
        arrivals_per_s: elephants over the whole network.
        size: `{"pareto": [mean in GB, shape]}` or `{"lognormal": [median in GB, sigma]}`.
        limits_bps: what ends can do, each as likely as another; none for no limit.
        flows: how many elephants come.
        best_effort: whether bursts of others go between B and C while elephants come.
        seed: of the run; services that are to be compared have the same.
    """
    lab, provider, _ = tools()
    draw = random.Random(f"live elephants {seed}")
    law = pairs(_SWITCHES, w)
    shares = [float(one["share"]) for one in cast(Sequence[Mapping[str, Any]], law)]
    arrivals, at_s = [], 0.0
    for _ in range(flows):
        (pair,) = draw.choices(law, shares)
        size_bytes = round(_size_gb(draw, cast(Mapping[str, Any], size)) * 1e9 / RATES / TIMES)
        limit = draw.choice(cast(Sequence[float], limits_bps)) if limits_bps else None
        limit_bps = round(limit / RATES) if limit else None
        arrivals.append(lab.Arrival(at_s, pair["from"], pair["to"], size_bytes, limit_bps))
        at_s += draw.expovariate(arrivals_per_s * TIMES)
    decides = None if service == "best effort" else service
    chosen = provider.Service(service, decides, cast(Mapping[str, Json], options or {}))
    return cast(
        Json,
        lab.carry_out(
            chosen,
            arrivals,
            seed,
            queues=_DEEP if best_effort else _QUEUE,
            bursts=Time.from_ns(round(1e9 * at_s)) if best_effort else None,
        ),
    )


def _size_gb(draw: random.Random, size: Mapping[str, Any]) -> float:
    if "pareto" in size:
        mean, shape = size["pareto"]
        return float(mean * (shape - 1) / shape * draw.paretovariate(shape))
    median, sigma = size["lognormal"]
    return float(min(_SIZE_MAX_GB, median * draw.lognormvariate(0.0, sigma)))


def tools() -> tuple[Any, Any, Any]:
    """The modules `elephant_arrivals`, `provider` and `controlled` of `studies.rig`.

    Raises:
        Unsupported: they need the controller, which this machine lacks.
    """
    with extras.named():
        from studies.rig import controlled, elephant_arrivals, provider
    return elephant_arrivals, provider, controlled


def setting(
    service: str,
    w: float,
    arrivals_per_s: float,
    *,
    options: Json = None,
    size: Json = None,
    limits_bps: Json = None,
    best_effort: bool = False,
) -> dict[str, Json]:
    """Arguments of `elephants` but for flows and seed; as published by default."""
    return {
        "service": service,
        "options": options,
        "w": w,
        "arrivals_per_s": arrivals_per_s,
        "size": size or {"pareto": [20, 4]},
        "limits_bps": limits_bps,
        "best_effort": best_effort,
    }


def gbit_s(run: Run) -> float:
    """The mean of the elephants' throughputs, at the rates of the work."""
    return mean(
        [
            8 * flow["size_bytes"] / (flow["end_s"] - flow["at_s"]) * RATES / 1e9
            for flow in run["flows"]
        ]
    )


def fluid_gbit_s(run: Run) -> float:
    """The same of the fluid model: the same flows on the same paths, shared max-min.

    A flow that waits for its path is there from then on, and its throughput counts from before.
    """
    links = {name: at for at, name in enumerate(run["carried_bytes"])}
    ends = [name.partition(".")[0].split("-") for name in links]
    ways = [name.endswith("forward") for name in links]
    lines = [
        f"link {a if ahead else b} {b if ahead else a} {round(LINK_BPS * CARRIED)}"
        for (a, b), ahead in zip(ends, ways, strict=True)
    ]
    routes = list(dict.fromkeys(tuple(flow["path"]) for flow in run["flows"]))
    lines += [f"route {' '.join(str(links[name]) for name in route)}" for route in routes]
    flows = sorted(run["flows"], key=_begins_s)
    for flow in flows:
        at_ns, on = round(1e9 * _begins_s(flow)), routes.index(tuple(flow["path"]))
        limit = f" limit_bps={flow['limit_bps']}" if flow["limit_bps"] else ""
        lines.append(f"flow {at_ns} {on} {flow['size_bytes']}{limit}")
    ends_ns = memoryview(simulate_trace("\n".join(lines)).end_ns).cast("Q")
    lasted_s = [at / 1e9 - flow["at_s"] for at, flow in zip(ends_ns, flows, strict=True)]
    rates = [8 * flow["size_bytes"] / s for flow, s in zip(flows, lasted_s, strict=True)]
    return mean(rates) * RATES / 1e9


def _begins_s(flow: Mapping[str, Any]) -> float:
    return float(flow["at_s"] + flow["wait_s"])


def used(run: Run) -> set[str]:
    """The links between switches whose counters show more than a hundredth of their rate."""
    least = 0.01 * LINK_BPS * run["seconds"] / 8
    return {name for name, count in run["carried_bytes"].items() if count > least}


def utilisation(run: Run, link: str) -> float:
    """What a link's counter shows that it carried, of what it could have."""
    return float(8 * run["carried_bytes"][link] / run["seconds"] / LINK_BPS)


def flaws(runs: Sequence[Run]) -> str:
    """Why the labs should not be believed, for the end of a reason; nothing if they should."""
    said = sorted({flaw for run in runs for flaw in run["flaws"]})
    return "".join(f"; {flaw}" for flaw in said)
