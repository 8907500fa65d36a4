"""A plan made real: the emulator's configuration, and addresses and routes inside each node."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from weir.errors import Unsupported
from weir.lab import controls, queues
from weir.lab.addressing import Plan, Port
from weir.lab.namespaces import Room
from weir.lab.scenario import (
    Bernoulli,
    Channel,
    Direction,
    GilbertElliott,
    Link,
    Scenario,
    Switch,
    Wlan,
)

# Packets wait here until the emulator reads them; long, so that only the emulated queue drops.
_DEVICE_QUEUE_PACKETS = 10_000


def emulator_config(
    scenario: Scenario, plan: Plan, rooms: Mapping[str, Room], supervisor: int
) -> str:
    """The JSON that `weir._core.Emulator` takes."""

    def end(port: Port, link: Link) -> dict[str, Any]:
        netns = f"/proc/{supervisor}/fd/{rooms[port.node].net}"
        told = {"netns": netns, "device": port.device, "mtu": link.mtu}
        if isinstance(link.medium, Wlan):
            return told | {"station": port.node}
        return told | {"ethernet": scenario.node(port.node).switch is not None}

    links = [
        {
            "name": link.name,
            "a": end(plan.ports[link.name][0], link),
            "b": end(plan.ports[link.name][1], link),
            "forward": direction_config(link.forward),
            "backward": direction_config(link.backward),
            "channel": link.medium.channel if isinstance(link.medium, Wlan) else None,
        }
        for link in scenario.links
    ]
    channels = [channel_config(channel) for channel in scenario.channels]
    return json.dumps({"seed": scenario.seed, "channels": channels, "links": links})


def channel_config(channel: Channel) -> dict[str, Any]:
    """A channel with its name as the emulator and the packet simulator read it."""
    config = asdict(channel)
    return {"name": config.pop("name"), "config": config}


def direction_config(direction: Direction) -> dict[str, Any]:
    """One direction of a link as the emulator and the packet simulator read it."""
    return {
        "rate_bps": direction.rate.bit_per_s if direction.rate else None,
        "delay_ns": direction.delay.ns,
        "jitter_ns": direction.jitter.ns,
        "loss": _loss(direction.loss),
        "queue": queues.config(direction.queue),
    }


def _loss(loss: Bernoulli | GilbertElliott | None) -> dict[str, Any] | None:
    if loss is None:
        return None
    model = "bernoulli" if isinstance(loss, Bernoulli) else "gilbert-elliott"
    return {"model": model, **asdict(loss)}


def configure(scenario: Scenario, plan: Plan, rooms: Mapping[str, Room], supervisor: int) -> None:
    """Gives every node its address and routes, and brings its devices up."""
    mtus = {link.name: link.mtu for link in scenario.links}
    for node in scenario.nodes:
        lines = ["link set dev lo up"]
        for number, port in plan.numbered[node.name].items():
            options = f"mtu {mtus[port.link]} txqueuelen {_DEVICE_QUEUE_PACKETS}"
            if node.switch:
                options += f" address {_port_address(node.switch, number)}"
            if node.segmentation_offload is False:
                options += " gso_max_segs 1"
            lines.append(f"link set dev {port.device} {options} up")
        if not node.switch:
            lines += _address_and_routes(scenario, plan, node.name)
        _ip(rooms[node.name].command(supervisor, ["ip", "-batch", "-"], "/"), lines, node.name)


def _port_address(switch: Switch, number: int) -> str:
    """The Ethernet address of a switch's port: its own, and the same each time."""
    octets = (0x06, *(switch.datapath % 2**24).to_bytes(3), *number.to_bytes(2))
    return ":".join(f"{octet:02x}" for octet in octets)


def _address_and_routes(scenario: Scenario, plan: Plan, node: str) -> list[str]:
    lines = []
    for addresses, bits, more in ((plan.addresses, 32, ""), (plan.addresses6, 128, " nodad")):
        if node not in addresses:
            continue
        lines.append(f"address add {addresses[node]}/{bits} dev lo{more}")
        for end, port in plan.next_hops[node].items():
            congestion = controls.between(scenario, node, end)
            option = f" congctl {congestion}" if congestion else ""
            way = f"dev {port.device} src {addresses[node]}{option}"
            lines.append(f"route add {addresses[end]}/{bits} {way}")
    return lines


def _ip(command: Sequence[str], lines: Sequence[str], node: str) -> None:
    done = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Unsupported(f"cannot configure {node}: {done.stderr.strip()}")
