"""What a scenario file says of switches, and what is refused."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from weir import Bytes, Rate
from weir.errors import BadInput
from weir.lab import queues
from weir.lab.scenario import (
    Direction,
    Link,
    Node,
    PortClass,
    Queue,
    Scenario,
    Switch,
    Switching,
)
from weir.source import Place, Source, Table, one_of, positive, whole

_DATAPATH_MAX = 2**63 - 1  # TOML's largest number
_UNNUMBERED = 0
_CLASSES_MAX = 8  # priorities of HTB
_LEAST_PACKETS = 5
_RATE_MIN_BPS = 8_000
_WEIGHTS = 1000
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%")
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
    classes = [_class(one) for one in table.tables("class", "[[switches.class]]")]
    table.close()
    _refuse_classes(table, classes)
    return Switching(controller, tuple(classes))


def _class(table: Table) -> PortClass:
    name = table.require("name", _class_name)
    codepoints = table.take("dscp", _codepoints, ())
    rate = table.require("rate", _bound)
    ceiling = table.take("ceiling", _bound, 1.0)
    table.close()
    return PortClass(name, codepoints, rate, ceiling)


def _refuse_classes(table: Table, classes: Sequence[PortClass]) -> None:
    def wrong(message: str) -> BadInput:
        return table.source.error((*table.place, "class", 0), f"[[switches.class]]: {message}")

    if not classes:
        return
    if len(classes) > _CLASSES_MAX:
        raise wrong(f"{len(classes)} classes; a port has {_CLASSES_MAX} at most")
    if [bool(one.codepoints) for one in classes].count(False) != 1:
        raise wrong("one class has no dscp, and takes what no other does")
    names = [f"name {one.name}" for one in classes]
    codepoints = [f"dscp {code}" for one in classes for code in one.codepoints]
    for all_of in (names, codepoints):
        twice = next((one for one in all_of if all_of.count(one) > 1), None)
        if twice is not None:
            raise wrong(f"{twice} stands in two classes")


def refuse_ports(
    source: Source, nodes: Sequence[Node], links: Sequence[tuple[Place, Link]], common: Switching
) -> None:
    """Refuses links whose rate is less than what the classes of a switch's port are promised."""
    switches = {node.name for node in nodes if node.switch}
    for place, link in links:
        for sender, way in ((link.ends[0], link.forward), (link.ends[1], link.backward)):
            if sender not in switches or way.rate is None or not common.classes or link.medium:
                continue
            if way.queue.discipline != "fifo":
                message = f"the classes of [switches] are the queue of {sender}; take fifo here"
                raise source.error((*place, "queue"), f"{link.name}: {message}")
            bounds = [one.bounds_bps(way.rate.bit_per_s) for one in common.classes]
            if sum(rate for rate, _ in bounds) > way.rate.bit_per_s:
                promised = Rate.from_bit_per_s(sum(rate for rate, _ in bounds))
                message = f"the classes of [switches] are promised {promised} of {way.rate}"
                raise source.error((*place, "rate"), f"{link.name}: {message}")
            for one, (rate, ceiling) in zip(common.classes, bounds, strict=True):
                if not _RATE_MIN_BPS <= rate <= ceiling:
                    message = f"class {one.name} has a rate of {rate} bit/s and {ceiling} at most"
                    raise source.error((*place, "rate"), f"{link.name}: {message}")


def as_queues(scenario: Scenario) -> Scenario:
    """The scenario with the classes of switches as queues of the links that they send into.

    For the simulator: weighted fair queues by the classes' rates.
    """
    switches = {node.name for node in scenario.nodes if node.switch}
    if not scenario.switching.classes:
        return scenario

    def queued(sender: str, way: Direction, mtu: int) -> Direction:
        if sender not in switches or way.rate is None:
            return way
        bps = way.rate.bit_per_s
        weighted = [
            {
                "dscp": list(one.codepoints),
                "weight": max(1, round(one.bounds_bps(bps)[0] * _WEIGHTS / bps)),
            }
            for one in scenario.switching.classes
        ]
        limit = Bytes.from_count(class_limit(way, mtu, len(weighted)) * len(weighted))
        return replace(way, queue=Queue("wfq", limit, {"classes": weighted}))

    links = (
        link
        if link.medium
        else replace(
            link,
            forward=queued(link.ends[0], link.forward, link.mtu),
            backward=queued(link.ends[1], link.backward, link.mtu),
        )
        for link in scenario.links
    )
    return replace(scenario, links=tuple(links))


def class_limit(way: Direction, mtu: int, classes: int) -> int:
    """What each class of a port holds, in bytes: its part of the link's limit, but some packets."""
    assert way.rate, "only ports to such links have classes"
    return max(queues.holds_bytes(way.queue, way.rate, mtu) // classes, _LEAST_PACKETS * mtu)


def _class_name(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9-]{0,30}", value):
        return value
    raise BadInput("small letters, digits and hyphens are allowed")


def _codepoints(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise BadInput('a list of DSCPs is allowed, such as ["AF11"]')
    return tuple(queues.codepoint(one) for one in value)


def _bound(value: Any) -> Rate | float:
    if isinstance(value, str) and (percent := _PERCENT.fullmatch(value.strip())):
        if not 0 < float(percent[1]) <= 100:
            raise BadInput("a share of more than 0 % and at most 100 % is allowed")
        return float(percent[1]) / 100
    return positive(Rate)(value)


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
