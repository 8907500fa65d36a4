"""From a scenario to what the core's packet simulator reads: the only place that writes it."""

from typing import Any

from weir import Time
from weir.lab import applications, media
from weir.lab.scenario import (
    CODEPOINTS,
    ApplicationTraffic,
    Iperf3Traffic,
    Link,
    PpbpTraffic,
    RelayTraffic,
    Scenario,
    Traffic,
    UdpTraffic,
)
from weir.lab.switching import as_queues
from weir.lab.traffic import source_config
from weir.lab.wiring import channel_config, direction_config
from weir.sim.traffic import SimulatedTraffic, generator_config

CONGESTION = "cubic"
"""The control of a host that names none: Linux's default, whatever this machine's is."""

_AS_LINUX = {"dctcp": "growth-in-cwr=off,whole-segments=on"}
"""The options of controls that have by default what no kernel does."""

_ECN_ON_REQUEST = {"reno", "cubic", "ctcp", "htcp", "ledbat"}
"""Controls that use ECN where their host asks for it; the others always do, or never."""


def simulation_config(scenario: Scenario, duration: Time) -> dict[str, Any]:
    """Nodes, channels, links and traffic; what is measured of them, `weir.sim.core` adds."""
    return {
        "seed": scenario.seed,
        "duration_ns": duration.ns,
        "nodes": [{"name": node.name, "forwards": node.forwards} for node in scenario.nodes],
        "channels": [channel_config(channel) for channel in scenario.channels],
        "links": [_link(link) for link in as_queues(scenario).links],
        "traffic": [_traffic(scenario, traffic) for traffic in scenario.traffic],
    }


def _link(link: Link) -> dict[str, Any]:
    return {
        "name": link.name,
        "ends": list(link.ends),
        "mtu_bytes": link.mtu,
        "medium": media.medium_config(link.medium),
        "forward": direction_config(link.forward),
        "backward": direction_config(link.backward),
    }


def _traffic(scenario: Scenario, traffic: Traffic) -> dict[str, Any]:
    return {
        "name": traffic.name,
        "draws": traffic.draws or traffic.name,
        "from": traffic.source,
        "to": traffic.destination,
        "start_ns": traffic.start.ns,
        "stop_ns": traffic.stop.ns if traffic.stop else None,
        "dscp": CODEPOINTS[traffic.dscp],
        "ecn": traffic.ecn,
        "application": _application(scenario, traffic),
        **_passing(traffic),
    }


def _passing(traffic: Traffic) -> dict[str, Any]:
    if isinstance(traffic, Iperf3Traffic | SimulatedTraffic) and traffic.through:
        return {"through": traffic.through, "weight": traffic.weight}
    return {}


def _application(scenario: Scenario, traffic: Traffic) -> dict[str, Any]:
    if isinstance(traffic, SimulatedTraffic):
        return generator_config(traffic.generator)
    if isinstance(traffic, ApplicationTraffic):
        opener = applications.opener(traffic)
        application = applications.config(traffic, _congestion(scenario, traffic, opener))
        application["tcp"] |= _offload(scenario, traffic)
        return application
    if isinstance(traffic, Iperf3Traffic):
        tcp = {"congestion": _congestion(scenario, traffic, traffic.source)}
        return {
            "kind": "bulk",
            "tcp": tcp | _offload(scenario, traffic),
            "streams": traffic.streams,
            "rate_bps": traffic.rate.bit_per_s if traffic.rate else None,
        }
    if isinstance(traffic, RelayTraffic):
        return _relay(scenario, traffic)
    assert isinstance(traffic, UdpTraffic | PpbpTraffic), "the reader makes no other"
    # The very packets, and bursts, that the lab sends under this seed.
    return source_config(traffic, scenario.seed)


def _relay(scenario: Scenario, traffic: RelayTraffic) -> dict[str, Any]:
    tcp: dict[str, Any] = {"congestion": _congestion(scenario, traffic, traffic.source)}
    if traffic.window:
        tcp["receive_buffer_bytes"] = traffic.window.count
    tcp |= _offload(scenario, traffic)
    return {"kind": "relay", "tcp": tcp, "linked_ack": traffic.linked_ack}


def _offload(scenario: Scenario, traffic: Traffic) -> dict[str, bool]:
    return {"segmentation_offload": bool(scenario.node(traffic.source).segmentation_offload)}


def _congestion(
    scenario: Scenario, traffic: ApplicationTraffic | Iperf3Traffic | RelayTraffic, opener: str
) -> str:
    """The control of the sender, with ECN if the host that opens the connection asks for it.

    What the scenario says of an option stands last, and so holds.
    """
    control = traffic.congestion or scenario.node(traffic.source).congestion or CONGESTION
    name, _, said = control.partition(":")
    asks = scenario.node(opener).ecn and name in _ECN_ON_REQUEST
    options = [_AS_LINUX.get(name, ""), "ecn=on" if asks else "", said]
    joined = ",".join(option for option in options if option)
    return f"{name}:{joined}" if joined else name
