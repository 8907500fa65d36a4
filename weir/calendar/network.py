"""The network that the calendar owns: nodes, directed links, and where each node is reached.

A network file is TOML or JSON:

    [nodes.dtn1]                    or, with no addresses:  nodes = ["dtn1", "dtn2"]
    address = "10.1.0.2"
    [[links]]
    name = "west"
    ends = ["dtn1", "router1"]      both directions: links "west.forward" and "west.backward"
    capacity = "1 Gbit/s"
    [[links]]
    name = "core"
    from = "router1"                one direction
    to = "router2"
    capacity_bps = 500000000
    timetable = [{ capacity = "4 Gbit/s", from = "22:00", to = "06:00", daily = true }]

    [quotas]                        of each submitter, all optional
    transfers = 1000                active at a time
    size = "100 TB"                 of these together
    link_share = 0.5                of any link's capacity
    elephants = 1000                told of at a time

Where the controller (`weir.control`) has switches, they are nodes with a datapath id, and a link
says by which ports it leaves and enters them; a port that is not named is called as the node that
it leads to:

    [nodes.s1]
    datapath = "0000000000000001"
    [[links]]
    ends = ["s1", "s2"]
    ports = ["eth2", "eth1"]        "" at a host

With TLS a switch can be bound to a certificate, by a name in it:

    [nodes.s1]
    certificate = "s1"              its common name, or an alternative name of kind DNS

Hosts may have an IPv6 address beside an IPv4 one, or in its place:

    [nodes.dtn1]
    address = "10.1.0.2"
    address6 = "fd00:1::2"

Its agent takes data at one of these addresses, and at no other (`weir.calendar.data_places`):

    [nodes.dtn1]
    data_address = ["10.1.0.0/24", "gate.example.org:7411-7418"]

What a host sends that is neither promised nor an elephant can be bounded where it enters:

    [nodes.dtn1]
    committed = "50 Mbit/s"

A link's capacity is the share of it that belongs to the calendar, as packets on the wire.
"""

import ipaddress
import json
import re
import time
import tomllib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir import Bytes, Rate, files, kinds
from weir.calendar.data_places import DataPlace, parse_place
from weir.calendar.timetable import Entry, check
from weir.errors import BadInput

# A meter counts whole kbit/s.
COMMITTED_MIN_BPS = 8_000
_NODE_KEYS = {"address", "address6", "data_address", "datapath", "committed", "certificate"}


@dataclass(frozen=True, slots=True)
class Quotas:
    """What one submitter may hold at a time, the same for everybody.

    Attributes:
        transfers: active ones.
        size_bytes: that active transfers were declared to have.
        link_share: of each link's capacity, what active transfers' deadlines need of it at any one
            time, as of when they are admitted; 1 is not a bound beyond the link's own. Where there
            are several paths, what a deadline needs counts on each by what it carries.
        elephants: flows that were told to be elephants and are not over.
    """

    transfers: int = 100_000
    size_bytes: int = 10**18
    link_share: float = 1.0
    elephants: int = 1_000


