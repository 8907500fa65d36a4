"""Work 004, chapter 2: what thin-stream mechanisms do for the packets of games.

Testbed T1 (004-spec sections 6.1, 6.2, 7.1 and 8.1): small messages from a server to 15 players,
1.5 % of the packets lost on the way. As in the work, delays come from captures at both ends.
Senders recover as Linux 3.18 did; RACK-TLP of today stands beside them.
"""

import bisect
import itertools
import random
import statistics
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, cast

from studies.rig.capture import Data, data_from
from studies.rig.statistics import mean, words
from studies.works.row import Outcome, Row, Verdict
from weir import Time
from weir._core import GameConnections
from weir.chart import charts
from weir.lab.scenario import Bernoulli, Direction, Link, Node, Scenario
from weir.runs.point import Json, Point
from weir.sim.core import simulated
from weir.sim.traffic import Generator, Messages, SimulatedTraffic, Tcp, Writes, between

_CLIENTS = 15
_LOSS = 0.015
_GAME_RTT_NS, _EMULATED_RTT_NS = 30_000_000, 165_000_000
_SERVER = IPv4Address("10.77.0.1")
_ENDS = ("server", "players")
_MESSAGE_BYTES = 100

_BASELINE = Tcp(recovery="linux-3.18")
MECHANISMS = {
    "baseline": _BASELINE,
    "no TLP": replace(_BASELINE, tail_loss_probe=False),
    "RTOR": replace(_BASELINE, rto_restart=True),
    "TLPR": replace(_BASELINE, probe_restart=True),
    "RTOR+TLPR": replace(_BASELINE, rto_restart=True, probe_restart=True),
    "RDB": replace(_BASELINE, bundling=True),
    "RITE": replace(_BASELINE, rto_restart=True, probe_restart=True, bundling=True),
    "thin": replace(_BASELINE, thin=True),
    "today": Tcp(recovery="rack"),
}
"""Baseline is TCP with TLP; `thin` are Linux's older thin-stream options (004-spec section 4.6)."""


# --- the traffic of Trolls vs Vikings, 004-spec section 6.1 ---

_THINK_NS = 5 * 10**9


def _matches(tcp: Tcp, seconds: int, seed: int) -> list[SimulatedTraffic]:
    """Each player's connections one after the other, five seconds of thought before each."""
    traffic: list[SimulatedTraffic] = []
    for client in range(_CLIENTS):
        for start_ns, _, writes in GameConnections(seed, f"player {client}", _THINK_NS):
            if start_ns >= seconds * 10**9:
                break
            name = f"match {len(traffic)}"
            traffic.append(_sent(name, Writes(tcp, writes), start_ns, seconds))
    return traffic


def _sent(name: str, generator: Generator, start_ns: int, seconds: int) -> SimulatedTraffic:
    return between(_ENDS, name, generator, start_ns, seconds * 10**9)


# --- one run, and what its captures show ---


@dataclass(slots=True)
class _Segment:
    """What was sent of a segment: when first, when last, how often again."""

    first_ns: int
    last_ns: int
    again: int = 0


@dataclass(slots=True)
class _Stream:
    """One connection: its segments by the end of their data, and where the stream was repeated."""

    highest: int = 0
    bundles: int = 0
    segments: dict[int, _Segment] = field(default_factory=dict)
    # What arrived: instants and up to where the stream was complete then.
    complete_at: list[int] = field(default_factory=list)
    complete_to: list[int] = field(default_factory=list)
    beyond: dict[int, int] = field(default_factory=dict)
    arrived: set[tuple[int, int]] = field(default_factory=set)

    def on_sent(self, data: Data) -> None:
        if data.end > self.highest:
            self.bundles += self.highest > 0 and data.begin < self.highest
            self.segments[data.end] = _Segment(data.at_ns, data.at_ns)
            self.highest = data.end
        elif segment := self.segments.get(data.end):
            segment.again += 1
            segment.last_ns = data.at_ns

    def on_arrived(self, data: Data) -> None:
        self.arrived.add((data.end, data.at_ns))
        complete = self.complete_to[-1] if self.complete_to else 1
        self.beyond[data.begin] = max(self.beyond.get(data.begin, 0), data.end)
        before = complete
        for begin in sorted(self.beyond):
            if begin > complete:
                break
            complete = max(complete, self.beyond.pop(begin))
        if complete > before:
            self.complete_at.append(data.at_ns)
            self.complete_to.append(complete)

    def delivered_ns(self, end: int) -> int | None:
        at = bisect.bisect_left(self.complete_to, end)
        return self.complete_at[at] if at < len(self.complete_at) else None


