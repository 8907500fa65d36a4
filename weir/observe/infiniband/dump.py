"""A fabric as `ibnetdiscover` prints it: switches, hosts, and the cables between their ports.

The same text is what ibsim builds a fabric from. Read as strictly as an inventory deserves: what is
cut, contradicts itself or leads nowhere is refused, for a port whose far end is unknown would
otherwise get a wrong direction in silence.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weir import files
from weir.errors import BadInput
from weir.printable import printable

SWITCH, HOST, ROUTER = "switch", "host", "router"
_KINDS = {"Switch": SWITCH, "Ca": HOST, "Hca": HOST, "Rt": ROUTER}
_NODE = re.compile(r'^(\w+)\s+(\d{1,9})\s+"([^"]+)"\s*(.*)$')
_PORT = re.compile(r'^\[(\d{1,9})\](?:\(\w+\))?\s*"([^"]+)"\[(\d{1,9})\](?:\(\w+\))?\s*(.*)$')
_NAME = re.compile(r'#\s*"([^"]*)"')
_LID = re.compile(r"\blid (\d{1,9})\b")
_LINK = re.compile(r"\b(1|2|4|8|12)x([A-Z]+\d*)\b")
_FACT = re.compile(r"^\w+=")
_PORTS_MAX = 254
_LID_MAX = 0xBFFF
"""Beyond stand those of groups."""
_SHOWN = 60
"""So many characters of a line or a name are shown in a message."""


@dataclass(frozen=True, slots=True)
class Speed:
    """What a link is.

    Attributes:
        lanes: how many.
        name: of the speed of each, such as FDR.
    """

    lanes: int
    name: str

    @property
    def symbol_ns(self) -> float:
        """How long a lane takes for a byte; NaN for a speed that is not known."""
        return _SYMBOL_NS.get(self.name, float("nan"))

    @property
    def rate_bps(self) -> float:
        """What it carries of data."""
        return self.lanes * 8e9 / self.symbol_ns


# A byte is 10 bits on the wire up to QDR, and 8 with 66 for 64 of them from FDR10 on. HDR and later
# are what NVIDIA calls them: 50, 100 and 200 Gbit/s a lane.
_SYMBOL_NS = {
    "SDR": 4.0,
    "DDR": 2.0,
    "QDR": 1.0,
    "FDR10": 0.8,
    "FDR": 8 * 66 / 64 / 14.0625,
    "EDR": 0.32,
    "HDR": 0.16,
    "NDR": 0.08,
    "XDR": 0.04,
}
FDR = Speed(4, "FDR")


@dataclass(frozen=True, slots=True)
class Far:
    """Where a cable leads: the other end's node and port, and what the link is."""

    node: str
    port: int
    speed: Speed | None = None


@dataclass(slots=True)
class Node:
    """A switch, host or router.

    Attributes:
        id: as the dump calls it, unique.
        kind: SWITCH, HOST or ROUTER.
        ports: how many it has.
        name: for people.
        lid: of a switch; 0 where the dump has none.
        cables: by port, where each leads.
    """

    id: str
    kind: str
    ports: int
    name: str
    lid: int = 0
    cables: dict[int, Far] = field(default_factory=dict)


Fabric = Mapping[str, Node]
"""Every node by its id."""


def load(path: Path) -> Fabric:
    """The fabric of a dump.

    Raises:
        BadInput: it cannot be read, is cut, or contradicts itself; with the line.
    """
    return parse(files.text(path, errors="replace"), str(path))


def parse(text: str, place: str = "the dump") -> Fabric:
    """The fabric of a dump's text; `place` is what messages call it."""
    nodes: dict[str, Node] = {}
    node: Node | None = None
    # Not at what else may end a line: whoever names a host must not make lines of its name.
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        where = f"{place}: line {number}"
        if not stripped or stripped.startswith("#") or _FACT.match(stripped):
            continue
        if stripped.startswith("["):
            if node is None:
                raise BadInput(f"{where}: a port before any switch or host")
            _add_port(node, stripped, where)
        else:
            node = _node(stripped, where)
            if node.id in nodes:
                raise BadInput(f"{where}: {_shown(node.id)} is there a second time")
            nodes[node.id] = node
    if not nodes:
        raise BadInput(f"{place}: no switch and no host is in it; is it from ibnetdiscover?")
    if not text.endswith("\n"):
        raise BadInput(f"{place}: it is cut: the last line has no end")
    _check(nodes, place)
    return nodes


