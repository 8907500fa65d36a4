"""Work 003, chapter 4: video and a game share a wireless cell (003-spec sections 4.5 and 4.8).

An access point of 802.11b with one queue for everybody, as those of its time had; every client
downloads a video, and C1 is the server of the others' game. *Proposed* is a proxy beside the
access point, which has the video already and keeps two segments of each client's under way; it is
compared with connections from end to end, and with what the work could not have: queues that part
the flows by themselves.

The simulator gives a station one queue for each receiver. So the access point sends to the *cell*,
a station that hands on by wire what it hears, and hears by another one; delays on the wires lead
packets that way. Those stations send nothing, so that the channel sees the access point and the
clients alone.
"""

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from studies.rig.statistics import margin, words
from studies.works.row import Outcome, Row, Verdict
from weir import Rate, Time
from weir.chart import charts
from weir.lab.scenario import Channel, Direction, Link, Node, Queue, Scenario, Wlan
from weir.numbers import jain
from weir.runs.point import Json, Point
from weir.sim.core import simulated
from weir.sim.traffic import Bulk, Echo, SimulatedTraffic, Tcp, Udp, between

CLIENTS = (2, 3, 4)
BUFFERS = (50, 100, 256)
"""Packets that the access point holds; the work does not say how many (C-2)."""
_BUFFER = 100
WINDOW_SEGMENTS = 2
"""What the proposed proxy keeps under way for each client; "C" of the work."""
_SEGMENT_BYTES = 1448
_SECONDS, _QUICK_SECONDS = 120, 20
_WARM_UP_S = 10
_SEEDS = (1, 2, 3, 4, 5)

_RENO = Tcp("reno", recovery="linux-3.18")
TO_GAMER = Udp(rate_bps=21_120, payload_bytes=104)
"""20 packets of 132 B a second: with the way back 38.7 kbit/s, as table 4.2 has it."""
FROM_GAMER = Udp(rate_bps=17_600, payload_bytes=60)
"""25 packets of 88 B a second."""
_PING = Echo(interval_ns=100_000_000, requests=1, spacing_ns=0)


@dataclass(frozen=True, slots=True)
class Way:
    """How the cell is run.

    Attributes:
        tcp: of the videos.
        discipline: of the access point's queue.
        has_game: whether anybody plays.
    """

    tcp: Tcp = _RENO
    discipline: str = "fifo"
    has_game: bool = True


_CLAMPED = Tcp("reno", recovery="linux-3.18", send_buffer_bytes=WINDOW_SEGMENTS * _SEGMENT_BYTES)
WAYS: Mapping[str, Way] = {
    "traditional": Way(),
    "proposed": Way(_CLAMPED),
    "proposed, video alone": Way(_CLAMPED, has_game=False),
    "fq-codel": Way(discipline="fq-codel"),
    "dual-pi2": Way(discipline="dual-pi2"),
}


# --- the cell ---

_AIR = "air"
CHANNEL = Channel(_AIR, "802.11b")
_HEARS, _SENDS, _CELL = "ap-hears", "ap-sends", "cell"
_HERE = Direction()
NEAR = Direction(delay=Time("100 us"))
_ASTRAY = Direction(delay=Time("1 s"))
"""So that no route leads this way."""
_RADIO = Direction(rate=Rate("11 Mbit/s"))


def links(clients: Sequence[str], queue: Queue) -> Iterator[Link]:
    """The cell's, with a server by wire; `queue` is the access point's."""
    yield from wires("server")
    yield Link("wire-turn", (_HEARS, _SENDS), _HERE, _ASTRAY)
    sends = Direction(rate=_RADIO.rate, queue=queue)
    yield Link("down", (_SENDS, _CELL), sends, _RADIO, medium=Wlan(_AIR))
    for client in clients:
        yield Link(f"{client}-hears", (_CELL, client), _HERE, _ASTRAY)
        yield Link(f"{client}-sends", (client, radio(client)), _HERE, _ASTRAY)
        yield Link(f"{client}-up", (radio(client), _HEARS), _RADIO, _RADIO, medium=Wlan(_AIR))


def wires(host: str) -> Iterator[Link]:
    """Those by which a host sends to the access point and hears from it."""
    mark = "" if host == "server" else f"-{host}"
    yield Link(f"wire-down{mark}", (host, _SENDS), NEAR, _ASTRAY)
    yield Link(f"wire-up{mark}", (_HEARS, host), NEAR, _ASTRAY)


