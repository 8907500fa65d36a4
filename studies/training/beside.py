"""Runs beside a stream of our own, on paths drawn at random: what listening there learns from.

Our stream is one of CUBIC or of BBR. Others are there throughout, come, go, or take each other's
place, so that windows which hold a change are learned from, too. A prober asks 20 times a second,
and as often the connection's own counters are read: what it has had acknowledged, and its window.
One run follows from the seed, the series and its number alone, and what was simulated is kept.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from studies.rig.dumbbell import bulk, traffic
from studies.rig.limited import draw_between
from studies.training.grid import background
from studies.training.simulated import along
from weir import Time, _core, files
from weir.congestion.classify.features import Values
from weir.congestion.recordings import NetworkPath
from weir.lab.scenario import Bernoulli
from weir.sim.core import simulated
from weir.sim.traffic import Bulk, Echo, SimulatedTraffic, Tcp

RATE_HZ = 20
OWN = ("cubic", "bbr")
"""The control of our stream, in turns."""
RATES_BPS = (40e6, 200e6)
RTTS_S = (0.008, 0.150)
BUFFERS_BDP = (0.5, 4.0)
DISCIPLINES = {"fifo": 0.88, "codel": 0.04, "pie": 0.04, "dual-pi2": 0.04}
CROWDED_RATES_BPS = (20e6, 500e6)
"""Paths that many share have such rates."""
CHUNK = 20
"""Runs of a file."""
SERIES = ("", "turned", "crowded")
"""What runs are drawn for: streams that had one control throughout, that had another one before,
or, of either kind, beside many others."""
_WITHOUT_BBR: tuple[tuple[float, tuple[str, ...]], ...] = (
    (14, ()),
    (22, ("cubic",)),
    (13, ("cubic", "cubic")),
    (5, ("cubic",) * 4),
    (4, ("cubic",) * 8),
    (3, ("cubic",) * 16),
    (2, ("cubic",) * 40),
    (10, ("reno",)),
    (5, ("reno", "cubic")),
    (3, ("reno", "reno")),
    (3, ("reno", "cubic", "cubic")),
    (4, ("udp",)),
    (4, ("app",)),
)
"""Others without BBR, each with its weight."""
_WITH_BBR: tuple[tuple[float, tuple[str, ...]], ...] = (
    (28, ("bbr",)),
    (9, ("bbr", "bbr")),
    (4, ("bbr",) * 4),
    (14, ("bbr", "cubic")),
    (7, ("bbr", "cubic", "cubic")),
    (5, ("bbr", "bbr", "cubic")),
    (5, ("bbr", "reno")),
    (3, ("bbr",) * 2 + ("cubic",) * 2),
    (3, ("bbr",) * 4 + ("cubic",) * 4),
    (2, ("bbr",) * 8 + ("cubic",) * 8),
)
_CROWDS: tuple[tuple[float, tuple[str, ...]], ...] = (
    (8, ("cubic",) * 8),
    (8, ("cubic",) * 12),
    (14, ("cubic",) * 16),
    (8, ("cubic",) * 24),
    (10, ("cubic",) * 32),
    (8, ("cubic",) * 64),
    (5, ("reno",) * 8),
    (5, ("reno",) * 16),
    (3, ("reno",) * 32),
    (5, ("reno",) * 8 + ("cubic",) * 8),
    (3, ("cubic",) * 4),
    (2, ()),
)
"""Many others without BBR."""
_CROWDS_WITH_BBR: tuple[tuple[float, tuple[str, ...]], ...] = (
    (6, ("bbr",) + ("cubic",) * 4),
    (6, ("bbr",) + ("cubic",) * 8),
    (8, ("bbr",) + ("cubic",) * 16),
    (6, ("bbr",) * 2 + ("cubic",) * 16),
    (5, ("bbr",) * 4 + ("cubic",) * 32),
    (5, ("bbr",) * 4 + ("cubic",) * 8),
    (4, ("bbr",) * 8),
    (4, ("bbr",) * 16),
    (3, ("bbr",) * 32),
    (4, ("bbr",) * 8 + ("cubic",) * 8),
    (3, ("bbr",) * 16 + ("cubic",) * 16),
)
_COMERS: tuple[tuple[float, tuple[str, ...]], ...] = (
    (4, ("bbr",)),
    (2, ("bbr",) * 2),
    (2, ("bbr",) * 4),
    (3, ("cubic",)),
    (2, ("cubic",) * 4),
    (2, ("cubic",) * 16),
    (1, ("reno",) * 2),
)
"""Who joins or leaves many others."""
_CROWDED_BBR = 0.4  # of the crowds have BBR among them
_CROWDED_TURNED = 0.4  # of the runs beside many others
_LOSES = 0.3  # of the paths that many share lose packets at random,
_LOSS = (3e-5, 3e-4)  # so many of them
_STARTS_S = 5.0  # who is there from the beginning starts within as long, as our stream does
_TURN_S = (18.0, 30.0)
_AFTER_S = 16
_STEADY_S = 36
_HEARS_S = (1.0, 7.0)  # so long after its beginning it is known who is there
_HOLDS_S = (1.5, 6.0)  # so long an entry is under BBR,
_SETTLES_S = (2.0, 20.0)  # and so long paced under CUBIC after that,
_PACE = (0.7, 1.2)  # at so much of an equal share
_COUNTED_MOST = 8  # others are counted when it enters
_LATE_S = 3.0  # so much later than others go may their successors come


@dataclass(frozen=True, slots=True)
class Other:
    """Streams of one control, or other traffic, from one second to another."""

    kind: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Setting:
    """What one run is of.

    Attributes:
        own: the control of our stream.
        own_s: when it begins.
        path: which all share.
        others: who else is there, and when.
        seconds: how long it lasts.
        seed: of every random choice in the simulation.
        turns: of our stream, which had another control before: seconds since it began, the control,
            and bit/s that it sends at most, None for unpaced.
        loss: the share of packets that the path loses at random.
    """

    own: str
    own_s: float
    path: NetworkPath
    others: tuple[Other, ...]
    seconds: int
    seed: int
    turns: tuple[tuple[float, str, float | None], ...] = ()
    loss: float = 0.0

    @property
    def chosen_s(self) -> float:
        """Since when our stream has the control that it is called by."""
        own = [at_s for at_s, control, _ in self.turns if control == self.own]
        return self.own_s + (own[0] if own else 0.0)

    def has_just_changed(self, at_s: float, within_s: float) -> bool:
        """Whether others came or went so shortly before."""
        edges = [edge for one in self.others for edge in (one.begin_s, one.end_s)]
        return any(0 <= at_s - edge < within_s for edge in edges)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What our side sees, 20 times a second.

    Attributes:
        setting: of which it is.
        rtt_ms: of each sample, as simulated; NaN without a reply.
        acked: payload of our stream that was acknowledged, by when the reply came.
        window: its congestion window then, in bytes.
    """

    setting: Setting
    rtt_ms: Values
    acked: Values
    window: Values

    def there(self, at_s: float) -> int:
        """Nobody (0), others without BBR (1), or BBR among them (2), at some second."""
        there = [one.kind for one in self.setting.others if one.begin_s <= at_s < one.end_s]
        return 2 if "bbr" in there else 1 if there else 0


