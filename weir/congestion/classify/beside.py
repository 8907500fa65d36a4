"""Who else is on a path while one sends: what is heard there, less one's own streams.

A prober beside one's own CUBIC and a background of BBR hears one stream of either, which the
recogniser has learned as a background of its own: the answer is of all streams, and of those one's
own are known. Beside one stream more was learned (`company`); beside several, and of what else is
said than whether BBR is there, nothing more. What remains of
"three to eight" streams is as likely as where examples of them were drawn (`classes.py`). Where
fewer of a kind are heard than are ours, these are ours: those that lose together sound like one.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from weir.congestion.classify.classes import MIXED, SEVERAL, WITH_BBR

OWN = ("cubic", "reno", "bbr")
"""The controls of streams that can be taken out, by the kernel's names."""
Streams = Mapping[str, int]
"""So many of each congestion control."""


class Count(NamedTuple):
    """What our stream's counters (TCP_INFO) tell at some instant.

    Attributes:
        acked_bytes: of its payload, since it began.
        window_bytes: its congestion window.
    """

    acked_bytes: int
    window_bytes: int


Ways = Sequence[tuple[float, Streams]]
"""What a background may be made of, each with its weight."""

_FEW: Mapping[str, Ways] = {
    "B0-C0": ((1.0, {}),),
    "B0-C1": ((1.0, {"cubic": 1}),),
    "C1-C1": ((1.0, {"cubic": 2}),),
    "B1-C0": ((1.0, {"bbr": 1}),),
    "B1-B1": ((1.0, {"bbr": 2}),),
    "B1-C1": ((1.0, {"bbr": 1, "cubic": 1}),),
    "R1": ((1.0, {"reno": 1}),),
    "R2": ((0.5, {"reno": 2}), (0.5, {"reno": 1, "cubic": 1})),
}
"""Backgrounds of two streams at most."""


def can_hear(own: str, streams: int) -> bool:
    """Whether others are heard beside so many streams of ours, under one control.

    Several of BBR hide what else is there.
    """
    return own in OWN and (streams == 1 or (streams > 1 and own != "bbr"))


@cache
def left(own: str, streams: int) -> Mapping[str, Mapping[str, float]]:
    """What remains of a background without streams of ours, with probabilities.

    Args:
        own: their congestion control, one of `OWN`.
        streams: so many are ours, 1 or more.

    Returns:
        By labels. In a background that is not named no such stream is heard.
    """
    found: dict[str, dict[str, float]] = {}
    for label, ways in {**_FEW, **_many(own, streams)}.items():
        holding = [(weight, made) for weight, made in ways if own in made]
        total = sum(weight for weight, _ in holding)
        for weight, made in holding:
            rest = _named({**made, own: max(0, made[own] - streams)})
            shares = found.setdefault(label, {})
            shares[rest] = shares.get(rest, 0.0) + weight / total
    return found


def _many(own: str, streams: int) -> Mapping[str, Ways]:
    """Backgrounds of more than two streams, so many of which are ours.

    How many there are is as likely as where examples were drawn, of the numbers that hold ours.
    """
    least, most = SEVERAL
    alike = [(1.0, {own: every}) for every in range(max(least, streams), max(most, streams) + 1)]
    other = "cubic" if own == "bbr" else "bbr"
    mixed = [
        (1 / (every - streams), {own: ours, other: every - ours})
        for every in [one for one in MIXED if one > streams] or [streams + 1]
        for ours in range(streams, every)
    ]
    return {"Bn" if own == "bbr" else "Cn": alike, "Bn-Cn": mixed}


def _named(streams: Streams) -> str:
    """The label of a background that is made so."""
    there = {control: count for control, count in streams.items() if count}
    for label, ways in _FEW.items():
        if any(there == made for _, made in ways):
            return label
    if "bbr" not in there:
        return "Cn"
    return "Bn" if len(there) == 1 else "Bn-Cn"


def without(
    own: str, probabilities: Mapping[str, float], streams: int = 1
) -> tuple[dict[str, float], float]:
    """What else is there, and the probability that BBR is among it.

    Args:
        own: the control of the streams that are taken out, one of `OWN`.
        probabilities: of each background, by label, as heard.
        streams: so many are ours.
    """
    remains = left(own, streams)
    others: dict[str, float] = {}
    for label, probability in probabilities.items():
        for rest, share in remains.get(label, {label: 1.0}).items():
            others[rest] = others.get(rest, 0.0) + share * probability
    return others, min(1.0, sum(others[label] for label in WITH_BBR & others.keys()))
