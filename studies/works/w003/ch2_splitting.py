"""The three paths of a study of splitting, with true acknowledgements and without.

"Internet Connection Splitting: What's Old is New Again" (USENIX ATC'25) splits a connection in the
middle of a path of two unlike segments, for CUBIC and two versions of BBR. Its emulator gives each
segment a delay one way, losses and a rate both ways, and queues of the path's bandwidth times its
round trip; the data's receiver is on the first segment, as here.

True acknowledgements need two ends, which may stand in one place, where the study splits. Then the
sender repairs what is lost before them. With the join end at the sender's side the losses of both
segments are between relays, or behind them. They are linked in two ways: as the work's switches do
it, which hold the aggregate's acknowledgements as well as the client's (003-spec 2.7.6), and as
`weir relay join --linked-ack strict` does, which holds the client's only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

from studies.rig.statistics import margin, mean, words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w003.ch2_network import flows_of, relay_of
from weir import Bytes, Rate, Time
from weir.chart import charts
from weir.lab.scenario import Bernoulli, Direction, Link, Node, Queue, Scenario
from weir.runs.point import Json, Point
from weir.sim.core import simulated
from weir.sim.traffic import Bulk, Relay, Tcp, between


@dataclass(frozen=True)
class Segments:
    """A path of two segments.

    Attributes:
        delays_ms: one way, of the segment at the receiver, then of that at the sender.
        losses: shares of packets that are lost on each, both ways.
        rate_mbit_s: of both.
    """

    delays_ms: tuple[int, int]
    losses: tuple[float, float]
    rate_mbit_s: int

    def __str__(self) -> str:
        delays, losses = ("/".join(map(str, x)) for x in (self.delays_ms, self.losses_percent()))
        return f"{delays} ms, {losses} %, {self.rate_mbit_s} Mbit/s"

    def losses_percent(self) -> tuple[int, int]:
        """The same in whole hundredths."""
        first, second = (round(100 * loss) for loss in self.losses)
        return first, second

    def queue_bytes(self) -> int:
        """What waits for a segment at most."""
        return self.rate_mbit_s * 2 * sum(self.delays_ms) * 1000 // 8


PATHS = (
    Segments((100, 1), (0.0, 0.04), 20),
    Segments((100, 1), (0.02, 0.02), 20),
    Segments((40, 40), (0.02, 0.02), 40),
)
CONTROLS = ("cubic", "bbr", "bbr3")
ALONE, SPLIT, SWITCHED, SWITCHED_BEFORE, RELAYED, RELAYED_BEFORE = WAYS = (
    "alone",
    "split in the middle",
    "strict by switches in the middle",
    "strict by switches, join end at the sender",
    "strict by weir relay in the middle",
    "strict by weir relay, join end at the sender",
)
_SWITCHED, _RELAYED = (SWITCHED, SWITCHED_BEFORE), (RELAYED, RELAYED_BEFORE)
_SECONDS, _QUICK_SECONDS = 60, 15
_WARM_UP_S = 5
_RELAY = "relay"
LEAST = 0.95
"""What the relay's strict mode is to have of plain splitting."""


def goodput(*, path: int, control: str, way: str, seconds: float, seed: int) -> Json:
    """What one greedy connection gets.

    Args:
        path: its place in `PATHS`.
        control: of the congestion of all connections.
        way: one of `WAYS`.
        seconds: measured, after a while in which it begins.
        seed: of every random choice.

    Returns:
        `mbit_s`; `ahead_bytes`, the most that the sender was told its receiver had and it had not.
    """
    chosen = PATHS[path]
    limit = Queue("fifo", Bytes.from_count(chosen.queue_bytes()))
    near, far = (
        Direction(
            Rate.from_bit_per_s(chosen.rate_mbit_s * 10**6),
            Time.from_ns(delay_ms * 10**6),
            loss=Bernoulli(loss) if loss else None,
            queue=limit,
        )
        for delay_ms, loss in zip(chosen.delays_ms[::-1], chosen.losses[::-1], strict=True)
    )
    here = Direction(Rate("1 Gbit/s"))
    join_at = "edge" if way in (SWITCHED_BEFORE, RELAYED_BEFORE) else "middle"
    links = (
        _link("sender", "edge", here),
        _link("edge", "middle", near),
        _link("middle", "receiver", far),
        _link("p1", join_at, here),
        _link("p2", "middle", here),
    )
    hosts = tuple(Node(name) for name in ("sender", "p1", "p2", "receiver"))
    routers = tuple(Node(name, forwards=True) for name in ("edge", "middle"))
    tcp = Tcp(control)
    through = None if way == ALONE else _RELAY
    traffic = [between(("sender", "receiver"), "flow", Bulk(tcp), through=through)]
    if through:
        linked = "none" if way == SPLIT else "strict" if way in _SWITCHED else "per-flow"
        traffic.append(between(("p1", "p2"), _RELAY, Relay(tcp, linked)))
    result = simulated(
        Scenario("splitting", seed, hosts + routers, links, tuple(traffic)),
        Time.from_ns(round((seconds + _WARM_UP_S) * 1e9)),
        warmup=Time(f"{_WARM_UP_S} s"),
    )
    (done,) = flows_of(result)
    ahead = relay_of(result)["ahead_bytes_max"] if through else 0
    return {"mbit_s": done["goodput_bps"] / 1e6, "ahead_bytes": ahead}


