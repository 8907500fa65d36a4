"""What to know before believing a result: queues that cannot fill, traffic that is not measured."""

from collections.abc import Mapping

from weir import Rate, Time
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
from weir.sim.path import MSS_B, Place, delay_s, links_between, rate_of, wire_bits

_GAME_MESSAGE_B, _GAME_GAP_S = 1448, 0.005  # 004-spec section 6.1: the largest, the shortest mean


def idle_queues(scenario: Scenario) -> list[str]:
    """A warning for every queue of a wired link under study that can never fill.

    A queue is under study if its discipline is not FIFO. It cannot fill if all that can reach it
    together, each traffic limited by its own rate and by every link before, is not more than its
    link carries: the usual cause of wrong results about low-latency queues. The rate of messages,
    games and panoramic video is what they write in the long run; of calls, what so many at a time
    can carry; downloads are as fast as TCP goes. Acknowledgements are not counted: a queue that
    only they cross is nobody's study.
    """
    routes = plan(scenario)
    links = {link.name: link for link in scenario.links}
    offered: dict[Place, float] = {}
    for traffic in scenario.traffic:
        path = list(links_between(routes, traffic.source, traffic.destination))
        back = links_between(routes, traffic.destination, traffic.source)
        trip_s = sum(delay_s(links, place) for place in [*path, *back])
        rate = _own_rate(traffic, trip_s)
        for place in path:
            offered[place] = offered.get(place, 0.0) + rate
            limit = rate_of(links, place)
            rate = min(rate, limit.bit_per_s) if limit else rate
    return [
        f"{link.name} {side}: its {getattr(link, side).queue.discipline} queue cannot fill, for no "
        f"more than {Rate.from_bit_per_s(round(offered.get((link.name, side), 0.0)))} can reach "
        f"it; the bottleneck is elsewhere"
        for link in scenario.links
        for side in ("forward", "backward")
        if _is_idle(link, side, offered)
    ]


def unmeasured(scenario: Scenario, duration: Time, warmup: Time) -> list[str]:
    """A warning for every traffic that does not run while it is measured.

    And one for a measured time that goes on after the last traffic has ended. Figures of nothing
    look like measured zeros.
    """
    warnings = []
    ends = [min(traffic.stop or duration, duration) for traffic in scenario.traffic]
    for traffic, end in zip(scenario.traffic, ends, strict=True):
        if end <= warmup:
            why = f"it ends at {end}, and what happens before {warmup} is warm-up"
        elif traffic.start >= duration:
            why = f"it starts at {traffic.start}, and {duration} are simulated"
        else:
            continue
        warnings.append(f"{traffic.name}: nothing of it is measured, for {why}")
    last = max(ends)
    if warmup < last < duration:
        warnings.append(
            f"the last traffic ends at {last}: shares and means of links count the time until "
            f"{duration}, when they are idle"
        )
    return warnings


def _is_idle(link: Link, way: str, offered: Mapping[Place, float]) -> bool:
    direction = getattr(link, way)
    # How much of its rate another link carries depends on who else is on the medium.
    if link.medium or direction.queue.discipline == "fifo" or direction.rate is None:
        return False
    reaching = offered.get((link.name, way), 0.0)
    limit: int = direction.rate.bit_per_s
    return 0 < reaching <= limit


def _own_rate(traffic: Traffic, trip_s: float) -> float:
    """What a traffic sends at most in the long run, if its round trip takes `trip_s`."""
    if isinstance(traffic, UdpTraffic):
        return float(traffic.rate.bit_per_s)
    if isinstance(traffic, Iperf3Traffic) and traffic.rate:
        return float(traffic.rate.bit_per_s)
    if isinstance(traffic, ApplicationTraffic):
        return _application_rate(traffic, trip_s)
    assert isinstance(traffic, Iperf3Traffic | PpbpTraffic | RelayTraffic), (
        "the reader makes no other"
    )
    return float("inf")


def _application_rate(traffic: ApplicationTraffic, trip_s: float) -> float:
    given = traffic.parameters
    match traffic.kind:
        case "messages":
            return float(wire_bits(given["size_bytes"]) / given["interval_ns"] * 1e9)
        case "game":
            return float(given["clients"] * wire_bits(_GAME_MESSAGE_B) / _GAME_GAP_S)
        case "piv":
            share = wire_bits(MSS_B) / (8 * MSS_B)
            return float(given["rate_bps"] * share)
        case "rpc":
            turn_s = trip_s + given["service_ns"] / 1e9
            bits = given["concurrency"] * wire_bits(given["reply_bytes"])
            return float(bits / turn_s) if turn_s else float("inf")
    return float("inf")