def radio(client: str) -> str:
    """The station by which a client sends."""
    return f"{client}-radio"


def _traffic(clients: Sequence[str], way: Way) -> Iterator[SimulatedTraffic]:
    for client in clients:
        yield between(("server", client), f"video {client}", Bulk(way.tcp))
    if way.has_game:
        host = clients[0]
        for client in clients[1:]:
            yield between((host, client), f"to {client}", TO_GAMER)
            yield between((client, host), f"from {client}", FROM_GAMER)
            yield between((client, host), f"ping {client}", _PING)


def cell(*, clients: int, way: str, buffer: int, seconds: int, seed: int) -> Json:
    """What one run of the cell shows.

    Args:
        clients: how many; the first is the game's server.
        way: one of `WAYS`.
        buffer: packets that a plain queue of the access point holds.
        seconds: measured, after a while in which everything begins.
        seed: of the run.

    Returns:
        `video_kbps` and `game_kbps`, of each client; `jain_by_second` of the videos; `delay_ms`,
        the mean round-trip time of their connections; `ping_ms`, of all players.
    """
    return run(WAYS[way], clients, buffer, (_WARM_UP_S, seconds), seed)


def run(way: Way, clients: int, buffer: int, span_s: tuple[int, int], seed: int) -> Json:
    """As `cell`; `span_s` are the seconds of the while before and of what is measured."""
    names = client_names(clients)
    queue = Queue(way.discipline, buffer if way.discipline == "fifo" else None)
    scenario = Scenario(
        "cell",
        seed,
        nodes(names),
        tuple(links(names, queue)),
        tuple(_traffic(names, way)),
        (CHANNEL,),
    )
    before_s, seconds = span_s
    answer = simulated(
        scenario,
        Time(f"{seconds + before_s} s"),
        warmup=Time(f"{before_s} s"),
        sample=Time("1 s"),
        trace=True,
    )
    return _measured(answer, names)


def client_names(clients: int) -> list[str]:
    """What so many clients are called."""
    return [f"C{number + 1}" for number in range(clients)]


def nodes(clients: Sequence[str], more: Sequence[Node] = ()) -> tuple[Node, ...]:
    """The server, the clients, `more` hosts, and the routers that are stations."""
    routers = [_HEARS, _SENDS, _CELL, *map(radio, clients)]
    hosts = [Node(name) for name in ("server", *clients)]
    return (*hosts, *more, *(Node(name, forwards=True) for name in routers))


def _measured(answer: Mapping[str, Any], names: Sequence[str]) -> Json:
    flows = {flow["name"]: flow for flow in answer["flows"]}
    delivered: dict[str, list[int]] = {}
    delays = []
    for line in answer["traces"]["connections"].splitlines()[1:]:
        _, traffic, _, _, _, srtt_ns, bytes_ = line.split(",")
        delivered.setdefault(traffic, []).append(int(bytes_))
        delays.append(int(srtt_ns) / 1e6)
    steps = [[b - a for a, b in itertools.pairwise(got)] for got in delivered.values()]
    pings = [
        echo["rtt_ns"] / 1e6
        for name in names
        for echo in flows.get(f"ping {name}", {"echoes": []})["echoes"]
        if echo["replies"]
    ]
    return {
        "video_kbps": [flows[f"video {name}"]["goodput_bps"] / 1e3 for name in names],
        "game_kbps": [
            sum(flows[f"{way} {name}"]["goodput_bps"] for way in ("to", "from")) / 1e3
            for name in names
            if f"to {name}" in flows
        ],
        "jain_by_second": [jain(shares) for shares in zip(*steps, strict=True)],
        "delay_ms": statistics.fmean(delays),
        "ping_ms": statistics.fmean(pings) if pings else None,
    }


def delay_ms(clients: int, service_bps: float) -> float:
    """The round-trip time of clamped connections by Little's law (003-spec section 4.5, (4.4))."""
    return clients * 8 * WINDOW_SEGMENTS * (1500 + 40) / service_bps * 1e3


# --- the runs of the rows ---


