"""What a scenario file says of switches, and what is refused."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from weir.errors import BadInput
from weir.lab.scenario import Link, Node, Switch, Switching
from weir.source import Place, Source, Table, one_of, whole

_DATAPATH_MAX = 2**63 - 1  # TOML's largest number
_UNNUMBERED = 0
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):(\d{1,5})")


def read_switch(table: Table, kind: str) -> Switch | None:
    """What a node's table says of it as a switch; None, with nothing else taken, for others."""
    what = table.take("kind", one_of("host", "router", "switch"), kind.removesuffix("s"))
    if f"{what}s" != kind and what != "switch":
        raise table.error("kind", f"a {what} stands in [{what}s]")
    if what == "switch" and kind == "hosts":
        raise table.error("kind", "a switch forwards, and no host does; it stands in [routers]")
    if what != "switch":
        return None
    datapath = table.take("datapath", whole(1, _DATAPATH_MAX), _UNNUMBERED)
    table.close()
    return Switch(datapath)


def numbered(source: Source, nodes: Sequence[tuple[Place, Node]]) -> list[tuple[Place, Node]]:
    """The nodes, with a number for every switch whose file gives none: the first that is free."""
    taken: dict[int, str] = {}
    for place, node in nodes:
        if node.switch and node.switch.datapath != _UNNUMBERED:
            other = taken.setdefault(node.switch.datapath, node.name)
            if other != node.name:
                where = (*place, "datapath")
                number = node.switch.datapath
                raise source.error(
                    where, f"datapath = {number} is that of {other}; each switch has its own"
                )
    free = (number for number in range(1, len(nodes) + len(taken) + 1) if number not in taken)
    return [
        (place, replace(node, switch=Switch(next(free))))
        if node.switch and node.switch.datapath == _UNNUMBERED
        else (place, node)
        for place, node in nodes
    ]


def read_switching(root: Table, nodes: Sequence[Node]) -> Switching:
    """The table of what all switches have in common."""
    table = root.table("switches", "[switches]")
    if table is None:
        return Switching()
    if not any(node.switch for node in nodes):
        raise table.error(None, 'there is none; a node of [routers] is one by kind = "switch"')
    controller = table.take("controller", read_controller, None)
    table.close()
    return Switching(controller)


def refuse_uneven(
    source: Source, nodes: Sequence[Node], links: Sequence[tuple[Place, Link]]
) -> None:
    """A switch neither cuts packets nor tells their senders that they are too long."""
    for node in nodes:
        met = [(place, link) for place, link in links if node.name in link.ends]
        for place, link in met:
            first = met[0][1]
            if node.switch and link.mtu != first.mtu:
                message = (
                    f"the links of switch {node.name} must have one mtu: {first.name} has "
                    f"{first.mtu} and {link.name} {link.mtu}"
                )
                raise source.error((*place, "mtu"), message)


def read_controller(value: Any) -> str:
    """Where a controller listens; raises `BadInput` for what is no such place."""
    if isinstance(value, str):
        port = _ADDRESS.fullmatch(value)
        if (port and 0 < int(port[1]) < 2**16) or re.fullmatch(r"unix:/\S+", value):
            return value
    raise BadInput('HOST:PORT or unix:PATH is allowed, such as "127.0.0.1:6653"')
