"""Backgrounds on many paths, drawn at random and simulated: what Weir's recogniser learns from.

Every recording has a path of its own, drawn from the ranges below, so that recordings divided by
path are simply divided. One setting follows from the ranges, the grid's seed and its number alone:
a grid that is made larger begins with the smaller one, and what was simulated is kept.
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from studies.rig.dumbbell import bulk, traffic
from studies.rig.limited import (
    draw_between,
    draw_control,
    draw_load_bps,
    draw_message_bytes,
    draw_square_wave,
)
from studies.training.simulated import WORKS_PROBING, Probing, Span, seen
from weir import _core
from weir.congestion.classify.classes import (
    BACKGROUNDS,
    CLASSES,
    FURTHER,
    SEVERAL,
    SIX_LABELS,
    WITH_BBR,
    greedy_controls,
)
from weir.congestion.recordings import NetworkPath, Recording, load, save
from weir.errors import BadInput
from weir.sim.traffic import Generator, Messages, SimulatedTraffic, Tcp, Udp, Web

IDLE_RTTS_S = (0.002, 0.5)
"""Round-trip times of empty paths beside the grid."""
DISCIPLINES = {"fifo": 0.76, "codel": 0.08, "pie": 0.08, "dual-pi2": 0.08}
"""How often each is drawn. Nobody negotiates ECN."""
IN_FLIGHT_MAX = 48_000_000
"""Bytes; a path that holds more gets a smaller buffer: hosts' windows end at 64 MiB."""
BDP_MAX = 32_000_000
"""Bytes; a path that holds more while its queue is empty is drawn anew."""
BUFFER_MIN = 6_000
"""Bytes: four packets, of which a queue that never holds more makes nothing that could be seen."""
WARMUP_S = (8, 30)
SECONDS = 40
STARTS_S = 5.0
"""Streams of a background start within as long."""
PROBING = Probing(rate_hz=100)
"""Faster than the recogniser asks, which takes every fifth."""
ROUND = (*SIX_LABELS, *SIX_LABELS, *(further.label for further in FURTHER))
"""A grid goes through these again and again: the work's classes are twice as frequent."""
CROWDS = ("Cn", "Bn", "Bn-Cn")
"""The labels of three streams or more."""
CHUNK = 2 * len(ROUND)
"""Recordings of a file."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """What paths and backgrounds are drawn from.

    Attributes:
        name: by which what was simulated is kept.
        rates_bps: of the bottleneck, least and most; so are the others.
        rtts_s: round-trip times.
        buffers_bdp: in products of rate and round-trip time.
        streams: of a background of many streams.
        skew: 1 draws rates as the others, uniform on a logarithmic scale; above it slow ones, which
            are sooner simulated, are more frequent.
        labels: of the backgrounds, in turns.
        warmup_s: for so long a background has run when it is first seen.
    """

    name: str
    rates_bps: tuple[float, float] = (50e6, 1000e6)
    rtts_s: tuple[float, float] = (0.010, 0.200)
    buffers_bdp: tuple[float, float] = (0.5, 4.0)
    streams: tuple[int, int] = SEVERAL
    skew: float = 1.0
    labels: tuple[str, ...] = ROUND
    warmup_s: tuple[int, int] = WARMUP_S

    def hold(self, path: NetworkPath, streams: int) -> bool:
        """Whether a path with so many streams is one of these."""
        bdps = path.buffer_bytes * 8 / path.rate_bps / (path.rtt_ns / 1e9)
        values = (
            (path.rate_bps, self.rates_bps),
            (path.rtt_ns / 1e9, self.rtts_s),
            (bdps, self.buffers_bdp),
            (streams, (0, self.streams[1])),
        )
        # A buffer has whole bytes, a round trip whole nanoseconds.
        return all(0.999 * least <= value <= 1.001 * most for value, (least, most) in values)


USUAL = Ranges("usual")
"""Paths between sites, with few streams."""
WIDE = Ranges(
    "wide",
    rates_bps=(4e6, 2500e6),
    rtts_s=(0.001, 0.450),
    buffers_bdp=(0.1, 16.0),
    streams=(3, 64),
    skew=2.0,
    labels=(*ROUND, *CROWDS),
)
"""From an access line to a data centre; with many streams, too."""
FAST = replace(USUAL, name="fast", rates_bps=(1e9, 10e9))
"""Faster than any that was learned from; `BDP_MAX` keeps most of them short."""
USUAL_SLOW = replace(USUAL, name="usual-slow", rates_bps=(50e6, 100e6))
WIDE_SLOW = replace(WIDE, name="wide-slow", rates_bps=(4e6, 60e6), skew=1.0)
"""More of either, where it is soon simulated."""
_GREEDY = tuple(label for label in ROUND if label not in ("B0-C0", "app", "udp"))
USUAL_BBR = replace(
    USUAL,
    name="usual-bbr",
    rates_bps=(50e6, 150e6),
    labels=tuple(label for label in ROUND if label in WITH_BBR),
)
"""Usual paths that BBR is on."""
MANY_STREAMS = replace(
    WIDE,
    name="many-streams",
    rates_bps=(10e6, 150e6),
    rtts_s=(0.002, 0.200),
    buffers_bdp=(0.25, 16.0),
    streams=(9, 64),
    skew=1.0,
    labels=("Cn", *CROWDS),
)
DEEP_QUEUES = replace(
    USUAL,
    name="deep-queues",
    rates_bps=(4e6, 100e6),
    rtts_s=(0.005, 0.100),
    buffers_bdp=(4.0, 16.0),
    labels=_GREEDY,
    warmup_s=(3, 20),  # they are long in filling for the first time
)
SHORT_PATHS = replace(
    USUAL,
    name="short-paths",
    rates_bps=(4e6, 150e6),
    rtts_s=(0.001, 0.010),
    buffers_bdp=(0.1, 4.0),
    labels=_GREEDY,
)
SEEMING = (MANY_STREAMS, DEEP_QUEUES, SHORT_PATHS)
"""Paths on which streams without BBR are taken for BBR most often, and BBR itself."""
_SLOW = replace(WIDE, rates_bps=(4e6, 100e6))
BEYOND = (
    replace(_SLOW, name="short", rtts_s=(0.0001, 0.001)),
    replace(_SLOW, name="long", rtts_s=(0.450, 1.5)),
    replace(_SLOW, name="slow", rates_bps=(1e6, 4e6)),
    replace(
        _SLOW,
        name="deep",
        rates_bps=(4e6, 20e6),
        rtts_s=(0.001, 0.100),
        buffers_bdp=(16.0, 64.0),
    ),
    replace(
        _SLOW,
        name="shallow",
        rates_bps=(20e6, 200e6),
        rtts_s=(0.050, 0.450),
        buffers_bdp=(0.01, 0.1),
    ),
    replace(_SLOW, name="crowd", streams=(65, 200), labels=CROWDS),
)
"""Farther out than that, each in one way."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What one recording is of."""

    label: str
    path: NetworkPath
    background: tuple[SimulatedTraffic, ...]
    span: Span
    seed: int

    def simulated(self) -> list[Recording]:
        """What a fast prober sees, and the work's at the same time."""
        probings = (PROBING, WORKS_PROBING)
        made = {"streams": len(self.background)}
        found = seen(self.label, self.background, self.path, probings, self.span, self.seed)
        return [replace(one, made=made) for one in found]


