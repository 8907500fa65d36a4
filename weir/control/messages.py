"""What a switch is told: rules, meters, and the questions and answers about them.

These are our own, so that what decides knows nothing of OpenFlow's encoding. As text they are
what `ovs-ofctl` reads, so that a table in a test, or in a log, can be given to a real switch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

TO_CONTROLLER = 0xFFFF_FFFD
"""The port that stands for the controller (OFPP_CONTROLLER)."""
BY_THE_TABLES = 0xFFFF_FFF9
"""The port of a frame that is sent out as if it had come in (OFPP_TABLE)."""
IPV4, ARP, LLDP, IPV6 = 0x0800, 0x0806, 0x88CC, 0x86DD
TCP, UDP, ICMP6 = 6, 17, 58
NEIGHBOR_SOLICITATION = 135
"""The type of the ICMPv6 packet that asks for an address, as ARP does in IPv4 (RFC 4861)."""
COUNT_MAX = 10**18
"""What a counter counts as at most, and a report says: no port carries an exabyte."""
_PROTOCOLS = {TCP: "tcp", UDP: "udp", ICMP6: "icmp"}


@dataclass(frozen=True, slots=True)
class Match:
    """Which packets a rule is for; what is None may be anything.

    Attributes:
        in_port: number of the port that they came in by.
        eth_type, protocol: as in the headers; `protocol` and what follows are for IP only.
        source, target: addresses of that IP; of ARP and neighbor solicitations, only the target,
            which is asked for.
        port, source_port: where they go, and where they come from, by TCP or UDP.
        icmp_type: of ICMPv6.
        is_syn: True: those that begin a connection of TCP, SYN without ACK.
        other: the whole of a match that is not ours, as OpenFlow has it, in hexadecimal digits.
    """

    in_port: int | None = None
    eth_source: str | None = None
    eth_target: str | None = None
    eth_type: int | None = None
    protocol: int | None = None
    source: str | None = None
    target: str | None = None
    port: int | None = None
    dscp: int | None = None
    other: str | None = None
    source_port: int | None = None
    icmp_type: int | None = None
    is_syn: bool | None = None

    def __str__(self) -> str:
        if self.other:
            return f"other={self.other}"
        parts = [] if self.in_port is None else [f"in_port={self.in_port}"]
        parts += [f"dl_src={self.eth_source}"] if self.eth_source else []
        parts += [f"dl_dst={self.eth_target}"] if self.eth_target else []
        is_ipv6 = self.eth_type == IPV6
        if self.protocol is not None:
            parts.append(_PROTOCOLS[self.protocol] + ("6" if is_ipv6 else ""))
        elif self.eth_type is not None:
            known = {IPV4: "ip", ARP: "arp", IPV6: "ipv6"}
            parts.append(known.get(self.eth_type, f"dl_type=0x{self.eth_type:04x}"))
        parts += [f"icmpv6_type={self.icmp_type}"] if self.icmp_type is not None else []
        source, target = ("ipv6_src", "ipv6_dst") if is_ipv6 else ("nw_src", "nw_dst")
        parts += [f"{source}={self.source}"] if self.source else []
        target = "nd_target" if self.icmp_type is not None else target
        parts += [f"{target}={self.target}"] if self.target else []
        parts += [f"tp_src={self.source_port}"] if self.source_port is not None else []
        parts += [f"tp_dst={self.port}"] if self.port is not None else []
        parts += [f"ip_dscp={self.dscp}"] if self.dscp is not None else []
        parts += ["tcp_flags=+syn-ack"] if self.is_syn else []
        return ",".join(parts)


@dataclass(frozen=True, slots=True)
class Actions:
    """What is done with a packet, in this order; with none of it, it is dropped.

    Addresses and ports are what a packet gets in place of its own, of the IP that the match is for.
    """

    meter: int | None = None
    dscp: int | None = None
    eth_source: str | None = None
    output: int | None = None
    goto: int | None = None
    eth_target: str | None = None
    source: str | None = None
    target: str | None = None
    source_port: int | None = None
    port: int | None = None

    def __str__(self) -> str:
        parts = [f"meter:{self.meter}"] if self.meter is not None else []
        parts += [f"set_field:{self.dscp}->ip_dscp"] if self.dscp is not None else []
        parts += [f"set_field:{self.eth_source}->eth_src"] if self.eth_source else []
        parts += [f"set_field:{self.eth_target}->eth_dst"] if self.eth_target else []
        for address, of in ((self.source, "src"), (self.target, "dst")):
            if address is not None:
                kind = "ipv6" if ":" in address else "ip"
                parts.append(f"set_field:{address}->{kind}_{of}")
        parts += [f"set_field:{self.source_port}->tcp_src"] if self.source_port is not None else []
        parts += [f"set_field:{self.port}->tcp_dst"] if self.port is not None else []
        if self.output is not None:
            to_controller = self.output == TO_CONTROLLER
            parts.append("CONTROLLER:65535" if to_controller else f"output:{self.output}")
        parts += [f"goto_table:{self.goto}"] if self.goto is not None else []
        return ",".join(parts) or "drop"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rule stands: a table has one rule of each priority and match."""

    table: int
    priority: int
    match: Match


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands there. The cookie names the path that the rule is a part of, and its version."""

    actions: Actions
    cookie: int


@dataclass(frozen=True, slots=True)
class Meter:
    """Drops what exceeds a rate for longer than a burst."""

    rate_kbps: int
    burst_kbit: int


@dataclass(frozen=True, slots=True)
class Tables:
    """Everything that a switch does: its rules by their place, its meters by their number."""

    rules: Mapping[Place, Entry] = field(default_factory=dict)
    meters: Mapping[int, Meter] = field(default_factory=dict)

    def text(self) -> str:
        """Meters, then rules, one a line, in the order in which a switch tries them."""
        lines = [meter_text(number, self.meters[number]) for number in sorted(self.meters)]
        places = sorted(self.rules, key=lambda x: (x.table, -x.priority, str(x.match)))
        lines += [rule_text(place, self.rules[place]) for place in places]
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class AddRule:
    """Puts a rule in its place, in one step if another stands there; its counters go on."""

    place: Place
    entry: Entry


@dataclass(frozen=True, slots=True)
class RemoveRule:
    """Takes away the rule that stands in this place, and no other."""

    place: Place


@dataclass(frozen=True, slots=True)
class AddMeter:
    """Adds a meter whose number is free."""

    number: int
    meter: Meter


@dataclass(frozen=True, slots=True)
class ChangeMeter:
    """Changes a meter that is there."""

    number: int
    meter: Meter


@dataclass(frozen=True, slots=True)
class RemoveMeter:
    """Takes away a meter, and with it every rule that still uses it."""

    number: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """Asks to be told when all that came before has been done."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """A barrier of its own for the messages before it; `number` is told when they are done."""

    number: int


@dataclass(frozen=True, slots=True)
class Cookies:
    """The rules whose cookies are equal to one where a mask has bits."""

    cookie: int = 0
    mask: int = 0


ALL = Cookies()
"""All rules."""


@dataclass(frozen=True, slots=True)
class Read:
    """Asks for rules with their counters, and for all meters."""

    of: Cookies = ALL


@dataclass(frozen=True, slots=True)
class ReadRules:
    """Asks for rules alone; `number` is told with them."""

    of: Cookies
    number: int


@dataclass(frozen=True, slots=True)
class CountRules:
    """Asks how many rules there are; `number` is told with it."""

    of: Cookies
    number: int


@dataclass(frozen=True, slots=True)
class ReadPorts:
    """Asks how many packets have come in by each port."""


@dataclass(frozen=True, slots=True)
class PacketOut:
    """Sends a frame out of a port; with `BY_THE_TABLES`, as if it had come in by another one."""

    port: int
    frame: bytes
    came_by: int = TO_CONTROLLER


Change = AddRule | RemoveRule | AddMeter | ChangeMeter | RemoveMeter
Message = Change | Barrier | Confirm | Read | ReadRules | CountRules | ReadPorts | PacketOut


def rule_text(place: Place, entry: Entry) -> str:
    """A rule as `ovs-ofctl add-flow` takes it."""
    match = f",{place.match}" if str(place.match) else ""
    return (
        f"cookie=0x{entry.cookie:x}, table={place.table}, priority={place.priority}{match} "
        f"actions={entry.actions}"
    )


def meter_text(number: int, meter: Meter) -> str:
    """A meter as `ovs-ofctl add-meter` takes it."""
    return (
        f"meter={number} kbps burst stats bands=type=drop "
        f"rate={meter.rate_kbps} burst_size={meter.burst_kbit}"
    )


def after(tables: Tables, changes: Sequence[Change]) -> Tables:
    """What a switch does once it has taken these changes."""
    rules, meters = dict(tables.rules), dict(tables.meters)
    for change in changes:
        match change:
            case AddRule(place, entry):
                rules[place] = entry
            case RemoveRule(place):
                rules.pop(place, None)
            case AddMeter(number, meter) | ChangeMeter(number, meter):
                meters[number] = meter
            case RemoveMeter(number):
                meters.pop(number, None)
                rules = {x: y for x, y in rules.items() if y.actions.meter != number}
    return Tables(rules, meters)


def merged(one: Mapping[str, Tables], other: Mapping[str, Tables]) -> dict[str, Tables]:
    """What every switch of the first does, together with what it does by the second."""
    none = Tables()
    return {
        name: Tables(
            {**tables.rules, **other.get(name, none).rules},
            {**tables.meters, **other.get(name, none).meters},
        )
        for name, tables in one.items()
    }