def _captured(traffic: Sequence[SimulatedTraffic], rtt_ns: int, seconds: int, seed: int) -> Json:
    """What the captures of a run show; times in ms."""
    back = Direction(delay=Time.from_ns(rtt_ns // 2))
    link = Link("wifi", _ENDS, replace(back, loss=Bernoulli(_LOSS)), back)
    nodes = tuple(Node(name) for name in _ENDS)
    scenario = Scenario("games", seed, nodes, (link,), tuple(traffic))
    streams: dict[tuple[int, int], _Stream] = {}
    wire = 0
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / name for name in _ENDS}
        simulated(
            scenario,
            # Whatever was lost last is repaired by then.
            Time(f"{seconds + 20} s"),
            # Every sample would look at thousands of connections, and nobody needs one.
            sample=Time(f"{seconds} s"),
            captures=[(name, str(at)) for name, at in files.items()],
        )
        for data in data_from(_SERVER, files["server"]):
            streams.setdefault(data.ports, _Stream()).on_sent(data)
            wire += data.size
        for data in data_from(_SERVER, files["players"]):
            streams[data.ports].on_arrived(data)
    return _summary([*streams.values()], rtt_ns // 2) | {"wire_bytes": wire}


def _summary(streams: Sequence[_Stream], way_ns: int) -> dict[str, Json]:
    delays, of_lost, again = [], [], []
    counts: Counter[int] = Counter()
    for stream in streams:
        for end, segment in stream.segments.items():
            counts[segment.again] += 1
            if segment.again:
                again.append((segment.last_ns - segment.first_ns) / 1e6)
            delivered = stream.delivered_ns(end)
            if delivered is None:
                continue
            delays.append((delivered - segment.first_ns) / 1e6)
            if (end, segment.first_ns + way_ns) not in stream.arrived:
                of_lost.append(delays[-1])
    delays.sort()
    return {
        "segments": counts.total(),
        "counts": [counts[number] for number in range(1, 9)],
        "bundles": sum(stream.bundles for stream in streams),
        "delay": [_quantile(delays, q) for q in _QUANTILES],
        "lost_ms": statistics.median(of_lost) if of_lost else 0.0,
        "again_ms": cast(Json, sorted(again)),
    }


def _quantile(ordered: Sequence[float], fraction: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]


def _tcp(mechanism: str, *, nagle: bool) -> Tcp:
    return replace(MECHANISMS[mechanism], nagle=nagle)


def play(mechanism: str, nagle: bool, seconds: int, seed: int) -> Json:
    """Trolls vs Vikings: what the captures at both ends show.

    Args:
        mechanism: a name of `MECHANISMS`, of the server.
        nagle: whether its short segments wait for company.
        seconds: of play.
        seed: of the run; every mechanism meets the same traffic.
    """
    traffic = _matches(_tcp(mechanism, nagle=nagle), seconds, seed)
    return _captured(traffic, _GAME_RTT_NS, seconds, seed)


def emulate(mechanism: str, interval_ms: int, seconds: int, seed: int) -> Json:
    """The emulated real-time game: a message of 100 B each `interval_ms` to every player."""
    interval_ns = interval_ms * 10**6
    messages = Messages(_tcp(mechanism, nagle=False), _MESSAGE_BYTES, interval_ns)
    draw = random.Random(f"ticks {seed}")
    traffic = [
        _sent(f"player {client}", messages, draw.randrange(interval_ns), seconds)
        for client in range(_CLIENTS)
    ]
    return _captured(traffic, _EMULATED_RTT_NS, seconds, seed)


# --- the rows ---

_QUANTILES = (0.5, 0.9, 0.97, 0.99, 0.999)
Run = Mapping[str, Any]
Runs = dict[Any, list[Run]]


def _play_points(settings: Sequence[tuple[str, bool]], quick: bool) -> list[Point]:
    seconds, seeds = (1200, (1, 2)) if quick else (3600, (1, 2, 3, 4, 5))
    return [
        Point(play, {"mechanism": name, "nagle": nagle, "seconds": seconds, "seed": seed})
        for name, nagle in settings
        for seed in seeds
    ]


def _grouped(settings: Sequence[Any], results: Sequence[Json]) -> Runs:
    runs = [*cast(Sequence[Run], results)]
    seeds = len(runs) // len(settings)
    return {at: runs[i * seeds : (i + 1) * seeds] for i, at in enumerate(settings)}


def again_ms(runs: Sequence[Run], fraction: float) -> float:
    """A quantile of the delay of retransmissions, over all runs."""
    return _quantile(sorted(delay for run in runs for delay in run["again_ms"]), fraction)


def repeated(run: Run) -> float:
    """The share of the segments that were sent again."""
    return float(sum(run["counts"]) / run["segments"])


def _cost(runs: Sequence[Run], than: Sequence[Run]) -> float:
    """How many more bytes went over the wire."""
    return float(
        sum(run["wire_bytes"] for run in runs) / sum(run["wire_bytes"] for run in than) - 1
    )


def facts(connections: int, seed: int) -> Json:
    """The shares that figure 2.1 reports, of connections that are drawn."""
    drawn = [*itertools.islice(GameConnections(seed, "facts", _THINK_NS), connections)]
    long = [(gap_s, [size for _, size in writes]) for _, gap_s, writes in drawn if len(writes) > 2]
    return [
        1 - len(long) / len(drawn),
        mean([len(sizes) <= 10 for _, sizes in long]),
        mean([statistics.fmean(sizes) <= 500 for _, sizes in long]),
        mean([gap_s <= 0.01 for gap_s, _ in long]),
        mean([statistics.fmean(sizes) / gap_s <= 1000 for gap_s, sizes in long]),
    ]


def _judge_facts(results: Sequence[Json]) -> Outcome:
    ((short, ten, small, fast, slow),) = cast(Sequence[list[float]], results)
    ours = (
        f"{short:.1%} of connections have one or two packets; of the others {ten:.0%} have at most "
        f"10, {small:.0%} at most 500 B in the mean, {fast:.1%} mean gaps of 10 ms or less, "
        f"{slow:.0%} send at most 1 kB/s"
    )
    holds = short > 0.5 and ten > 0.6 and small > 0.5 and fast < 0.01 and 0.5 < slow < 0.65
    reason = "the traffic is a model that was made to have these shares (004-spec section 6.1)"
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason)


_NAGLE = [("baseline", True), ("baseline", False), ("RITE", True), ("today", False)]


def _judge_nagle(results: Sequence[Json]) -> Outcome:
    """G2 and G3 of 004-spec section 8.1."""
    runs = _grouped(_NAGLE, results)
    on, off = runs["baseline", True], runs["baseline", False]
    said = "; ".join(
        f"{name}, Nagle {'on' if nagle else 'off'}: {again_ms(found, 0.5):.0f} / "
        f"{again_ms(found, 0.95):.0f} ms"
        for (name, nagle), found in runs.items()
    )
    bundles = sum(run["bundles"] for run in runs["RITE", True])
    ours = f"median / 95th percentile: {said}; with Nagle on, RDB bundled {bundles} times"
    # A lone packet waits for the same timer either way: medians are equal but for rounding.
    usual = abs(again_ms(off, 0.5) - again_ms(on, 0.5)) < 1
    lower = usual and again_ms(off, 0.95) < again_ms(on, 0.95)
    gains = [again_ms([a], 0.95) - again_ms([b], 0.95) for a, b in zip(on, off, strict=True)]
    reason = (
        "the median is the RTO of a lone packet, SRTT + 200 ms: no probe comes earlier (004-spec "
        "section 8.1); Nagle shows in the tail"
    )
    interval = f"95th percentile, Nagle on less off: {words(gains, '.0f')} ms"
    verdict = Verdict.TREND_HOLDS if lower and bundles == 0 else Verdict.DIFFERS
    return Outcome(ours, verdict, reason, interval)


_TAIL = [("baseline", False), ("RITE", False)]


def _judge_tail(results: Sequence[Json]) -> Outcome:
    """G4."""
    runs = _grouped(_TAIL, results)
    (base, rite) = (
        [mean(d) for d in zip(*(r["delay"] for r in found), strict=True)] for found in runs.values()
    )
    ours = "percentiles in ms, baseline / with RTOR, TLPR and RDB: " + ", ".join(
        f"{100 * q:g}: {a:.1f} / {b:.1f}" for q, a, b in zip(_QUANTILES, base, rite, strict=True)
    )
    holds = all(b <= a for a, b in zip(base[3:], rite[3:], strict=True))
    holds = holds and all(abs(b / a - 1) < 0.02 for a, b in zip(base[:3], rite[:3], strict=True))
    gains = [a["delay"][4] - b["delay"][4] for a, b in zip(*runs.values(), strict=True)]
    interval = f"99.9th percentile, less by {words(gains, '.0f')} ms"
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, "", interval)


