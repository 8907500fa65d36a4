"""Rules as OpenFlow 1.3 has them in bytes, both ways, by one table of the fields that ours look at.

os-ken could do it as well, in ten times as long: rules are what there are thousands of.
"""

import functools
import ipaddress
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from weir.control import messages as m

# OFPT_FLOW_MOD, its commands, and what stands for anything.
FLOW_MOD = 14
ADD, DELETE_STRICT = 0, 4
_VERSION, _ANY = 4, 0xFFFF_FFFF
_HEAD = struct.Struct("!BBHI")
_FLOW = struct.Struct("!QQBBHHHIIIH2x")
_FLOW_HEAD_BYTES = _HEAD.size + _FLOW.size
# A rule of a statistics reply up to its match: length, table, age, priority, timeouts, flags,
# cookie, packets, bytes.
_STATS = struct.Struct("!HBxIIHHHH4xQQQ")
_LONGEST = 0xFFFF  # OFPCML_NO_BUFFER: packets for the controller come whole
# Instructions and actions by their types.
_GOTO, _APPLY, _METER = 1, 4, 6
_OUTPUT, _SET_FIELD = 0, 25
# What stands where a switch does something that is not ours: it is equal to nothing that we want.
FOREIGN = -1
# Rules are read again and again: so many are not decoded again as long as they stay what they are,
# unless they are longer than any of ours: a switch could fill the memory with such.
_RULES_KNOWN = 1 << 17
_KNOWN_MAX_BYTES = 256
# What a counter says that a switch does not have.
_NOT_COUNTED = 0xFFFF_FFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a match: OpenFlow's number of it, its bytes, and how our value is made of them."""

    number: int
    size: int
    to_bytes: Callable[[Any], bytes]
    from_bytes: Callable[[bytes], Any]

    @property
    def head(self) -> bytes:
        """What stands before the value: the basic class, the number without a mask, the length."""
        return struct.pack("!HBB", 0x8000, self.number << 1, self.size)


def _number(number: int, size: int) -> _Field:
    return _Field(number, size, lambda x: int.to_bytes(x, size), int.from_bytes)


def _mac(number: int) -> _Field:
    return _Field(number, 6, lambda x: bytes.fromhex(x.replace(":", "")), lambda x: x.hex(":"))


def _address(number: int) -> _Field:
    return _Field(number, 4, socket.inet_aton, socket.inet_ntoa)


def _address6(number: int) -> _Field:
    return _Field(
        number,
        16,
        lambda x: socket.inet_pton(socket.AF_INET6, x),
        lambda x: str(ipaddress.IPv6Address(x)),
    )


# SYN and not ACK, as a value with its mask, behind the number of whoever has defined the field: in
# OpenFlow 1.3 it is the Open Networking Foundation's.
_SYN_ALONE = bytes.fromhex("4f4e460000020012")


@dataclass(frozen=True, slots=True)
class _Syn(_Field):
    @property
    def head(self) -> bytes:
        return struct.pack("!HBB", 0xFFFF, self.number << 1 | 1, self.size)


def _syn_alone(value: bytes) -> bool:
    if value != _SYN_ALONE:
        raise _Unknown
    return True


class _Unknown(Exception):
    """A value that no match of ours has."""


# Attributes of a match in an order in which a field comes after those that it needs. The last four
# depend on the kind of packet.
_FIELDS = {
    "in_port": _number(0, 4),
    "eth_target": _mac(3),
    "eth_source": _mac(4),
    "eth_type": _number(5, 2),
    "dscp": _number(8, 1),
    "protocol": _number(10, 1),
    "icmp_type": _number(29, 1),
    "source": _address(11),
    "target": _address(12),
    "source_port": _number(13, 2),
    "port": _number(14, 2),
    "is_syn": _Syn(42, 8, lambda _: _SYN_ALONE, _syn_alone),
}
_OF_UDP = {"source_port": _number(15, 2), "port": _number(16, 2)}
_OF_ARP = {"target": _address(23)}
_OF_IPV6 = {"source": _address6(26), "target": _address6(27)}
_OF_ICMP6 = {"target": _address6(31)}
# What a rule of ours sets.
_SET = ("dscp", "eth_source", "eth_target", "source", "target", "source_port", "port")
_FIELDS6 = {x: one for x, one in _FIELDS.items() if x not in _OF_IPV6} | _OF_IPV6
_MORE = (_OF_UDP, _OF_ARP, _OF_IPV6, _OF_ICMP6)
_ALL = [*_FIELDS.items(), *(item for more in _MORE for item in more.items())]
_BY_HEAD = {one.head: (name, one) for name, one in _ALL}
_NEEDS = {one.head: ("protocol", m.UDP) for one in _OF_UDP.values()}
_NEEDS |= {one.head: ("eth_type", m.ARP) for one in _OF_ARP.values()}
_NEEDS |= {one.head: ("eth_type", m.IPV6) for one in _OF_IPV6.values()}
_NEEDS |= {one.head: ("icmp_type", m.NEIGHBOR_SOLICITATION) for one in _OF_ICMP6.values()}


def encoded(place: m.Place, entry: m.Entry | None, number: int) -> bytes:
    """The message that puts a rule in its place, or with no entry takes it away."""
    command = ADD if entry else DELETE_STRICT
    cookie = entry.cookie if entry else 0
    flow = _FLOW.pack(
        cookie, 0, place.table, command, 0, 0, place.priority, _ANY, _ANY, _ANY, 0
    )  # fmt: skip
    is_ipv6 = place.match.eth_type == m.IPV6
    body = flow + _match(place.match) + (_instructions(entry.actions, is_ipv6) if entry else b"")
    return _HEAD.pack(_VERSION, FLOW_MOD, _HEAD.size + len(body), number) + body


