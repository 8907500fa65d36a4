"""Backgrounds on many paths, drawn at random and simulated: what Weir's recogniser learns from.

Every recording has a path of its own, drawn from the ranges below, so that recordings divided by
path are simply divided. One setting follows from the grid's seed and its number alone: a grid that
is made larger begins with the smaller one, and what was simulated is kept.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
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
    SIX_LABELS,
    greedy_controls,
)
from weir.congestion.recordings import NetworkPath, Recording, load, save
from weir.errors import BadInput
from weir.sim.traffic import Generator, Messages, SimulatedTraffic, Tcp, Udp, Web

RATES_BPS = (50e6, 1000e6)
RTTS_S = (0.010, 0.200)
BUFFERS_BDP = (0.5, 4.0)
"""Between these, each uniform on a logarithmic scale."""
IDLE_RTTS_S = (0.002, 0.5)
"""Round-trip times of empty paths beside the grid."""
DISCIPLINES = {"fifo": 0.76, "codel": 0.08, "pie": 0.08, "dual-pi2": 0.08}
"""How often each is drawn. Nobody negotiates ECN."""
IN_FLIGHT_MAX = 48_000_000
"""Bytes; a path that holds more gets a smaller buffer: hosts' windows end at 64 MiB."""
WARMUP_S = (8, 30)
SECONDS = 40
STARTS_S = 5.0
"""Streams of a background start within as long."""
PROBING = Probing(rate_hz=100)
"""Faster than the recogniser asks, which takes every fifth."""
ROUND = (*SIX_LABELS, *SIX_LABELS, *(further.label for further in FURTHER))
"""A grid goes through these again and again: the work's classes are twice as frequent."""
CHUNK = 2 * len(ROUND)
"""Recordings of a file."""


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
        return seen(
            self.label,
            self.background,
            self.path,
            (PROBING, WORKS_PROBING),
            self.span,
            self.seed,
        )


def setting(seed: int, number: int) -> Setting:
    """The setting of this number in the grid of this seed."""
    draw = random.Random(f"grid {seed} {number}")
    label = ROUND[number % len(ROUND)]
    path = draw_path(draw)
    return Setting(
        label=label,
        path=path,
        background=background(label, path, draw),
        span=Span(draw.randint(*WARMUP_S), SECONDS),
        seed=draw.getrandbits(32),
    )


def draw_path(draw: random.Random) -> NetworkPath:
    """A path within the ranges."""
    rate_bps, rtt_s = draw_between(draw, *RATES_BPS), draw_between(draw, *RTTS_S)
    bdp = rate_bps * rtt_s / 8
    (discipline,) = draw.choices(list(DISCIPLINES), list(DISCIPLINES.values()))
    return NetworkPath(
        rate_bps=round(rate_bps),
        rtt_ns=round(rtt_s * 1e9),
        buffer_bytes=round(min(draw_between(draw, *BUFFERS_BDP) * bdp, IN_FLIGHT_MAX - bdp)),
        discipline=discipline,
    )


def background(label: str, path: NetworkPath, draw: random.Random) -> tuple[SimulatedTraffic, ...]:
    """Traffic of this label; how much and when is drawn.

    Raises:
        BadInput: there is no such label.
    """
    controls = greedy_controls(label, draw)
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
    count: int, seed: int, folder: Path, progress: Callable[[int], None] = lambda _: None
) -> Iterator[tuple[Recording, Recording]]:
    """The first `count` recordings of the grid of this seed, each as two probers see it.

    Args:
        count: how many; whole chunks are simulated.
        seed: of the grid.
        folder: in which chunks are kept, and looked for, by the core that simulated them.
        progress: told of how many there are after each chunk.

    Raises:
        BadInput: a chunk in the folder is not whole.
        OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for begin in range(0, count, CHUNK):
        # What another simulator made would be another grid.
        kept = folder / f"grid-{_core.__source__}-{seed}-{begin:06}.npz"
        if not kept.exists():
            numbers = range(begin, begin + CHUNK)
            made = [one for number in numbers for one in setting(seed, number).simulated()]
            about = {"grid": seed, "begin": begin, "core": _core.__source__}
            save(kept, made, about | {"probing": asdict(PROBING)})
        both = load(kept)
        progress(begin + CHUNK)
        yield from list(zip(both[::2], both[1::2], strict=True))[: count - begin]
