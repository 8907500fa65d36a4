"""Who else is on a path while one sends: what is heard there, less one's own stream.

A prober beside one's own CUBIC and a background of BBR hears one stream of either, which the
recogniser has learned as a background of its own. So nothing more is learned to listen while a
transfer sends by one stream: the answer is of all streams, and of those one is known. What remains
of "three to eight" streams is as likely as where examples of them were drawn (`classes.py`).
"""

from collections.abc import Mapping

from weir.congestion.classify.classes import WITH_BBR

_FEWEST = 1 / 6  # of three to eight there are three
_MANY = {"C1-C1": _FEWEST, "Cn": 1 - _FEWEST}
_MANY_BBR = {"B1-B1": _FEWEST, "Bn": 1 - _FEWEST}
_ALONE = 0.41  # of BBR and others, one is the only one of its kind: mean of 1 / (streams - 1)
_LOSS_BASED_LEFT = {"Cn": _MANY, "Bn-Cn": {"Bn": _ALONE, "Bn-Cn": 1 - _ALONE}}

Left = Mapping[str, Mapping[str, float]]


OWN: Mapping[str, Left] = {
    "cubic": {
        "B0-C1": {"B0-C0": 1.0},
        "C1-C1": {"B0-C1": 1.0},
        "B1-C1": {"B1-C0": 1.0},
        "R2": {"R1": 1.0},
        **_LOSS_BASED_LEFT,
    },
    "reno": {"R1": {"B0-C0": 1.0}, "R2": {"R1": 0.5, "B0-C1": 0.5}, **_LOSS_BASED_LEFT},
    "bbr": {
        "B1-C0": {"B0-C0": 1.0},
        "B1-B1": {"B1-C0": 1.0},
        "B1-C1": {"B0-C1": 1.0},
        "Bn": _MANY_BBR,
        "Bn-Cn": {"Cn": _ALONE, "Bn-Cn": 1 - _ALONE},
    },
}
"""What remains of a background without a stream of ours, with probabilities.

By the kernel's name of that stream's congestion control; in a background that is not named no such
stream is heard.
"""


def without(own: str, probabilities: Mapping[str, float]) -> tuple[dict[str, float], float]:
    """What else is there, and the probability that BBR is among it.

    Args:
        own: the control of the stream that is taken out, one of `OWN`.
        probabilities: of each background, by label, as heard.
    """
    others: dict[str, float] = {}
    for label, probability in probabilities.items():
        for rest, share in OWN[own].get(label, {label: 1.0}).items():
            others[rest] = others.get(rest, 0.0) + share * probability
    return others, min(1.0, sum(others[label] for label in WITH_BBR & others.keys()))
