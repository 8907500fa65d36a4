"""What a lab consists of: nodes, links, traffic, as plain data.

`weir.lab.reading` makes a scenario from TOML and refuses what cannot be right; the supervisor
realises it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from weir import Bytes, Rate, Time
from weir.errors import BadInput

CODEPOINTS = {"CS0": 0, "CS1": 8, "AF11": 10, "AF41": 34, "EF": 46, "LE": 1}
"""Code points (DSCP) that traffic may carry, by name (RFC 2474, 2597, 4594, 8622)."""

ECN_FIELDS = {"ect0": 2, "ect1": 1}
"""ECN fields that UDP traffic may carry, by name (RFC 3168 section 5)."""


@dataclass(frozen=True)
class Switch:
    """What makes a node an OpenFlow switch.

    Attributes:
        datapath: the number that controllers know it by, unique in the scenario.
    """

    datapath: int


@dataclass(frozen=True)
class PortClass:
    """Packets that a switch's ports treat alike, told by their DSCP.

    Attributes:
        name: unique among the classes.
        codepoints: of its packets; none for the class that takes all others.
        rate: what it has even if all classes want more: a rate, or a share of the link's.
        ceiling: what it has at most, of what others leave.
    """

    name: str
    codepoints: tuple[int, ...]
    rate: Rate | float
    ceiling: Rate | float = 1.0

    def bounds_bps(self, link_bps: int) -> tuple[int, int]:
        """Its rate and its ceiling on a link, in bit/s."""
        rate, ceiling = (
            round(bound * link_bps) if isinstance(bound, float) else int(bound.bit_per_s)
            for bound in (self.rate, self.ceiling)
        )
        return rate, min(ceiling, link_bps)


@dataclass(frozen=True)
class Switching:
    """What all switches of a scenario have in common.

    Attributes:
        controller: where their OpenFlow controller listens, `HOST:PORT` or `unix:PATH`, as seen
            from the machine; None for rules that forward by the scenario's own next hops.
        classes: of their ports' packets, the first served first; none for one queue a port.
    """

    controller: str | None = None
    classes: tuple[PortClass, ...] = ()


@dataclass(frozen=True)
class Node:
    """A host, a router or a switch: one network namespace.

    Attributes:
        name: unique in the scenario; resolvable inside every node, unless it is a switch's.
        forwards: whether it is a router or a switch.
        congestion: the congestion control of its TCP connections, None for the lab's own, CUBIC;
            in the simulator it may have options ("ledbat:shallow=on").
        ecn: whether its TCP connections ask for ECN (RFC 3168); all accept it.
        segmentation_offload: whether its TCP hands segments on in trains. None leaves it to the
            world: the kernel does, the simulator does not.
        switch: what it is as a switch; None for hosts and routers.
    """

    name: str
    forwards: bool = False
    congestion: str | None = None
    ecn: bool = False
    segmentation_offload: bool | None = None
    switch: Switch | None = None


@dataclass(frozen=True)
class Bernoulli:
    """Independent loss: each packet is lost with `probability`."""

    probability: float


@dataclass(frozen=True)
class GilbertElliott:
    """Loss in bursts by a two-state chain (Hasslinger and Hohlfeld 2008).

    Attributes:
        p: probability per packet of going from the good state to the bad one.
        r: probability per packet of going back.
        h: probability that a packet survives the bad state.
        k: probability that a packet survives the good state.
    """

    p: float
    r: float
    h: float = 0.0
    k: float = 1.0


@dataclass(frozen=True)
class Queue:
    """The queue in front of one direction of a link.

    Attributes:
        discipline: one of `weir.lab.queues.DISCIPLINES`.
        limit: what it holds at most: bytes, packets (an int), or the time it takes to drain;
            None for the discipline's own default.
        parameters: what the file gives beside the limit, by name, as the core has it.
    """

    discipline: str = "fifo"
    limit: Bytes | Time | int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Direction:
    """One direction of a link.

    Attributes:
        rate: None for as fast as the machine allows.
        delay: one-way propagation delay.
        jitter: each packet's delay varies uniformly by up to this much either way, in order.
        loss: packets lost on the link itself, beside those the queue drops.
        queue: what happens before the rate.
    """

    rate: Rate | None = None
    delay: Time = field(default_factory=lambda: Time.from_ns(0))
    jitter: Time = field(default_factory=lambda: Time.from_ns(0))
    loss: Bernoulli | GilbertElliott | None = None
    queue: Queue = Queue()


@dataclass(frozen=True)
class Channel:
    """A wireless channel that stations contend for by IEEE 802.11's DCF.

    Attributes:
        name: unique in the scenario.
        standard: "802.11b", "802.11a" or "802.11g".
        cw_min: contention window of a first transmission, in slots; None for the standard's.
        cw_max: largest contention window; likewise.
        retry_limit: transmissions of a frame before it is given up.
        airtime_fairness: whether a station shares out airtime, not frames, among its receivers.
    """

    name: str
    standard: str
    cw_min: int | None = None
    cw_max: int | None = None
    retry_limit: int = 7
    airtime_fairness: bool = False


@dataclass(frozen=True)
class Wlan:
    """A link by a wireless channel: both directions contend for it, their rates are the PHY's.

    Attributes:
        channel: its name.
    """

    channel: str
    kind: ClassVar[str] = "wlan"


@dataclass(frozen=True)
class Credits:
    """A lossless link with credit-based flow control, as InfiniBand's; in the simulator only.

    Attributes:
        buffer: of the port at the far end: the credits that a sender begins with.
        input: how packets wait in it: "voq", a virtual queue for each output, or "fifo".
        marking: while the port is congested, how many packets pass between two that it marks, for
            their sources to slow down; None marks none.
        manager: how often a manager looks, which has the port mark all for a victim; None: never.
    """

    buffer: Bytes
    input: str = "voq"
    marking: int | None = None
    manager: Time | None = None
    kind: ClassVar[str] = "credits"


@dataclass(frozen=True)
class Link:
    """A link between two nodes; `forward` runs from the first end to the second.

    Attributes:
        name: unique in the scenario; `a-b` when not given.
        ends: the two nodes.
        forward: first end to second.
        backward: second end to first.
        mtu: largest IP packet, in bytes.
        medium: None for a wired link, whose directions have nothing to do with each other.
    """

    name: str
    ends: tuple[str, str]
    forward: Direction
    backward: Direction
    mtu: int = 1500
    medium: Wlan | Credits | None = None


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Background traffic from one host to another, for part of the lab's life.

    Attributes:
        name: unique in the scenario; `kind-N` when not given.
        source: the sending host.
        destination: the receiving host.
        start: from the moment the lab is up.
        stop: likewise; None to go on until the lab goes down.
        dscp: the code point of its packets.
        ecn: the ECN field of its packets; None leaves it to TCP, and is Not-ECT with UDP.
        is_named: whether the name was given.
        draws: what its random numbers follow from, beside the seed; empty for its name.
    """

    name: str
    source: str
    destination: str
    start: Time
    stop: Time | None
    dscp: str = "CS0"
    ecn: str | None = None
    is_named: bool = True
    draws: str = ""