def setting(seed: int, number: int, ranges: Ranges = USUAL) -> Setting:
    """The setting of this number in the grid of this seed."""
    draw = random.Random(f"{_name(ranges)} {seed} {number}")
    label = ranges.labels[number % len(ranges.labels)]
    path = draw_path(draw, ranges)
    return Setting(
        label=label,
        path=path,
        background=background(label, path, draw, ranges),
        span=Span(draw.randint(*ranges.warmup_s), SECONDS),
        seed=draw.getrandbits(32),
    )


def streams_of(recording: Recording) -> int:
    """How many streams a recording of the grid is of."""
    return int(recording.made["streams"])


def draw_path(draw: random.Random, ranges: Ranges = USUAL) -> NetworkPath:
    """A path within the ranges."""
    rate_bps, rtt_s = _draw_rate(draw, ranges), draw_between(draw, *ranges.rtts_s)
    while (bdp := rate_bps * rtt_s / 8) > BDP_MAX:
        rate_bps, rtt_s = _draw_rate(draw, ranges), draw_between(draw, *ranges.rtts_s)
    (discipline,) = draw.choices(list(DISCIPLINES), list(DISCIPLINES.values()))
    buffer_bytes = min(draw_between(draw, *ranges.buffers_bdp) * bdp, IN_FLIGHT_MAX - bdp)
    return NetworkPath(
        rate_bps=round(rate_bps),
        rtt_ns=round(rtt_s * 1e9),
        buffer_bytes=round(max(buffer_bytes, BUFFER_MIN)),
        discipline=discipline,
    )


