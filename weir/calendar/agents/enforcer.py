"""What each pair of hosts may send, in which class, over which path: the seam for who sees to it.

Packets are told apart by source address, destination address and the destination's data port, all
of which the calendar knows without asking the sender.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

RATE_MIN_BPS = 8_000
"""The least that a pair is ever promised."""
SOURCE_MIN_BPS = 1_500_000
"""What a source sends at most, on the wire, for each transfer that waits for a rate.

It ends what was begun, at 256 kbit/s, or two packets of 9000 bytes in 0.1 s where those are the
path's. Held to less, its connections would time out, and go on late when their rate comes.
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """What a rate is for: packets from a host to another's data port.

    Both addresses are IPv4, or both are IPv6, each as `ipaddress` writes it.
    """

    source: str
    destination: str
    port: int

    @property
    def is_ipv6(self) -> bool:
        """Whether its packets are IPv6."""
        return ":" in self.source


class TrafficClass(Enum):
    """How routers and switches treat packets, by the code point that they carry (DSCP)."""

    PROMISED = 10
    """What the calendar has promised, before everything else: AF11 of RFC 2597."""
    LOWER = 1
    """What may be sent beside a promise, behind everything else: LE of RFC 8622."""
    ELEPHANT = 8
    """An elephant flow in what all others leave: CS1 (000-spec section 3)."""

    @property
    def dscp(self) -> int:
        """The code point."""
        return int(self.value)


LOWER_DSCPS = (TrafficClass.LOWER.dscp, TrafficClass.ELEPHANT.dscp)
"""What sources mark their own packets with, to be served last: LE, and CS1 of RFC 3662."""


@dataclass(frozen=True, slots=True)
class Allotment:
    """What a pair may send.

    Attributes:
        rate_bps: promised, on the wire, at least `RATE_MIN_BPS`.
        path: the links that it is to take, by name; none: those that the network chooses. Who
            only stands at an edge has no say in it.
        traffic_class: of its packets.
        least_bps: what it may send even where less is promised.
    """

    rate_bps: int
    path: tuple[str, ...] = ()
    traffic_class: TrafficClass = TrafficClass.PROMISED
    least_bps: int = 0

    @property
    def most_bps(self) -> int:
        """What it may send."""
        return max(self.rate_bps, self.least_bps)


class Enforcer(Protocol):
    """Sees to it that pairs of hosts send what is allotted to them and no more.

    `weir.calendar.agents.htb.Shaper` does so at an edge, `weir.control.enforcer.SwitchEnforcer` in
    the network's switches, whatever hosts send; packets of no such pair pass at a lower priority.
    `weir.calendar.agents.pacing.Pacer` does so at the source alone, and inside the aggregate of a
    relay `weir.calendar.agents.weighing.Weigher`, by shares. What is in force stays so when
    the process dies; calls come from one thread.
    """

    def install(self) -> None:
        """Begins with no pair in force, whatever an earlier process has left.

        Raises:
            BadInput: what it was told to work on is not there.
            Unsupported: this machine, or this process's rights, do not allow it.
        """

    def apply(self, wanted: Mapping[Pair, Allotment]) -> None:
        """Puts in force the allotment of every pair.

        Pairs that are not among them are held no longer.

        Raises:
            Unsupported: it cannot; what is in force then is unknown until `install`.
        """

    def in_force(self) -> Mapping[Pair, Allotment]:
        """What the last `apply` put in force; nothing after `install`."""

    def remove(self) -> None:
        """Holds nobody any longer and leaves nothing behind; never fails."""
