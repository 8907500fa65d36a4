"""What a probing looks like in a terminal: the last minute as a curve, and the figures of now."""

import threading
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from weir.format import mbit_s
from weir.probe.sample import Sample

WINDOW_NS = 60_000_000_000
_HEIGHT = 8
_LABEL = 12  # letters of the scale
_REFRESHES_PER_S = 4
_BLANK = 0x2800
# The bit of each dot of a braille letter (Unicode chapter 21): [column][row from the top].
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


class LastMinute:
    """Shows samples in place; a thread draws, so that adding one takes no time.

    Args:
        title: over the curve.
        console: the terminal.
    """

    def __init__(self, title: str, console: Console) -> None:
        self._title = title
        self._samples: deque[Sample] = deque()
        self._lock = threading.Lock()
        self._live = Live(
            console=console,
            get_renderable=self._page,
            refresh_per_second=_REFRESHES_PER_S,
            transient=True,
        )
        self._width = max(20, console.width - _LABEL)

    def add(self, sample: Sample) -> None:
        """Takes a sample in."""
        with self._lock:
            self._samples.append(sample)
            while sample.at_ns - self._samples[0].at_ns > WINDOW_NS:
                self._samples.popleft()

    def _page(self) -> RenderableType:
        with self._lock:
            samples = list(self._samples)
        if not samples:
            return Text(f"{self._title}: waiting for the first reply")
        return Group(Text(self._title), *map(Text, page(samples, self._width, _HEIGHT)))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()


def page(samples: Sequence[Sample], width: int, height: int) -> list[str]:
    """The curve of the samples' RTTs with its scale, and a line about the latest."""
    end = samples[-1].at_ns
    points = [
        ((sample.at_ns - end + WINDOW_NS) / WINDOW_NS, sample.rtt_ns)
        for sample in samples
        if sample.rtt_ns is not None
    ]
    values = [value for _, value in points]
    low, high = min(values, default=0.0), max(values, default=0.0)
    lines = curve(points, low, high, width, height)
    labels = [f"{high / 1e6:9.3f} ms", *[" " * _LABEL] * (height - 2), f"{low / 1e6:9.3f} ms"]
    drawn = [label + line for label, line in zip(labels, lines, strict=True)]
    return [*drawn, latest(samples[-1], sum(sample.lost for sample in samples))]


def curve(
    points: Sequence[tuple[float, float]], low: float, high: float, width: int, height: int
) -> list[str]:
    """Points as braille dots, two columns and four rows a letter.

    Args:
        points: (x from 0 to 1, y from `low` to `high`).
        low: y of the lowest dot.
        high: y of the highest dot; a flat curve lies at the bottom.
        width: in letters.
        height: in letters.
    """
    letters = [[_BLANK] * width for _ in range(height)]
    for x, y in points:
        share = (y - low) / (high - low) if high > low else 0.0
        column = min(int(x * 2 * width), 2 * width - 1)
        row = round((1 - share) * (4 * height - 1))
        letters[row // 4][column // 2] |= _DOTS[column % 2][row % 4]
    return ["".join(map(chr, line)) for line in letters]


def latest(sample: Sample, lost: int) -> str:
    """A sample in words; `lost` requests in the window."""
    rtt = sample.rtt_ns
    words = ["no reply" if rtt is None else f"RTT {rtt / 1e6:.3f} ms"]
    if sample.held and rtt is not None:
        words[0] += " (no reply: as before)"
    words.append(f"{lost} lost in the last minute")
    if sample.segment:
        words.append(sample.segment)
    if tcp := sample.tcp:
        if tcp.delivery_rate_bps is not None:
            words.append(f"delivers {mbit_s(tcp.delivery_rate_bps)}")
        words.append(f"cwnd {tcp.cwnd_packets}")
    return "  ".join(words)
