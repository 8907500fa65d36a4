"""Backgrounds of a kind, on paths drawn at random and simulated: the second question's grid.

Who is on a path is the first question (`studies.training.grid`). The second is what holds them: a
BBR of version 3, marks that DCTCP or Prague follow, losses at random, the application. One setting
follows from the grid's seed and its number alone, and recordings are kept, as in that grid.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from studies.rig.dumbbell import bulk, dumbbell, line
from studies.rig.limited import draw_between
from studies.training.grid import ROUND, USUAL, Ranges, background, draw_path
from studies.training.simulated import Probing, Span, recorded
from weir import Bytes, _core
from weir.congestion.classify.classes import KINDS
from weir.congestion.recordings import NetworkPath, Recording, load, save
from weir.errors import BadInput
from weir.lab.scenario import Bernoulli, Queue
from weir.sim.traffic import SimulatedTraffic

PATHS = replace(USUAL, name="kinds", rates_bps=(50e6, 150e6), skew=2.0)
"""Usual paths that are soon simulated."""
WARMUP_S = (6, 15)
SECONDS = 30
STARTS_S = 3.0
PROBING = Probing(rate_hz=100)
USED = (0.3, 0.85)
"""What streams that losses hold back use of a path, in the mean of their response function."""
LOSS_MAX = 0.05
STEP_NS = (500_000, 10_000_000)
"""A queue that marks by a step does so from such a wait on."""
_STEPS = ("step", "red")
"""Queues that mark everything from some length on."""
CHUNK = 32
"""Settings of a round, and recordings of a file."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What one recording is of.

    Attributes:
        label: of the kind, or of the background where that is of none.
        path: with the queue's discipline.
        queue: the whole queue, where it is not the discipline's own.
        loss: the share of packets that the line loses, either way.
        background: its traffic.
        span: how long it runs before it is seen, and is seen.
        seed: of what the simulator draws.
    """

    label: str
    path: NetworkPath
    background: tuple[SimulatedTraffic, ...]
    span: Span
    seed: int
    queue: Queue | None = None
    loss: float = 0.0

    def simulated(self) -> Recording:
        """What a fast prober sees."""
        path = self.path
        there = line(path.rate_bps, path.rtt_ns, path.buffer_bytes, path.discipline)
        there = replace(there, loss=Bernoulli(self.loss) if self.loss else None)

        def along(traffic: Sequence[SimulatedTraffic]) -> Any:
            return dumbbell(there, traffic, self.seed, queue=self.queue)

        (seen,) = recorded(
            self.label, self.background, path, [PROBING], self.span, self.seed, along
        )
        made = {
            "streams": len(self.background),
            "controls": [str(one.generator) for one in self.background],
            "loss": self.loss,
            "queue": str(self.queue),
        }
        return replace(seen, made=made)


Draw = random.Random
Drawn = Callable[[NetworkPath, Draw], Setting]


def setting(seed: int, number: int, ranges: Ranges = PATHS) -> Setting:
    """The setting of this number in the grid of this seed."""
    draw = Draw(f"{ranges.name} {seed} {number}")
    return _ROUND[number % CHUNK](draw_path(draw, ranges), draw)


def of_kind(label: str, path: NetworkPath, draw: Draw) -> Setting:
    """A background of this kind on a path, whose queue it may change: one of the grid's variants.

    Raises:
        BadInput: there is no such kind.
    """
    if label not in _VARIANTS:
        raise BadInput(f"{label!r} is not a kind; there are {', '.join(_VARIANTS)}")
    return draw.choice(_VARIANTS[label])(path, draw)


def _setting(
    label: str,
    path: NetworkPath,
    draw: Draw,
    background: Sequence[SimulatedTraffic],
    queue: Queue | None = None,
    loss: float = 0.0,
) -> Setting:
    span = Span(draw.randint(*WARMUP_S), SECONDS)
    return Setting(label, path, tuple(background), span, draw.getrandbits(32), queue, loss)


def _streams(controls: Sequence[str], draw: Draw) -> list[SimulatedTraffic]:
    return [
        bulk(f"background {number}", control, draw.uniform(0, STARTS_S))
        for number, control in enumerate(controls)
    ]


def _as_labelled(label: str) -> Drawn:
    """A background of none of the kinds, or `app`."""

    def drawn(path: NetworkPath, draw: Draw) -> Setting:
        kind = "app-limited" if label == "app" else label
        return _setting(kind, path, draw, background(label, path, draw))

    return drawn


def _bbr3(least: int, most: int, others: Sequence[str] = ()) -> Drawn:
    def drawn(path: NetworkPath, draw: Draw) -> Setting:
        controls = ["bbr3"] * draw.randint(least, most)
        if others:
            controls += [draw.choice(others) for _ in range(draw.randint(1, 2))]
        return _setting("bbr3", path, draw, _streams(controls, draw))

    return drawn


def _marked(control: str, label: str, least: int, most: int) -> Drawn:
    def drawn(path: NetworkPath, draw: Draw) -> Setting:
        discipline = draw.choice(("step", "step", "red", "codel", "pie"))
        queue, path = marking(discipline, path, draw)
        as_in = control
        if control == "dctcp":
            as_in = draw.choice(("dctcp", "dctcp:growth-in-cwr=off,whole-segments=on"))
        controls = [as_in] * draw.randint(least, most)
        by_step = label == "marked" and discipline in _STEPS
        held = "marked-step" if by_step else label
        return _setting(held, path, draw, _streams(controls, draw), queue)

    return drawn


def marking(discipline: str, path: NetworkPath, draw: Draw) -> tuple[Queue, NetworkPath]:
    """A queue that marks: by a `step`, or as `codel`, `pie` and `red` do."""
    limit = Bytes.from_count(path.buffer_bytes)
    step_ns = round(draw_between(draw, *STEP_NS))
    if discipline == "step":
        queue = Queue("codel", limit, {"ce_threshold": step_ns})
    elif discipline == "red":
        least = max(6000, round(step_ns / 1e9 * path.rate_bps / 8))
        thresholds = {
            "min_threshold": {"bytes": least},
            "max_threshold": {"bytes": least + 3000},
            "max_probability": 1.0,
            "weight": 1.0,
        }
        queue = Queue("red", limit, thresholds)
    else:
        queue = Queue(discipline, limit)
    return queue, replace(path, discipline=queue.discipline)


def _loss_limited(least: int, most: int) -> Drawn:
    def drawn(path: NetworkPath, draw: Draw) -> Setting:
        path = replace(path, discipline="fifo")
        controls = [
            draw.choice(("cubic", "cubic", "reno")) for _ in range(draw.randint(least, most))
        ]
        used = draw.uniform(*USED)
        loss = loss_for(used, "cubic" if "cubic" in controls else "reno", path, len(controls))
        return _setting("loss-limited", path, draw, _streams(controls, draw), loss=loss)

    return drawn


def loss_for(used: float, control: str, path: NetworkPath, streams: int) -> float:
    """The loss at which so many streams use that share of a path, in the mean (RFC 9438)."""
    rtt_s = path.rtt_ns / 1e9
    window = used * path.rate_bps * rtt_s / 8 / 1500 / streams
    loss = 1.5 / window**2
    if control == "cubic":
        loss = max(loss, rtt_s * (1.054 / window) ** (4 / 3))
    return min(loss, LOSS_MAX)


def _on_a_lossy_line(controls: Sequence[str], label: str) -> Drawn:
    """Streams that a little loss does not hold back."""

    def drawn(path: NetworkPath, draw: Draw) -> Setting:
        path = replace(path, discipline="fifo")
        loss = draw_between(draw, 1e-5, 1e-3)
        return _setting(label, path, draw, _streams(controls, draw), loss=loss)

    return drawn


_NONE: tuple[Drawn, ...] = (
    *(_as_labelled(label) for label in dict.fromkeys(ROUND) if label != "app"),
    _as_labelled("udp"),
    _on_a_lossy_line(("bbr",), "B1-C0"),
    _marked("cubic:ecn=on", "B0-C1", 1, 1),
    _marked("reno:ecn=on", "R1", 1, 1),
    _as_labelled("B0-C0"),
)
_VARIANTS: dict[str, tuple[Drawn, ...]] = {
    "bbr3": (
        _bbr3(1, 1),
        _bbr3(1, 1),
        _bbr3(2, 4),
        _bbr3(1, 1, ("cubic", "reno")),
        _bbr3(1, 2, ("cubic", "reno")),
    ),
    "marked": (
        _marked("dctcp", "marked", 1, 1),
        _marked("dctcp", "marked", 2, 4),
        _marked("prague", "marked", 1, 1),
        _marked("prague", "marked", 2, 4),
    ),
    "loss-limited": (
        _loss_limited(1, 1),
        _loss_limited(2, 8),
    ),
    "app-limited": (_as_labelled("app"),) * 4,
}
_ROUND = (*_NONE, *(drawn for variants in _VARIANTS.values() for drawn in variants))
"""A grid goes through these again and again: half are of none of the kinds."""

HELD = ("bbr3", "marked", "marked-step", "loss-limited", "app-limited")
"""The labels of all that this grid has beside backgrounds."""
KIND_OF = {kind.label: number for number, kind in enumerate(KINDS, 1)}
"""The number of each kind's label, and of the background that is one; 0 is none."""
KIND_OF["app"] = KIND_OF["app-limited"]


def grid(
    count: int,
    seed: int,
    folder: Path,
    progress: Callable[[int], None] = lambda _: None,
    ranges: Ranges = PATHS,
) -> Iterator[Recording]:
    """The first `count` recordings of the grid of this seed.

    Args:
        count: how many; whole chunks are simulated.
        seed: of the grid.
        folder: in which chunks are kept, and looked for, by the core that simulated them.
        progress: told of how many there are after each chunk.
        ranges: that paths are drawn from.

    Raises:
        BadInput: a chunk in the folder is not whole.
        OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for begin in range(0, count, CHUNK):
        # What another simulator made would be another grid.
        kept = folder / f"{ranges.name}-{_core.__source__}-{seed}-{begin:06}.npz"
        if not kept.exists():
            made = [
                setting(seed, number, ranges).simulated() for number in range(begin, begin + CHUNK)
            ]
            save(kept, made, {"grid": seed, "begin": begin, "core": _core.__source__})
        progress(begin + CHUNK)
        yield from load(kept)[: count - begin]
