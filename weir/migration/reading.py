"""Problem files: TOML to `Problem`, refusing whatever cannot be right, with the line.

A problem file is TOML:

step = "8 s"
horizon = 600                            # steps; may be left out
nodes = ["h1", "h2", "tor"]              # or: fat_tree = { pods = 8, capacity = "1 Gbit/s" }
[[links]]
ends = ["h1", "tor"]
capacity = "1 Gbit/s"
[[vms]]
name = "db1"
source = "h1"
destination = "h2"
size = "8 GB"
cost = 10
"""

import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from weir import Bytes, Rate, Time, kinds
from weir.errors import BadInput
from weir.migration.fat_tree import PODS_MAX, fat_tree
from weir.migration.problem import Link, Problem, Vm
from weir.source import Source, Table, positive, whole

_HORIZON_MAX = 2**32
_COST_MAX = 10**9

Value = TypeVar("Value")


def load(path: str | Path) -> Problem:
    """Reads a problem file.

    Raises:
        BadInput: the file cannot be read or is not a problem.
    """
    return _problem(Source.load(Path(path)))


def parse(text: str, name: str = "problem") -> Problem:
    """Reads a problem from its text; `name` is what messages call it.

    Raises:
        BadInput: the text is not a problem.
    """
    return _problem(Source(text, name))


def _problem(source: Source) -> Problem:
    kinds.expect(kinds.PROBLEM, source.document, source.name)
    root = Table(source, (), source.document, "problem")
    step = root.require("step", positive(Time))
    horizon = root.take("horizon", whole(1, _HORIZON_MAX), None)
    nodes: tuple[str, ...] = root.take("nodes", _list(_name), ())
    links: list[Link] = []
    if tree := root.table("fat_tree", "[fat_tree]"):
        tree_nodes, links = fat_tree(
            tree.require("pods", _pods), tree.require("capacity", positive(Rate))
        )
        tree.close()
        nodes = (*tree_nodes, *nodes)
    known, seen = {link.name: place for place, link in enumerate(links)}, set()
    for table in root.tables("links", "[[links]]"):
        link = _link(table)
        if link.name in seen:
            raise table.error("name", f"the link {link.name} stands twice; a name is used once")
        seen.add(link.name)
        for end in link.ends:
            if end not in nodes:
                raise table.error("ends", f"there is no node {end}")
        # A link of the tree that is named again takes the capacity given here.
        if link.name in known:
            links[known[link.name]] = link
        else:
            links.append(link)
    vms: list[Vm] = []
    for table in root.tables("vms", "[[vms]]"):
        vm = _vm(table, nodes)
        if any(vm.name == other.name for other in vms):
            raise table.error("name", f"the VM {vm.name} stands twice; a name is used once")
        vms.append(vm)
    root.close()
    if not vms:
        raise source.error((), "there is no [[vms]]; at least one is to be migrated")
    problem = Problem(nodes, tuple(links), tuple(vms), step, horizon)
    try:
        problem.engine()
    except BadInput as error:
        raise source.error((), str(error)) from None
    return problem


def _link(table: Table) -> Link:
    ends = table.require("ends", _ends)
    name = table.take("name", _name, f"{ends[0]}-{ends[1]}")
    capacity = table.require("capacity", positive(Rate))
    duplex = table.take("duplex", _one_of("full", "half", "forward"), "full")
    table.close()
    return Link(name, ends, capacity, duplex)


def _vm(table: Table, nodes: tuple[str, ...]) -> Vm:
    vm = Vm(
        table.require("name", _name),
        table.require("source", _one_of_nodes(nodes)),
        table.require("destination", _one_of_nodes(nodes)),
        table.require("size", positive(Bytes)),
        table.take("cost", _profile(whole(0, _COST_MAX)), (1,)),
        table.take("growth", _profile(Bytes), (Bytes.from_count(0),)),
        table.take("path", _list(_name), ()),
        table.take("address", _address, ""),
    )
    table.close()
    return vm


# What a value may be. Each takes the TOML value and returns ours, or says what is allowed.


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadInput("a name is allowed")
    return value


def _address(value: Any) -> str:
    try:
        return str(ipaddress.ip_address(_name(value)))
    except ValueError:
        raise BadInput("an IP address is allowed") from None


def _ends(value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2 or value[0] == value[1]:
        raise BadInput('two different nodes are allowed, as in ["a", "b"]')
    return _name(value[0]), _name(value[1])


def _pods(value: Any) -> int:
    pods = whole(2, PODS_MAX)(value)
    if pods % 2:
        raise BadInput("an even number is allowed")
    return pods


def _list(read: Callable[[Any], Value]) -> Callable[[Any], tuple[Value, ...]]:
    def read_all(value: Any) -> tuple[Value, ...]:
        if not isinstance(value, list) or not value:
            raise BadInput("a list of at least one is allowed")
        return tuple(read(item) for item in value)

    return read_all


def _profile(read: Callable[[Any], Value]) -> Callable[[Any], tuple[Value, ...]]:
    """One value for every step, or a list for steps 1, 2, … of which the last holds for ever."""
    return lambda value: _list(read)(value if isinstance(value, list) else [value])


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise BadInput(f"allowed are {', '.join(allowed)}")
        return value

    return read


def _one_of_nodes(nodes: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in nodes:
            raise BadInput("there is no such node")
        return str(value)

    return read
