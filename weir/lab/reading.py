"""Scenario files: TOML to `Scenario`, refusing whatever cannot be right.

Every refusal is a `BadInput` that names the file, the line, the key, the value and what is
allowed; nothing has been started by then.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from weir import Bytes, Rate, Time, kinds
from weir.errors import BadInput
from weir.lab import applications, media, queues, switching
from weir.lab.canonical import default_name, kind_of, with_draws
from weir.lab.scenario import (
    CODEPOINTS,
    ECN_FIELDS,
    Bernoulli,
    Channel,
    Credits,
    Direction,
    GilbertElliott,
    Iperf3Traffic,
    Link,
    Node,
    PpbpTraffic,
    Queue,
    RelayTraffic,
    Scenario,
    Traffic,
    UdpTraffic,
    Wlan,
)
from weir.source import Place, Source, Table, flag, one_of, positive, whole

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}")
_CONTROL = re.compile(r"[A-Za-z0-9_]+(:[a-z-]+=[A-Za-z0-9.-]+(,[a-z-]+=[A-Za-z0-9.-]+)*)?")
_RESERVED = {"lo", "localhost"}
_NO_DEVICE = {"all", "default"}  # where the kernel has the settings of all devices
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%")
_MTU_MIN, _MTU_MAX = 576, 9216
_PAYLOAD_MIN, _PAYLOAD_MAX = 16, 9000
_NODES_MAX = 250
_WEIGHT_MAX = 10_000
_RELAYED_MAX = 65_532  # the flows that an aggregate has numbers for
_LINKED_ACKS = ("none", "literal", "strict", "per-flow")


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def load(path: str | Path) -> Scenario:
    """Reads a scenario file; the lab is named after the file unless it names itself.

    Raises:
        BadInput: the file cannot be read or is not a scenario.
    """
    path = Path(path)
    name = re.sub(r"[^A-Za-z0-9-]", "-", path.stem)
    return _scenario(Source.load(path), name if _NAME.fullmatch(name) else "lab")


def parse(text: str, name: str = "scenario") -> Scenario:
    """Reads a scenario from its text; `name` is what messages call it.

    Raises:
        BadInput: the text is not a scenario.
    """
    return _scenario(Source(text, name), "lab")


def _scenario(source: Source, name: str) -> Scenario:
    kinds.expect(kinds.SCENARIO, source.document, source.name)
    root = Table(source, (), source.document, "scenario")
    seed, ipv6 = 1, False
    if lab := root.table("lab", "[lab]"):
        name = lab.take("name", read_name, name)
        seed = lab.take("seed", whole(0, 2**64 - 1), seed)
        ipv6 = lab.take("ipv6", flag, ipv6)
        lab.close()
    nodes = [*_nodes(root, "hosts"), *switching.numbered(source, [*_nodes(root, "routers")])]
    _refuse_twice(source, nodes)
    _refuse_alike(source, nodes)
    if not 1 <= len(nodes) <= _NODES_MAX:
        raise source.error((), f"{len(nodes)} nodes; 1 to {_NODES_MAX} are allowed")
    names = [node.name for _, node in nodes]
    hosts = [node.name for _, node in nodes if not node.forwards]
    channels = dict(_channels(root))
    tables = root.tables("link", "[[link]]")
    links = [(table.place, _link(table, names, channels)) for table in tables]
    _refuse_twice(source, links)
    _refuse_silent(root, channels, [link for _, link in links])
    traffic = _all_traffic(root.tables("traffic", "[[traffic]]"), hosts)
    _refuse_twice(source, traffic)
    _refuse_no_relay(source, traffic)
    common = switching.read_switching(root, [node for _, node in nodes])
    switching.refuse_uneven(source, [node for _, node in nodes], links)
    switching.refuse_ports(source, [node for _, node in nodes], links, common)
    root.close()
    _refuse_islands(source, nodes, [link for _, link in links])
    return Scenario(
        name,
        seed,
        tuple(node for _, node in nodes),
        tuple(link for _, link in links),
        with_draws([flow for _, flow in traffic], [node for _, node in nodes]),
        tuple(channels.values()),
        common,
        ipv6,
    )


def _nodes(root: Table, kind: str) -> Iterable[tuple[Place, Node]]:
    tables = root.table(kind, f"[{kind}]")
    if tables is None:
        return
    for name in tables.keys():  # noqa: SIM118 (a Table is not a dict)
        try:
            _read_node_name(name)
        except BadInput as error:
            raise tables.error(name, str(error)) from None
        table = tables.require_table(name, f"[{kind}.{name}]")
        if switch := switching.read_switch(table, kind):
            yield table.place, Node(name, True, switch=switch)
            continue
        congestion = table.take("congestion", _control, None)
        ecn = table.take("ecn", flag, False)
        offload = table.take("segmentation_offload", flag, None)
        table.close()
        yield table.place, Node(name, kind == "routers", congestion, ecn, offload)


def _channels(root: Table) -> Iterable[tuple[str, Channel]]:
    tables = root.table("channels", "[channels]")
    if tables is None:
        return
    for name in tables.keys():  # noqa: SIM118 (a Table is not a dict)
        table = tables.require_table(name, f"[channels.{name}]")
        yield name, media.read_channel(table, name)


def _link(table: Table, names: Sequence[str], channels: Mapping[str, Channel]) -> Link:
    ends = table.require("ends", _ends(names))
    name = table.take("name", read_name, f"{ends[0]}-{ends[1]}")
    mtu = table.take("mtu", whole(_MTU_MIN, _MTU_MAX), 1500)
    medium = media.read_medium(table, channels)
    ways = [table.table(way, f"{table.title} {way}") for way in ("forward", "backward")]
    common = _direction(table, Direction())
    _refuse_queue(table, common, mtu)
    table.close()
    directions = []
    for way in ways:
        read = _direction(way, common) if way else common
        # The queue of a lossless link is its host's memory.
        directions.append(read if isinstance(medium, Credits) else _with_limit(read, mtu))
        media.refuse_direction(way or table, medium, channels, read, mtu)
        if way:
            _refuse_queue(way, read, mtu)
            way.close()
    return Link(name, ends, directions[0], directions[1], mtu, medium)


def _direction(table: Table, default: Direction) -> Direction:
    rate = table.take("rate", positive(Rate), default.rate)
    queue = _queue(table.table("queue", f"{table.title} queue"), default.queue)
    if not rate and queue != Queue():
        raise table.error("queue", "a queue needs a rate to wait for; give this link a rate")
    delay = table.take("delay", Time, default.delay)
    jitter = table.take("jitter", Time, default.jitter)
    if jitter > delay:
        raise table.error("jitter", f"jitter {jitter} is more than the delay {delay}")
    return Direction(rate, delay, jitter, table.take("loss", _loss, default.loss), queue)


def _queue(table: Table | None, default: Queue) -> Queue:
    if table is None:
        return default
    discipline = table.take("discipline", one_of(*queues.DISCIPLINES), default.discipline)
    limit = table.take("limit", _limit, default.limit)
    # What another discipline was given means nothing to this one.
    parameters = dict(default.parameters) if discipline == default.discipline else {}
    for name, parameter in queues.DISCIPLINES[discipline].items():
        value = table.take(name, parameter.read, None)
        if value is not None:
            parameters[name] = value
    if missing := queues.missing(discipline, parameters):
        raise table.error(None, f"{missing} is missing")
    table.close()
    return Queue(discipline, limit, parameters)


def _with_limit(direction: Direction, mtu: int) -> Direction:
    if not direction.rate:
        return direction
    return replace(direction, queue=queues.with_limit(direction.queue, direction.rate, mtu))


def _refuse_queue(table: Table, direction: Direction, mtu: int) -> None:
    if direction.rate is None:
        return
    if refused := queues.refusal(direction.queue, direction.rate, mtu):
        key, reason = refused
        place = (*table.place, "queue", key)
        message = f"{table.title} queue: {key} of {direction.queue.discipline}: {reason}"
        raise table.source.error(place, message)


def _all_traffic(tables: list[Table], hosts: Sequence[str]) -> list[tuple[Place, Traffic]]:
    read = [_traffic(table, hosts) for table in tables]
    given = {one.name for one in read if one.is_named}
    named = [
        one
        if one.is_named
        else replace(one, name=default_name(kind_of(one), number, given, len(read)))
        for number, one in enumerate(read, start=1)
    ]
    return [(table.place, one) for table, one in zip(tables, named, strict=True)]


def _traffic(table: Table, hosts: Sequence[str]) -> Traffic:
    kind = table.require("kind", one_of(*_KINDS, *applications.KINDS))
    name = table.take("name", read_name, None)
    common: dict[str, Any] = {
        "name": name or "",
        "is_named": name is not None,
        "source": table.require("from", _host(hosts)),
        "destination": table.require("to", _host(hosts)),
        "start": table.take("start", Time, Time.from_ns(0)),
        "stop": table.take("stop", Time, None),
        "dscp": table.take("dscp", one_of(*CODEPOINTS), "CS0"),
    }
    if common["source"] == common["destination"]:
        raise table.error("to", f'to = "{common["destination"]}" is also where it comes from')
    if common["stop"] is not None and common["stop"] <= common["start"]:
        raise table.error("stop", f"stop = {common['stop']} is not after start = {common['start']}")
    if kind in applications.KINDS:
        common["congestion"] = table.take("congestion", _control, None)
        flow: Traffic = applications.read(table, common, kind)
    else:
        flow = _KINDS[kind](table, common)
    table.close()
    return flow


def _iperf3(table: Table, common: dict[str, Any]) -> Traffic:
    return Iperf3Traffic(
        **common,
        congestion=table.take("congestion", _control, None),
        streams=table.take("streams", whole(1, 128), 1),
        rate=table.take("rate", positive(Rate), None),
        through=(through := table.take("through", read_name, None)),
        weight=_weight(table, through),
    )


def _weight(table: Table, through: str | None) -> int:
    weight: int = table.take("weight", whole(1, _WEIGHT_MAX), 1)
    if weight != 1 and through is None:
        raise table.error("weight", "a weight is for a relay's aggregate: through is missing")
    return weight


def _relay(table: Table, common: dict[str, Any]) -> Traffic:
    for key in ("start", "stop"):
        if common[key]:
            raise table.error(key, "a relay is there from the first client on, to the end")
    return RelayTraffic(
        **common,
        congestion=table.take("congestion", _control, None),
        linked_ack=table.take("linked_ack", one_of(*_LINKED_ACKS), "none"),
        window=table.take("window", positive(Bytes), None),
    )


def _udp(table: Table, common: dict[str, Any]) -> Traffic:
    on, off = (table.take(key, positive(Time), None) for key in ("on", "off"))
    if (on is None) != (off is None):
        raise table.error(None, "on and off come together, or neither for a constant stream")
    rate = table.require("rate", positive(Rate))
    common["ecn"] = _ecn(table)
    return UdpTraffic(**common, rate=rate, on=on, off=off, payload=_payload(table))


def _ppbp(table: Table, common: dict[str, Any]) -> Traffic:
    common["ecn"] = _ecn(table)
    return PpbpTraffic(
        **common,
        burst_rate=table.require("burst_rate", positive(Rate)),
        burst_interval=table.require("burst_interval", positive(Time)),
        burst_mean=table.take("burst_mean", positive(Time), Time("200 ms")),
        hurst=table.take("hurst", _hurst, 0.7),
        payload=_payload(table),
    )


def _ecn(table: Table) -> str | None:
    return table.take("ecn", one_of(*ECN_FIELDS), None)


def _payload(table: Table) -> Bytes:
    return table.take("payload", _payload_size, Bytes("1470 B"))


_KINDS: dict[str, Callable[[Table, dict[str, Any]], Traffic]] = {
    "iperf3": _iperf3,
    "udp": _udp,
    "ppbp": _ppbp,
    "relay": _relay,
}


# What a value may be. Each takes the TOML value and returns ours, or says what is allowed.


def _control(value: Any) -> str:
    if not isinstance(value, str) or not _CONTROL.fullmatch(value):
        raise BadInput(
            'a name such as "cubic" is allowed, with options for the simulator "ledbat:shallow=on"'
        )
    return value


def read_name(value: Any) -> str:
    """The name of a lab, node, link or flow; raises `BadInput` if it cannot be one."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise BadInput(
            f"{value!r} is not a name: a letter, then up to 62 letters, digits or hyphens"
        )
    if value.lower() in _RESERVED:
        raise BadInput(f"{value} is a name the system uses; choose another")
    return value


