"""Work 000, figure 3.6b, live: which links the default paths of six OpenFlow switches cross.

SH needs no controller of the provider: the switches forward by their own next hops. A few datagrams
go from each switch's host to each other's, and the links whose counters grow by them are its path.
"""

import itertools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from studies.rig.provider import STATIC, six_switches
from studies.works.row import Outcome, Row, Verdict
from weir._core import default_paths, six_routers
from weir.lab import Lab
from weir.runs.point import Json, Point

_SWITCHES = "ABCDEF"
_DATAGRAMS, _BYTES = 5, 1400
_SETTLED_S = 0.3


def crossings() -> Json:
    """For each ordered pair of switches, `A-B`, the directed links that its packets cross."""
    with Lab.up(six_switches(STATIC)) as lab:
        return {f"{a}-{b}": _path(lab, a, b) for a, b in itertools.permutations(_SWITCHES, 2)}


def _path(lab: Lab, ingress: str, egress: str) -> list[str]:
    before = _counts(lab)
    address = lab.address(f"{egress.lower()}1")
    send = f"printf '%0{_BYTES}d' 0 > /dev/udp/{address}/9"
    lab.run(f"{ingress.lower()}1", ["bash", "-c", "; ".join([send] * _DATAGRAMS)])
    time.sleep(_SETTLED_S)
    after = _counts(lab)
    # Refusals come back, at most 576 bytes each.
    return [way for way in after if after[way] - before[way] >= _DATAGRAMS * _BYTES]


def _counts(lab: Lab) -> dict[str, int]:
    """What each direction of a link between switches has carried, in bytes."""
    counts = {}
    for link in lab.status()["links"]:
        a, _, b = link["name"].partition("-")
        if {a, b} <= set(_SWITCHES):
            counts[f"{a}-{b}"] = link["forward"]["bytes_out"]
            counts[f"{b}-{a}"] = link["backward"]["bytes_out"]
    return counts


def _judge(results: Sequence[Json]) -> Outcome:
    (found,) = cast(Sequence[Mapping[str, Any]], results)
    crossed = Counter(link for path in found.values() for link in path)
    expected = dict(default_paths(six_routers()))
    total = crossed.total()
    by_value: dict[float, list[str]] = {}
    for link in expected:
        by_value.setdefault(round(100 * crossed[link] / max(1, total), 2), []).append(link)
    ours = ", ".join(
        f"{value} % on {', '.join(by_value[value])}" for value in sorted(by_value, reverse=True)
    )
    holds = by_value[max(by_value)] == ["B-C", "C-B"]
    same = dict(crossed) == expected
    verdict = Verdict.MATCHES if same else Verdict.TREND_HOLDS
    return Outcome(
        f"{ours}; {total} crossings by {len(found)} pairs",
        verdict if holds else Verdict.DIFFERS,
        "links 2 and 10 are B-C and C-B; seen by the counters of the lab's links",
    )


ROWS = [
    Row(
        "000-own-3.6b-live",
        "Figure 3.6b on switches: share of source-destination pairs that cross each link",
        "links 2 and 10 highest (derived: 13.04 %, then 6.52 % and 4.35 %)",
        lambda quick: [Point(crossings, {})],
        _judge,
        live=1,
    )
]
