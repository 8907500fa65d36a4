"""The order that traffic has whatever the order of its tables, and what its random numbers follow.

Two files that differ in the order of their `[[traffic]]` describe one network: who of two that act
at one instant comes first, and what a traffic without a name draws, must not follow from it.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from weir.lab import applications
from weir.lab.scenario import (
    ApplicationTraffic,
    Iperf3Traffic,
    Node,
    PpbpTraffic,
    RelayTraffic,
    Traffic,
    UdpTraffic,
)

_KINDS = ("iperf3", *applications.KINDS, "udp", "ppbp", "relay")
_NEVER_NS = 2**64


def kind_of(traffic: Traffic) -> str:
    """What a scenario calls its kind."""
    if isinstance(traffic, ApplicationTraffic):
        return traffic.kind
    kinds = {
        Iperf3Traffic: "iperf3",
        UdpTraffic: "udp",
        PpbpTraffic: "ppbp",
        RelayTraffic: "relay",
    }
    return kinds[type(traffic)]


def in_order(traffic: Sequence[Traffic], nodes: Sequence[Node]) -> list[Traffic]:
    """The canonical order: by kind, then ends, times, everything else, and the name if given."""
    places = {node.name: place for place, node in enumerate(nodes)}

    def key(one: Traffic) -> tuple[int, int, int, int, int, str, str]:
        return (
            _KINDS.index(kind_of(one)),
            places[one.source],
            places[one.destination],
            one.start.ns,
            one.stop.ns if one.stop else _NEVER_NS,
            repr(replace(one, name="", draws="")),
            one.name if one.is_named else "",
        )

    return sorted(traffic, key=key)


def default_name(kind: str, number: int, given: Collection[str], tables: int) -> str:
    """What the traffic of the table with this `number` is called if nobody named it: `kind-N`.

    Where another traffic was given that name, N is the first free one beyond all `tables`.
    """
    while (name := f"{kind}-{number}") in given:
        number += tables
    return name


def with_draws(traffic: Sequence[Traffic], nodes: Sequence[Node]) -> tuple[Traffic, ...]:
    """The traffic, in its order, with what its random numbers follow from.

    A name that was given is that; without one it is the kind and the place in the canonical order,
    as the name by default is the kind and the place in the file.
    """
    names = {one.name for one in traffic if one.is_named}
    draws: dict[str, str] = {}
    for place, one in enumerate(in_order(traffic, nodes), start=1):
        drawn = one.name if one.is_named else f"{kind_of(one)}-{place}"
        if not one.is_named and drawn in names:
            drawn += "+"  # no name has this sign
        draws[one.name] = drawn
    return tuple(replace(one, draws=draws[one.name]) for one in traffic)