DEFAULT_QUOTAS = Quotas()


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a link, and the ports of switches that it leaves and enters."""

    name: str
    source: str
    target: str
    capacity_bps: int
    source_port: str = ""
    target_port: str = ""
    timetable: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Network:
    """Nodes with their addresses (None where not given), directed links by name, and quotas.

    Those nodes that are switches have a datapath id, and some the name that their certificates must
    have. Some hosts have a rate, in bit/s, that bounds what they send as neither promised nor
    elephant, some an IPv6 address beside the one in `nodes`, and some places at one of which their
    agents take data.
    """

    nodes: dict[str, str | None]
    links: dict[str, Link]
    quotas: Quotas = DEFAULT_QUOTAS
    datapaths: dict[str, int] = field(default_factory=dict)
    committed_bps: dict[str, int] = field(default_factory=dict)
    certificates: dict[str, str] = field(default_factory=dict)
    addresses6: dict[str, str] = field(default_factory=dict)
    data_places: dict[str, tuple[DataPlace, ...]] = field(default_factory=dict)

    def engine_json(self) -> str:
        """The same network as the engine reads it; equal networks give equal text."""
        links = [
            {"name": x.name, "from": x.source, "to": x.target, "capacity_bps": x.capacity_bps}
            for x in self.links.values()
        ]
        return json.dumps({"nodes": list(self.nodes), "links": links}, sort_keys=True)


def load_network(path: Path) -> Network:
    """Reads and checks a network file.

    Raises:
        BadInput: the file is missing, not TOML or JSON, or describes no sound network; the
            message names the file and the item.
    """
    try:
        text = files.text(path)
    except BadInput as error:
        raise BadInput(f"network file {error}") from None
    try:
        document = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"network file {path}: {error}") from None
    if isinstance(document, dict):
        kinds.expect(kinds.NETWORK, document, f"network file {path}")
    try:
        return parse_network(document)
    except BadInput as error:
        raise BadInput(f"network file {path}: {error}") from None


def parse_network(document: Any) -> Network:
    """A network from the parsed document; raises `BadInput` naming the wrong item."""
    _keys(document, "the document", {"nodes", "links", "quotas"})
    nodes = _nodes(document.get("nodes"))
    links: dict[str, Link] = {}
    items = document.get("links")
    if not isinstance(items, list) or not items:
        raise BadInput('"links" must be a list of at least one link')
    for index, item in enumerate(items):
        for link in _links(item, f"links[{index}]", nodes):
            if link.name in links:
                raise BadInput(f'links[{index}]: the name "{link.name}" is used twice')
            links[link.name] = link
    _refuse_twins(nodes, "nodes")
    _refuse_twins(links, "links")
    _refuse_islands(nodes, links.values())
    datapaths = _datapaths(document["nodes"])
    committed_bps = _committed(document["nodes"], datapaths)
    quotas = _quotas(document.get("quotas", {}))
    certificates = _certificates(document["nodes"], datapaths)
    addresses6 = _addresses6(document["nodes"], datapaths)
    places = _data_places(document["nodes"], datapaths)
    return Network(nodes, links, quotas, datapaths, committed_bps, certificates, addresses6, places)


def _quotas(table: Any) -> Quotas:
    _keys(table, "quotas", {"transfers", "size", "link_share", "elephants"})
    transfers, elephants = (
        _count(table, name, getattr(DEFAULT_QUOTAS, name)) for name in ("transfers", "elephants")
    )
    share = table.get("link_share", DEFAULT_QUOTAS.link_share)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise BadInput(f"quotas: link_share = {share!r:.60}: above 0, and 1 at most")
    size_bytes = DEFAULT_QUOTAS.size_bytes
    if "size" in table:
        try:
            size_bytes = Bytes(table["size"]).count
        except (BadInput, TypeError) as error:
            raise BadInput(f"quotas: size: {error}") from None
    return Quotas(transfers, size_bytes, float(share), elephants)


def _count(table: dict[str, Any], name: str, otherwise: int) -> int:
    count = table.get(name, otherwise)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise BadInput(f"quotas: {name} = {count!r:.60}: a whole number from 1")
    return count


def _nodes(value: Any) -> dict[str, str | None]:
    nodes: dict[str, str | None] = {}
    if isinstance(value, list):
        for name in (_name(item, "nodes") for item in value):
            if name in nodes:
                raise BadInput(f'nodes: the name "{name}" is used twice')
            nodes[name] = None
    elif isinstance(value, dict):
        for name, table in value.items():
            _keys(table, f"nodes.{name}", _NODE_KEYS)
            nodes[_name(name, "nodes")] = _address(table.get("address"), name)
    if not nodes:
        raise BadInput('"nodes" must be a list of names or a table of nodes')
    return nodes


def _datapaths(value: Any) -> dict[str, int]:
    """The datapath ids of the nodes that have one: 16 hexadecimal digits, as OVS prints them."""
    datapaths: dict[str, int] = {}
    for name, table in value.items() if isinstance(value, dict) else ():
        text = table.get("datapath")
        if text is None:
            continue
        if not isinstance(text, str) or not re.fullmatch("[0-9a-fA-F]{1,16}", text):
            raise BadInput(f"nodes.{name}: datapath = {text!r:.60}: up to 16 hexadecimal digits")
        number = int(text, 16)
        if number in datapaths.values():
            raise BadInput(f"nodes.{name}: the datapath {text} is another switch's")
        datapaths[name] = number
    return datapaths


def _addresses6(value: Any, datapaths: Iterable[str]) -> dict[str, str]:
    """The IPv6 addresses of the hosts that have one."""
    addresses: dict[str, str] = {}
    for name, table in value.items() if isinstance(value, dict) else ():
        if "address6" not in table:
            continue
        if name in datapaths:
            raise BadInput(f"nodes.{name}: address6 is for hosts, and this is a switch")
        text = table["address6"]
        if ":" in str(table.get("address", "")):
            raise BadInput(f"nodes.{name}: address is IPv6 already, and address6 is another")
        try:
            parsed = ipaddress.IPv6Address(text if isinstance(text, str) else "")
        except ValueError:
            raise BadInput(f"nodes.{name}: {text!r:.60} is not an IPv6 address") from None
        if parsed.is_multicast or parsed.is_link_local or parsed.is_unspecified:
            raise BadInput(f"nodes.{name}: address6 = {text!r:.60} is no address of one host")
        address = str(parsed)
        if address in addresses.values():
            raise BadInput(f"nodes.{name}: the address {address} is another host's")
        addresses[name] = address
    return addresses


def _data_places(value: Any, datapaths: Iterable[str]) -> dict[str, tuple[DataPlace, ...]]:
    """Where the agents of those hosts take data for which that is declared."""
    places: dict[str, tuple[DataPlace, ...]] = {}
    for name, table in value.items() if isinstance(value, dict) else ():
        if "data_address" not in table:
            continue
        if name in datapaths:
            raise BadInput(f"nodes.{name}: data_address is for hosts, and this is a switch")
        declared = table["data_address"]
        declared = declared if isinstance(declared, list) else [declared]
        if not declared or not all(isinstance(text, str) for text in declared):
            raise BadInput(f"nodes.{name}: data_address: an address, or a list of some, as text")
        try:
            places[name] = tuple(map(parse_place, declared))
        except BadInput as error:
            raise BadInput(f"nodes.{name}: data_address: {error}") from None
    return places


def _certificates(value: Any, datapaths: Iterable[str]) -> dict[str, str]:
    """The names in certificates of the switches that are bound to one."""
    certificates: dict[str, str] = {}
    for name, table in value.items() if isinstance(value, dict) else ():
        if "certificate" not in table:
            continue
        if name not in datapaths:
            raise BadInput(f"nodes.{name}: certificate is for switches, which have a datapath")
        certificates[name] = _name(table["certificate"], f"nodes.{name}: certificate")
    return certificates


def _committed(value: Any, datapaths: Iterable[str]) -> dict[str, int]:
    """The rates of the hosts that have one."""
    committed_bps: dict[str, int] = {}
    for name, table in value.items() if isinstance(value, dict) else ():
        if "committed" not in table:
            continue
        if name in datapaths:
            raise BadInput(f"nodes.{name}: committed is for hosts, and this is a switch")
        try:
            committed_bps[name] = Rate(table["committed"]).bit_per_s
        except (BadInput, TypeError) as error:
            raise BadInput(f"nodes.{name}: committed: {error}") from None
        if not COMMITTED_MIN_BPS <= committed_bps[name] < 2**42:
            raise BadInput(f"nodes.{name}: committed: 8 kbit/s at least, and below 4 Tbit/s")
    return committed_bps


def _ports(item: dict[str, Any], place: str, ends: tuple[str, str]) -> tuple[str, str]:
    """The ports at a link's two ends; where not given, called as what they lead to."""
    ports = item.get("ports", ["", ""])
    if (
        not isinstance(ports, list)
        or len(ports) != 2
        or not all(isinstance(port, str) and len(port) <= 15 for port in ports)
    ):
        raise BadInput(f"{place}: ports = {ports!r:.60}: the names of two ports, 15 letters each")
    return ports[0] or ends[1][:15], ports[1] or ends[0][:15]


