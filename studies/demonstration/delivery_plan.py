"""What a demonstration carries: transfers with deadlines over a lab, read from TOML.

The file names the lab's own scenario file beside it, so that `weir lab up` can bring up the same
network alone.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weir import Bytes, Rate, Time, kinds
from weir._core import calendar_policies
from weir.errors import BadInput
from weir.lab import reading
from weir.lab.scenario import Direction, Iperf3Traffic, Link, Queue, Scenario, UdpTraffic
from weir.source import Source, Table, positive

POLICIES = calendar_policies()
ROUTERS = ("classes", "plain")
_ID = re.compile(r"[a-z][a-z0-9-]{0,15}")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%")


@dataclass(frozen=True)
class Transfer:
    """One file to be moved.

    Attributes:
        id: its name everywhere; the file is called after it.
        what: what it is, for people.
        source: the sending host.
        destination: the receiving host.
        size: of the file.
        at: when it is submitted, from the beginning of the half.
        deadline: when it must have arrived, from its submission.
        takes_earliest: when refused, ask again with the earliest deadline that was offered.
    """

    id: str
    what: str
    source: str
    destination: str
    size: Bytes
    at: Time
    deadline: Time
    takes_earliest: bool


@dataclass(frozen=True)
class Plan:
    """A demonstration.

    Attributes:
        name: of the demonstration.
        lab: the network and its background traffic.
        bottleneck: the link that the report is about.
        calendar_host: where the calendar service runs.
        calendar_share: the fraction of every link's rate that the calendar may hand out.
        policy: the calendar's policy.
        epoch: how often the calendar shares out what has become free.
        congestion: the congestion control of all transfers in both halves.
        routers: whether the one before the bottleneck holds each transfer to its promise and serves
            a lower class last (`classes`), or all packets are alike to it (`plain`): then its queue
            is a FIFO, sources keep promises by themselves, and what they send beside them yields
            (LEDBAT++).
        places: what each host is, for people.
        transfers: in order of submission.
    """

    name: str
    lab: Scenario
    bottleneck: Link
    calendar_host: str
    calendar_share: float
    policy: str
    epoch: Time
    congestion: str
    routers: str
    places: dict[str, str]
    transfers: tuple[Transfer, ...]

    @property
    def background(self) -> Rate:
        """The mean rate of all background traffic whose rate is fixed."""
        flows = [
            flow.rate.bit_per_s
            for flow in self.lab.traffic
            if isinstance(flow, UdpTraffic | Iperf3Traffic) and flow.rate
        ]
        return Rate.from_bit_per_s(sum(flows))


def load(path: Path) -> Plan:
    """Reads a demonstration and the lab it names.

    Raises:
        BadInput: one of the files cannot be read or is not what it should be.
    """
    source = Source.load(path)
    kinds.expect(kinds.DEMONSTRATION, source.document, source.name)
    root = Table(source, (), source.document, "demonstration")
    lab = reading.load(path.parent / root.require("lab", _text))
    hosts = [node.name for node in lab.nodes if not node.forwards]
    links = {link.name: link for link in lab.links}
    plan = Plan(
        name=path.stem,
        lab=lab,
        bottleneck=links[root.require("bottleneck", _one_of(links))],
        calendar_host=root.require("calendar_host", _one_of(hosts)),
        calendar_share=root.require("calendar_share", _share),
        policy=root.take("policy", _one_of(POLICIES), "global-ljf"),
        epoch=root.take("epoch", positive(Time), Time("1 s")),
        congestion=root.take("congestion", _text, "cubic"),
        routers=root.take("routers", _one_of(ROUTERS), "classes"),
        places=_places(root, hosts),
        transfers=_transfers(root, hosts),
    )
    root.close()
    if not plan.bottleneck.forward.rate:
        raise root.error("bottleneck", f"link {plan.bottleneck.name} has no rate")
    return with_routers(plan, plan.routers)


def with_routers(plan: Plan, routers: str) -> Plan:
    """The plan with such routers; where they are plain, the bottleneck has a FIFO both ways.

    It holds what the link's queue holds of one class, so that best effort waits and loses as much.
    """
    if routers != "plain":
        return replace(plan, routers=routers)
    forward, backward = _plain(plan.bottleneck.forward), _plain(plan.bottleneck.backward)
    bottleneck = replace(plan.bottleneck, forward=forward, backward=backward)
    links = [bottleneck if link.name == bottleneck.name else link for link in plan.lab.links]
    lab = replace(plan.lab, links=tuple(links))
    return replace(plan, routers=routers, lab=lab, bottleneck=bottleneck)


def _plain(direction: Direction) -> Direction:
    queue = direction.queue
    limit = queue.limit
    if queue.discipline == "priority" and limit is not None:
        # Each class may hold an equal part.
        parts = len(queue.parameters.get("classes", ((), ())))
        if isinstance(limit, Bytes):
            limit = Bytes.from_count(limit.count // parts)
        elif isinstance(limit, Time):
            limit = Time.from_ns(limit.ns // parts)
        else:
            limit //= parts
    return replace(direction, queue=Queue(limit=limit))


def _places(root: Table, hosts: Collection[str]) -> dict[str, str]:
    table = root.table("places", "[places]")
    if table is None:
        return {}
    places = {host: table.take(host, _text, "") for host in hosts}
    table.close()
    return places


def _transfers(root: Table, hosts: Collection[str]) -> tuple[Transfer, ...]:
    seen: set[str] = set()
    transfers = []
    for table in root.tables("transfer", "[[transfer]]"):
        transfer = _transfer(table, hosts)
        if transfer.id in seen:
            raise table.error("id", f"the id {transfer.id} stands twice; an id is used once")
        seen.add(transfer.id)
        transfers.append(transfer)
    if not transfers:
        raise root.error(None, "no [[transfer]]; at least one is needed")
    return tuple(sorted(transfers, key=lambda transfer: transfer.at))


def _transfer(table: Table, hosts: Collection[str]) -> Transfer:
    transfer = Transfer(
        id=table.require("id", _identifier),
        what=table.take("what", _text, ""),
        source=table.require("from", _one_of(hosts)),
        destination=table.require("to", _one_of(hosts)),
        size=table.require("size", positive(Bytes)),
        at=table.take("at", Time, Time.from_ns(0)),
        deadline=table.require("deadline", positive(Time)),
        takes_earliest=table.take("if_refused", _one_of(["earliest"]), None) is not None,
    )
    if transfer.source == transfer.destination:
        raise table.error("to", f'to = "{transfer.destination}" is also where it comes from')
    table.close()
    return transfer


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadInput("a text is allowed")
    return value


def _identifier(value: Any) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise BadInput("a small letter, then up to 15 small letters, digits or hyphens are allowed")
    return value


def _one_of(allowed: Collection[str]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise BadInput(f"allowed are {', '.join(allowed)}")
        return value

    return read


def _share(value: Any) -> float:
    match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match or not 0 < float(match[1]) <= 100:
        raise BadInput('a share above 0 % and up to 100 % is allowed, such as "80 %"')
    return float(match[1]) / 100
