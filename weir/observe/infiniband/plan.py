"""Fabrics made up by a rule: fat trees of any size, and clusters of the work's kind.

The plan is that of 000-spec 2.4: 14 groups of 18 ToR switches with 18 hosts each, 9 racks of 29
leaf and 18 spine switches, disks, visualisation. Where the text is silent, what leaves no port over
was chosen: the 29th leaf of each rack has three cables to each of the six spines of the disks (9 x
18 are 6 x 27), these have two to each of their four leaves; there are five visualisation leaves
with six cables to each of three spines, as many as table 2.1 has rounds for; and so many hosts that
ports of a leaf lead up and down alike, as they do in that table.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from weir.errors import BadInput
from weir.observe.infiniband.dump import FDR, HOST, SWITCH, Far, Node, Speed

PORTS = 36


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a cluster of the work's kind is; as it stands, the work's.

    Attributes:
        groups: of ToR switches; each has two leaves in every rack.
        tors: in each group.
        hosts: of each ToR switch.
        racks: of leaves and spines.
        spines: in each rack, joined to all its leaves.
        disk_spines: joined to the leaf in each rack that no group has.
        disk_leaves: joined to all of these.
        disk_cables: between each of both.
        disks: hosts of each disk leaf.
        drawing_leaves: of the visualisation; the first is joined to the first disk leaf.
        drawing_tops: above them.
        drawing_cables: between each of both, and to the disks.
        drawers: hosts of each, as far as it has ports for them.
    """

    groups: int = 14
    tors: int = 18
    hosts: int = 18
    racks: int = 9
    spines: int = 18
    disk_spines: int = 6
    disk_leaves: int = 4
    disk_cables: int = 2
    disks: int = 12
    drawing_leaves: int = 5
    drawing_tops: int = 3
    drawing_cables: int = 6
    drawers: int = 18

    @property
    def leaves_of_rack(self) -> int:
        """Two for each group, and one for the disks."""
        return 2 * self.groups + 1

    def leaves_of_group(self, group: int) -> list[int]:
        """The leaves, numbered through all racks from 1, that a group's ToR switches lead to."""
        first = 2 * group - 1
        racks = range(self.racks)
        return [self.leaves_of_rack * rack + one for rack in racks for one in (first, first + 1)]


WORKS = Shape()
SMALL = Shape(
    groups=2,
    tors=2,
    hosts=4,
    racks=2,
    spines=2,
    disk_spines=2,
    disk_leaves=2,
    disk_cables=1,
    disks=2,
    drawing_leaves=2,
    drawing_tops=1,
    drawing_cables=1,
    drawers=2,
)
"""One that can be simulated packet by packet: 25 switches, 24 hosts."""


class Builder:
    """A fabric while its cables are laid, each into the next free port of both ends."""

    def __init__(self, speed: Speed = FDR) -> None:
        self.fabric: dict[str, Node] = {}
        self._speed = speed
        self._count = {SWITCH: 0, HOST: 0}

    def switch(self, name: str, ports: int = PORTS) -> Node:
        """A switch more, with the next LID."""
        return self._node(SWITCH, name, ports)

    def host(self, name: str, at: Node) -> Node:
        """A host more, with one port that a cable joins to a switch."""
        host = self._node(HOST, name, 1)
        self.cable(host, at)
        return host

    def cable(self, one: Node, other: Node, count: int = 1) -> None:
        """So many cables between two nodes."""
        for _ in range(count):
            a, b = _free(one), _free(other)
            one.cables[a] = Far(other.id, b, self._speed)
            other.cables[b] = Far(one.id, a, self._speed)

    def _node(self, kind: str, name: str, ports: int) -> Node:
        self._count[kind] += 1
        number = self._count[kind]
        letter = "S" if kind == SWITCH else "H"
        id_ = f"{letter}-{(0x2C90300000000 if kind == SWITCH else 0x2C90200000000) + number:016x}"
        node = Node(id_, kind, ports, name, number if kind == SWITCH else 0)
        self.fabric[id_] = node
        return node