_TIMERS = [(name, False) for name in ("baseline", "no TLP", "RTOR", "TLPR", "RTOR+TLPR")]


def distance(first: Sequence[Run], second: Sequence[Run]) -> float:
    """Kolmogorov's, between the delays of retransmissions of two groups of runs."""
    groups = [sorted(d for run in runs for d in run["again_ms"]) for runs in (first, second)]
    at = sorted({*groups[0], *groups[1]})
    below = [[bisect.bisect_right(group, x) / len(group) for x in at] for group in groups]
    return max((abs(a - b) for a, b in zip(*below, strict=True)), default=0.0)


def _judge_timers(results: Sequence[Json]) -> Outcome:
    """G5."""
    runs = _grouped(_TIMERS, results)
    base = runs["baseline", False]
    distances = {name: distance(base, found) for (name, _), found in runs.items()}
    said = "; ".join(
        f"{name} {again_ms(found, 0.5):.0f} / {again_ms(found, 0.95):.0f} ms"
        for (name, _), found in runs.items()
    )
    far = ", ".join(f"{name} {d:.3f}" for name, d in distances.items() if name != "baseline")
    ours = f"median / 95th percentile: {said}. Kolmogorov distance from the baseline: {far}"
    holds = max(distances["RTOR"], distances["TLPR"]) < 0.1
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS)