def _read_node_name(value: Any) -> None:
    """Raises `BadInput` for what is not a host name in DNS or no device's name in the kernel."""
    read_name(value)
    if value in _NO_DEVICE:
        raise BadInput(f"{value} is a name the kernel uses for devices; choose another")
    if value.endswith("-"):
        raise BadInput(f"{value} ends in a hyphen, which no host name may; choose another")


def _host(hosts: Sequence[str]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in hosts:
            raise BadInput(f"there is no such host; the hosts are {', '.join(hosts)}")
        return str(value)

    return read


def _ends(names: Sequence[str]) -> Callable[[Any], tuple[str, str]]:
    def read(value: Any) -> tuple[str, str]:
        if not isinstance(value, list) or len(value) != 2 or value[0] == value[1]:
            raise BadInput('two different nodes are allowed, as in ["a", "b"]')
        for end in value:
            if end not in names:
                raise BadInput(f"there is no node {end!r}; the nodes are {', '.join(names)}")
        return value[0], value[1]

    return read


def _limit(value: Any) -> Bytes | Time | int:
    if isinstance(value, str) and (packets := queues.PACKETS.fullmatch(value.strip())):
        limit: Bytes | Time | int = int(packets[1])
    else:
        limit = _first_of(value, Bytes, Time)
    if not limit:
        raise BadInput("a limit of more than 0 is allowed")
    return limit


def _first_of(value: Any, *kinds: type[Bytes] | type[Time]) -> Bytes | Time:
    for kind in kinds:
        try:
            return kind(value)
        except BadInput:
            continue
    raise BadInput('bytes, packets or time are allowed: "6 MiB", "1000 packets", "50 ms"')


def _loss(value: Any) -> Bernoulli | GilbertElliott | None:
    if not isinstance(value, dict):
        probability = _probability(value)
        return Bernoulli(probability) if probability else None
    unknown = set(value) - {"model", "p", "r", "h", "k"}
    if unknown or value.get("model") != "gilbert-elliott" or not {"p", "r"} <= set(value):
        raise BadInput('allowed: "0.1 %", or { model = "gilbert-elliott", p, r, h, k }')
    return GilbertElliott(**{key: _probability(value[key]) for key in value if key != "model"})


def _probability(value: Any) -> float:
    if isinstance(value, str) and (percent := _PERCENT.fullmatch(value.strip())):
        value = float(percent[1]) / 100
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadInput('a probability from 0 to 1 is allowed, such as 0.001 or "0.1 %"')
    return float(value)


def _hurst(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, float) or not 0.5 < value < 1:
        raise BadInput("a number above 0.5 and below 1 is allowed")
    return value


def _payload_size(value: Any) -> Bytes:
    size = Bytes(value)
    if not _PAYLOAD_MIN <= size.count <= _PAYLOAD_MAX:
        raise BadInput(f"{_PAYLOAD_MIN} B to {_PAYLOAD_MAX} B are allowed")
    return size


def _refuse_twice(source: Source, items: Sequence[tuple[Place, _Named]]) -> None:
    seen: set[str] = set()
    for place, item in items:
        if item.name in seen:
            raise source.error(place, f"the name {item.name} stands twice; a name is used once")
        seen.add(item.name)


def _refuse_alike(source: Source, nodes: Sequence[tuple[Place, Node]]) -> None:
    """Names resolve without regard to case (RFC 4343), and so one would lead to the other."""
    seen: dict[str, str] = {}
    for place, node in nodes:
        other = seen.setdefault(node.name.lower(), node.name)
        if other != node.name:
            message = f"the names {other} and {node.name} differ in case only; choose another"
            raise source.error(place, message)


def _refuse_no_relay(source: Source, traffic: Sequence[tuple[Place, Traffic]]) -> None:
    passing = {one.name: 0 for _, one in traffic if isinstance(one, RelayTraffic)}
    for place, one in traffic:
        if not isinstance(one, Iperf3Traffic) or one.through is None:
            continue
        if one.through not in passing:
            known = ", ".join(passing) or "none"
            message = f'through = "{one.through}": there is no such relay; the relays are {known}'
            raise source.error((*place, "through"), message)
        passing[one.through] += one.streams
        if passing[one.through] > _RELAYED_MAX:
            message = f"more than {_RELAYED_MAX} connections pass {one.through}"
            raise source.error((*place, "through"), message)


def _refuse_silent(root: Table, channels: Mapping[str, Channel], links: Sequence[Link]) -> None:
    used = {link.medium.channel for link in links if isinstance(link.medium, Wlan)}
    for name in channels:
        if name not in used:
            place = ("channels", name)
            message = f"[channels.{name}]: it has no stations, for no link uses it"
            raise root.source.error(place, message)


def _refuse_islands(
    source: Source, nodes: Sequence[tuple[Place, Node]], links: Sequence[Link]
) -> None:
    neighbours: dict[str, set[str]] = {node.name: set() for _, node in nodes}
    for a, b in (link.ends for link in links):
        neighbours[a].add(b)
        neighbours[b].add(a)
    hosts = dict.fromkeys(node.name for _, node in nodes if not node.forwards)
    joined: set[str] = set()
    for start in hosts:
        reached = _reached(start, neighbours, hosts)
        joined |= reached
        for place, node in nodes:
            if node.name in hosts and node.name not in reached:
                raise source.error(
                    place, f"no path joins {node.name} and {start}; paths run through routers"
                )
    for place, node in nodes:
        if node.name not in joined:
            raise source.error(place, f"no path joins {node.name} to any host")


def _reached(start: str, neighbours: dict[str, set[str]], hosts: Collection[str]) -> set[str]:
    reached, frontier = {start}, [start]
    while frontier:
        here = frontier.pop()
        if here != start and here in hosts:
            continue  # a host does not forward
        frontier.extend(neighbours[here] - reached)
        reached |= neighbours[here]
    return reached