def _links(item: Any, place: str, nodes: dict[str, str | None]) -> list[Link]:
    known = {"name", "from", "to", "ends", "ports", "capacity", "capacity_bps", "timetable"}
    _keys(item, place, known)
    capacity_bps = _capacity(item, place)
    if "ends" in item:
        ends = item["ends"]
        if not isinstance(ends, list) or len(ends) != 2 or "from" in item or "to" in item:
            raise BadInput(f'{place}: give two "ends", or "from" and "to"')
        left, right = (_end(end, place, nodes) for end in ends)
        name = _name(item.get("name", f"{left}-{right}"), place)
        names = [f"{name}.forward", f"{name}.backward"]
    else:
        left, right = (_end(item.get(key), place, nodes) for key in ("from", "to"))
        names = [_name(item.get("name", f"{left}-{right}"), place)]
    if left == right:
        raise BadInput(f'{place}: both ends are "{left}"')
    here, there = _ports(item, place, (left, right))
    timetable = _timetable(item.get("timetable", []), place)
    ways = [(left, right, here, there), (right, left, there, here)]
    return [
        Link(name, source, target, capacity_bps, leaves, enters, timetable)
        for name, (source, target, leaves, enters) in zip(names, ways, strict=False)
    ]


def _timetable(items: Any, place: str) -> tuple[Entry, ...]:
    if not isinstance(items, list):
        raise BadInput(f"{place}: timetable must be a list of tables")
    entries = []
    for item in items:
        _keys(item, f"{place}: timetable", {"capacity", "from", "to", "daily", "zone"})
        daily, zone = item.get("daily", False), item.get("zone", "UTC")
        texts = (item.get("capacity"), item.get("from"), item.get("to"), zone)
        if not all(isinstance(x, str) for x in texts) or not isinstance(daily, bool):
            raise BadInput(f'{place}: timetable: give "capacity", "from" and "to" as text')
        try:
            bps = Rate(item["capacity"]).bit_per_s
        except BadInput as error:
            raise BadInput(f"{place}: timetable: {error}") from None
        if bps >= 2**62:
            raise BadInput(f"{place}: timetable: {bps} bit/s is more than any link carries")
        entries.append(Entry(bps, item["from"], item["to"], daily, zone))
    try:
        check((), time.time_ns(), entries)
    except BadInput as error:
        raise BadInput(f"{place}: timetable: {error}") from None
    return tuple(entries)