def _runs(
    clients: Sequence[int], ways: Sequence[str], buffers: Sequence[int], quick: bool
) -> list[Point]:
    return [
        Point(
            cell,
            {
                "clients": count,
                "way": way,
                "buffer": buffer,
                "seconds": _QUICK_SECONDS if quick else _SECONDS,
                "seed": seed,
            },
        )
        for count in clients
        for way in ways
        # What is clamped fills no buffer, and the disciplines have limits of their own.
        for buffer in (buffers if way == "traditional" else (_BUFFER,))
        for seed in (_SEEDS[:1] if quick else _SEEDS)
    ]


Found = dict[tuple[int, str, int], list[dict[str, Any]]]
"""The runs by number of clients, way and buffer."""


def _by_setting(points: Callable[[bool], Sequence[Point]], results: Sequence[Json]) -> Found:
    made = next(made for made in map(points, (True, False)) if len(made) == len(results))
    found: Found = {}
    for point, result in zip(made, results, strict=True):
        given = point.arguments
        key = cast(
            tuple[int, str, int], tuple(given[name] for name in ("clients", "way", "buffer"))
        )
        found.setdefault(key, []).append(cast(dict[str, Any], result))
    return found


def _means(runs: Sequence[dict[str, Any]], what: str) -> list[float]:
    """The mean of each client over the runs."""
    return [statistics.fmean(values) for values in zip(*(run[what] for run in runs), strict=True)]


def _fairness(runs: Sequence[dict[str, Any]], what: str = "video_kbps") -> list[float]:
    return [jain(run[what]) for run in runs]


def _over_time(runs: Sequence[dict[str, Any]]) -> list[float]:
    return [statistics.fmean(run["jain_by_second"]) for run in runs]


def _kbps(rates: Sequence[float]) -> str:
    return " / ".join(f"{rate:.0f}" for rate in rates)


# --- table 4.1 ---

_TABLE = partial(_runs, CLIENTS, ("traditional", "proposed", "fq-codel", "dual-pi2"), BUFFERS)
_PUBLISHED_KBPS = {
    (2, "proposed"): 4807.73,
    (3, "proposed"): 4287.62,
    (4, "proposed"): 3714.85,
    (2, "traditional"): 4621.25,
    (3, "traditional"): 3657.36,
    (4, "traditional"): 3692.61,
}
"""Totals of table 4.1."""


def _judge_table(results: Sequence[Json]) -> Outcome:
    found = _by_setting(_TABLE, results)
    totals = {
        (count, way): sum(_means(found[count, way, _BUFFER], "video_kbps"))
        for count, way in _PUBLISHED_KBPS
    }
    fair = {key: statistics.fmean(_fairness(runs)) for key, runs in found.items()}
    shares = {count: _means(found[count, "proposed", _BUFFER], "video_kbps") for count in CLIENTS}
    said = "; ".join(
        f"{count} clients: proposed {_kbps(shares[count])} "
        f"(Jain {fair[count, 'proposed', _BUFFER]:.4f}), traditional "
        + ", ".join(f"{fair[count, 'traditional', buffer]:.3f}" for buffer in BUFFERS)
        for count in CLIENTS
    )
    ratios = [totals[key] / published for key, published in _PUBLISHED_KBPS.items()]
    is_fair = all(fair[count, "proposed", _BUFFER] > 0.99 for count in CLIENTS)
    fairer = all(
        fair[count, "proposed", _BUFFER] > fair[count, "traditional", buffer]
        for count in CLIENTS
        for buffer in BUFFERS
    )
    no_slower = all(
        totals[count, "proposed"] >= 0.99 * totals[count, "traditional"] for count in CLIENTS
    )
    worst = min(
        min(run["video_kbps"]) / statistics.fmean(run["video_kbps"])
        for (_, way, _), runs in found.items()
        if way == "traditional"
        for run in runs
    )
    holds = is_fair and fairer and no_slower
    return Outcome(
        f"kbit/s, and Jain's index of a run, traditional with {_listed(BUFFERS)} packets: {said}; "
        f"totals {min(ratios):.2f} to {max(ratios):.2f} of the published",
        Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
        "no client starves without the proposal: the worst had "
        f"{worst:.2f} of the mean, C1 0.09 in the work; C1's game does not do that by itself in a "
        "cell where all hear each other equally well",
        f"4 clients, 256 packets: Jain {words(_fairness(found[4, 'traditional', 256]), '.3f')}",
    )


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values[:-1])) + f" and {values[-1]}"