def _draw_rate(draw: random.Random, ranges: Ranges) -> float:
    least, most = map(math.log, ranges.rates_bps)
    return math.exp(least + (most - least) * draw.random() ** ranges.skew)


def background(
    label: str, path: NetworkPath, draw: random.Random, ranges: Ranges = USUAL
) -> tuple[SimulatedTraffic, ...]:
    """Traffic of this label; how much and when is drawn.

    Raises:
        BadInput: there is no such label.
    """
    controls = greedy_controls(label, draw, ranges.streams)
    if controls is not None:
        return tuple(
            bulk(f"background {number}", control, draw.uniform(0, STARTS_S))
            for number, control in enumerate(controls)
        )
    if label in _APPLICATIONS:
        return _APPLICATIONS[label](path, draw)
    names = ", ".join(known.label for known in BACKGROUNDS)
    raise BadInput(f"{label!r} is not a background; there are {names}")


# --- what is not greedy ---


def _limited(path: NetworkPath, draw: random.Random) -> tuple[SimulatedTraffic, ...]:
    """Messages or objects."""
    load_bytes_s = draw_load_bps(path, draw) / 8
    tcp = Tcp(draw_control(draw))
    application: Generator
    if draw.random() < 0.5:
        size = draw_message_bytes(draw)
        application = Messages(tcp, round(size), round(size / load_bytes_s * 1e9))
    else:
        shape, least, most = 1.2, 20_000, 3_000_000
        # The mean of the Pareto law cut at both ends.
        mean = (
            shape
            / (shape - 1)
            * (least ** (1 - shape) - most ** (1 - shape))
            / (least**-shape - most**-shape)
        )
        application = Web(tcp, load_bytes_s / mean, shape, least, most)
    return (traffic("background", application, draw.uniform(0, STARTS_S)),)


def _datagrams(path: NetworkPath, draw: random.Random) -> tuple[SimulatedTraffic, ...]:
    bursts = Udp(payload_bytes=1470, **draw_square_wave(path, draw)._asdict())
    return (traffic("background", bursts, draw.uniform(0, STARTS_S)),)


_APPLICATIONS: dict[str, Callable[[NetworkPath, random.Random], tuple[SimulatedTraffic, ...]]] = {
    "app": _limited,
    "udp": _datagrams,
}

# --- nobody ---


def idle(count: int, seed: int) -> list[Recording]:
    """Recordings of empty paths, shorter and longer than the grid's.

    They need no simulator: every round-trip time is the path's. With the grid's few alone what
    nobody sends would depend on how far it is not sent.
    """
    draw = random.Random(f"idle {seed}")
    found = []
    for number in range(count):
        rtt_s = draw_between(draw, *IDLE_RTTS_S)
        size = SECONDS * PROBING.rate_hz
        found.append(
            Recording(
                label=CLASSES[0].label,
                source="simulator",
                path=NetworkPath(10**8, round(rtt_s * 1e9), 10**6),
                pattern=None,
                seed=number,
                rate_hz=PROBING.rate_hz,
                requests=PROBING.requests,
                rtt_ms=np.full(size, rtt_s * 1e3),
                lost=np.zeros(size, dtype=np.int64),
            )
        )
    return found


# --- files ---


def grid(
    count: int,
    seed: int,
    folder: Path,
    progress: Callable[[int], None] = lambda _: None,
    ranges: Ranges = USUAL,
) -> Iterator[tuple[Recording, Recording]]:
    """The first `count` recordings of the grid of this seed, each as two probers see it.

    Args:
        count: how many; whole chunks are simulated.
        seed: of the grid.
        folder: in which chunks are kept, and looked for, by the core that simulated them.
        progress: told of how many there are after each chunk.
        ranges: that it is drawn from.

    Raises:
        BadInput: a chunk in the folder is not whole.
        OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for begin in range(0, count, CHUNK):
        # What another simulator made would be another grid.
        kept = folder / f"{_name(ranges)}-{_core.__source__}-{seed}-{begin:06}.npz"
        if not kept.exists():
            numbers = range(begin, begin + CHUNK)
            made = [one for number in numbers for one in setting(seed, number, ranges).simulated()]
            about = {"grid": seed, "begin": begin, "core": _core.__source__}
            save(kept, made, about | {"probing": asdict(PROBING)})
        both = load(kept)
        progress(begin + CHUNK)
        yield from list(zip(both[::2], both[1::2], strict=True))[: count - begin]


def _name(ranges: Ranges) -> str:
    """By which the choices of a grid are seeded, and its files are called."""
    return "grid" if ranges.name == USUAL.name else f"grid-{ranges.name}"