def _link(a: str, b: str, direction: Direction) -> Link:
    return Link(f"{a}-{b}", (a, b), direction, direction)


_CASES = tuple(product(range(len(PATHS)), CONTROLS, WAYS))


def _points(quick: bool) -> list[Point]:
    seeds = range(1, 3) if quick else range(1, 6)
    seconds = _QUICK_SECONDS if quick else _SECONDS
    return [
        Point(
            goodput,
            {"path": path, "control": control, "way": way, "seconds": seconds, "seed": seed},
        )
        for path, control, way in _CASES
        for seed in seeds
    ]


Run = dict[str, Any]


def _by_case(results: Sequence[Json]) -> dict[tuple[int, str, str], list[Run]]:
    runs = cast(list[Run], list(results))
    each = len(runs) // len(_CASES)
    return {case: runs[at * each : (at + 1) * each] for at, case in enumerate(_CASES)}


def _shares(
    rates: dict[tuple[int, str, str], list[float]], ways: tuple[str, str]
) -> dict[str, float]:
    """What the better of two ways has of plain splitting, by path and control."""
    return {
        f"{control} on {PATHS[at]}": max(mean(rates[at, control, way]) for way in ways)
        / mean(rates[at, control, SPLIT])
        for at, control in product(range(len(PATHS)), CONTROLS)
    }


def _judge(results: Sequence[Json]) -> Outcome:
    found = _by_case(results)
    rates = {case: [run["mbit_s"] for run in runs] for case, runs in found.items()}
    said = []
    for at, path in enumerate(PATHS):
        of = [
            f"{control}: {', '.join(words(rates[at, control, way]) for way in WAYS)}"
            for control in CONTROLS
        ]
        said.append(f"{path}: {'; '.join(of)}")
    strict = [run for case, runs in found.items() if case[2] in WAYS[2:] for run in runs]
    ahead = max(run["ahead_bytes"] for run in strict)
    shares, switched = (_shares(rates, ways) for ways in (_RELAYED, _SWITCHED))
    short = [f"{where} {share:.2f}" for where, share in shares.items() if share < LEAST]
    gains = {
        control: [
            mean(rates[at, control, SPLIT]) / mean(rates[at, control, ALONE])
            for at in range(len(PATHS))
        ]
        for control in CONTROLS
    }
    gained = "; ".join(
        f"{control} {', '.join(format(gain, '.1f') for gain in gains[control])} times"
        for control in CONTROLS
    )
    return Outcome(
        f"Mbit/s {', '.join(WAYS)}: {'. '.join(said)}. Splitting gains {gained}. With strict "
        f"acknowledgements the sender was told of {ahead} bytes that its receiver had not. Of "
        f"plain splitting the better way of weir relay has {min(shares.values()):.2f} to "
        f"{max(shares.values()):.2f}, that of switches {min(switched.values()):.2f} to "
        f"{max(switched.values()):.2f}",
        Verdict.DIFFERS if short or ahead else Verdict.MATCHES,
        f"the better way of weir relay has less of plain splitting than {LEAST} with "
        f"{'; '.join(short)}. The join end answers the handshake, and a BBR takes the time of that "
        "for the path's round trip, and so its window from it, for 10 s; where losses are repaired "
        "over a long round trip, what is acknowledged in order comes later than its window allows"
        if short
        else "with the join end at the sender; the work's switches hold the aggregate's "
        "acknowledgements, too, so that what it has lost is repaired as late as without a relay",
        f"CUBIC on the second path, strict by weir relay, join end at the sender: "
        f"{words(rates[1, 'cubic', RELAYED_BEFORE])} Mbit/s",
    )


def _draw(results: Sequence[Json], path: Path) -> None:
    found = _by_case(results)
    places = list(product(range(len(PATHS)), CONTROLS))
    series = [
        charts.Series(
            way,
            [
                (place, mean(values), margin(values))
                for place, (at, control) in enumerate(places)
                for values in [[run["mbit_s"] for run in found[at, control, way]]]
            ],
        )
        for way in WAYS
    ]
    title = "Goodput on three paths, each with CUBIC, BBR and BBRv3"
    charts.lines(path, title, "path and control", "Mbit/s", series)


ROWS = [
    Row(
        "003-own-2.10-splitting",
        "Strict acknowledgements on the three paths of Internet Connection Splitting (2025)",
        "not published for linked acknowledgements: wanted is 0.95 of plain splitting where loss "
        "is the cause; the study's finding is that BBRv3 gains from splitting and BBR v1 does not",
        _points,
        _judge,
        _draw,
    ),
]
