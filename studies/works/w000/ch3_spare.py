"""Work 000, chapter 3, beside Weir: elephants with promises, and in a lower class for the rest.

SH puts whole elephants below best effort, so that none of them can be promised anything. Weir sends
what was promised on paced connections, which routers serve first, and whatever else the path has on
others below best effort (docs/spare.md). All of them, and elephants as best effort, on the link of
figure 3.5 at a tenth of its rates: packet by packet beside bursts, and as fluid beside their mean.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from weir import Time
from weir._core import simulate_trace
from weir.lab import parse
from weir.runs.point import Json, Point
from weir.sim.run import Run, run

PROMISES_MBIT_S = (25, 12, 5, 5)
"""What each of four elephants is promised: together less than best effort leaves in the mean."""
KINDS = ("best effort", "SH", "promise alone", "promise and rest")
_LINK_MBIT_S, _BACKGROUND_MBIT_S = 100, 40
# As many packets for each class as with SH.
_PROMISED = 'discipline = "priority", limit = "1500 packets", classes = [[10], [], [1, 8]]'
_QUEUES = {
    "best effort": 'limit = "1000 packets"',
    "SH": 'discipline = "priority", limit = "1000 packets", classes = [[], [1, 8]]',
    "promise alone": _PROMISED,
    "promise and rest": _PROMISED,
}
_SCENARIO = """
[lab]
seed = {seed}
[hosts]
users = {{}}
readers = {{}}
senders = {{}}
[routers]
west = {{}}
east = {{}}
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
queue = {{ {queue} }}
[[link]]
ends = ["east", "readers"]
[[traffic]]
name = "background"
kind = "ppbp"
from = "users"
to = "readers"
burst_rate = "20 Mbit/s"
burst_interval = "100 ms"
"""
_CONNECTION = """
[[traffic]]
name = "{name}"
kind = "iperf3"
from = "senders"
to = "readers"
dscp = "{dscp}"
{rate}
"""
_WARM_UP_S = 5
_SECONDS, _QUICK_SECONDS = 120, 30
_KEPT = 0.97


def packets(*, kind: str, seconds: int, seed: int) -> Json:
    """What best effort loses, in percent, and what each elephant gets, in Mbit/s.

    Args:
        kind: one of `KINDS`.
        seconds: measured, after a while in which elephants begin.
        seed: of the bursts.
    """
    text = _SCENARIO.format(seed=seed, queue=_QUEUES[kind]) + "".join(
        _CONNECTION.format(name=f"elephant-{elephant}-{at}", dscp=dscp, rate=rate)
        for elephant, connections in enumerate(_connections(kind))
        for at, (dscp, rate) in enumerate(connections)
    )
    length, warm_up = (Time(f"{x} s") for x in (seconds + _WARM_UP_S, _WARM_UP_S))
    result = run(Run(parse(text, kind), length, warmup=warm_up))
    background, *flows = result["flows"]
    line = next(link for link in result["links"] if link["name"] == "line")["forward"]
    rates = [
        sum(flow["goodput_bps"] for flow in flows if flow["name"].startswith(f"elephant-{at}-"))
        / 1e6
        for at in range(len(PROMISES_MBIT_S))
    ]
    return {
        "lost_percent": 100 * background["lost_packets"] / background["sent_packets"],
        "elephants_mbit_s": rates,
        "in_use": line["utilisation"],
    }


def _connections(kind: str) -> list[list[tuple[str, str]]]:
    """The code points and rates of each elephant's connections."""
    if kind.startswith("promise"):
        rest = [("LE", "")] if kind == "promise and rest" else []
        return [[("AF11", f'rate = "{x} Mbit/s"'), *rest] for x in PROMISES_MBIT_S]
    return [[("CS0" if kind == "best effort" else "CS1", "")] for _ in PROMISES_MBIT_S]


def fluid() -> Json:
    """What best effort and each elephant get of each kind, in Mbit/s."""
    return {kind: _fluid(kind) for kind in KINDS}