def _refuse_islands(nodes: Iterable[str], links: Iterable[Link]) -> None:
    """Refuses nodes that no links join: nothing could be carried between them."""
    neighbours: dict[str, set[str]] = {node: set() for node in nodes}
    for link in links:
        neighbours[link.source].add(link.target)
        neighbours[link.target].add(link.source)
    first = next(iter(neighbours))
    reached, ahead = {first}, [first]
    while ahead:
        fresh = neighbours[ahead.pop()] - reached
        reached |= fresh
        ahead += fresh
    for node in neighbours:
        if node not in reached:
            raise BadInput(f'nodes: no links join "{node}" and "{first}"')


def _capacity(item: dict[str, Any], place: str) -> int:
    if ("capacity" in item) == ("capacity_bps" in item):
        raise BadInput(f'{place}: give one of "capacity" and "capacity_bps"')
    value = item.get("capacity_bps")
    if "capacity" in item:
        try:
            value = Rate(item["capacity"]).bit_per_s
        except BadInput as error:
            raise BadInput(f"{place}: capacity: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise BadInput(f"{place}: a capacity of {value!r} bit/s cannot carry anything")
    return value


def _keys(value: Any, place: str, allowed: set[str]) -> None:
    if not isinstance(value, dict):
        raise BadInput(f"{place} must be a table, not {value!r:.60}")
    for key in value:
        if key not in allowed:
            known = ", ".join(sorted(allowed))
            raise BadInput(f'{place}: unknown key "{key}"; known are {known}')


def _refuse_twins(names: Iterable[str], place: str) -> None:
    """Refuses names that look alike, for they are spelled with other characters only.

    Accents may be characters of their own or not: keyboards and systems differ in that.
    """
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(unicodedata.normalize("NFC", name), name)
        if other != name:
            raise BadInput(f"{place}: {other!a} and {name!a} are one name, spelled twice")


def _name(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value or len(value) > 100 or not value.isprintable():
        raise BadInput(f"{place}: {value!r:.60} is not a name")
    return value


def _end(value: Any, place: str, nodes: dict[str, str | None]) -> str:
    if not isinstance(value, str) or value not in nodes:
        raise BadInput(f'{place}: "{value}" is not among the nodes')
    return value


def _address(value: Any, name: str) -> str | None:
    if value is None:
        return None
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise BadInput(f"nodes.{name}: {value!r} is not an IP address") from None
