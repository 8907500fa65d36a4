"""How well others are heard beside a stream of our own, on simulated paths.

Beside our stream another runs, which after a minute is one of another control (what is to be
heard, how late is it?), stays, or gets a second one of its kind for company (nothing is to be
heard). `weir ops assess-beside` prints the table: runs of each case on each path, with different
seeds; with `--begin` what is chosen for a stream that begins beside streams of CUBIC alone, on
paths most of which are unlike those that were learned; with `--several` whether BBR is heard beside
several streams of ours; with `--turns` how late changes are followed on paths drawn at random.
"""

import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from studies.rig.dumbbell import bulk, traffic
from studies.rig.limited import draw_between
from studies.training.beside import RATE_HZ, seen
from studies.training.host_noise import through_hosts
from studies.training.interaction import CONTROLS
from studies.training.simulated import along
from weir import Time
from weir.congestion.choice import Choice, Wanted, choose
from weir.congestion.choice.decide import Recognised
from weir.congestion.classify.beside import Count
from weir.congestion.cycle.learning import Learning
from weir.congestion.cycle.monitor import Ear, Listener
from weir.congestion.recordings import NetworkPath
from weir.probe.sample import Sample
from weir.sim.core import simulated
from weir.sim.traffic import Echo

PATHS = (
    "100 Mbit/s, 30 ms, 1 BDP",
    "100 Mbit/s, 30 ms, 2 BDP",
    "50 Mbit/s, 25 ms, 1 BDP",
    "150 Mbit/s, 80 ms, 1.5 BDP",
    "500 Mbit/s, 65 ms, 6 MiB",
)
BEGIN_PATHS = (
    "100 Mbit/s, 30 ms, 1 BDP",
    "100 Mbit/s, 4 ms, 2 BDP",
    "50 Mbit/s, 2 ms, 4 BDP",
    "100 Mbit/s, 30 ms, 10 BDP",
)
CUBICS = (1, 16, 40)
OURS = (1, 2, 4, 8)
BESIDE_OURS = ((), ("cubic",), ("cubic",) * 4, ("bbr",), ("bbr", "cubic"), ("bbr", "bbr"))
"""Who is there beside so many of ours."""
_ASKED_S = 26
_KEPT_S = 20.0
TURN_S = 60
CHANGES: Mapping[tuple[str, str, str], bool] = {
    ("cubic", "one CUBIC", "one BBR"): True,
    ("cubic", "two CUBIC", "one BBR"): True,
    ("cubic", "one Reno", "one BBR"): True,
    ("cubic", "nobody", "one BBR"): True,
    ("cubic", "one CUBIC", "one of each"): True,
    ("bbr", "one BBR", "one CUBIC"): True,
    ("cubic", "one CUBIC", "one CUBIC"): False,
    ("cubic", "one CUBIC", "another CUBIC"): False,
    ("cubic", "one CUBIC", "two CUBIC"): False,
    ("cubic", "two CUBIC", "one CUBIC"): False,
    ("cubic", "two CUBIC", "another CUBIC"): False,
    ("cubic", "one Reno", "another CUBIC"): False,
    ("cubic", "nobody", "one CUBIC"): False,
    ("bbr", "one BBR", "one BBR"): False,
    ("bbr", "one BBR", "another BBR"): False,
    ("bbr", "one BBR", "two BBR"): False,
    ("bbr", "two BBR", "one BBR"): False,
}
"""Our control, who is there, and who is there from the turn on; whether that is to be followed."""
_WHO: Mapping[str, tuple[str, ...]] = {
    "nobody": (),
    "one CUBIC": ("cubic",),
    "two CUBIC": ("cubic", "cubic"),
    "one Reno": ("reno",),
    "one BBR": ("bbr",),
    "two BBR": ("bbr", "bbr"),
    "one of each": ("cubic", "bbr"),
    "another CUBIC": ("another cubic",),
    "another BBR": ("another bbr",),
}
_CHANGE_S = 30
_ENDS_S = 55
_LISTENS_S = 12.0
_SOON_S = 5.0
_RATES_BPS, _RTTS_S, _BUFFERS_BDP = (40e6, 120e6), (0.012, 0.090), (0.6, 2.5)
_OTHER = dict(zip(CONTROLS, reversed(CONTROLS), strict=True))
_APART_S = 0.01  # one stream of ours begins so long after the other
_EPISODE_S = 5.0  # what is said again within it is the same


@dataclass(frozen=True, slots=True)
class Streams:
    """Who sends when: our streams from 2 s on, others beside them.

    Attributes:
        own: the congestion control of our streams.
        others: of each other stream, with its first and last second.
        ours: how many are ours.
        until_s: for how long at least, whoever is there.
    """

    own: str
    others: Sequence[tuple[str, int, int]]
    ours: int = 1
    until_s: int = 0

    @property
    def seconds(self) -> int:
        """Until the last of the others has ended."""
        ends = max((end for _, _, end in self.others), default=2 + _ASKED_S)
        return max(ends, self.until_s)


