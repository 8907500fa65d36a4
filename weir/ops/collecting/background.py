"""Backgrounds by their labels: the streams that the lab starts, of the kernel's own controls.

Beside the work's six classes there are those with more streams, with Reno, of an application that
limits its TCP, and of UDP. Where a label leaves something open it is drawn.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weir.errors import BadInput
from weir.ops.recognition.classes import CLASSES
from weir.ops.recordings import Path

_STARTS_NS = 10**9  # within which streams start


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream of a background: a `[[traffic]]` of the lab's scenario.

    Attributes:
        kind: `iperf3`, which is greedy, `messages`, which its application limits, or `udp`.
        start_ns: from the moment the lab is up.
        congestion: of TCP; None for UDP.
        keys: the others of the kind, as the scenario has them.
    """

    kind: str
    start_ns: int
    congestion: str | None = None
    keys: tuple[tuple[str, str], ...] = ()

    @property
    def is_greedy(self) -> bool:
        """Whether it takes what it gets."""
        return self.kind == "iperf3"

    def __str__(self) -> str:
        """Such as `cubic` or `udp`."""
        return self.congestion or self.kind


Controls: TypeAlias = Callable[[random.Random], Sequence[str]]
"""The congestion controls of greedy streams."""
Streams: TypeAlias = Callable[[Path, random.Random], list[Stream]]


def background(label: str, path: Path, seed: int) -> list[Stream]:
    """The streams of this label.

    Args:
        label: one of `LABELS`.
        path: whose rate those that are not greedy are a share of.
        seed: of when they start and of what the label leaves open.

    Raises:
        BadInput: there is no such label.
    """
    if label not in _STREAMS:
        raise BadInput(f"{label!r} is no background; there are {', '.join(LABELS)}")
    return _STREAMS[label](path, random.Random(f"background {label} {seed}"))


def _greedy(controls: Sequence[str], draw: random.Random) -> list[Stream]:
    return [Stream("iperf3", draw.randrange(_STARTS_NS), control) for control in controls]


def _two_with_reno(draw: random.Random) -> list[str]:
    return ["reno", draw.choice(("reno", "cubic"))]


def _many_of_loss(draw: random.Random) -> list[str]:
    return [draw.choice(("cubic", "cubic", "reno")) for _ in range(draw.randint(3, 8))]


def _many_of_bbr(draw: random.Random) -> list[str]:
    return ["bbr"] * draw.randint(3, 8)


def _both(draw: random.Random) -> list[str]:
    many = draw.choice((2, 3, 3, 4, 4, 5, 6, 8))
    if many == 2:  # BBR and CUBIC is the work's B1-C1
        return ["bbr", "reno"]
    bbr = draw.randint(1, many - 1)
    return ["bbr"] * bbr + [draw.choice(("cubic", "cubic", "reno")) for _ in range(many - bbr)]


def _messages(path: Path, draw: random.Random) -> list[Stream]:
    """Messages that take a fifth to seven tenths of the link in the mean."""
    load_bps = draw.uniform(0.2, 0.7) * path.rate_bps
    size = round(_between(draw, 2e5, 3e6))
    interval_ns = round(size * 8 / load_bps * 1e9)
    keys = (("size", f"{size} B"), ("interval", f"{interval_ns} ns"))
    control = draw.choice(("cubic", "cubic", "bbr"))
    return [Stream("messages", draw.randrange(_STARTS_NS), control, keys)]


def _datagrams(path: Path, draw: random.Random) -> list[Stream]:
    """A square wave above the link's rate; below it, UDP leaves no queue for a prober to see."""
    rate_bps = round(path.rate_bps * draw.uniform(1.05, 2.0))
    on_ns, off_ns = (round(_between(draw, 0.2, 3.0) * 1e9) for _ in range(2))
    keys = (("rate", f"{rate_bps} bit/s"), ("on", f"{on_ns} ns"), ("off", f"{off_ns} ns"))
    return [Stream("udp", draw.randrange(_STARTS_NS), keys=keys)]


def _between(draw: random.Random, least: float, most: float) -> float:
    """Uniform on a logarithmic scale."""
    return math.exp(draw.uniform(math.log(least), math.log(most)))


def _of(controls: Controls) -> Streams:
    return lambda _, draw: _greedy(controls(draw), draw)


def _always(controls: Sequence[str]) -> Controls:
    return lambda _: controls


_STREAMS: dict[str, Streams] = {
    **{mixture.label: _of(_always(mixture.controls)) for mixture in CLASSES},
    "R1": _of(_always(["reno"])),
    "R2": _of(_two_with_reno),
    "Cn": _of(_many_of_loss),
    "Bn": _of(_many_of_bbr),
    "Bn-Cn": _of(_both),
    "app": _messages,
    "udp": _datagrams,
}

LABELS = tuple(_STREAMS)
"""Every background, the work's six classes first."""
