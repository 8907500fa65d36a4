"""The links that a scenario's traffic crosses, and what they do to it."""

import math
from collections.abc import Iterator, Mapping

from weir import Rate, Time
from weir.lab.addressing import Plan
from weir.lab.scenario import Link

TCP_HEADERS_B, MSS_B = 52, 1448

Place = tuple[str, str]
"""A link's name, and "forward" or "backward"."""


def links_between(routes: Plan, source: str, to: str) -> Iterator[Place]:
    """The links from a node to another, in the order that packets cross them."""
    ports = routes.way(source, to)
    assert ports is not None, "the reader makes no scenario of islands"
    for port in ports:
        yield port.link, "forward" if routes.ports[port.link][0] == port else "backward"


def delay_s(links: Mapping[str, Link], place: Place) -> float:
    """How long a packet is on its way over a link, in s."""
    delay: Time = getattr(links[place[0]], place[1]).delay
    return delay.ns / 1e9


def rate_of(links: Mapping[str, Link], place: Place) -> Rate | None:
    """What a link carries; None without a limit."""
    rate: Rate | None = getattr(links[place[0]], place[1]).rate
    return rate


def wire_bits(size_bytes: int) -> int:
    """Bits of the IP packets that carry so much over TCP."""
    return 8 * (size_bytes + TCP_HEADERS_B * math.ceil(size_bytes / MSS_B))