# --- table 4.2, figure 4.8: what the game gets ---

_GAME = partial(_runs, (2, 3), ("traditional", "proposed"), (_BUFFER,))


def _judge_game(results: Sequence[Json]) -> Outcome:
    found = _by_setting(_GAME, results)
    one = {way: found[2, way, _BUFFER] for way in ("traditional", "proposed")}
    rates = {way: _means(runs, "game_kbps")[0] for way, runs in one.items()}
    is_whole = rates["proposed"] >= rates["traditional"]
    return Outcome(
        f"kbit/s of the one who plays: proposed {rates['proposed']:.2f}, "
        f"traditional {rates['traditional']:.2f}, of {_game_kbps():.2f} sent",
        Verdict.CANNOT_FOLLOW if is_whole else Verdict.DIFFERS,
        "what was played then is not known: here players send the same in both, as much as the "
        "table has, and the proposal loses none of it",
        f"traditional {words([run['game_kbps'][0] for run in one['traditional']])}",
    )


def _game_kbps() -> float:
    """What one player and the server send each other, with headers."""
    return (TO_GAMER.rate_bps + FROM_GAMER.rate_bps) / 1e3


def _judge_game_fairness(results: Sequence[Json]) -> Outcome:
    found = _by_setting(_GAME, results)
    fair = {
        way: _fairness(found[3, way, _BUFFER], "game_kbps") for way in ("traditional", "proposed")
    }
    holds = min(fair["proposed"]) >= min(fair["traditional"]) and min(fair["proposed"]) > 0.999
    return Outcome(
        f"Jain's index of two players' throughput: proposed {words(fair['proposed'], '.5f')}, "
        f"traditional {words(fair['traditional'], '.5f')}",
        Verdict.MATCHES if holds else Verdict.DIFFERS,
        "of each run as a whole: at 20 packets a second an interval of the figure holds few",
    )


# --- figure 4.4: the ping of those who play ---

_PINGS = partial(_runs, CLIENTS, ("traditional", "proposed", "fq-codel", "dual-pi2"), (_BUFFER,))


def _ping(found: Found, count: int, way: str) -> list[float]:
    return [run["ping_ms"] for run in found[count, way, _BUFFER]]


def _judge_ping(results: Sequence[Json]) -> Outcome:
    found = _by_setting(_PINGS, results)
    ways = ("traditional", "proposed", "fq-codel", "dual-pi2")
    pings = {
        (count, way): statistics.fmean(_ping(found, count, way))
        for count in CLIENTS
        for way in ways
    }
    said = ", ".join(
        f"{way} {' / '.join(f'{pings[count, way]:.0f}' for count in CLIENTS)}" for way in ways
    )
    cuts = [pings[count, "traditional"] / pings[count, "proposed"] for count in CLIENTS]
    best = all(pings[count, "fq-codel"] < pings[count, "proposed"] for count in CLIENTS)
    found_too = "; a queue for each flow at the access point does more, and needs no proxy"
    return Outcome(
        f"ms with 1, 2 and 3 players beside the server: {said}",
        Verdict.TREND_HOLDS if min(cuts) > 2 else Verdict.DIFFERS,
        "the figure's values are not in the text" + (found_too if best else ""),
        f"traditional with 4 clients {words(_ping(found, 4, 'traditional'), '.1f')} ms, "
        f"proposed {words(_ping(found, 4, 'proposed'), '.1f')}",
    )


def _draw_ping(results: Sequence[Json], path: Path) -> None:
    found = _by_setting(_PINGS, results)
    series = [
        charts.Series(
            way,
            [
                (count - 1, statistics.fmean(pings), margin(pings))
                for count in CLIENTS
                for pings in [_ping(found, count, way)]
            ],
        )
        for way in ("traditional", "proposed", "fq-codel", "dual-pi2")
    ]
    charts.lines(path, "Ping between players", "players beside the server", "ms", series)


# --- figure 4.5: the delay of the videos ---

_DELAYS = partial(_runs, (1, *CLIENTS), ("proposed", "proposed, video alone"), (_BUFFER,))


_IMPLIED_MS = {2: 9.7, 3: 16.3, 4: 25.1}
"""What (4.5) makes of the throughput in table 4.1."""


