"""Work 003, chapter 4, with the kernel's TCP: video and a game in a wireless cell of the lab.

The cell is that of `ch4_wlan`, whose channel the lab runs in real time, and the kernel has Reno.
Downloads go from the server to each client (*plain*), or by `weir relay proxy` on a host beside the
access point, whose window to each client is two segments from its first connection on (*clamped*).
Beside each run the simulator has the same cell with as recent a TCP.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from studies.rig import beside_simulated, wireless
from studies.works.row import Outcome, Row, Verdict
from studies.works.w003 import ch4_wlan
from weir import Bytes, Rate, Time
from weir.chart import charts
from weir.lab.scenario import Link, Node, Queue, Scenario, Traffic, UdpTraffic
from weir.numbers import jain
from weir.runs.point import Json, Point
from weir.sim.traffic import Tcp, Udp

_CLIENTS = (2, 3, 4)
_WAYS = ("plain", "clamped")
_BUFFER = 100
_SPAN_S, _QUICK_SPAN_S = [4, 12], [2, 5]
_SEED = 1
_PROXY = "proxy"
_WINDOW = ch4_wlan.WINDOW_SEGMENTS
_NEAR, _FAIR, _RESCUED = 0.1, 0.99, 2.0
"""How near live and simulated throughput are, how fair clamped downloads, by how much pings fall.
"""
_RENO = Tcp("reno")
_CLAMPED = Tcp("reno", send_buffer_bytes=_WINDOW * 1448)


def run(*, clients: int, way: str, seconds: Sequence[int], seed: int) -> Json:
    """What a cell shows: `{"cell": {"live": ..., "simulated": ...}}`.

    Each has `video_kbps`, of each client; `jain_by_second`; `delay_ms`, the mean round-trip time of
    the downloads; `ping_ms`, of all players. The live one also has `windows`, the least and the
    largest of the senders', in segments, and `flaws`.

    Args:
        clients: how many; the first is the game's server.
        way: "plain" or "clamped".
        seconds: of the while before, and of what is measured.
        seed: of both.
    """
    before_s, measured_s = seconds
    tcp = _RENO if way == "plain" else _CLAMPED
    span_s = (before_s, measured_s)
    both: dict[str, Json] = {
        "simulated": ch4_wlan.run(ch4_wlan.Way(tcp), clients, _BUFFER, span_s, seed)
    }
    if beside_simulated.has_labs():
        names = ch4_wlan.client_names(clients)
        proxy = _PROXY if way == "clamped" else None
        queue = Queue("fifo", _BUFFER)
        seen = wireless.carry_out(scenario(names, seed, queue), names, proxy, span_s)
        both["live"] = facts(seen)
    return {"cell": both}


def facts(seen: wireless.Seen) -> dict[str, Any]:
    """What a cell of the lab showed, as `run` tells it."""
    return {
        "video_kbps": seen.kbps(),
        "jain_by_second": [jain(rates) for rates in seen.kbps_by_second()],
        "delay_ms": statistics.fmean(seen.delays_ms),
        "ping_ms": statistics.fmean(seen.pings_ms),
        "windows": [min(seen.windows), max(seen.windows)],
        "flaws": [*seen.flaws],
    }


def scenario(names: Sequence[str], seed: int, queue: Queue) -> Scenario:
    """The simulator's cell, with the proxy's host beside the server."""
    hosts = ch4_wlan.nodes(names, [Node(_PROXY, congestion=f"fixed{_WINDOW}")])
    server = Node("server", congestion="reno")
    return Scenario(
        "cell",
        seed,
        tuple(server if node.name == "server" else node for node in hosts),
        (*ch4_wlan.links(names, queue), *_proxy_links()),
        tuple(_game(names)),
        (ch4_wlan.CHANNEL,),
    )


def _proxy_links() -> Iterator[Link]:
    yield from ch4_wlan.wires(_PROXY)
    yield Link("wire-proxy", ("server", _PROXY), ch4_wlan.NEAR, ch4_wlan.NEAR)


def _game(names: Sequence[str]) -> Iterator[Traffic]:
    host = names[0]
    for name in names[1:]:
        yield _udp(f"to-{name}", (host, name), ch4_wlan.TO_GAMER)
        yield _udp(f"from-{name}", (name, host), ch4_wlan.FROM_GAMER)


def _udp(name: str, ends: tuple[str, str], source: Udp) -> UdpTraffic:
    return UdpTraffic(
        name=name,
        source=ends[0],
        destination=ends[1],
        start=Time.from_ns(0),
        stop=None,
        rate=Rate.from_bit_per_s(source.rate_bps),
        payload=Bytes.from_count(source.payload_bytes),
    )


# --- the row ---

Found = Mapping[tuple[int, str], Mapping[str, Any]]
"""By number of clients and way, what both worlds show."""


def _points(quick: bool) -> list[Point]:
    span_s = _QUICK_SPAN_S if quick else _SPAN_S
    return [
        Point(run, {"clients": clients, "way": way, "seconds": span_s, "seed": _SEED})
        for clients in (_CLIENTS[:1] if quick else _CLIENTS)
        for way in _WAYS
    ]


def _found(results: Sequence[Json]) -> Found:
    made = next(made for made in map(_points, (True, False)) if len(made) == len(results))
    return {
        (cast(int, point.arguments["clients"]), cast(str, point.arguments["way"])): cast(
            dict[str, Any], result
        )["cell"]
        for point, result in zip(made, results, strict=True)
    }


def _of(found: Found, world: str, way: str, what: str) -> list[Any]:
    return [both[world][what] for (_, of), both in found.items() if of == way]


def _totals(found: Found, world: str, way: str) -> list[float]:
    return [sum(rates) / 1e3 for rates in _of(found, world, way, "video_kbps")]


def _fairness(found: Found, world: str) -> dict[str, list[float]]:
    return {way: [jain(rates) for rates in _of(found, world, way, "video_kbps")] for way in _WAYS}


def _said(values: Sequence[float], form: str) -> str:
    return " / ".join(f"{value:{form}}" for value in values)


def _judge(results: Sequence[Json]) -> Outcome:
    found = _found(results)
    live, simulated = (
        {way: _totals(found, world, way) for way in _WAYS} for world in beside_simulated.WORLDS
    )
    ratios = [
        one / other for way in _WAYS for one, other in zip(live[way], simulated[way], strict=True)
    ]
    fair = {world: _fairness(found, world) for world in beside_simulated.WORLDS}
    pings = {way: _of(found, "live", way, "ping_ms") for way in _WAYS}
    falls = [plain / low for plain, low in zip(pings["plain"], pings["clamped"], strict=True)]
    clamped = {size for sizes in _of(found, "live", "clamped", "windows") for size in sizes}
    largest = max(size for _, size in _of(found, "live", "plain", "windows"))
    flaws = [flaw for way in _WAYS for each in _of(found, "live", way, "flaws") for flaw in each]
    holds = (
        all(abs(ratio - 1) < _NEAR for ratio in ratios)
        and min(fair["live"]["clamped"]) > _FAIR
        and min(falls) > _RESCUED
        and clamped == {_WINDOW}
        and largest > _WINDOW
    )
    told = "; ".join(
        f"{way}: {_said(live[way], '.2f')} (simulated {_said(simulated[way], '.2f')}), Jain "
        f"{_said(fair['live'][way], '.3f')} ({_said(fair['simulated'][way], '.3f')}), ping "
        f"{_said(pings[way], '.0f')} ms ({_said(_of(found, 'simulated', way, 'ping_ms'), '.0f')}), "
        f"round trip {_said(_of(found, 'live', way, 'delay_ms'), '.1f')} ms "
        f"({_said(_of(found, 'simulated', way, 'delay_ms'), '.1f')})"
        for way in _WAYS
    )
    windows = " to ".join(map(str, sorted(clamped)))
    return Outcome(
        f"Mbit/s of all, by number of clients; {told}; live over simulated {min(ratios):.3f} to "
        f"{max(ratios):.3f}; windows of the clamped in `ss`, from the first connection on: "
        f"{windows} segments, of the plain up to {largest}",
        Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
        "no client starves without the proxy, as simulated (003-tab-4.1)"
        + "".join(f"; {flaw}" for flaw in dict.fromkeys(flaws)),
    )


def _draw(results: Sequence[Json], path: Path) -> None:
    found = _found(results)
    count = max(clients for clients, _ in found)
    series = [
        charts.Series(
            f"{way}, {world}",
            [
                (second + 1, index, 0.0)
                for second, index in enumerate(found[count, way][world]["jain_by_second"])
            ],
        )
        for way in _WAYS
        for world in beside_simulated.WORLDS
    ]
    charts.lines(path, f"Videos of {count} clients", "s", "Jain's index", series)


ROWS = [
    Row(
        "003-own-4.1-live",
        "WLAN: table 4.1 and figures 4.4 to 4.7 with the kernel's TCP in a cell of the lab",
        "4 clients: Jain 0.9997 with the proposal, 0.778 without; a lower ping",
        _points,
        _judge,
        _draw,
        live=1,
    )
]
