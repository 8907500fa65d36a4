"""Backgrounds by their labels: the streams that the lab starts, of the kernel's own controls.

Beside the work's six classes there are those with more streams, with Reno, of an application that
limits its TCP, and of UDP. Where a label leaves something open it is drawn. Streams may also be
counted: `16 cubic, 1 bbr`.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from studies.rig.limited import (
    draw_control,
    draw_load_bps,
    draw_message_bytes,
    draw_square_wave,
)
from weir.congestion.classify.classes import ALL_LABELS, greedy_controls
from weir.congestion.recordings import NetworkPath
from weir.errors import BadInput

_STARTS_NS = 10**9  # within which streams start
_COUNTED = re.compile(r"\d+ [a-z]+(, \d+ [a-z]+)*")


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
        """What a person calls it, such as `cubic` or `udp`."""
        return self.congestion or self.kind


def background(label: str, path: NetworkPath, seed: int) -> list[Stream]:
    """The streams of this label.

    Args:
        label: one of `ALL_LABELS`, or how many streams of which controls, as `2 cubic, 1 bbr`.
        path: whose rate those that are not greedy are a share of.
        seed: of when they start and of what the label leaves open.

    Raises:
        BadInput: there is no such label.
    """
    draw = random.Random(f"background {label} {seed}")
    controls = _counted(label) if _COUNTED.fullmatch(label) else greedy_controls(label, draw)
    if controls is not None:
        return [Stream("iperf3", draw.randrange(_STARTS_NS), control) for control in controls]
    if label in _LIMITED:
        return [_LIMITED[label](path, draw)]
    raise BadInput(f"{label!r} is not a background; there are {', '.join(ALL_LABELS)}")


def _counted(label: str) -> list[str]:
    pairs = [words.split() for words in label.split(", ")]
    return [control for count, control in pairs for _ in range(int(count))]


def _messages(path: NetworkPath, draw: random.Random) -> Stream:
    load_bps, size = draw_load_bps(path, draw), round(draw_message_bytes(draw))
    interval_ns = round(size * 8 / load_bps * 1e9)
    keys = (("size", f"{size} B"), ("interval", f"{interval_ns} ns"))
    control = draw_control(draw)
    return Stream("messages", draw.randrange(_STARTS_NS), control, keys)


def _datagrams(path: NetworkPath, draw: random.Random) -> Stream:
    wave = draw_square_wave(path, draw)
    keys = (
        ("rate", f"{wave.rate_bps} bit/s"),
        ("on", f"{wave.on_ns} ns"),
        ("off", f"{wave.off_ns} ns"),
    )
    return Stream("udp", draw.randrange(_STARTS_NS), keys=keys)


_LIMITED: dict[str, Callable[[NetworkPath, random.Random], Stream]] = {
    "app": _messages,
    "udp": _datagrams,
}
