"""Watches the streams of a background: what each delivered, and whether it is what it should be.

The sending kernel says it (`ss`): which congestion control a connection has, and how many bytes
were acknowledged. UDP is counted by the lab, where it arrives.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from studies.rig.background import Stream
from weir.lab import Lab

STALL_S = 10.0
"""A stream that delivers nothing for so long is dead."""
GREEDY_SHARE = 0.3
"""Share of the link's rate that all greedy streams together deliver at least."""

# A line, from its beginning: its end can look like two addresses ("minrtt:32 snd_wnd:79872").
_SOCKET = re.compile(
    r"^\S+ +\d+ +\d+ +(\S+:\d+) +\S+:(\d+)[ \t]+(\w+) .*?\bbytes_acked:(\d+)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Look:
    """What the streams were at one moment.

    Attributes:
        at_s: the moment, on any clock.
        congestion: of each stream as the kernel tells it; None for UDP, and if it has none.
        delivered_bytes: of each, since it began; 0 if it has no connection.
    """

    at_s: float
    congestion: tuple[str | None, ...]
    delivered_bytes: tuple[int, ...]


def look(
    at_s: float,
    background: Sequence[Stream],
    first_port: int,
    sockets: str,
    datagrams: Mapping[int, int],
) -> Look:
    """Makes a look of what was told.

    Args:
        at_s: when.
        background: the streams, which the lab gave a port each.
        first_port: of them.
        sockets: of the sending host.
        datagrams: bytes that have arrived by the number of the stream, of those by UDP.
    """
    most = by_port(sockets)
    found = [
        (datagrams.get(number, 0), None)
        if stream.congestion is None
        else most.get(first_port + number, (0, None))
        for number, stream in enumerate(background)
    ]
    return Look(at_s, tuple(told for _, told in found), tuple(count for count, _ in found))


def sockets(lab: Lab, host: str) -> str:
    """What the kernel tells of a host's TCP connections, a line each (`ss -tinHO`)."""
    return str(lab.run(host, ["ss", "-tinHO"], capture_output=True, text=True).stdout)


def by_port(sockets: str) -> dict[int, tuple[int, str]]:
    """Bytes acknowledged and congestion control by the port that a host sends to.

    Of several connections to a port the one that carried most, since iperf3 and `weir send` have
    another that carries next to nothing.
    """
    most: dict[int, tuple[int, str]] = {}
    for _, port, congestion, acked in _SOCKET.findall(sockets):
        most[int(port)] = max(most.get(int(port), (0, "")), (int(acked), congestion))
    return most


def by_connection(sockets: str, port: int) -> dict[str, int]:
    """Bytes acknowledged by the connections that a host has to a port, by their own end."""
    return {own: int(acked) for own, to, _, acked in _SOCKET.findall(sockets) if int(to) == port}


def rates_bps(looks: Sequence[Look]) -> tuple[int, ...]:
    """What each stream delivered from the first look to the last, in bit/s of payload."""
    first, last = looks[0], looks[-1]
    seconds = last.at_s - first.at_s
    pairs = zip(first.delivered_bytes, last.delivered_bytes, strict=True)
    return tuple(max(0, round((after - before) * 8 / seconds)) for before, after in pairs)


def flaws(
    looks: Sequence[Look], background: Sequence[Stream], rate_bps: int, *, alone: bool = True
) -> Iterator[str]:
    """Why the background was not what it should be, in words.

    Args:
        looks: at least two, in order.
        background: what it should be.
        rate_bps: of the link.
        alone: whether it had the link for itself, and should have filled it. Bursts of our own
            leave CUBIC little.
    """
    for number, stream in enumerate(background):
        name = f"stream {number} ({stream})"
        told = {one.congestion[number] for one in looks} - {stream.congestion}
        if others := sorted(control for control in told if control):
            yield f"{name} was under {', '.join(others)}"
        elif told:
            yield f"{name} had no connection for a while"
        elif (silent_s := _longest_silence_s(looks, number)) >= min(
            STALL_S, looks[-1].at_s - looks[0].at_s
        ):
            yield f"{name} delivered nothing for {silent_s:.1f} s"
    greedy = [number for number, stream in enumerate(background) if stream.is_greedy]
    share = sum(rates_bps(looks)[number] for number in greedy) / rate_bps
    if alone and greedy and share < GREEDY_SHARE:
        yield f"its streams delivered {share:.0%} of the link's rate"


def _longest_silence_s(looks: Sequence[Look], number: int) -> float:
    longest, since = 0.0, looks[0]
    for one in looks[1:]:
        if one.delivered_bytes[number] > since.delivered_bytes[number]:
            since = one
        longest = max(longest, one.at_s - since.at_s)
    return longest
