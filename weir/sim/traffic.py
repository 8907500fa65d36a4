"""What only the simulator sends: generators with every setting of the core's, for studies.

A scenario file offers applications and UDP (`weir.lab.applications`); these are what it does not
offer: options of TCP that no kernel of today has, lists of writes, echo requests, UDT. Fields are
called as the core calls them, with their unit (docs/packet.md); one that is None has the core's
default.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from weir import Time
from weir.lab.scenario import Traffic


@dataclass(frozen=True, slots=True)
class Tcp:
    """How both ends of a connection behave; see `TcpConfig` of `crates/application`.

    Attributes:
        congestion: the control with its options, such as "reno:ecn=on".
        send_buffer_bytes: what a sender may have unacknowledged.
        receive_buffer_bytes: what the receive buffer may grow to.
        ecn_fallback: whether a SYN that was sent twice in vain no longer asks for ECN.
        nagle: whether short segments wait for company (RFC 896).
        rto_restart: RTO restart (RFC 7765).
        probe_restart: the same for the tail loss probe.
        bundling: redundant data bundling.
        recovery: "rack", or "linux-3.18" for the loss recovery of that kernel.
        tail_loss_probe: whether losses at the tail of a flight are probed for.
        thin: Linux's older options for thin streams.
        segmentation_offload: whether segments leave in trains.
        turns: controls that take its place, in order: ns since the connection began, the control,
            and bit/s that it sends at most, None for unpaced.
    """

    congestion: str | None = None
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None
    ecn_fallback: bool | None = None
    nagle: bool | None = None
    rto_restart: bool | None = None
    probe_restart: bool | None = None
    bundling: bool | None = None
    recovery: str | None = None
    tail_loss_probe: bool | None = None
    thin: bool | None = None
    segmentation_offload: bool | None = None
    turns: Sequence[tuple[int, str, int | None]] | None = None


@dataclass(frozen=True, slots=True)
class Bulk:
    """Greedy TCP: so many connections that send all they can, or a size each."""

    tcp: Tcp
    streams: int | None = None
    size_bytes: int | None = None
    kind: ClassVar[str] = "bulk"


@dataclass(frozen=True, slots=True)
class Relay:
    """A relay from the first end to the second; `tcp` is the aggregate's and the join end's."""

    tcp: Tcp
    linked_ack: str
    kind: ClassVar[str] = "relay"


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one size over one connection, each so long after the one before it."""

    tcp: Tcp
    size_bytes: int
    interval_ns: int
    kind: ClassVar[str] = "messages"


@dataclass(frozen=True, slots=True)
class Writes:
    """One connection with the writes of a list: instant from the start in ns, bytes."""

    tcp: Tcp
    writes: Sequence[tuple[int, int]]
    kind: ClassVar[str] = "writes"


@dataclass(frozen=True, slots=True)
class Web:
    """Requests at random, a connection for each; sizes follow a truncated Pareto law."""

    tcp: Tcp
    requests_per_s: float
    shape: float
    least_bytes: int | None = None
    most_bytes: int | None = None
    kind: ClassVar[str] = "web"


@dataclass(frozen=True, slots=True)
class Video:
    """HTTP adaptive video; see `weir.lab.applications` for what the player does."""

    tcp: Tcp
    samples: int
    caution: float
    of_both: bool
    kind: ClassVar[str] = "video"


@dataclass(frozen=True, slots=True)
class Rpc:
    """Remote procedure calls over one connection, so many outstanding."""

    tcp: Tcp
    concurrency: int
    request_bytes: int
    reply_bytes: int
    kind: ClassVar[str] = "rpc"


@dataclass(frozen=True, slots=True)
class Udp:
    """UDP at a constant rate of IP packets, or in bursts: `on_ns` at the rate, `off_ns` silent."""

    rate_bps: int
    payload_bytes: int
    on_ns: int | None = None
    off_ns: int | None = None
    kind: ClassVar[str] = "udp"


@dataclass(frozen=True, slots=True)
class UdpRates:
    """UDP whose rate changes: instant from the start in ns, bit/s from then on."""

    changes: Sequence[tuple[int, int]]
    payload_bytes: int
    kind: ClassVar[str] = "udp-rates"


@dataclass(frozen=True, slots=True)
class Echo:
    """Echo requests: every interval so many, a spacing apart; each comes back as it was sent."""

    interval_ns: int
    requests: int
    spacing_ns: int
    kind: ClassVar[str] = "echo"


@dataclass(frozen=True, slots=True)
class Udt:
    """UDT, greedy, by a rate of its own."""

    kind: ClassVar[str] = "udt"


Generator = Bulk | Relay | Messages | Writes | Web | Video | Rpc | Udp | UdpRates | Echo | Udt


@dataclass(frozen=True, kw_only=True)
class SimulatedTraffic(Traffic):
    """Traffic of a scenario that runs in the simulator only.

    Attributes:
        generator: what makes its packets.
        through: the relay that its connections pass, by name; None for none.
        weight: what each of them has of the relay's aggregate, beside others'.
    """

    generator: Generator
    through: str | None = None
    weight: int = 1


def between(
    ends: tuple[str, str],
    name: str,
    generator: Generator,
    start_ns: int = 0,
    stop_ns: int | None = None,
    *,
    dscp: str = "CS0",
    ecn: str | None = None,
    through: str | None = None,
    weight: int = 1,
) -> SimulatedTraffic:
    """Traffic from the first end to the second; see `Traffic` for the rest."""
    return SimulatedTraffic(
        name=name,
        source=ends[0],
        destination=ends[1],
        start=Time.from_ns(start_ns),
        stop=None if stop_ns is None else Time.from_ns(stop_ns),
        dscp=dscp,
        ecn=ecn,
        generator=generator,
        through=through,
        weight=weight,
    )


def generator_config(generator: Generator) -> dict[str, Any]:
    """A generator as the core reads it."""
    made = _given(generator)
    if "tcp" in made:
        made["tcp"] = _given(made["tcp"])
    return {"kind": generator.kind, **made}


def _given(values: Generator | Tcp) -> dict[str, Any]:
    """The fields that are not left to the core."""
    named = ((field.name, getattr(values, field.name)) for field in fields(values))
    return {name: value for name, value in named if value is not None}
