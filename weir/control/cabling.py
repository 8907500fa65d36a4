"""Whether switches are joined as the network file says, by frames sent from port to port.

Frames wait in the ports' queues and may be lost there: a link on which any packets arrive is alive.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from weir.calendar.network import Link
from weir.control.lldp import Origin, frame, origin
from weir.control.messages import PacketOut, ReadPorts
from weir.control.topology import Topology, View

EVERY_S = 0.25
# A cable that carried packets, and on which none arrived in so many rounds, is cut.
SILENT_ROUNDS = 3


@dataclass(slots=True)
class _Heard:
    """Where a link's frames come out, and for how many rounds nothing has."""

    target: str
    port: int
    silent: int = 0


class Cabling:
    """What frames have told of every link between switches.

    In a round a switch is asked for its counters and sends a frame out of each cable. It has its
    next round when it has answered, so a switch or a controller that is busy is not taken for a
    cut cable: a link is silent when the switches at both its ends answer and its counter stands.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._heard: dict[str, _Heard] = {}
        self._counts: dict[str, Mapping[int, int]] = {}
        # Switches that have not answered, and how often each has.
        self._asked: set[str] = set()
        self._answers: dict[str, int] = {}
        # For every link, how often the switch at its start had answered when it was last judged.
        self._judged: dict[str, int] = {}
        self._asked_s = -EVERY_S

    def ask(
        self, connected: Collection[str], view: View, now_s: float
    ) -> dict[str, list[PacketOut | ReadPorts]]:
        """What begins a round, by the switch that it is for."""
        if now_s - self._asked_s < EVERY_S:
            return {}
        self._asked_s = now_s
        ready = [name for name in connected if name not in self._asked]
        rounds: dict[str, list[PacketOut | ReadPorts]] = {name: [ReadPorts()] for name in ready}
        self._asked.update(ready)
        for link, port in self._topology.cables(view):
            if link.source in rounds:
                data = frame(Origin(self._topology.switches[link.source], port))
                rounds[link.source].append(PacketOut(port, data))
        return rounds

    def heard(self, switch: str, port: int, data: bytes, view: View) -> None:
        """A frame came in to a switch by a port."""
        sent = origin(data)
        source = self._topology.switch(sent.datapath) if sent else None
        if sent is None or source is None:
            return
        for link, leaves in self._topology.cables(view):
            if (link.source, leaves) == (source, sent.port):
                self._heard[link.name] = _Heard(switch, port)

    def counted(self, switch: str, received: Mapping[int, int], view: View) -> None:
        """A switch has told how many packets came in by each port."""
        self._asked.discard(switch)
        self._answers[switch] = self._answers.get(switch, 0) + 1
        before = self._counts.get(switch)
        self._counts[switch] = dict(received)
        if before is None:
            return
        for name, heard in self._heard.items():
            link = self._topology.links[name]
            port = self._topology.enters_by(link, view)
            if link.target != switch or port is None:
                continue
            answers = self._answers.get(link.source, 0)
            if received.get(port, 0) > before.get(port, 0):
                heard.silent = 0
            elif answers > self._judged.get(name, 0):
                heard.silent += 1
            self._judged[name] = answers

    def gone(self, switch: str) -> None:
        """A switch that is not connected says nothing about its links."""
        self._counts.pop(switch, None)
        self._asked.discard(switch)
        ends = self._topology.links
        mute = [x for x in self._heard if switch in (ends[x].source, ends[x].target)]
        for name in mute:
            del self._heard[name]

    def cut(self, view: View) -> frozenset[str]:
        """The links that are silent now, or lead elsewhere."""
        silent = {name for name, heard in self._heard.items() if heard.silent >= SILENT_ROUNDS}
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