def turned(own: str) -> Streams:
    """The other is like ours first, then unlike it."""
    return Streams(own, [(own, 0, TURN_S), (_OTHER[own], TURN_S, 2 * TURN_S)])


def alike(own: str, *, joined: bool) -> Streams:
    """All are like ours; one, or from the turn on two."""
    second = [(own, TURN_S, 2 * TURN_S)] if joined else []
    return Streams(own, [(own, 0, 2 * TURN_S), *second])


@dataclass(frozen=True, slots=True)
class Run:
    """What our side sees of streams that run.

    Attributes:
        samples: of the prober.
        counts: what our streams' counters tell as each of them comes.
    """

    samples: Sequence[Sample]
    counts: Sequence[Count]


def run(streams: Streams, path: str | NetworkPath, rate_hz: int, seed: int) -> Run:
    """What a prober sees of it, and what our streams count."""
    on = NetworkPath.parse(path) if isinstance(path, str) else path
    names = ["own", *(f"own {number}" for number in range(1, streams.ours))]
    flows = [
        *(bulk(name, streams.own, 2.0 + _APART_S * number) for number, name in enumerate(names)),
        *(
            bulk(str(number), control, begin, end)
            for number, (control, begin, end) in enumerate(streams.others)
        ),
        traffic("probe", Echo(10**9 // rate_hz, 1, 1_000_000), 0, streams.seconds),
    ]
    full_s = on.rtt_ns / 1e9 + 2 * on.buffer_bytes * 8 / on.rate_bps
    end = Time(f"{streams.seconds + math.ceil(full_s)} s")
    found = simulated(along(on, flows, seed), end, sample=Time(f"{1000 // RATE_HZ} ms"), trace=True)
    rtts_ms, acked, window = seen(found, names, streams.seconds)
    samples = [
        Sample(number, number * 10**9 // rate_hz, 0, () if np.isnan(rtt) else (round(rtt * 1e6),))
        for number, rtt in enumerate(through_hosts(rtts_ms, on, np.random.default_rng(seed)))
    ]
    counts = [Count(*map(int, pair)) for pair in zip(acked, window, strict=True)]
    return Run(samples, counts)


def heard_at_s(ear: Ear, own: str, seen_then: Run, since_s: float = 0.0) -> list[float]:
    """When another control would have been taken, if nobody heeds it and it listens since then."""
    listener = Listener(ear, own)
    at_s: list[float] = []
    begin = round(since_s * ear.rate_hz)
    for sample, count in zip(seen_then.samples[begin:], seen_then.counts[begin:], strict=True):
        now_s = sample.index / ear.rate_hz
        listener.carries(now_s, count)
        if listener.hears(sample) and not (at_s and now_s < at_s[-1] + _EPISODE_S):
            at_s.append(now_s)
    return at_s


def begun(ear: Ear, path: str, cubics: int, seed: int) -> tuple[Recognised, Choice]:
    """Who is heard, and what is chosen, by a CUBIC stream that begins beside so many of CUBIC."""
    beside = Streams("cubic", [("cubic", 0, 16)] * cubics)
    learning, begin = Learning(ear, "cubic"), round(2 * ear.rate_hz)
    seen_then = run(beside, path, round(ear.rate_hz), seed)
    pairs = zip(seen_then.samples[begin:], seen_then.counts[begin:], strict=True)
    found = next(filter(None, (learning.hears(one, None, count) for one, count in pairs)))
    return found, choose(found, CONTROLS, "cubic", Wanted())


def begun_table(ear: Ear, runs: int) -> Iterator[str]:
    """Lines of Markdown."""
    yield "| path | streams of CUBIC | BBR is chosen | unknown |"
    yield "|---|---|---|---|"
    for path in BEGIN_PATHS:
        for cubics in CUBICS:
            found = [begun(ear, path, cubics, 1000 + number) for number in range(runs)]
            wrong = sum(choice.control == "bbr" for _, choice in found)
            unknown = sum(not one.known for one, _ in found)
            yield f"| {path} | {cubics} | {wrong} of {runs} | {unknown} |"


def several_table(ear: Ear, runs: int) -> Iterator[str]:
    """Lines of Markdown: whether BBR is there, beside so many streams of ours, of CUBIC."""
    yield "| path | ours | right | unknown | BBR is said and not there |"
    yield "|---|---|---|---|---|"
    for path in PATHS:
        for ours in OURS:
            found = [
                ("bbr" in others, heard)
                for number in range(runs)
                for others in BESIDE_OURS
                if (heard := _asked(ear, path, others, ours, 1000 + number)) is not None
            ]
            right = sum((heard.bbr > 0.5) == has_bbr for has_bbr, heard in found)
            unknown = sum(not heard.known for _, heard in found)
            wrong = sum(heard.known and heard.bbr > 0.5 > has_bbr for has_bbr, heard in found)
            yield f"| {path} | {ours} | {right} of {len(found)} | {unknown} | {wrong} |"


def _asked(ear: Ear, path: str, others: Sequence[str], ours: int, seed: int) -> Recognised | None:
    """What is heard once ours have been there for `_ASKED_S`, and the others for longer."""
    beside = Streams("cubic", [(control, 0, 2 + _ASKED_S) for control in others], ours)
    seen_then, lately = run(beside, path, round(ear.rate_hz), seed), round(-_KEPT_S * ear.rate_hz)
    return ear.beside(seen_then.samples[lately:], "cubic", ours, seen_then.counts[lately:])


def changed(own: str, first: str, then: str) -> Streams:
    """Others who are there before and after a turn stay; the rest goes, or comes with it."""
    stay = list(_WHO[then])
    others: list[tuple[str, int, int]] = []
    for control in _WHO[first]:
        if stays := control in stay:
            stay.remove(control)
        others.append((control, 0, _ENDS_S if stays else _CHANGE_S))
    come = [(control.removeprefix("another "), _CHANGE_S, _ENDS_S) for control in stay]
    return Streams(own, [*others, *come], until_s=_ENDS_S)


def drawn_path(seed: int, number: int) -> NetworkPath:
    """One of the paths on which changes are followed."""
    draw = random.Random(f"turns {seed} {number}")
    rate_bps, rtt_s = draw_between(draw, *_RATES_BPS), draw_between(draw, *_RTTS_S)
    queue = draw_between(draw, *_BUFFERS_BDP) * rate_bps * rtt_s / 8
    return NetworkPath(round(rate_bps), round(rtt_s * 1e9), round(queue))


def turns_table(ear: Ear, runs: int, seed: int) -> Iterator[str]:
    """Lines of Markdown, of so many paths: how late each change is followed, or said by mistake.

    What is never followed counts as all that is left of the run.
    """
    yield "| own | from | to | after, s: mean | median | within 5 s, % | never | mistaken |"
    yield "|---|---|---|---|---|---|---|---|"
    every_s: list[float] = []
    mistakes = 0
    for (own, first, then), is_followed in CHANGES.items():
        late_s: list[float] = []
        wrong = 0
        for number in range(runs):
            path = drawn_path(seed, number)
            seen_then = run(
                changed(own, first, then), path, round(ear.rate_hz), 1000 * seed + number
            )
            at_s = heard_at_s(ear, own, seen_then, _LISTENS_S)
            wrong += bool(at_s) and (not is_followed or at_s[0] <= _CHANGE_S)
            after = [at - _CHANGE_S for at in at_s if at > _CHANGE_S]
            late_s.append(after[0] if after else _ENDS_S - _CHANGE_S)
        mistakes += wrong
        late = _late(late_s) if is_followed else " | | | "
        yield f"| {own} | {first} | {then} |{late}| {wrong} |"
        every_s += late_s if is_followed else []
    yield f"| | | all |{_late(every_s)}| {mistakes} |"


def _late(late_s: Sequence[float]) -> str:
    soon = sum(one <= _SOON_S for one in late_s) / len(late_s)
    never = sum(one >= _ENDS_S - _CHANGE_S for one in late_s)
    mean, median = statistics.fmean(late_s), statistics.median(late_s)
    return f" {mean:.1f} | {median:.1f} | {100 * soon:.0f} | {never} "


def table(ear: Ear, runs: int) -> Iterator[str]:
    """Lines of Markdown."""
    yield (
        "| path | own | heard | after, s: median, worst | mistaken, an hour | when one joins, of |"
    )
    yield "|---|---|---|---|---|---|"
    for path in PATHS:
        for own in CONTROLS:
            yield _line(ear, path, own, runs)


def _line(ear: Ear, path: str, own: str, runs: int) -> str:
    def heard(streams: Streams) -> list[list[float]]:
        return [
            heard_at_s(ear, own, run(streams, path, round(ear.rate_hz), 1000 + number))
            for number in range(runs)
        ]

    turns = heard(turned(own))
    late = [later[0] - TURN_S for at_s in turns if (later := [at for at in at_s if at > TURN_S])]
    steady = heard(alike(own, joined=False))
    joined = heard(alike(own, joined=True))
    hours = runs * 3 * TURN_S / 3600
    mistaken = sum(map(len, steady)) + sum(at < TURN_S for at_s in turns for at in at_s)
    delay = f"{statistics.median(late):.0f}, {max(late):.0f}" if late else ""
    return (
        f"| {path} | {own} | {len(late)} of {runs} | {delay} | {mistaken / hours:.0f} "
        f"| {sum(any(at > TURN_S for at in at_s) for at_s in joined)} of {runs} |"
    )
