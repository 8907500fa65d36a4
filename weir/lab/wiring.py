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
from weir.lab.scenario import Bernoulli, Direction, GilbertElliott, Link, Scenario

# Packets wait here until the emulator reads them; long, so that only the emulated queue drops.
_DEVICE_QUEUE_PACKETS = 10_000


def emulator_config(
    scenario: Scenario, plan: Plan, rooms: Mapping[str, Room], supervisor: int
) -> str:
    """The JSON that `weir._core.Emulator` takes."""

    def end(port: Port, link: Link) -> dict[str, Any]:
        netns = f"/proc/{supervisor}/fd/{rooms[port.node].net}"
        return {"netns": netns, "device": port.device, "mtu": link.mtu}

    links = [
        {
            "name": link.name,
            "a": end(plan.ports[link.name][0], link),
            "b": end(plan.ports[link.name][1], link),
            "forward": direction_config(link.forward),
            "backward": direction_config(link.backward),
        }
        for link in scenario.links
    ]
    return json.dumps({"seed": scenario.seed, "links": links})


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
    ports = [port for pair in plan.ports.values() for port in pair]
    for node in scenario.nodes:
        address = plan.addresses[node.name]
        lines = ["link set dev lo up", f"address add {address}/32 dev lo"]
        for port in ports:
            if port.node == node.name:
                options = f"mtu {mtus[port.link]} txqueuelen {_DEVICE_QUEUE_PACKETS}"
                if node.segmentation_offload is False:
                    options += " gso_max_segs 1"
                lines.append(f"link set dev {port.device} {options} up")
        for end, port in plan.next_hops[node.name].items():
            to = plan.addresses[end]
            congestion = controls.between(scenario, node.name, end)
            option = f" congctl {congestion}" if congestion else ""
            lines.append(f"route add {to}/32 dev {port.device} src {address}{option}")
        _ip(rooms[node.name].command(supervisor, ["ip", "-batch", "-"], "/"), lines, node.name)


def _ip(command: Sequence[str], lines: Sequence[str], node: str) -> None:
    done = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Unsupported(f"cannot configure {node}: {done.stderr.strip()}")
