"""Whether switches are joined as the network file says, by frames sent from port to port.

Frames wait in the ports' queues and may be lost there: a link on which any packets arrive is alive.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from weir.calendar.network import Link
from weir.control.lldp import Origin, frame, origin
from weir.control.messages import PacketOut, ReadPorts
from weir.control.topology import Topology, View

EVERY_S = 0.25
# A cable that carried frames, and for so long has carried nothing, is cut.
LOST_S = 0.8


@dataclass(slots=True)
class _Heard:
    """When a frame last came out of a link, and where."""

    at_s: float
    target: str
    port: int


class Cabling:
    """What frames have told of every link between switches."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._heard: dict[str, _Heard] = {}
        self._counts: dict[str, Mapping[int, int]] = {}
        self._asked_s: float | None = None

    def ask(self, view: View, now_s: float) -> dict[str, list[PacketOut | ReadPorts]]:
        """The frames and questions that are due, by the switch that they are for."""
        if self._asked_s is not None and now_s - self._asked_s < EVERY_S:
            return {}
        if self._asked_s is not None:
            # While nobody asked, nobody could answer.
            late_s = now_s - self._asked_s - EVERY_S
            for heard in self._heard.values():
                heard.at_s = min(now_s, heard.at_s + late_s)
        self._asked_s = now_s
        frames: dict[str, list[PacketOut | ReadPorts]] = {}
        for link, port in self._topology.cables(view):
            data = frame(Origin(self._topology.switches[link.source], port))
            frames.setdefault(link.source, [ReadPorts()]).append(PacketOut(port, data))
        return frames

    def heard(self, switch: str, port: int, data: bytes, view: View, now_s: float) -> None:
        """A frame came in to a switch by a port."""
        sent = origin(data)
        source = self._topology.switch(sent.datapath) if sent else None
        if sent is None or source is None:
            return
        for link, leaves in self._topology.cables(view):
            if (link.source, leaves) == (source, sent.port):
                self._heard[link.name] = _Heard(now_s, switch, port)

    def counted(self, switch: str, received: Mapping[int, int], view: View, now_s: float) -> None:
        """A switch has told how many packets came in by each port."""
        before = self._counts.get(switch)
        self._counts[switch] = dict(received)
        if before is None:
            return
        for name, heard in self._heard.items():
            link = self._topology.links[name]
            port = self._topology.enters_by(link, view) if link.target == switch else None
            if port is not None and received.get(port, 0) > before.get(port, 0):
                heard.at_s = now_s

    def gone(self, switch: str) -> None:
        """A switch that is not connected says nothing about its links."""
        ends = self._topology.links
        self._counts.pop(switch, None)
        mute = [x for x in self._heard if switch in (ends[x].source, ends[x].target)]
        for name in mute:
            del self._heard[name]

    def cut(self, view: View, now_s: float) -> frozenset[str]:
        """The links that are silent now, or lead elsewhere."""
        silent = {x for x, heard in self._heard.items() if now_s - heard.at_s > LOST_S}
        return frozenset(silent) | self._wrong(view).keys()

    def complaints(self, view: View) -> list[str]:
        """What is joined otherwise than the network file says, in words."""
        return sorted(self._wrong(view).values())

    def _wrong(self, view: View) -> dict[str, str]:
        wrong = {}
        for name, heard in self._heard.items():
            link = self._topology.links[name]
            # A port that is down, or not known yet, says nothing against the cable.
            meant = self._topology.enters_by(link, view)
            if heard.target == link.target and meant in (None, heard.port):
                continue
            wrong[name] = (
                f"link {name}: port {link.source_port} of {link.source} leads to port "
                f"{_port_name(view, heard)} of {heard.target}, {_meant(link)}"
            )
        return wrong


def _port_name(view: View, heard: _Heard) -> str:
    ports = view.ports.get(heard.target, {})
    return next((name for name, number in ports.items() if number == heard.port), str(heard.port))


def _meant(link: Link) -> str:
    return f"not to port {link.target_port} of {link.target}"