def _judge_delay(results: Sequence[Json]) -> Outcome:
    found = _by_setting(_DELAYS, results)
    counts = (1, *CLIENTS)
    alone, played = (
        {
            count: statistics.fmean(run["delay_ms"] for run in found[count, way, _BUFFER])
            for count in counts
        }
        for way in ("proposed, video alone", "proposed")
    )
    one = found[1, "proposed, video alone", _BUFFER]
    service_bps = sum(_means(one, "video_kbps")) * 1e3 * (1500 + 40) / _SEGMENT_BYTES
    foreseen = {count: delay_ms(count, service_bps) for count in counts}
    said = "; ".join(
        f"{count}: {foreseen[count]:.1f}, {alone[count]:.1f}, {played[count]:.1f}"
        for count in counts
    )
    is_foreseen = all(abs(alone[count] / foreseen[count] - 1) < 0.1 for count in counts)
    is_implied = all(abs(played[count] / ms - 1) < 0.15 for count, ms in _IMPLIED_MS.items())
    implied = " / ".join(map(str, _IMPLIED_MS.values()))
    return Outcome(
        f"ms by clients, of the analysis, video alone, and with the game: {said}",
        Verdict.TREND_HOLDS if is_foreseen and is_implied else Verdict.DIFFERS,
        "with the game the delay is not the same, nor is it in the work, whose table 4.1 implies "
        f"{implied} ms: each packet of a game crosses the air twice, at a whole frame's overhead",
    )


# --- figures 4.6 and 4.7: fairness over time ---


def _fairness_row(number: str, count: int) -> Row:
    points = partial(_runs, (count,), ("traditional", "proposed"), BUFFERS)

    def judge(results: Sequence[Json]) -> Outcome:
        found = _by_setting(points, results)
        ours = _over_time(found[count, "proposed", _BUFFER])
        before = {buffer: _over_time(found[count, "traditional", buffer]) for buffer in BUFFERS}
        holds = min(ours) > 0.99 and all(
            statistics.fmean(ours) > statistics.fmean(runs) for runs in before.values()
        )
        said = ", ".join(f"{words(runs, '.3f')} ({buffer})" for buffer, runs in before.items())
        return Outcome(
            f"mean of Jain's index by second: proposed {words(ours, '.4f')}, traditional {said} "
            "packets",
            Verdict.MATCHES if holds else Verdict.DIFFERS,
            "the text gives no values beside that of the proposal; nor the buffer",
        )

    def draw(results: Sequence[Json], path: Path) -> None:
        found = _by_setting(points, results)
        series = [
            charts.Series(
                way,
                [
                    (second + 1, index, 0.0)
                    for second, index in enumerate(found[count, way, _BUFFER][0]["jain_by_second"])
                ],
            )
            for way in ("traditional", "proposed")
        ]
        charts.lines(path, f"Videos of {count} clients", "s", "Jain's index", series)

    title = f"WLAN: TCP fairness over time, {count} clients"
    return Row(f"003-fig-{number}", title, "the proposal near 1", points, judge, draw)


ROWS = [
    Row(
        "003-tab-4.1",
        "WLAN: TCP throughput of 2, 3 and 4 clients",
        "4 clients: 913 to 952 kbit/s each against 81 to 1 274 kbit/s",
        _TABLE,
        _judge_table,
    ),
    Row(
        "003-tab-4.2",
        "WLAN: UDP (game) throughput of two clients",
        "37.84 and 39.13 kbit/s against 40.65 and 47.7 kbit/s",
        _GAME,
        _judge_game,
    ),
    Row(
        "003-fig-4.4",
        "WLAN: ping of game traffic against the number of gaming clients",
        "significantly lower with the proposal",
        _PINGS,
        _judge_ping,
        _draw_ping,
    ),
    Row(
        "003-fig-4.5",
        "WLAN: video delay, analysis and experiment",
        "analysis, TCP alone and TCP with UDP about the same",
        _DELAYS,
        _judge_delay,
    ),
    _fairness_row("4.6", 3),
    _fairness_row("4.7", 4),
    Row(
        "003-fig-4.8",
        "WLAN: UDP fairness over time, 2 clients",
        "the same as or slightly better than traditional",
        _GAME,
        _judge_game_fairness,
    ),
]
