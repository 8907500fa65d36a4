"""What programs outside know of a switch: its number, its ports, where it listens."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from weir.lab.addressing import Plan, Port, bridge
from weir.lab.scenario import Node


@dataclass(frozen=True)
class Bridge:
    """A switch of a lab that is up.

    Attributes:
        name: the node's.
        datapath: the number that controllers know it by.
        ports: by their OpenFlow numbers, from 1 in the order of the scenario's links.
        folder: of its sockets, database and logs.
    """

    name: str
    datapath: int
    ports: Mapping[int, Port]
    folder: Path

    @property
    def datapath_id(self) -> str:
        """The datapath's number as OpenFlow tools write it: 16 hexadecimal digits."""
        return f"{self.datapath:016x}"

    @property
    def device(self) -> str:
        """The bridge's name within Open vSwitch: the switch's, cut to 15 characters."""
        return bridge(self.name)

    @property
    def management(self) -> Path:
        """The socket for `ovs-ofctl`, which takes its path instead of a bridge's name."""
        return self.folder / f"{self.device}.mgmt"

    @property
    def database(self) -> Path:
        """The socket of its database: `ovs-vsctl --db=unix:PATH`."""
        return self.folder / "db.sock"

    @property
    def control(self) -> Path:
        """The socket of its daemon: `ovs-appctl -t PATH`."""
        return self.folder / "vswitchd.ctl"

    def port_to(self, peer: str) -> int:
        """The number of the first port that leads to `peer`; KeyError if none does."""
        for number, port in self.ports.items():
            if port.peer == peer:
                return number
        raise KeyError(peer)

    @classmethod
    def of(cls, node: Node, plan: Plan, above: Path) -> Self:
        """The switch that `node` is to be, with its folder in `above`."""
        assert node.switch, "asked for switches only"
        return cls(node.name, node.switch.datapath, plan.numbered[node.name], above / node.name)

    def to_json(self) -> dict[str, Any]:
        """For the lab's state file; `from_json` reads it back."""
        return {
            "name": self.name,
            "datapath": self.datapath,
            "datapath_id": self.datapath_id,
            "ports": {str(number): asdict(port) for number, port in self.ports.items()},
            "folder": str(self.folder),
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Self:
        """What `to_json` wrote."""
        ports = {int(number): Port(**port) for number, port in state["ports"].items()}
        return cls(state["name"], state["datapath"], ports, Path(state["folder"]))