def setting(seed: int, number: int, series: str = "") -> Setting:
    """The setting of this number in one of the `SERIES` under this seed.

    Where it is turned our stream had another control before: BBR is taken after CUBIC, and CUBIC
    after BBR by a stream that enters (`weir.congestion.cycle.entering`).
    """
    if series == "crowded":
        return _crowded(seed, number)
    made = _setting(f"beside {series} {seed}" if series else f"beside {seed}", number)
    return _turned(made, random.Random(f"turns {seed} {number}")) if series else made


def _turned(made: Setting, draw: random.Random) -> Setting:
    heard_s = draw.uniform(*_HEARS_S)
    if made.own == "bbr":
        return replace(made, turns=((heard_s, "bbr", None),))
    entered_s = heard_s + draw.uniform(*_HOLDS_S)
    first = sum(not one.begin_s > _STARTS_S for one in made.others)
    pace_bps = made.path.rate_bps / (1 + min(first, _COUNTED_MOST)) * draw.uniform(*_PACE)
    free_s = entered_s + draw.uniform(*_SETTLES_S)
    turns = (heard_s, "bbr", None), (entered_s, "cubic", pace_bps), (free_s, "cubic", None)
    return replace(made, turns=turns)


def _setting(grid: str, number: int) -> Setting:
    draw = random.Random(f"{grid} {number}")
    own = OWN[number % len(OWN)]
    path = _path(draw)
    shape = draw.choices(("steady", "turn", "join", "leave"), (30, 46, 12, 12))[0]
    turn_s = round(draw.uniform(*_TURN_S), 2)
    end_s = _STEADY_S if shape == "steady" else math.ceil(turn_s) + _AFTER_S
    first = _made(draw, (0.7 if shape == "turn" else 0.5) if own == "bbr" else 0.3)
    if shape == "steady":
        first = _made(draw, 0.45)
        others = _during(draw, first, 0.0, end_s)
    elif shape == "turn":
        later_s = turn_s + (draw.uniform(0, _LATE_S) if draw.random() < 0.3 else 0.0)
        then = _made(draw, 0.5)
        others = _during(draw, first, 0.0, turn_s) + _during(draw, then, later_s, end_s)
    else:
        alone = _made(draw, 0.5)
        from_s, to_s = (turn_s, end_s) if shape == "join" else (0.0, turn_s)
        others = _during(draw, first, 0.0, end_s) + _during(draw, alone, from_s, to_s)
    return Setting(
        own=own,
        own_s=round(draw.uniform(0, _STARTS_S), 2),
        path=path,
        others=others,
        seconds=end_s,
        seed=draw.getrandbits(32),
    )


