"""Between our messages and OpenFlow 1.3 as bytes: rules by our own table, all else by os-ken."""

import logging
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from os_ken.ofproto import ofproto_parser, ofproto_v1_3, ofproto_v1_3_parser
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from weir.control import flows
from weir.control import messages as m

# It logs with a traceback what it cannot read; who asked is told.
logging.getLogger("os_ken.ofproto.ofproto_parser").setLevel(logging.CRITICAL)

VERSION = ofproto_v1_3.OFP_VERSION
HEADER_BYTES = 8
_OF = ofproto_v1_3
_P = ofproto_v1_3_parser
# What the encoder wants to know of a connection is its version alone.
_PEER = ProtocolDesc(VERSION)
_METER_FLAGS = _OF.OFPMF_KBPS | _OF.OFPMF_BURST | _OF.OFPMF_STATS
# A reply to a question for rules: what follows the header, and where its rules begin.
_FLOW_STATS = struct.pack("!H", _OF.OFPMP_FLOW)
_STATS_HEAD_BYTES = 16
_METER_CONFIG = struct.pack("!H", _OF.OFPMP_METER_CONFIG)
# What is handed to os-ken: nothing but what we read. It believes lengths that a message states, and
# reads one of nothing for ever.
_READ_BY_OS_KEN = {
    _OF.OFPT_FEATURES_REPLY,
    _OF.OFPT_PORT_STATUS,
    _OF.OFPT_PACKET_IN,
    _OF.OFPT_ECHO_REQUEST,
    _OF.OFPT_ERROR,
    _OF.OFPT_BARRIER_REPLY,
    _OF.OFPT_MULTIPART_REPLY,
}
_ANSWERS_READ_BY_OS_KEN = {
    _OF.OFPMP_PORT_DESC,
    _OF.OFPMP_PORT_STATS,
    _OF.OFPMP_METER_CONFIG,
    _OF.OFPMP_AGGREGATE,
}
_METER_HEAD_BYTES, _BAND_BYTES = 8, 16


@dataclass(frozen=True, slots=True)
class Connected:
    """Who a switch is: its datapath id."""

    datapath: int


@dataclass(frozen=True, slots=True)
class PortState:
    """A port of a switch, and whether it can carry packets."""

    name: str
    number: int
    is_up: bool


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of a switch; not the last of them where `has_more`."""

    ports: tuple[PortState, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class PortChange:
    """A port that came, went (it is not up then) or changed."""

    port: PortState


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of a switch with the bytes that each let pass; not the last where `has_more`.

    `number` is that of the question.
    """

    rules: Mapping[m.Place, m.Entry]
    passed: Mapping[m.Place, int]
    has_more: bool
    number: int = 0


@dataclass(frozen=True, slots=True)
class RuleCount:
    """How many rules there are of those that were asked for, by the question's number."""

    count: int
    number: int


@dataclass(frozen=True, slots=True)
class Meters:
    """Meters of a switch; not the last of them where `has_more`."""

    meters: Mapping[int, m.Meter]
    has_more: bool