def _fluid(kind: str) -> list[float]:
    """As weights have it: promises first, then best effort, then the rest, each shared max-min."""
    flows: list[tuple[int, int, int]] = [(0, 1, _BACKGROUND_MBIT_S)]
    for at, promise in enumerate(PROMISES_MBIT_S, 1):
        if kind.startswith("promise"):
            flows.append((at, 0, promise))
        if kind != "promise alone":
            flows.append((at, 1 if kind == "best effort" else 2, _LINK_MBIT_S))
    # Each has a link of its own before the shared one, which tells what it has carried.
    lines = [f"link n{at} west {10**6 * _LINK_MBIT_S}" for at in range(1 + len(PROMISES_MBIT_S))]
    shared = len(lines)
    lines.append(f"link west east {10**6 * _LINK_MBIT_S}")
    lines += [f"route {at} {shared}" for at in range(shared)]
    lines += [
        f"flow 0 {at} 1000000000000 priority={priority} limit_bps={10**6 * limit}"
        for at, priority, limit in flows
    ]
    outcome = simulate_trace("\n".join(lines), sharing="priority", priorities=3, until=Time("10 s"))
    *own, _shared = outcome.utilisation
    return [_LINK_MBIT_S * share for _, share in own]


def _points(quick: bool) -> list[Point]:
    seconds, seeds = (_QUICK_SECONDS, (1,)) if quick else (_SECONDS, (1, 2, 3, 4, 5))
    return [
        *(
            Point(packets, {"kind": kind, "seconds": seconds, "seed": seed})
            for kind in KINDS
            for seed in seeds
        ),
        Point(fluid, {}),
    ]


def _judge(results: Sequence[Json]) -> Outcome:
    *runs, fluids = cast(Sequence[Mapping[str, Any]], results)
    seeds = len(runs) // len(KINDS)
    found = {kind: runs[at * seeds : (at + 1) * seeds] for at, kind in enumerate(KINDS)}
    said, kept, lost, used = [], {}, {}, {}
    for kind, some in found.items():
        rates = [mean(each) for each in zip(*(x["elephants_mbit_s"] for x in some), strict=True)]
        kept[kind] = _kept(rates)
        lost[kind] = [x["lost_percent"] for x in some]
        used[kind] = mean([x["in_use"] for x in some])
        said.append(
            f"{kind}: {words(lost[kind], '.3f')} % of best effort lost, elephants "
            f"{_shown(rates)} (fluid {_shown(fluids[kind][1:])}), {kept[kind]} of "
            f"{len(PROMISES_MBIT_S)} promises kept (fluid {_kept(fluids[kind][1:])}), link "
            f"{used[kind]:.3f} in use"
        )
    ours = "promise and rest"
    holds = (
        kept[ours] == _kept(fluids[ours][1:]) == len(PROMISES_MBIT_S)
        and used[ours] >= 0.98 * used["best effort"]
        and mean(lost[ours]) <= 1.02 * mean(lost["promise alone"])
        and max(lost["SH"]) == 0
    )
    return Outcome(
        f"Mbit/s, promises {_shown(PROMISES_MBIT_S)}: {'; '.join(said)}",
        Verdict.OURS if holds else Verdict.DIFFERS,
        "promises are served before best effort, whose bursts then lose what does not fit beside "
        "them; what is sent in the lower class adds nothing to that. SH takes nothing from "
        "anybody, and promises nothing",
    )


def _kept(rates: Sequence[float]) -> int:
    pairs = zip(rates, PROMISES_MBIT_S, strict=True)
    return sum(rate >= _KEPT * promise for rate, promise in pairs)


def _shown(rates: Sequence[float]) -> str:
    return "/".join(f"{rate:.1f}" for rate in rates)


ROWS = [
    Row(
        "000-own-3.5-spare",
        "Elephants as best effort, as SH, and with promises and a lower class for the rest",
        "not published: SH gives elephants what is left, and promises nothing. Not live: the mover "
        "sends so, and docs/spare.md measures it",
        _points,
        _judge,
    )
]
