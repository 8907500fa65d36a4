"""All switches of a lab: daemons, classes of ports, rules where no controller gives any."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weir.errors import BadInput, Unsupported
from weir.lab.addressing import Plan
from weir.lab.scenario import Scenario
from weir.lab.switches import shaping
from weir.lab.switches.bridge import Bridge
from weir.lab.switches.daemons import Daemons, missing
from weir.lab.switches.rules import next_hop_rules
from weir.lab.traffic import Spawn


class Switches:
    """The switches of one lab; none in most.

    Args:
        scenario: the lab's.
        plan: what was decided from it.
        folder: the lab's; they have one each below it.
        spawn: starts a command in a node's room.

    Attributes:
        bridges: what programs outside are told of each.
    """

    def __init__(self, scenario: Scenario, plan: Plan, folder: Path, spawn: Spawn) -> None:
        self._plan = plan
        self._common = scenario.switching
        self.bridges = [
            Bridge.of(node, plan, folder / "switches") for node in scenario.nodes if node.switch
        ]
        self._daemons = Daemons(self.bridges, spawn)
        self._commands = {bridge.name: _commands(scenario, bridge) for bridge in self.bridges}

    def start(self, way: Path | None) -> None:
        """Brings every switch up; they reach their controller by the socket `way`.

        Raises:
            Unsupported: Open vSwitch is not here, or a switch did not come up.
        """
        if not self.bridges:
            return
        if lacking := missing():
            raise Unsupported(f"a switch needs {lacking}")
        shaped = [bridge for bridge in self.bridges if self._lines(bridge.name)]
        given = {bridge.name: self._lines(bridge.name) for bridge in shaped}
        if shaped:
            self._daemons.for_each(shaped, lambda _: ["tc", "-batch", "-"], given)
        self._daemons.start(way, {name: self._shaped(name) for name in given})
        if self._common.controller is None:
            self._daemons.install(
                {b.name: next_hop_rules(self._plan, b.name) for b in self.bridges}
            )

    def restart(self, name: str) -> None:
        """Kills the daemons of a switch and starts new ones: an outage of a fraction of a second.

        Rules are lost but where the lab itself gave them; classes stay.

        Raises:
            BadInput: there is no such switch.
        """
        if name not in self._commands:
            names = ", ".join(self._commands) or "none"
            raise BadInput(f"{name} is not a switch of this lab; its switches are {names}")
        self._daemons.restart(name)
        if self._common.controller is None:
            self._daemons.install({name: next_hop_rules(self._plan, name)})

    def tend(self, is_quick: bool = False) -> bool:
        """What is to be done about once a second, quickly at times; whether nothing is left."""
        return self._daemons.tend(is_quick)

    def status(self) -> list[dict[str, Any]]:
        """What `weir lab status` says of each switch."""
        return [self._status(bridge) for bridge in self.bridges]

    def _status(self, bridge: Bridge) -> dict[str, Any]:
        named, name = self._common.controller, bridge.name
        counted: Mapping[str, Any] = {}
        if shaped := self._shaped(name):
            shown = self._daemons.asked(name, ["tc", "-s", "-j", "qdisc", "show"])
            counted = shaping.counters(shown, shaped, self._common.classes)
        return {
            "name": name,
            "datapath_id": bridge.datapath_id,
            "up": self._daemons.are_up(name),
            "dropped": self._daemons.dropped(name),
            "controller": named,
            "connected": self._daemons.is_connected(name) if named else None,
            "ports": [
                {
                    "number": number,
                    "to": port.peer,
                    "link": port.link,
                    "device": port.device,
                    "classes": counted.get(port.device, []),
                }
                for number, port in bridge.ports.items()
            ],
        }

    def _lines(self, name: str) -> str:
        return "".join(f"{line}\n" for lines in self._commands[name].values() for line in lines)

    def _shaped(self, name: str) -> list[str]:
        return [device for device, lines in self._commands[name].items() if lines]


def _commands(scenario: Scenario, bridge: Bridge) -> dict[str, list[str]]:
    """What gives the classes to each of a switch's devices."""
    links = {link.name: link for link in scenario.links}
    commands = {}
    for port in bridge.ports.values():
        link = links[port.link]
        way = link.forward if link.ends[0] == bridge.name else link.backward
        classes = scenario.switching.classes
        commands[port.device] = shaping.commands(port.device, way, link.mtu, classes)
    return commands