_TABLE = [(name, False) for name in ("baseline", "RITE", "RDB", "RTOR+TLPR", "thin", "today")]


def saved(base: Sequence[Run], runs: Sequence[Run]) -> list[float]:
    """By how much fewer segments were sent again, run by run."""
    return [1 - repeated(b) / repeated(a) for a, b in zip(base, runs, strict=True)]


def _judge_table(results: Sequence[Json]) -> Outcome:
    """G6, G7 and G9."""
    runs = _grouped(_TABLE, results)
    base = runs["baseline", False]
    said = []
    for (name, _), found in runs.items():
        counts = [sum(c) for c in zip(*(run["counts"] for run in found), strict=True)]
        total = sum(counts)
        change = "" if name == "baseline" else f" ({-mean(saved(base, found)):+.1%})"
        more = "" if name == "baseline" else f", {_cost(found, base):+.1%} bytes"
        said.append(f"{name} {total}{change}: {counts[0]}, {counts[1]}, {counts[2]}{more}")
    gain = saved(base, runs["RITE", False])
    ours = f"segments sent again, of them once, twice, three times: {'; '.join(said)}"
    near = 0.4 <= mean(gain) <= 0.6
    verdict = Verdict.TREND_HOLDS if mean(gain) > 0 else Verdict.DIFFERS
    if near:
        verdict = Verdict.MATCHES
    reason = (
        "RDB repairs a loss only if the server writes again before the timer; that share follows "
        "from the gaps of the model (004-spec section 6.1), of which the work gives quantiles only"
    )
    return Outcome(ours, verdict, reason, f"RITE: {words([100 * g for g in gain], '.1f')} % fewer")


# --- figure 2.6 ---

_INTERVALS_MS = (20, 33, 50, 66, 100, 150)
_EMULATED = ("baseline", "RTOR", "TLPR", "thin", "RDB", "RITE", "today")


def _emulated_settings(quick: bool) -> tuple[list[tuple[str, int]], int, tuple[int, ...]]:
    intervals = (20, 50, 100) if quick else (10, *_INTERVALS_MS)
    settings = [(name, ms) for name in _EMULATED for ms in intervals]
    return settings, *((40, (1,)) if quick else (600, (1, 2, 3, 4, 5)))


def _emulated_points(quick: bool) -> list[Point]:
    settings, seconds, seeds = _emulated_settings(quick)
    return [
        Point(emulate, {"mechanism": name, "interval_ms": ms, "seconds": seconds, "seed": seed})
        for name, ms in settings
        for seed in seeds
    ]


def _emulated_runs(results: Sequence[Json]) -> Runs:
    full = _emulated_settings(quick=False)
    quick = len(results) != len(full[0]) * len(full[2])
    return _grouped(_emulated_settings(quick)[0], results)


