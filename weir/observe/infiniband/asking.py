"""What ports are asked and what they answer, whoever carries it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from weir.observe.infiniband.dump import SWITCH, Fabric, Speed
from weir.observe.infiniband.records import ROW, Flag, Rows
from weir.observe.infiniband.roles import Roles


@dataclass(frozen=True, slots=True)
class Port:
    """A port that counts.

    Attributes:
        lid: of its switch.
        number: of the port.
        speed: of its link, where the fabric's dump says; it makes ticks into time.
        is_up: whether the dump has a link there.
    """

    lid: int
    number: int
    speed: Speed | None = None
    is_up: bool = True

    @property
    def place(self) -> tuple[int, int]:
        """LID and number, by which it is found again; its speed and state may change."""
        return self.lid, self.number


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one query.

    Attributes:
        asked_ns: when it was sent.
        took_ns: how long until its answer came, or until that was given up.
        wait_ticks: the counter; 0 where there is no value.
        tick_ns: how long a tick takes; NaN if that is unknown.
        flags: what is known against the value.
    """

    asked_ns: int
    took_ns: int
    wait_ticks: int = 0
    tick_ns: float = float("nan")
    flags: frozenset[Flag] = frozenset()


class Backend(Protocol):
    """Who carries queries to ports, and what time it is there."""

    def now_ns(self) -> int:
        """The time, in ns of an epoch of its own."""

    def sleep(self, seconds: float) -> None:
        """Lets so much of that time pass."""

    def ask(self, ports: Sequence[Port]) -> list[Answer]:
        """Asks all of them, several at a time; an answer each, in order."""

    def reset(self, port: Port) -> bool:
        """Sets the port's counter of waiting to zero; whether it did."""


_PER_PORT_TICK = 7
"""Switches that tell this tick count 8 bytes of the whole port; others count those of a lane
(NVIDIA, ibdiagnet's manual, "Congestion Assessment")."""
_ASSUMED_TICK = 31


def tick_ns(told: int | None, speed: Speed | None) -> float:
    """How long a port's tick takes.

    Args:
        told: PortSamplesControl's; None if the port does not tell, then that of most switches.
        speed: of its link; without one it is unknown, and NaN.
    """
    if speed is None:
        return float("nan")
    tick = _ASSUMED_TICK if told is None else told
    lanes = speed.lanes if tick == _PER_PORT_TICK else 1
    return (tick + 1) * speed.symbol_ns / lanes


def ports_of(fabric: Fabric, lids: Iterable[int] | None = None) -> list[Port]:
    """Every port of the switches with these LIDs, or of all; those without a link are down."""
    wanted = None if lids is None else set(lids)
    found = []
    for node in fabric.values():
        if node.kind != SWITCH or not node.lid or (wanted is not None and node.lid not in wanted):
            continue
        for number in range(1, node.ports + 1):
            far = node.cables.get(number)
            found.append(Port(node.lid, number, far.speed if far else None, far is not None))
    return found


def rows_of(
    round_ns: int,
    ports: Sequence[Port],
    answers: Sequence[Answer],
    names: "Names | None" = None,
) -> Rows:
    """Answers as rows of one round."""
    rows = np.zeros(len(ports), ROW)
    for number, (port, answer) in enumerate(zip(ports, answers, strict=True)):
        kind, way = names.of(port) if names else ("", "")
        flags = "+".join(sorted(answer.flags))
        rows[number] = (
            kind,
            way,
            round_ns,
            port.lid,
            port.number,
            answer.asked_ns,
            answer.took_ns,
            answer.wait_ticks,
            answer.tick_ns,
            flags,
        )
    return rows


class Names:
    """Kind, direction and name of each port of a fabric, by LID and number."""

    def __init__(self, fabric: Fabric, roles: Roles) -> None:
        self.learn(fabric, roles)

    def learn(self, fabric: Fabric, roles: Roles) -> None:
        """Forgets what it knew: the fabric has changed."""
        self._roles = roles
        self._node = {node.lid: node for node in fabric.values() if node.kind == SWITCH}

    def of(self, port: Port) -> tuple[str, str]:
        """Its kind of switch, and its direction; nothing of a port without a link."""
        return self.category(port.lid, port.number)

    def category(self, lid: int, number: int) -> tuple[str, str]:
        """The same by numbers."""
        node = self._node.get(lid)
        if node is None:
            return "", ""
        return self._roles.kind[node.id], self._roles.way.get((node.id, number), "")

    def name(self, lid: int) -> str:
        """What people call the switch."""
        node = self._node.get(lid)
        return node.name if node else f"LID {lid}"
