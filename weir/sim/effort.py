"""What a scenario would take, before it is simulated: absurd loads end in neither time nor memory.

All numbers are estimates from what each traffic asks for and from the slowest link on its way, as
if it were alone there.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from weir import Time
from weir.errors import BadInput
from weir.lab.addressing import plan
from weir.lab.scenario import (
    ApplicationTraffic,
    Iperf3Traffic,
    Link,
    PpbpTraffic,
    RelayTraffic,
    Scenario,
    Traffic,
    UdpTraffic,
)
from weir.sim.path import MSS_B, TCP_HEADERS_B, delay_s, links_between, rate_of, wire_bits

STEPS_MAX = 10_000_000_000
"""Packets times links and what applications begin: some hours, a hundred times the largest row."""

WAITING_MAX = 1_000_000
"""Requests and messages that wait at once; each takes up to tens of kB."""

_UDP_HEADERS_B = 28
_WINDOW_B = 64 * 2**20  # the most that a connection has under way
_PACKET_BITS = 8 * (MSS_B + TCP_HEADERS_B)
_LOOKS_PER_S = 100
_VIDEO_BPS = 4e6  # more than the best level of a video
_KEPT_STEPS = 1000  # a change of a burst source's rate is kept from the beginning


@dataclass(frozen=True)
class _Way:
    """What packets of a traffic cross.

    Attributes:
        links: how many.
        rate_bps: of the slowest; infinite if none has a limit.
        trip_s: there and back again, without queues.
    """

    links: int
    rate_bps: float
    trip_s: float

    @property
    def greedy_bps(self) -> float:
        """What one connection has at most."""
        window_bps = 8 * _WINDOW_B / self.trip_s if self.trip_s else float("inf")
        return min(self.rate_bps, window_bps)

    def per_s(self, bits: float, pause_s: float) -> float:
        """How often one after the other can be asked for and had, with a pause between."""
        turn_s = self.trip_s + bits / self.rate_bps + pause_s
        return 1 / turn_s if turn_s else float("inf")


@dataclass(frozen=True)
class _Demand:
    """What a traffic asks for in each second that it lasts.

    Attributes:
        begun: what it begins by itself: requests, messages, bursts.
        bits: what it would send if no link were in the way; infinite if it takes what there is.
        queued: which of `begun` wait, with all that they need, until they can be served.
    """

    begun: float
    bits: float
    queued: float = 0.0


def bounded(scenario: Scenario, duration: Time) -> None:
    """Refuses what would run until memory or patience ends.

    Raises:
        BadInput: a traffic asks for more than `STEPS_MAX` or `WAITING_MAX`, or all together.
    """
    routes, links = plan(scenario), {link.name: link for link in scenario.links}
    seconds = duration.ns / 1e9
    total = seconds * _LOOKS_PER_S
    if total > STEPS_MAX:
        raise BadInput(f"{scenario.name}: {_too_many(total, seconds)}")
    for traffic in scenario.traffic:
        there = list(links_between(routes, traffic.source, traffic.destination))
        back = links_between(routes, traffic.destination, traffic.source)
        trip_s = sum(delay_s(links, place) for place in [*there, *back])
        lasts_s = max(min(traffic.stop or duration, duration).ns - traffic.start.ns, 0) / 1e9
        crossed = _Way(len(there), _slowest(links, there), trip_s)
        demand = _demand(traffic, crossed)
        total += _refuse(traffic, demand, crossed, lasts_s)
    if total > STEPS_MAX:
        raise BadInput(f"{scenario.name}: {_too_many(total, seconds)}")


def _refuse(traffic: Traffic, demand: _Demand, crossed: _Way, seconds: float) -> float:
    """How many steps the traffic takes; refuses those that are too many."""
    if not seconds:
        return 0.0
    carried_bps = min(demand.bits, crossed.rate_bps)
    if carried_bps == float("inf"):
        raise BadInput(
            f"traffic {traffic.name!r}: nothing on its way takes time, so that it would be carried "
            "without end in an instant: a link needs a rate or a delay"
        )
    steps = seconds * (demand.begun + crossed.links * carried_bps / _packet_bits(traffic))
    if steps > STEPS_MAX:
        raise BadInput(f"traffic {traffic.name!r}: {_too_many(steps, seconds)}")
    beyond = 1 - min(1.0, crossed.rate_bps / demand.bits) if demand.queued else 0.0
    waiting = seconds * demand.queued * beyond
    if waiting > WAITING_MAX:
        raise BadInput(
            f"traffic {traffic.name!r}: after {seconds:g} s about {waiting:.1e} requests would "
            f"wait for a link that carries {crossed.rate_bps:.3g} bit/s, and up to "
            f"{WAITING_MAX:.0e} may: ask less often, or simulate a shorter time"
        )
    return steps


def _too_many(steps: float, seconds: float) -> str:
    return (
        f"{seconds:g} s of it would take about {steps:.1e} steps, and up to {STEPS_MAX:.0e} are "
        "simulated: ask for less, or for a shorter time"
    )


def _slowest(links: Mapping[str, Link], places: list[tuple[str, str]]) -> float:
    limits = [rate_of(links, place) for place in places]
    return min((limit.bit_per_s for limit in limits if limit), default=float("inf"))


def _packet_bits(traffic: Traffic) -> float:
    if isinstance(traffic, UdpTraffic | PpbpTraffic):
        return float(8 * (traffic.payload.count + _UDP_HEADERS_B))
    return float(_PACKET_BITS)


def _demand(traffic: Traffic, crossed: _Way) -> _Demand:
    if isinstance(traffic, UdpTraffic):
        rate, cycles = float(traffic.rate.bit_per_s), 0.0
        if traffic.on and traffic.off:
            cycles = 1e9 / (traffic.on.ns + traffic.off.ns)
            rate *= cycles * traffic.on.ns / 1e9
        # Packets beyond the link's rate are sent, too.
        return _Demand(2 * cycles + rate / _packet_bits(traffic), rate)
    if isinstance(traffic, PpbpTraffic):
        bursts = 1e9 / traffic.burst_interval.ns
        rate = bursts * traffic.burst_mean.ns / 1e9 * traffic.burst_rate.bit_per_s
        return _Demand(2 * bursts * _KEPT_STEPS + rate / _packet_bits(traffic), rate)
    if isinstance(traffic, Iperf3Traffic):
        most = traffic.streams * crossed.greedy_bps
        return _Demand(0.0, min(float(traffic.rate.bit_per_s), most) if traffic.rate else most)
    if isinstance(traffic, RelayTraffic):
        return _Demand(0.0, crossed.greedy_bps)
    assert isinstance(traffic, ApplicationTraffic), "the reader makes no other"
    return _of_application(traffic, crossed)


def _of_application(traffic: ApplicationTraffic, crossed: _Way) -> _Demand:
    given = traffic.parameters
    match traffic.kind:
        case "web":
            begun = given["requests_per_s"]
            return _Demand(begun, begun * wire_bits(given["least_bytes"]), begun)
        case "pages":
            begun = 1e9 / given["interval_ns"]
            bits = wire_bits(given["root_bytes"]) + given["objects"] * wire_bits(
                given["least_bytes"]
            )
            return _Demand(begun * (1 + given["objects"]), begun * bits, begun)
        case "messages":
            bits, pause_s = wire_bits(given["size_bytes"]), given["interval_ns"] / 1e9
            if given["from_end"]:
                begun = crossed.per_s(bits, pause_s)
                return _Demand(begun, begun * bits)
            return _Demand(1 / pause_s, bits / pause_s, 1 / pause_s)
        case "game":
            begun = given["clients"] * crossed.per_s(0, given["think_ns"] / 1e9)
            return _Demand(begun, 0.0)
        case "piv":
            begun = given["frames_per_s"] + 1e9 / given["command_interval_ns"]
            return _Demand(begun, float(given["rate_bps"]))
        case "rpc":
            bits = wire_bits(given["reply_bytes"])
            begun = given["concurrency"] * crossed.per_s(bits, given["service_ns"] / 1e9)
            begun = min(begun, crossed.rate_bps / bits)
            return _Demand(begun, begun * bits)
        case "video":
            # It plays what it has for longer than it takes.
            return _Demand(0.0, min(crossed.greedy_bps, _VIDEO_BPS))
    raise AssertionError(f"nobody has said what {traffic.kind} sends")
