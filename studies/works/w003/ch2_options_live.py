"""Work 003, 2.6.3: servers are offered the options of TCP that their clients have offered (T-A6).

The kernel's clients over Open vSwitch, `weir control serve --join` and both relays; each first
packet is read at the client's host and at the server's.
"""

from collections.abc import Sequence
from typing import cast

from studies.rig import offered
from studies.rig.offered import Offer
from studies.works.row import Outcome, Row, Verdict
from weir.runs.point import Json, Point

NAMES = {2: "MSS", 3: "scale of windows", 4: "SACK", 8: "timestamps"}
"""The options by their kinds; of timestamps it counts that they are there."""
_TIMESTAMPS = 8
_MSS, _SCALES = (0, 536, 1_000), (0, 3, 5)


def run(*, quick: bool, seed: int) -> Json:
    """The options of each offer that left the client's host, and those that arrived.

    Args:
        quick: whether each lack of an option is tried by itself alone.
        seed: of the lab.
    """
    seen = offered.carry_out(offers(quick), seed)
    return [[_told(one.left), _told(one.arrived)] for one in seen]


def offers(quick: bool) -> list[Offer]:
    """What is tried: each choice of options, and each MSS and scale with all, by both IPs."""
    sizes = [(mss, scale) for mss in _MSS for scale in _SCALES]
    made = []
    for has_ipv6 in (False,) if quick else (False, True):
        made += [Offer(lacking, 0, 0, has_ipv6) for lacking in offered.all_lacking()]
        chosen = sizes[-1:] if quick else sizes[1:]
        made += [Offer((), mss, 65_535 << scale if scale else 0, has_ipv6) for mss, scale in chosen]
    return made


def _told(digits: str) -> dict[str, str]:
    """Options by their names, each with its value, which is in hexadecimal digits."""
    found = offered.options(digits)
    return {
        NAMES.get(kind, f"option {kind}"): "" if kind == _TIMESTAMPS else value
        for kind, value in found.items()
    }


def _points(quick: bool) -> list[Point]:
    return [Point(run, {"quick": quick, "seed": 1})]


def _judge(results: Sequence[Json]) -> Outcome:
    (pairs,) = cast(Sequence[list[list[dict[str, str]]]], results)
    same = [left == arrived for left, arrived in pairs]
    names = [*NAMES.values(), *sorted({x for pair in pairs for one in pair for x in one})]
    wrong = {
        name: count
        for name in dict.fromkeys(names)
        if (count := sum(left.get(name) != arrived.get(name) for left, arrived in pairs))
    }
    distinct = len({tuple(sorted(left.items())) for left, _ in pairs})
    ours = f"{sum(same)} of {len(same)} first packets ({distinct} different ones) arrive with all"
    if wrong:
        ours += "; not the same: " + ", ".join(f"{name} {n} times" for name, n in wrong.items())
    return Outcome(
        ours,
        Verdict.DIFFERS if wrong else Verdict.MATCHES,
        "MSS, scale of windows, SACK and timestamps as the client's kernel offers them; the order "
        "of options and the values of timestamps are the split end's own",
    )


ROWS = [
    Row(
        "003-own-2.6.3-live",
        "Options of TCP that a client offers, and that its server is offered through relays (T-A6)",
        "the same MSS, scale of windows, SACK and timestamps",
        _points,
        _judge,
        live=1,
    )
]
