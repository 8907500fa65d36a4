"""Which servers' clients are joined, by which relays: the file of `weir control serve --join`.

[[aggregate]]
servers = ["10.1.0.9:443", "[fd00:1::9]:443"]

[aggregate.join]                    the end towards the clients: weir relay join --announced
host = "relay1"                     a node of the network file
port = 7600                         where it listens
control = "/run/weir/join.sock"     its --control
mac = "52:54:00:00:00:01"           of its interface toward the switches

[aggregate.split]                   the end towards the servers: weir relay split --announced
host = "relay2"
control = "/run/weir/split.sock"
mac = "52:54:00:00:00:02"
ports = "10000-32767"               from which it connects to servers (this is the default)
"""

import re
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir import files
from weir.control.join.segment import End, end_of
from weir.control.topology import Topology
from weir.errors import BadInput

PORTS = (10_000, 32_767)
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


@dataclass(frozen=True, slots=True)
class Relay:
    """One end of an aggregate.

    Attributes:
        host: the node that it runs on.
        control: the path of its control socket.
        mac: where frames for it go to; None: wherever they would have gone.
    """

    host: str
    control: Path
    mac: str | None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Servers, and the two relays between which their clients' connections are one.

    Attributes:
        servers: where clients mean to go.
        join, split: the ends towards clients and servers.
        port: where the join end listens.
        ports: from which the split end connects, first and last.
    """

    servers: tuple[End, ...]
    join: Relay
    split: Relay
    port: int
    ports: tuple[int, int] = PORTS


def load_aggregates(path: Path, topology: Topology) -> tuple[Aggregate, ...]:
    """Reads and checks a file of aggregates.

    Raises:
        BadInput: it cannot be read, or an item is wrong; the message names it.
    """
    try:
        document = tomllib.loads(files.text(path))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: {error}") from None
    try:
        return parse_aggregates(document, topology)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def parse_aggregates(document: Any, topology: Topology) -> tuple[Aggregate, ...]:
    """Aggregates from the parsed file; raises `BadInput` naming the wrong item."""
    _keys(document, "the file", {"aggregate"}, {"aggregate"})
    items = document["aggregate"]
    if not isinstance(items, list) or not items:
        raise BadInput("aggregate: wanted at least one [[aggregate]]")
    found = tuple(_aggregate(x, f"aggregate[{at}]", topology) for at, x in enumerate(items))
    taken: dict[str, str] = {}
    for at, one in enumerate(found):
        # Switches tell flows of two aggregates apart by their servers, and by the join ends.
        joins = f"port {one.port} of {one.join.host}"
        for what in (*map(str, one.servers), joins, str(one.join.control), str(one.split.control)):
            if (other := taken.setdefault(what, f"aggregate[{at}]")) != f"aggregate[{at}]":
                raise BadInput(f"aggregate[{at}]: {what} is {other}'s")
        if one.join.control == one.split.control:
            raise BadInput(f"aggregate[{at}]: both ends have the control {one.join.control}")
    return found


def _aggregate(item: Any, where: str, topology: Topology) -> Aggregate:
    keys = {"servers", "join", "split"}
    _keys(item, where, keys, keys)
    servers = tuple(_servers(item["servers"], f"{where}.servers", topology))
    join, split = item["join"], item["split"]
    needed = {"host", "control"}
    _keys(join, f"{where}.join", needed | {"port", "mac"}, needed | {"port"})
    _keys(split, f"{where}.split", needed | {"ports", "mac"}, needed)
    port = join["port"]
    if type(port) is not int or not 0 < port < 65_536:
        raise BadInput(f"{where}.join.port: {port!r} is no port")
    ends = [
        _relay(one, f"{where}.{name}", topology) for name, one in (("join", join), ("split", split))
    ]
    for relay, name in zip(ends, ("join", "split"), strict=True):
        kinds = {":" in x for x in topology.addresses(relay.host)}
        for server in servers:
            if topology.host(server.address) == relay.host:
                raise BadInput(f"{where}: {server} is at {relay.host}, the {name} end's host")
            if (":" in server.address) not in kinds:
                ip = "IPv6" if ":" in server.address else "IPv4"
                raise BadInput(f"{where}.{name}.host: {relay.host} has no address of {ip}")
    return Aggregate(
        servers, ends[0], ends[1], port, _ports(split.get("ports"), f"{where}.split.ports")
    )


def _servers(texts: Any, where: str, topology: Topology) -> Iterator[End]:
    if not isinstance(texts, list) or not texts:
        raise BadInput(f"{where}: wanted a list of ADDRESS:PORT")
    for text in texts:
        try:
            server = end_of(str(text))
        except ValueError as error:
            raise BadInput(f"{where}: {error}") from None
        if topology.host(server.address) is None:
            raise BadInput(f"{where}: {server.address} is no host's address in the network file")
        yield server


def _relay(item: dict[str, Any], where: str, topology: Topology) -> Relay:
    if item["host"] not in topology.hosts:
        raise BadInput(f"{where}.host: {item['host']!r} is no host of the network file")
    if not isinstance(item["control"], str) or not item["control"]:
        raise BadInput(f"{where}.control: wanted the path that is the relay's --control")
    mac = item.get("mac")
    if mac is not None and not (isinstance(mac, str) and _MAC.fullmatch(mac.lower())):
        raise BadInput(f"{where}.mac: {mac!r} is none, such as 52:54:00:00:00:01")
    return Relay(item["host"], Path(item["control"]), mac.lower() if mac else None)


def _ports(text: Any, where: str) -> tuple[int, int]:
    if text is None:
        return PORTS
    found = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text) if isinstance(text, str) else None
    first, last = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 0 < first <= last < 65_536:
        raise BadInput(f'{where}: {text!r}: wanted two ports, such as "10000-32767"')
    return first, last


def _keys(item: Any, where: str, known: Collection[str], needed: Collection[str]) -> None:
    if not isinstance(item, dict):
        raise BadInput(f"{where}: wanted a table")
    for key in item:
        if key not in known:
            raise BadInput(f"{where}: unknown key {key!r}; known are {', '.join(sorted(known))}")
    for key in sorted(needed):
        if key not in item:
            raise BadInput(f"{where}: {key} is missing")
