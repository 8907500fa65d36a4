"""What the recogniser makes of paths and backgrounds that it never learned.

`weir ops assess-unknown` prints two tables: idle paths whose round-trip times move for reasons of
their own, and one stream of something else on paths of the packet simulator.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from studies.rig.dumbbell import traffic
from studies.training.grid import draw_path
from studies.training.host_noise import through_hosts
from studies.training.simulated import Probing, Span, seen
from weir.congestion.classify.features import Values
from weir.congestion.classify.recogniser import Recogniser, Recognition
from weir.congestion.recordings import NetworkPath
from weir.sim.traffic import Bulk, Generator, Tcp, Udp, Udt

HZ = 20
Draw = np.random.Generator

# --- idle paths that are not at rest ---


def _route(draw: Draw, at_s: Values) -> Values:
    return np.where(at_s > draw.uniform(0.2, 0.8) * at_s[-1], 40.0, 0.0)


def _routes(draw: Draw, at_s: Values) -> Values:
    return 20.0 * (np.floor(at_s / draw.uniform(0.5, 2)) % 2)


def _slots(draw: Draw, at_s: Values) -> Values:
    return 30.0 - (1e3 * at_s + draw.uniform(0, 30) + draw.uniform(0, 5, len(at_s))) % 30.0


def _late(draw: Draw, at_s: Values) -> Values:
    return (draw.random(len(at_s)) < 0.1) * draw.exponential(20.0, len(at_s))


IDLE: Mapping[str, Callable[[Draw, Values], Values]] = {
    "jitter, uniform up to 20 ms": lambda draw, at_s: draw.uniform(0, 20, len(at_s)),
    "a route that becomes 40 ms longer": _route,
    "two routes in turns, 20 ms apart": _routes,
    "a swing of 20 ms each 0.5 s": lambda _, at_s: 10 * (1 + np.sin(2 * np.pi * at_s / 0.5)),
    "a random walk": lambda draw, at_s: np.abs(np.cumsum(draw.normal(0, 1, len(at_s)))),
    "slots of 30 ms": _slots,
    "a tenth of the replies late": _late,
    "nothing": lambda _, at_s: np.zeros(len(at_s)),
}
"""By name: what is added to an idle path's round-trip times, in ms, at times in s."""


def idle(name: str, seconds: int, draw: Draw) -> Values:
    """Round-trip times in ms of an idle path of 10 to 200 ms with what `IDLE` adds."""
    rtt_ms = draw.uniform(10, 200)
    at_s = np.arange(seconds * HZ) / HZ
    path = NetworkPath(100_000_000, round(rtt_ms * 1e6), 10**6)
    there = through_hosts(np.full(len(at_s), rtt_ms), path, draw)
    found: Values = there + IDLE[name](draw, at_s)
    return found


# --- streams of another kind ---


@dataclass(frozen=True, slots=True)
class Other:
    """Traffic that no label stands for.

    Attributes:
        generator: what sends it along a path.
        discipline: of the bottleneck's queue; None for whatever is drawn.
        has_bbr: whether it is of BBR's kind.
    """

    generator: Callable[[NetworkPath], Generator]
    discipline: str | None = None
    has_bbr: bool = False


def _bulk(control: str) -> Callable[[NetworkPath], Generator]:
    return lambda _: Bulk(Tcp(control))


def _datagrams(share: float) -> Callable[[NetworkPath], Generator]:
    return lambda path: Udp(round(share * path.rate_bps), 1470)


OTHERS: Mapping[str, Other] = {
    "BBR v3": Other(_bulk("bbr3"), has_bbr=True),
    "DCTCP through DualPI2": Other(_bulk("dctcp"), "dual-pi2"),
    "Prague through DualPI2": Other(_bulk("prague"), "dual-pi2"),
    "H-TCP": Other(_bulk("htcp"), "fifo"),
    "CTCP": Other(_bulk("ctcp"), "fifo"),
    "UDT": Other(lambda _: Udt(), "fifo"),
    "UDP at 80 % of the path": Other(_datagrams(0.8), "fifo"),
    "UDP at 110 %": Other(_datagrams(1.1), "fifo"),
}


def beside(name: str, number: int, seconds: int) -> Values:
    """Round-trip times in ms beside one such stream, on a path drawn by the number."""
    other, draw = OTHERS[name], random.Random(f"strange {number}")
    path = _slow(draw_path(draw), draw)
    if other.discipline:
        path = replace(path, discipline=other.discipline)
    background = [traffic("other", other.generator(path), draw.random())]
    (one,) = seen("other", background, path, [Probing(HZ)], Span(20, seconds), number)
    return through_hosts(one.rtt_ms, path, np.random.default_rng(number))


def _slow(path: NetworkPath, draw: random.Random) -> NetworkPath:
    """As deep a queue at 50 to 150 Mbit/s, which is soon simulated."""
    rate_bps = round(draw.uniform(50e6, 150e6))
    return replace(
        path,
        rate_bps=rate_bps,
        buffer_bytes=max(3000, round(path.buffer_bytes * rate_bps / path.rate_bps)),
    )


# --- the page ---


def report(recogniser: Recogniser, count: int, paths: int) -> Iterator[str]:
    """Lines of Markdown.

    Args:
        recogniser: that is asked.
        count: windows of each idle path.
        paths: of each stream.
    """
    lengths = recogniser.seconds
    yield f"% called unknown, of {count} windows:\n"
    yield "| |" + "".join(f" {seconds} s |" for seconds in lengths)
    yield "|---|" + "---|" * len(lengths)
    for name in IDLE:
        shares = []
        for seconds in lengths:
            draw = np.random.default_rng([seconds, len(name)])
            found = [recogniser.of_series(idle(name, seconds, draw)) for _ in range(count)]
            shares.append(_share(not one.known for one in found))
        yield f"| {name} |" + "".join(f" {share} |" for share in shares)
    longest = lengths[-1]
    yield f"\nOne stream, {longest} s on each of {paths} paths:\n"
    yield "| | unknown, % | right about BBR, % | taken for |"
    yield "|---|---|---|---|"
    for name, other in OTHERS.items():
        answers = [recogniser.of_series(beside(name, one, longest)) for one in range(paths)]
        right = _share((one.bbr > 0.5) == other.has_bbr for one in answers)
        unknown = _share(not one.known for one in answers)
        yield f"| {name} | {unknown} | {right} | {_taken_for(answers)} |"


def _share(those: Iterator[bool]) -> str:
    found = list(those)
    return f"{100 * sum(found) / len(found):.0f}"


def _taken_for(answers: Sequence[Recognition]) -> str:
    counts = Counter(one.label for one in answers if one.known)
    return ", ".join(f"{label} {number}" for label, number in counts.most_common(3)) or "-"