def _free(node: Node) -> int:
    """The lowest port without a cable."""
    port = len(node.cables) + 1
    if port > node.ports:
        raise ValueError(f"{node.name} has no free port")
    return port


def cluster(shape: Shape = WORKS) -> dict[str, Node]:
    """A cluster; as it stands, of 693 switches and 4 536 hosts and those of its subsystems."""
    build = Builder()
    numbers = range(1, shape.tors + 1)
    groups = range(1, shape.groups + 1)
    tors = [[build.switch(f"tor-{group}-{number}") for number in numbers] for group in groups]
    for group in tors:
        for tor in group:
            for number in range(1, shape.hosts + 1):
                build.host(f"node-{tor.name[4:]}-{number}", tor)
    count = shape.racks * shape.leaves_of_rack
    leaves = [build.switch(f"leaf-{number}") for number in range(1, count + 1)]
    for number, group in zip(groups, tors, strict=True):
        for leaf in shape.leaves_of_group(number):
            for tor in group:
                build.cable(leaves[leaf - 1], tor)
    last = list(_racks(build, leaves, shape))
    _subsystems(build, last, shape)
    return build.fabric


def _racks(build: Builder, leaves: list[Node], shape: Shape) -> Iterator[Node]:
    """Joins each rack's leaves to its spines; the last leaf of each."""
    for rack in range(shape.racks):
        spines = [build.switch(f"spine-{rack + 1}-{n}") for n in range(1, shape.spines + 1)]
        ours = leaves[shape.leaves_of_rack * rack : shape.leaves_of_rack * (rack + 1)]
        for leaf in ours:
            for spine in spines:
                build.cable(leaf, spine)
        yield ours[-1]


def _subsystems(build: Builder, last: list[Node], shape: Shape) -> None:
    """Disks, joined to the last leaf of each rack, and visualisation, joined to the disks."""
    spines = [build.switch(f"glade-spine-{n}") for n in range(1, shape.disk_spines + 1)]
    leaves = [build.switch(f"glade-leaf-{n}") for n in range(1, shape.disk_leaves + 1)]
    for spine in spines:
        for leaf in last:
            build.cable(leaf, spine, shape.spines // shape.disk_spines)
        for leaf in leaves:
            build.cable(leaf, spine, shape.disk_cables)
    drawing = [build.switch(f"dav-leaf-{n}") for n in range(1, shape.drawing_leaves + 1)]
    tops = [build.switch(f"dav-spine-{n}") for n in range(1, shape.drawing_tops + 1)]
    build.cable(drawing[0], leaves[0], shape.drawing_cables)
    for leaf in drawing:
        for top in tops:
            build.cable(leaf, top, shape.drawing_cables)
    for leaf in leaves:
        for number in range(1, shape.disks + 1):
            build.host(f"nsd-{leaf.name[11:]}-{number}", leaf)
    for leaf in drawing:
        for number in range(1, min(shape.drawers, leaf.ports - len(leaf.cables)) + 1):
            build.host(f"dav-{leaf.name[9:]}-{number}", leaf)


def fat_tree(edges: int, tops: int, hosts: int, above: int | None = None) -> dict[str, Node]:
    """A fat tree of two tiers whose switches have no port left over.

    Args:
        edges: switches with hosts.
        tops: switches above them.
        hosts: of each edge switch.
        above: to how many tops each edge switch is joined, its neighbour to the next ones; None for
            all. What all edges need together, tops share evenly.

    Raises:
        BadInput: the cables cannot be shared evenly.
    """
    above = tops if above is None else above
    if above > tops or (above < tops and edges % tops):
        raise BadInput(f"{edges} switches with {above} cables each do not share {tops} evenly")
    build = Builder()
    below = [build.switch(f"edge-{n}", hosts + above) for n in range(1, edges + 1)]
    upper = [build.switch(f"top-{n}", edges * above // tops) for n in range(1, tops + 1)]
    for place, edge in enumerate(below):
        for number in range(1, hosts + 1):
            build.host(f"host-{edge.name[5:]}-{number}", edge)
        for step in range(above):
            build.cable(edge, upper[(place + step) % tops])
    return build.fabric