def predicted_ms(interval_ms: float) -> tuple[float, float]:
    """A lost message's latency without and with RDB (004-spec section 8.1, model of G8)."""
    rtt, rto = _EMULATED_RTT_NS / 1e6, _EMULATED_RTT_NS / 1e6 + 200
    fast, timeout = 3 * interval_ms + 1.5 * rtt, rtt - interval_ms + rto + 0.5 * rtt
    return min(fast, timeout), interval_ms + 0.5 * rtt


def lost_ms(runs: Sequence[Run]) -> float:
    """How late a message came whose packet was lost, in the median."""
    return mean([run["lost_ms"] for run in runs])


def _judge_emulated(results: Sequence[Json]) -> Outcome:
    """G8 and G9."""
    runs = _emulated_runs(results)
    intervals = sorted({ms for _, ms in runs})
    said, right = [], []
    for ms in intervals:
        late = {name: lost_ms(runs[name, ms]) for name in _EMULATED}
        plain, bundled = predicted_ms(ms)
        if ms >= 20:
            right += [abs(late["baseline"] / plain - 1) < 0.1, abs(late["RDB"] / bundled - 1) < 0.1]
        cost = _cost(runs["RDB", ms], runs["baseline", ms])
        values = ", ".join(f"{name} {value:.0f}" for name, value in late.items())
        said.append(
            f"{ms} ms: {values} (model {plain:.0f}, with RDB {bundled:.0f}; RDB sends {cost:+.0%})"
        )
    best = all(
        min(_EMULATED, key=lambda name: lost_ms(runs[name, ms])) in ("RDB", "RITE")
        for ms in intervals
    )
    ours = f"delay of a lost message in ms, by the gap between messages: {'; '.join(said)}"
    reason = (
        f"our median is within 10 % of 004-spec's model in {sum(right)} of {len(right)} "
        "cases; gaps, sizes and loss of the figure are not published: 100 B, 1.5 %"
    )
    verdict = Verdict.TREND_HOLDS if best else Verdict.DIFFERS
    middle = 50
    gains = [
        a["lost_ms"] - b["lost_ms"]
        for a, b in zip(runs["baseline", middle], runs["RDB", middle], strict=True)
    ]
    return Outcome(
        ours, verdict, reason, f"RDB at {middle} ms: earlier by {words(gains, '.0f')} ms"
    )


def _draw_emulated(results: Sequence[Json], path: Path) -> None:
    runs = _emulated_runs(results)
    intervals = sorted({ms for _, ms in runs})
    series = [
        charts.Series(name, [(ms, lost_ms(runs[name, ms]), 0.0) for ms in intervals])
        for name in _EMULATED
    ]
    title = "Emulated game, 165 ms: delay of a lost message"
    charts.lines(path, title, "ms between messages", "median delay, ms", series)


ROWS = [
    Row(
        "004-fig-2.1",
        "Traffic of a multiplayer game: sizes and gaps of packets",
        "of all flows more than half have 1 or 2 packets; of the others more than 60 % at most 10, "
        "most at most 500 B, under 1 % gaps of 10 ms or less, up to 60 % at most 1 kB/s",
        lambda quick: [Point(facts, {"connections": 20_000, "seed": 1})],
        _judge_facts,
    ),
    Row(
        "004-fig-2.3",
        "Game: Nagle's algorithm and the delay of retransmissions",
        "switching it off lowers the delay, because tail loss probes then work; no bundles with it",
        lambda quick: _play_points(_NAGLE, quick),
        _judge_nagle,
    ),
    Row(
        "004-fig-2.4",
        "Game: packet delays from the 99th percentile, baseline against RTOR, TLPR, RDB",
        "slightly better; visible in the upper tail only",
        lambda quick: _play_points(_TAIL, quick),
        _judge_tail,
    ),
    Row(
        "004-fig-2.5",
        "Game: delay of retransmissions, baseline against RTOR and TLPR",
        "no essential difference",
        lambda quick: _play_points(_TIMERS, quick),
        _judge_timers,
    ),
    Row(
        "004-tab-2.1",
        "Game: segments by number of retransmissions",
        "2 895 with the mechanisms, 5 782 without (-49.9 %); once 2 760 / 5 584, twice 135 / 194",
        lambda quick: _play_points(_TABLE, quick),
        _judge_table,
    ),
    Row(
        "004-fig-2.6",
        "Emulated game: packet delays at several gaps, base RTT 165 ms",
        "greater effect than in the game, because gaps and packets are smaller; RDB best",
        _emulated_points,
        _judge_emulated,
        _draw_emulated,
    ),
]
