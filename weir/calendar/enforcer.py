"""What keeps senders to their rates at the network's edge: the seam for those who do.

Packets are told apart by source address, destination address and the destination's data port, all
of which the calendar knows without asking the sender.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

RATE_MIN_BPS = 8_000
"""The least that a pair is ever held to."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What a rate is for: packets from a host to another's data port; addresses are IPv4."""

    source: str
    destination: str
    port: int


class Enforcer(Protocol):
    """Holds pairs of hosts to rates, whatever they send: `weir.calendar.htb.Shaper` does so.

    Packets of no such pair pass at a lower priority. What is in force stays so when the process
    dies; calls come from one thread.
    """

    def install(self) -> None:
        """Begins with no pair in force, whatever an earlier process has left.

        Raises:
            BadInput: what it was told to work on is not there.
            Unsupported: this machine, or this process's rights, do not allow it.
        """

    def apply(self, wanted: Mapping[Pair, int]) -> None:
        """Puts in force the rate of every pair in bit/s, of at least `RATE_MIN_BPS`.

        Pairs that are not among them are held no longer.

        Raises:
            Unsupported: it cannot; what is in force then is unknown until `install`.
        """

    def in_force(self) -> Mapping[Pair, int]:
        """The rates that the last `apply` put in force; none after `install`."""

    def remove(self) -> None:
        """Holds nobody any longer and leaves nothing behind; never fails."""