def read(data: bytes) -> Iterator[tuple[m.Place, m.Entry, int]]:
    """The rules of a statistics reply behind its head, each with the bytes that it let pass.

    Raises:
        ValueError, struct.error: these are none.
    """
    at = 0
    while at < len(data):
        size, *_, count = _STATS.unpack_from(data, at)
        if size < _STATS.size + 8 or at + size > len(data):
            raise ValueError(f"a rule of {size} bytes")
        # All but its age and what it has counted.
        steady = data[at : at + 4] + data[at + 12 : at + 32] + data[at + 48 : at + size]
        place, entry = (_known if len(steady) <= _KNOWN_MAX_BYTES else _rule)(steady)
        yield place, entry, counted(count)
        at += size


def counted(count: int) -> int:
    """A switch's counter: none where it has none, and no more than can be told."""
    return 0 if count == _NOT_COUNTED else min(count, m.COUNT_MAX)


@functools.lru_cache(maxsize=_RULES_KNOWN)
def _known(steady: bytes) -> tuple[m.Place, m.Entry]:
    return _rule(steady)


def _rule(steady: bytes) -> tuple[m.Place, m.Entry]:
    """A rule by its bytes without age and counts."""
    whole = steady[:4] + bytes(8) + steady[4:24] + bytes(16) + steady[24:]
    _, table, _, _, priority, _, _, _, cookie, _, _ = _STATS.unpack_from(whole)
    kind, size = struct.unpack_from("!HH", whole, _STATS.size)
    end = _STATS.size + _padded(size)
    match = _match_of(whole[_STATS.size : end], size)
    if kind != 1 or size < 4 or end > len(whole):
        raise ValueError(f"a match of type {kind} and {size} bytes")
    return m.Place(table, priority, match), m.Entry(_actions(whole[end:]), cookie)


def _padded(size: int) -> int:
    """Everything in OpenFlow ends at a multiple of eight bytes."""
    return (size + 7) // 8 * 8


def _match(match: m.Match) -> bytes:
    if match.other:
        return bytes.fromhex(match.other)
    fields = dict(_FIELDS if match.eth_type != m.IPV6 else _FIELDS6)
    if match.protocol == m.UDP:
        fields |= _OF_UDP
    if match.eth_type == m.ARP:
        fields |= _OF_ARP
    if match.icmp_type is not None:
        fields |= _OF_ICMP6
    values = [(one, getattr(match, name)) for name, one in fields.items()]
    body = b"".join(one.head + one.to_bytes(x) for one, x in values if x is not None)
    return (struct.pack("!HH", 1, 4 + len(body)) + body).ljust(_padded(4 + len(body)), b"\0")


def _match_of(data: bytes, size: int) -> m.Match:
    """A match; one that looks at what no rule of ours does, or at a part of it, as it stands."""
    found: dict[str, Any] = {}
    for head, value in _oxm(data[4:size]):
        name, one = _BY_HEAD.get(head, ("", None))
        needs, wanted = _NEEDS.get(head, ("", None))
        if one is None or name in found or found.get(needs) != wanted:
            return m.Match(other=data.hex())
        try:
            found[name] = one.from_bytes(value)
        except _Unknown:
            return m.Match(other=data.hex())
    return m.Match(**found)


def _oxm(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(data):
        end = at + 4 + data[at + 3]
        if end > len(data):
            raise ValueError("a field without its end")
        yield data[at : at + 4], data[at + 4 : end]
        at = end


def _instructions(actions: m.Actions, is_ipv6: bool) -> bytes:
    found = b""
    if actions.meter is not None:
        found += struct.pack("!HHI", _METER, 8, actions.meter)
    done = b""
    fields = _FIELDS6 if is_ipv6 else _FIELDS
    for name in _SET:
        value = getattr(actions, name)
        if value is not None:
            field = fields[name].head + fields[name].to_bytes(value)
            size = _padded(4 + len(field))
            done += (struct.pack("!HH", _SET_FIELD, size) + field).ljust(size, b"\0")
    if actions.output is not None:
        done += struct.pack("!HHIH6x", _OUTPUT, 16, actions.output, _LONGEST)
    if done:
        found += struct.pack("!HH4x", _APPLY, 8 + len(done)) + done
    if actions.goto is not None:
        found += struct.pack("!HHB3x", _GOTO, 8, actions.goto)
    return found


def _actions(data: bytes) -> m.Actions:
    """What a rule does; what no rule of ours does is told by an output that is none."""
    found: dict[str, Any] = {}
    for kind, body in _parts(data):
        if kind == _METER:
            (found["meter"],) = struct.unpack_from("!I", body)
        elif kind == _GOTO:
            found["goto"] = body[0]
        elif kind == _APPLY:
            found |= _applied(body[4:])
        else:
            found["output"] = FOREIGN
    return m.Actions(**found)


def _applied(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, body in _parts(data):
        name, one = _BY_HEAD.get(body[:4], ("", None)) if kind == _SET_FIELD else ("", None)
        if kind == _OUTPUT and "output" not in found:
            (found["output"],) = struct.unpack_from("!I", body)
        elif one is not None and name in _SET and "output" not in found:
            found[name] = one.from_bytes(body[4 : 4 + one.size])
        else:
            found["output"] = FOREIGN
    return found


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Instructions or actions: the type of each, and what comes behind type and length."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("!HH", data, at)
        if size < 8 or at + size > len(data):
            raise ValueError(f"an instruction or action of {size} bytes")
        yield kind, data[at + 4 : at + size]
        at += size
