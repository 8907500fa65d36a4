"""Work 003, chapter 2: its network in the packet simulator, with a relay and without.

Clients, two switches with a proxy each, a server (003-spec section 2.2); a bottleneck of 1.5
Mbit/s, all other links at 1 Gbit/s (section 2.12). What is not given is chosen here: 1 ms on each
link; before the bottleneck the 1000 packets that Linux has unless told otherwise, as Mininet's
links do; hosts that recover from losses as Linux 3.18 did, which was before RACK. A link's rate
counts IP packets here, and Ethernet frames there, 14 bytes of each being headers: full packets are
slowed to what is left of the rate.
"""

import random
from dataclasses import dataclass, replace
from typing import Any

from weir import Rate, Time
from weir.lab.scenario import Direction, Link, Node, Queue, Scenario, Traffic
from weir.sim.core import simulated
from weir.sim.traffic import Bulk, Relay, Tcp, between

BOTTLENECK_BPS = 1_500_000
"""What goodput is a share of."""

QUEUE = 1000
RECOVERY = "linux-3.18"

_FULL_PACKET_B, _ETHERNET_B = 1500, 14
_FAST = Direction(Rate("1 Gbit/s"), Time("1 ms"))
_RELAY = "relay"


@dataclass(frozen=True)
class Setting:
    """One run.

    Attributes:
        variant: where the bottleneck is (section 2.14): "V1", behind the split, as drawn; "V2",
            between the switches; "V3", the aggregate crosses it to a split end at the server.
        starts_s: when each flow begins, in seconds.
        seconds: how long it runs.
        queue: packets that wait for the bottleneck at most.
        linked_ack: None without a relay; else how its acknowledgements are linked.
        window: what a client may have sent that the relay has not read, in bytes.
        recovery: how senders recover from losses.
        rate_bps: of the bottleneck.
        seed: of every random choice.
    """

    variant: str
    starts_s: tuple[float, ...]
    seconds: float
    queue: int = QUEUE
    linked_ack: str | None = None
    window: int | None = None
    recovery: str = RECOVERY
    rate_bps: int = BOTTLENECK_BPS
    seed: int = 1


def starts(flows: int, spread_s: float, seed: int) -> tuple[float, ...]:
    """When so many flows begin: at random within a time."""
    drawn = random.Random(seed)
    return tuple(sorted(round(drawn.uniform(0, spread_s), 6) for _ in range(flows)))


def run(setting: Setting, *, sample: str | None = None) -> dict[str, Any]:
    """What the simulator finds; with its samples where `sample` says how often."""
    return simulated(
        scenario(setting),
        Time.from_ns(round(setting.seconds * 1e9)),
        sample=Time(sample) if sample else None,
        trace=sample is not None,
    )


def scenario(setting: Setting) -> Scenario:
    """The network, its hosts and flows."""
    hosts = tuple(Node(name) for name in ("clients", "p1", "p2", "server"))
    routers = tuple(Node(name, forwards=True) for name in ("s1", "s2", "s3"))
    rate = Rate.from_bit_per_s(setting.rate_bps * _FULL_PACKET_B // (_FULL_PACKET_B + _ETHERNET_B))
    narrow = Direction(rate, Time("1 ms"), queue=Queue("fifo", setting.queue))
    # Behind s3 stands the server, and in V3 the split end, too.
    split = "s3" if setting.variant == "V3" else "s2"
    before, behind = (narrow, _FAST) if setting.variant == "V2" else (_FAST, narrow)
    links = (
        _link("clients", "s1", _FAST),
        _link("p1", "s1", _FAST),
        _link("p2", split, _FAST),
        _link("s1", "s2", before),
        _link("s2", "s3", behind),
        _link("server", "s3", _FAST),
    )
    return Scenario("ch2", setting.seed, hosts + routers, links, tuple(_traffic(setting)))


def _link(a: str, b: str, direction: Direction) -> Link:
    return Link(f"{a}-{b}", (a, b), direction, direction)


def _traffic(setting: Setting) -> list[Traffic]:
    through = None if setting.linked_ack is None else _RELAY
    tcp = Tcp(congestion="cubic", recovery=setting.recovery)
    flows: list[Traffic] = [
        between(
            ("clients", "server"),
            f"flow-{number}",
            Bulk(tcp),
            start_ns=round(start_s * 1e9),
            through=through,
        )
        for number, start_s in enumerate(setting.starts_s, 1)
    ]
    if setting.linked_ack is None:
        return flows
    relay = Relay(replace(tcp, receive_buffer_bytes=setting.window), setting.linked_ack)
    return [between(("p1", "p2"), _RELAY, relay), *flows]


def flows_of(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What became of the flows, the relay excepted."""
    return [flow for flow in result["flows"] if flow["kind"] != "relay"]


def relay_of(result: dict[str, Any]) -> dict[str, Any]:
    """What the relay did."""
    return next(flow["relay"] for flow in result["flows"] if flow["kind"] == "relay")


def rows(trace: str) -> list[dict[str, str]]:
    """The lines of samples, each by its titles."""
    head, *lines = trace.splitlines()
    titles = head.split(",")
    return [dict(zip(titles, line.split(","), strict=True)) for line in lines]