@dataclass(frozen=True, kw_only=True)
class Iperf3Traffic(Traffic):
    """TCP by iperf3.

    Attributes:
        congestion: the congestion control, None for the host's own.
        streams: parallel connections.
        rate: of all streams together, paced by the kernel; None for as fast as TCP goes.
        through: the relay that its connections pass, by name; None for none. In the simulator only.
        weight: what each of them has of the relay's aggregate, beside others'.
    """

    congestion: str | None = None
    streams: int = 1
    rate: Rate | None = None
    through: str | None = None
    weight: int = 1


@dataclass(frozen=True, kw_only=True)
class RelayTraffic(Traffic):
    """A relay, in the simulator only: connections that others send through it are joined.

    They end at its source, go over one connection to its destination, and are split again there.

    Attributes:
        congestion: the congestion control of that connection, None for the host's own.
        linked_ack: whether a client's acknowledgement waits for its server's: "none"; as the
            work's switches do it, "literal" or "strict"; or "per-flow", as `weir relay` does.
        window: what a client may have sent that the relay has not read; None for as much as a host
            takes.
    """

    congestion: str | None = None
    linked_ack: str = "none"
    window: Bytes | None = None


@dataclass(frozen=True, kw_only=True)
class UdpTraffic(Traffic):
    """UDP at a constant rate, or in bursts: `on` at the rate, `off` silent, and again.

    Attributes:
        rate: of the IP packets while sending.
        on: length of a burst; None together with `off` for a constant stream.
        off: silence between bursts.
        payload: UDP payload of a packet.
    """

    rate: Rate
    on: Time | None = None
    off: Time | None = None
    payload: Bytes = field(default_factory=lambda: Bytes.from_count(1470))


@dataclass(frozen=True, kw_only=True)
class PpbpTraffic(Traffic):
    """The Poisson-Pareto burst process (000-spec section 3.6.1) as UDP.

    Attributes:
        burst_rate: of one burst; the source's rate is this times the bursts under way.
        burst_interval: mean time between the beginnings of bursts (1 / lambda_p).
        burst_mean: mean length of a burst (T_on).
        hurst: the Hurst parameter H; the Pareto shape is 3 - 2 H.
        payload: UDP payload of a packet.
    """

    burst_rate: Rate
    burst_interval: Time
    burst_mean: Time = field(default_factory=lambda: Time("200 ms"))
    hurst: float = 0.7
    payload: Bytes = field(default_factory=lambda: Bytes.from_count(1470))


@dataclass(frozen=True, kw_only=True)
class ApplicationTraffic(Traffic):
    """An application over TCP, which measures itself.

    Attributes:
        kind: one of `weir.lab.applications.KINDS`.
        congestion: the congestion control of both ends, None for the hosts' own.
        nagle: whether short segments wait for company (RFC 896).
        parameters: all others, by the core's names and in its units.
    """

    kind: str
    congestion: str | None = None
    nagle: bool = True
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """A whole lab.

    Attributes:
        name: what the lab is called when it is up.
        seed: every random choice follows from it.
        nodes: hosts, then routers and switches, in the order of the file.
        links: between them; every node is reachable from every other.
        traffic: background traffic.
        channels: what wireless links share.
        switching: what its switches have in common.
        ipv6: whether every node but switches has an IPv6 address, too.
    """

    name: str
    seed: int
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    traffic: tuple[Traffic, ...] = ()
    channels: tuple[Channel, ...] = ()
    switching: Switching = Switching()
    ipv6: bool = False

    def node(self, name: str) -> Node:
        """The node called `name`; BadInput when there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        nodes = ", ".join(node.name for node in self.nodes)
        raise BadInput(f"{name} is not a node of lab {self.name}; its nodes are {nodes}")