def _crowded(seed: int, number: int) -> Setting:
    """Many others: all of them from the beginning, or others of theirs, or less or more of them."""
    draw = random.Random(f"beside crowded {seed} {number}")
    path = _path(draw, CROWDED_RATES_BPS)
    shape = draw.choices(("steady", "turn", "join", "leave"), (50, 14, 20, 16))[0]
    turn_s = round(draw.uniform(*_TURN_S), 2)
    end_s = _STEADY_S if shape == "steady" else math.ceil(turn_s) + _AFTER_S
    crowd = _drawn(draw, _CROWDS_WITH_BBR if draw.random() < _CROWDED_BBR else _CROWDS)
    if shape == "steady":
        others = _during(draw, crowd, 0.0, end_s)
    elif shape == "turn":
        then = _made(draw, 0.5)
        first, second = (crowd, then) if draw.random() < 0.5 else (then, crowd)
        others = _during(draw, first, 0.0, turn_s) + _during(draw, second, turn_s, end_s)
    else:
        comers = _drawn(draw, _COMERS)
        from_s, to_s = (turn_s, end_s) if shape == "join" else (0.0, turn_s)
        others = _during(draw, crowd, 0.0, end_s) + _during(draw, comers, from_s, to_s)
    made = Setting(
        own=OWN[number % len(OWN)],
        own_s=round(draw.uniform(0, _STARTS_S), 2),
        path=path,
        others=others,
        seconds=end_s,
        seed=draw.getrandbits(32),
        loss=draw_between(draw, *_LOSS) if draw.random() < _LOSES else 0.0,
    )
    return _turned(made, draw) if draw.random() < _CROWDED_TURNED else made


def _path(draw: random.Random, rates_bps: tuple[float, float] = RATES_BPS) -> NetworkPath:
    rate_bps, rtt_s = draw_between(draw, *rates_bps), draw_between(draw, *RTTS_S)
    (discipline,) = draw.choices(list(DISCIPLINES), list(DISCIPLINES.values()))
    queue = draw_between(draw, *BUFFERS_BDP) * rate_bps * rtt_s / 8
    return NetworkPath(round(rate_bps), round(rtt_s * 1e9), round(queue), discipline)


def _made(draw: random.Random, bbr: float) -> tuple[str, ...]:
    """Who is there, with BBR as likely as that."""
    return _drawn(draw, _WITH_BBR if draw.random() < bbr else _WITHOUT_BBR)


def _drawn(draw: random.Random, ways: Sequence[tuple[float, tuple[str, ...]]]) -> tuple[str, ...]:
    return draw.choices([made for _, made in ways], [weight for weight, _ in ways])[0]


def _during(
    draw: random.Random, made: Sequence[str], begin_s: float, end_s: float
) -> tuple[Other, ...]:
    starts = [begin_s or draw.uniform(0, _STARTS_S) for _ in made]
    return tuple(
        Other(kind, round(start, 2), end_s) for kind, start in zip(made, starts, strict=True)
    )


