"""Which packets an elephant is, and what is known of it beforehand."""

from dataclasses import dataclass
from typing import Any, Self

TCP, UDP = 6, 17
PROTOCOLS = {"tcp": TCP, "udp": UDP}
_NAMES = {number: name for name, number in PROTOCOLS.items()}


@dataclass(frozen=True, slots=True, order=True)
class Flow:
    """Packets from a host to another; ports that are 0 may be any.

    An elephant is told of by the addresses that stand for its hosts, and is what they send each
    other by IPv6, too.

    Attributes:
        source, target: addresses.
        protocol: `TCP` or `UDP`.
        source_port, port: where they come from, and where they go.
    """

    source: str
    target: str
    protocol: int = TCP
    source_port: int = 0
    port: int = 0

    def __str__(self) -> str:
        ends = (self.source, self.source_port), (self.target, self.port)
        source, target = (f"{address}:{port or '*'}" for address, port in ends)
        return f"{_NAMES.get(self.protocol, self.protocol)} {source} > {target}"

    def to_json(self) -> dict[str, Any]:
        """Its protocol and ports as the calendar is told of them; one that may be any is null."""
        return {
            "protocol": _NAMES[self.protocol],
            "source_port": self.source_port or None,
            "destination_port": self.port or None,
        }


@dataclass(frozen=True, slots=True)
class Told:
    """An elephant that an application has told of.

    Attributes:
        flow: its packets.
        rate_max_bps: the most that its ends can do; None if that was not told.
        size_bytes: how much it will send; None likewise.
    """

    flow: Flow
    rate_max_bps: int | None = None
    size_bytes: int | None = None

    @classmethod
    def from_json(cls, told: dict[str, Any], source: str, target: str) -> Self:
        """What the calendar says of one, between hosts with these addresses."""
        flow = Flow(
            source,
            target,
            PROTOCOLS[told["protocol"]],
            told["source_port"] or 0,
            told["destination_port"] or 0,
        )
        return cls(flow, told["rate_max_bps"], told["size_bytes"])


@dataclass(frozen=True, slots=True)
class Count:
    """What switches have let pass of a flow since its rule is there, and when that was read."""

    carried_bytes: int
    read_s: float