def _node(line: str, where: str) -> Node:
    found = _NODE.match(line)
    if not found:
        raise BadInput(f"{where}: neither a node nor a port: {_shown(line)}")
    word, ports, id_, rest = found.groups()
    if word not in _KINDS:
        known = ", ".join(_KINDS)
        raise BadInput(f"{where}: '{_shown(word)}' is a kind of device that is not known ({known})")
    if not 1 <= int(ports) <= _PORTS_MAX:
        raise BadInput(f"{where}: {ports} ports; a device has 1 to {_PORTS_MAX}")
    # A name may say anything, but what follows it is the fabric's.
    name, lid = _NAME.search(rest), _LID.search(rest.rpartition('"')[2])
    kind = _KINDS[word]
    shown = name[1] if name else id_
    number = int(lid[1]) if lid and kind == SWITCH else 0
    if number > _LID_MAX:
        raise BadInput(f"{where}: LID {number}, where a switch has one up to {_LID_MAX}")
    return Node(id_, kind, int(ports), shown, number)


def _shown(text: str) -> str:
    """A name or line of others as messages have it: short, and obeyed by no terminal."""
    return printable(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _add_port(node: Node, line: str, where: str) -> None:
    found = _PORT.match(line)
    if not found:
        raise BadInput(f"{where}: this is no port (is the dump cut?): {_shown(line)}")
    port, far, far_port, rest = int(found[1]), found[2], int(found[3]), found[4]
    if not 1 <= port <= node.ports:
        has = f"{_shown(node.name)} has {node.ports} ports"
        raise BadInput(f"{where}: port {port}, where {has}")
    if port in node.cables:
        raise BadInput(f"{where}: port {port} of {_shown(node.name)} is there a second time")
    if far == node.id:
        both = f"ports {port} and {far_port} of {_shown(node.name)}"
        raise BadInput(f"{where}: a loop: a cable joins {both}")
    link = _LINK.search(rest.rpartition('"')[2])
    speed = Speed(int(link[1]), link[2]) if link else None
    node.cables[port] = Far(far, far_port, speed)


def _check(nodes: Fabric, place: str) -> None:
    """Sees that every cable has two ends which agree, and every switch a LID of its own."""
    by_lid: dict[int, Node] = {}
    for node in switches(nodes):
        if node.lid and (first := by_lid.setdefault(node.lid, node)) is not node:
            both = f"{_shown(first.name)} and {_shown(node.name)}"
            raise BadInput(f"{place}: {both} have one LID, {node.lid}: which answers is unknown")
    for node in nodes.values():
        for port, far in node.cables.items():
            here = f"port {port} of {_shown(node.name)}"
            other = nodes.get(far.node)
            if other is None:
                raise BadInput(
                    f"{place}: {here} leads to {_shown(far.node)}, which is not in it: it is "
                    "cut, or from a fabric that changed meanwhile"
                )
            back = other.cables.get(far.port)
            if back is None or (back.node, back.port) != (node.id, port):
                raise BadInput(
                    f"{place}: {here} leads to port {far.port} of {_shown(other.name)}, which "
                    "does not lead back: it is cut, or from a fabric that changed meanwhile"
                )


def switches(fabric: Fabric) -> list[Node]:
    """The switches, in the order of the dump."""
    return [node for node in fabric.values() if node.kind == SWITCH]


def text_of(fabric: Fabric, comments: Iterable[str] = ()) -> str:
    """The dump of a fabric, as `ibnetdiscover` prints it and ibsim reads it."""
    return "".join(f"{line}\n" for line in _lines(fabric, comments))


def _lines(fabric: Fabric, comments: Iterable[str]) -> Iterator[str]:
    yield from (f"# {line}" for line in comments)
    lids = host_lids(fabric)
    for node in fabric.values():
        yield ""
        if node.kind == SWITCH:
            about = f'# "{node.name}" base port 0 lid {node.lid} lmc 0'
            yield f'Switch\t{node.ports} "{node.id}"\t\t{about}'
        else:
            yield f'Ca\t{node.ports} "{node.id}"\t\t# "{node.name}"'
        for port, far in sorted(node.cables.items()):
            other = fabric[far.node]
            speed = far.speed or FDR
            link = f"{speed.lanes}x{speed.name}"
            lid = other.lid or lids.get(other.id, 0)
            if node.kind == SWITCH:
                yield f'[{port}]\t"{far.node}"[{far.port}]\t\t# "{other.name}" lid {lid} {link}'
            else:
                own = f"lid {lids.get(node.id, 0)} lmc 0"
                about = f'{own} "{other.name}" lid {lid} {link}'
                yield f'[{port}]\t"{far.node}"[{far.port}]\t\t# {about}'


def host_lids(fabric: Fabric) -> dict[str, int]:
    """A LID for each host of a fabric that was made here, after those of its switches."""
    first = max((node.lid for node in fabric.values()), default=0) + 1
    hosts = [node.id for node in fabric.values() if node.kind != SWITCH]
    return {host: first + number for number, host in enumerate(hosts)}
