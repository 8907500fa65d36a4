"""What each switch of a fat tree is, and which way each port leads: found by the graph alone.

A switch's height is 1 where hosts are attached, and one more than that of those below it. Two rules
keep real fabrics from deceiving: a switch is what its nearest kin are, those that share the most
neighbours with it, so that neither a rack that is switched off nor a management host on a spine
makes another of it; and a cable between two switches of one height leads down at both ends, as the
work has it for the six between its disks and its visualisation (000-spec 2.4). What only such
cables join are trees of their own: the largest is the main one, others are subsystems.
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from weir.errors import BadInput
from weir.observe.infiniband.dump import SWITCH, Fabric, switches
from weir.printable import printable

UP, DOWN = "up", "down"
_TWINS, _KIN = 0.6, 0.3
"""What both have of the neighbours of two switches: so much at least if what hosts say of
the one is to be overruled by the other, and if the one is to be as high as the other."""


@dataclass(frozen=True, slots=True)
class Roles:
    """What is known of the switches.

    Attributes:
        kind: of each switch, by its id.
        height: of each switch, by its id: 1 where hosts are.
        way: of each port that has a cable, by id and port.
    """

    kind: Mapping[str, str]
    height: Mapping[str, int]
    way: Mapping[tuple[str, int], str]

    def categories(self) -> Counter[tuple[str, str]]:
        """How many ports are of each kind and direction."""
        return Counter((self.kind[node], way) for (node, _), way in self.way.items())


def classified(fabric: Fabric, subsystems: Sequence[str] = ()) -> Roles:
    """The roles of all switches.

    Args:
        fabric: of trees.
        subsystems: names of the trees beside the main one, the nearest first, such as Glade and
            DAV: their switches are called GladeLeaf, GladeSpine and so on. Without a name they are
            numbered: Part2Leaf.

    Raises:
        BadInput: no host is attached to any switch, so that nothing is at the bottom; or some
            switches are joined to no host at all.
    """
    around = _neighbours(fabric)
    height = _heights(fabric, around)
    trees = _trees(around, height)
    kind: dict[str, str] = {}
    for number, tree in enumerate(trees):
        named = subsystems[number - 1] if 0 < number <= len(subsystems) else f"Part{number + 1}"
        tiers = max(height[node] for node in tree)
        for node in tree:
            kind[node] = _kind("" if number == 0 else named, height[node], tiers)
    way = {
        (node.id, port): UP if height.get(far.node, 0) > height[node.id] else DOWN
        for node in switches(fabric)
        for port, far in node.cables.items()
    }
    return Roles(kind, height, way)


def _neighbours(fabric: Fabric) -> dict[str, frozenset[str]]:
    """The switches that each switch is joined to."""
    return {
        node.id: frozenset(
            far.node for far in node.cables.values() if fabric[far.node].kind == SWITCH
        )
        for node in switches(fabric)
    }


def _heights(fabric: Fabric, around: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """The height of each switch, from the bottom up."""
    alike = {node: _alike(node, around) for node in around}
    below = {
        node.id
        for node in switches(fabric)
        if any(fabric[far.node].kind != SWITCH for far in node.cables.values())
    }
    if not below:
        raise BadInput("no host is attached to any switch: which ones are at the bottom is unknown")
    found: dict[str, int] = {}
    level, candidates = 1, below
    while candidates:
        least = _TWINS if level == 1 else _KIN
        # Nobody else can be of this level: it is a candidate, or kin of one.
        near = set(candidates).union(*(alike[node] for node in candidates))
        free = {node for node in near if node not in found}
        kin = {node: _nearest(alike[node], found, least) for node in free}
        members = {node for node in free if _belongs(node, candidates, kin[node])}
        if not members:
            members = candidates
        found |= dict.fromkeys(members, level)
        above = {other for node in members for other in around[node]}
        candidates = {node for node in above if node not in found}
        level += 1
    if lost := [node for node in around if node not in found]:
        name = fabric[lost[0]].name
        raise BadInput(f"{printable(name)} and {len(lost) - 1} more switches are joined to no host")
    return found


def _belongs(node: str, candidates: Container[str], kin: Sequence[str]) -> bool:
    """Whether a switch is of the level of the candidates: as most of its nearest kin are."""
    votes = sum(one in candidates for one in kin)
    return node in candidates if 2 * votes == len(kin) else 2 * votes > len(kin)


def _alike(node: str, around: Mapping[str, frozenset[str]]) -> dict[str, float]:
    """The share of the neighbours of a switch and each other one that both have, if any."""
    shared = Counter(other for one in around[node] for other in around[one] if other != node)
    return {other: count / len(around[node] | around[other]) for other, count in shared.items()}


def _nearest(alike: Mapping[str, float], found: Container[str], least: float) -> list[str]:
    """Those most alike among the switches that are not found yet, if they are alike enough."""
    free = {other: one for other, one in alike.items() if other not in found}
    best = max(free.values(), default=0.0)
    return [other for other, one in free.items() if one == best] if best >= least else []


def _trees(around: Mapping[str, frozenset[str]], height: Mapping[str, int]) -> list[list[str]]:
    """The trees that cables between equals join: the largest first, then by distance from it."""
    tree_of: dict[str, int] = {}
    trees: list[list[str]] = []
    for start in around:
        if start in tree_of:
            continue
        tree_of[start] = len(trees)
        tree = [start]
        for node in tree:
            for other in around[node]:
                if other not in tree_of and height[other] != height[node]:
                    tree_of[other] = len(trees)
                    tree.append(other)
        trees.append(tree)
    largest = max(range(len(trees)), key=lambda number: len(trees[number]))
    order = [largest]
    for number in order:
        beside = {tree_of[other] for node in trees[number] for other in around[node]}
        order += sorted(beside - set(order))
    order += [number for number in range(len(trees)) if number not in order]
    return [trees[number] for number in order]


def _kind(tree: str, height: int, tiers: int) -> str:
    """What a switch is called: the main tree's of three tiers are ToR, leaf and spine."""
    if tiers == 1:
        return f"{tree}Switch"
    if height == tiers:
        return f"{tree}Spine"
    if tiers == 2:
        return f"{tree}Leaf"
    if height == 1:
        return f"{tree}ToR"
    return f"{tree}Leaf" if tiers == 3 else f"{tree}Leaf{height - 1}"