@dataclass(frozen=True, slots=True)
class PortCounts:
    """How many packets have come in by each port."""

    received: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that a switch hands on."""

    port: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Echo:
    """A question whether we are there, with what the answer is to repeat."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """A switch could not do something: the message with this number."""

    why: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """A switch has come to a barrier."""

    number: int


Heard = (
    Connected
    | Ports
    | PortChange
    | PortCounts
    | Rules
    | RuleCount
    | Meters
    | Frame
    | Echo
    | Refusal
    | Done
    | None
)


def hello() -> bytes:
    """How a connection begins."""
    return _bytes(_P.OFPHello(_PEER, elements=[_P.OFPHelloElemVersionBitmap(versions=[VERSION])]))


def who_are_you() -> bytes:
    """Asks for the datapath id and the ports, and for frames to be handed on whole."""
    return b"".join(
        (
            _bytes(_P.OFPFeaturesRequest(_PEER)),
            _bytes(_P.OFPSetConfig(_PEER, _OF.OFPC_FRAG_NORMAL, _OF.OFPCML_NO_BUFFER)),
            _bytes(_P.OFPPortDescStatsRequest(_PEER, 0)),
        )
    )


def are_you_there() -> bytes:
    """An echo request."""
    return _bytes(_P.OFPEchoRequest(_PEER, b""))


def answer(echo: Echo) -> bytes:
    """The answer to one."""
    return _bytes(_P.OFPEchoReply(_PEER, echo.data))


def encoded(message: m.Message, number: int) -> bytes:
    """A message as it travels; `number` is what the answer will carry."""
    match message:
        case m.AddRule(place, entry):
            return flows.encoded(place, entry, number)
        case m.RemoveRule(place):
            return flows.encoded(place, None, number)
        case m.AddMeter(at, meter):
            return _bytes(_meter(at, _OF.OFPMC_ADD, meter), number)
        case m.ChangeMeter(at, meter):
            return _bytes(_meter(at, _OF.OFPMC_MODIFY, meter), number)
        case m.RemoveMeter(at):
            return _bytes(_meter(at, _OF.OFPMC_DELETE, None), number)
        case m.Barrier() | m.Confirm():
            return _bytes(_P.OFPBarrierRequest(_PEER), number)
        case m.Read(of):
            meters = _P.OFPMeterConfigStatsRequest(_PEER, 0, _OF.OFPM_ALL)
            return _asked(_P.OFPFlowStatsRequest, of, number) + _bytes(meters, number)
        case m.ReadRules(of):
            return _asked(_P.OFPFlowStatsRequest, of, number)
        case m.CountRules(of):
            return _asked(_P.OFPAggregateStatsRequest, of, number)
        case m.ReadPorts():
            return _bytes(_P.OFPPortStatsRequest(_PEER, 0, _OF.OFPP_ANY), number)
        case m.PacketOut(port, frame, came_by):
            return _bytes(
                _P.OFPPacketOut(
                    _PEER,
                    _OF.OFP_NO_BUFFER,
                    came_by,
                    [_P.OFPActionOutput(port)],
                    frame,
                ),
                number,
            )


def decoded(data: bytes) -> Heard:
    """What a switch has said; None if it is nothing that we ask for.

    Raises:
        ValueError: it is not OpenFlow 1.3.
    """
    version, kind, length, number = ofproto_parser.header(data)
    if kind == _OF.OFPT_HELLO:
        if version < VERSION:
            raise ValueError(f"it speaks OpenFlow 1.{version - 1} and not 1.3")
        return None
    if version != VERSION:
        raise ValueError(f"a message of version {version}, where OpenFlow 1.3 is {VERSION}")
    try:
        if has_rules(data):
            return _rules(data, number)
        if not _is_read_by_os_ken(kind, data):
            return None
        return _heard(ofproto_parser.msg(_PEER, version, kind, length, number, data))
    except Exception as error:
        # Whatever a stranger sends: the decoder has many ways to stumble over it.
        raise ValueError(f"a message of kind {kind} that is not OpenFlow 1.3: {error!r}") from None


def has_rules(data: bytes) -> bool:
    """Whether a message is a reply with rules, which take long to read."""
    return data[1] == _OF.OFPT_MULTIPART_REPLY and data[8:10] == _FLOW_STATS


def _is_read_by_os_ken(kind: int, data: bytes) -> bool:
    """Whether os-ken is to read a message, and can: what it would never end with is an error."""
    if kind != _OF.OFPT_MULTIPART_REPLY:
        return kind in _READ_BY_OS_KEN
    (answer,) = struct.unpack_from("!H", data, HEADER_BYTES)
    if answer == _OF.OFPMP_METER_CONFIG:
        _check_meters(data)
    return answer in _ANSWERS_READ_BY_OS_KEN


def _check_meters(data: bytes) -> None:
    """Every meter of a reply is a head with whole bands, inside the message."""
    at = _STATS_HEAD_BYTES
    while at < len(data):
        (size,) = struct.unpack_from("!H", data, at)
        if size % _BAND_BYTES != _METER_HEAD_BYTES or at + size > len(data):
            raise ValueError(f"a meter of {size} bytes")
        at += size


def _heard(message: Any) -> Heard:
    match message:
        case _P.OFPSwitchFeatures():
            return Connected(message.datapath_id)
        case _P.OFPPortDescStatsReply():
            # Those above are no ports: the switch itself, the controller, all of them.
            ports = [x for x in message.body if x.port_no <= _OF.OFPP_MAX]
            return Ports(tuple(_port(x, True) for x in ports), _has_more(message))
        case _P.OFPPortStatus():
            return PortChange(_port(message.desc, message.reason != _OF.OFPPR_DELETE))
        case _P.OFPMeterConfigStatsReply():
            meters = {x.meter_id: _meter_of(x) for x in message.body}
            return Meters(meters, _has_more(message))
        case _P.OFPPortStatsReply():
            return PortCounts({x.port_no: flows.counted(x.rx_packets) for x in message.body})
        case _P.OFPAggregateStatsReply():
            return RuleCount(message.body.flow_count, message.xid or 0)
        case _P.OFPPacketIn():
            return Frame(message.match["in_port"], bytes(message.data))
        case _P.OFPEchoRequest():
            return Echo(bytes(message.data or b""))
        case _P.OFPErrorMsg():
            return Refusal(_refusal(message), message.xid or 0)
        case _P.OFPBarrierReply():
            return Done(message.xid)
        case None:
            raise ValueError("it cannot be read")
    return None


def _rules(data: bytes, number: int) -> Rules:
    """A reply with rules."""
    (flags,) = struct.unpack_from("!H", data, 10)
    found = list(flows.read(data[_STATS_HEAD_BYTES:]))
    return Rules(
        {place: entry for place, entry, _ in found},
        {place: passed for place, _, passed in found},
        bool(flags & _OF.OFPMPF_REPLY_MORE),
        number,
    )


def _asked(kind: Any, of: m.Cookies, number: int) -> bytes:
    """A question for rules of all tables."""
    anything = (_OF.OFPTT_ALL, _OF.OFPP_ANY, _OF.OFPG_ANY)
    return _bytes(kind(_PEER, 0, *anything, of.cookie, of.mask, _P.OFPMatch()), number)


def _bytes(message: Any, number: int = 0) -> bytes:
    message.set_xid(number)
    message.serialize()
    return bytes(message.buf)


def _has_more(message: Any) -> bool:
    return bool(message.flags & _OF.OFPMPF_REPLY_MORE)


def _meter(number: int, command: int, meter: m.Meter | None) -> Any:
    bands = [_P.OFPMeterBandDrop(meter.rate_kbps, meter.burst_kbit)] if meter else []
    return _P.OFPMeterMod(_PEER, command, _METER_FLAGS if meter else 0, number, bands)


def _meter_of(stats: Any) -> m.Meter:
    is_ours = stats.flags == _METER_FLAGS and len(stats.bands) == 1
    if not is_ours or stats.bands[0].type != _OF.OFPMBT_DROP:
        return m.Meter(flows.FOREIGN, flows.FOREIGN)
    return m.Meter(stats.bands[0].rate, stats.bands[0].burst_size)


def _port(desc: Any, is_there: bool) -> PortState:
    is_up = is_there and not desc.config & _OF.OFPPC_PORT_DOWN
    name = desc.name.split(b"\0")[0].decode(errors="replace")
    return PortState(name, desc.port_no, is_up and not desc.state & _OF.OFPPS_LINK_DOWN)


def _refusal(message: Any) -> str:
    """What a switch could not do; where it is its meters, what follows from that."""
    kind = _OF.ofp_error_type_to_str(message.type)
    code = _OF.ofp_error_code_to_str(message.type, message.code)
    if message.type == _OF.OFPET_METER_MOD_FAILED or _is_of_meters(bytes(message.data or b"")):
        return f"meters, without which it can hold nobody to a rate ({kind}, {code})"
    return f"{kind}, {code}"


def _is_of_meters(refused: bytes) -> bool:
    """Whether a message of ours, as far as an error repeats it, is about meters."""
    kind = refused[1] if len(refused) > 1 else None
    asks = kind == _OF.OFPT_MULTIPART_REQUEST and refused[8:10] == _METER_CONFIG
    return asks or kind == _OF.OFPT_METER_MOD