def run(made: Setting) -> Run:
    """Simulates it.

    Raises:
        BadInput: the simulator refuses it.
    """
    draw = random.Random(made.seed)
    flows = [_own(made)]
    for number, one in enumerate(made.others):
        flows.append(_flow(str(number), one, made.path, draw))
    flows.append(traffic("probe", Echo(10**9 // RATE_HZ, 1, 1_000_000), 0, made.seconds))
    full_s = made.path.full_ms / 1e3 + made.path.rtt_ns / 1e9
    end = Time(f"{made.seconds + math.ceil(full_s)} s")
    scenario = along(made.path, flows, made.seed % 2**31)
    if made.loss:
        (link,) = scenario.links
        lossy = replace(link.forward, loss=Bernoulli(made.loss))
        scenario = replace(scenario, links=(replace(link, forward=lossy),))
    found = simulated(scenario, end, sample=Time(f"{1000 // RATE_HZ} ms"), trace=True)
    return Run(made, *seen(found, ["own"], made.seconds))


def _own(made: Setting) -> SimulatedTraffic:
    if not made.turns:
        return bulk("own", made.own, made.own_s)
    turns = [
        (round(at_s * 1e9), control, None if pace_bps is None else round(pace_bps))
        for at_s, control, pace_bps in made.turns
    ]
    # A mover's socket is never without data, and its window stays as it is while it is paced.
    return traffic("own", Bulk(Tcp("cubic:cwv=none", turns=turns)), made.own_s)


def _flow(name: str, one: Other, path: NetworkPath, draw: random.Random) -> SimulatedTraffic:
    if one.kind not in ("udp", "app"):
        return bulk(name, one.kind, one.begin_s, one.end_s)
    (drawn,) = background(one.kind, path, draw)
    start, stop = (Time.from_ns(round(at_s * 1e9)) for at_s in (one.begin_s, one.end_s))
    return replace(drawn, name=name, start=start, stop=stop)


def seen(
    found: dict[str, Any], own: Collection[str], seconds: int
) -> tuple[Values, Values, Values]:
    """What our side sees of a simulation, 20 times a second.

    Args:
        found: by the simulator, whose last flow is the prober and which looked as often.
        own: names of our streams, whose counters are added up.
        seconds: for so long.

    Returns:
        Round-trip times in ms; bytes acknowledged, and of the windows, by when the reply came.
    """
    echoes = found["flows"][-1]["echoes"][: seconds * RATE_HZ]
    rtt_ms = np.array([one["rtt_ns"] / 1e6 if one["replies"] else math.nan for one in echoes])
    counts: dict[int, Values] = defaultdict(lambda: np.zeros(2))
    for line in found["traces"]["connections"].splitlines()[1:]:
        time_ns, name, _, window, _, _, acked = line.split(",")
        if name in own:
            counts[int(time_ns)] += (float(acked), float(window))
    came_s = np.arange(len(rtt_ms)) / RATE_HZ + np.nan_to_num(rtt_ms, nan=0.0) / 1e3
    looks_s = np.array(list(counts)) / 1e9
    places = np.searchsorted(looks_s, np.maximum.accumulate(came_s), "right") - 1
    every = np.array([np.zeros(2), *counts.values()])  # nothing before the first look
    taken = every[places + 1]
    return rtt_ms, taken[:, 0], taken[:, 1]


def runs(
    numbers: range,
    seed: int,
    folder: Path,
    progress: Callable[[int], None] = lambda _: None,
    series: str = "",
) -> Iterator[Run]:
    """The runs of these numbers under this seed; whole files are simulated.

    Args:
        numbers: from a multiple of `CHUNK` on.
        seed: of all that is drawn.
        folder: in which files are kept, and looked for, by the core that simulated them.
        progress: told of how many there are after each file.
        series: of `SERIES`.

    Raises:
        OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = "-".join(filter(None, ("beside", series, _core.__source__)))
    for begin in range(numbers.start, numbers.stop, CHUNK):
        kept = folder / f"{name}-{seed}-{begin:06}.npz"
        settings = [setting(seed, number, series) for number in range(begin, begin + CHUNK)]
        if not kept.exists():
            made = [run(one) for one in settings]
            held = np.concatenate(
                [np.stack([one.rtt_ms, one.acked, one.window]) for one in made], 1
            )
            with files.whole(kept) as partial, partial.open("wb") as file:
                np.savez_compressed(file, seen=held)
        with kept.open("rb") as source, np.load(source, allow_pickle=False) as archive:
            held = archive["seen"]
        progress(begin + CHUNK)
        lengths = np.cumsum([one.seconds * RATE_HZ for one in settings])[:-1]
        parts = np.split(held, lengths, axis=1)
        yield from [Run(one, *part) for one, part in zip(settings, parts, strict=True)][
            : numbers.stop - begin
        ]
