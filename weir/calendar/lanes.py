"""The lanes of an assignment: each path of a transfer, with the port that tells its packets.

A transfer over several paths is sent to several ports of its receiver, one for each path, so that
whoever stands on the way tells the packets of one path from those of another.
"""

from dataclasses import dataclass
from typing import Any

LANES_MAX = 8
"""The most paths of one transfer, and so the most data ports of a host."""


@dataclass(frozen=True, slots=True)
class Lane:
    """What one path of a transfer may carry.

    Attributes:
        port: of the receiver, to which its packets go.
        path: the links that it takes, by name; none: those that the network chooses.
        rate_bps: on the wire; zero while it is to carry nothing.
    """

    port: int
    path: tuple[str, ...]
    rate_bps: int


def lanes(assignment: dict[str, Any]) -> list[Lane]:
    """The lanes of an assignment, in its order; none while the receiver's address is not known.

    A calendar older than lanes names one rate, and perhaps a path. Where the receiver has fewer
    ports than there are lanes, the last ones go with the last port's.
    """
    address = assignment["data_address"]
    if not address:
        return []
    ports = assignment.get("data_ports") or [int(address.rpartition(":")[2])]
    told = assignment.get("lanes") or [
        {"path": assignment.get("path", ()), "rate_bps": assignment["rate_bps"]}
    ]
    found: dict[int, Lane] = {}
    for index, lane in enumerate(told):
        port = ports[min(index, len(ports) - 1)]
        one = found.get(port, Lane(port, tuple(lane["path"]), 0))
        found[port] = Lane(port, one.path, one.rate_bps + lane["rate_bps"])
    return list(found.values())
