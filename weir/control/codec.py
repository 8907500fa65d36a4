"""Between our messages and OpenFlow 1.3 as bytes, by os-ken's encoder and decoder."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weir.control import messages as m
from weir.errors import Unsupported

try:
    from os_ken.ofproto import ofproto_parser, ofproto_v1_3, ofproto_v1_3_parser
    from os_ken.ofproto.ofproto_protocol import ProtocolDesc
except ModuleNotFoundError:
    raise Unsupported('the controller needs os-ken: pip install "weir-net[sdn]"') from None

# It logs with a traceback what it cannot read; who asked is told.
logging.getLogger("os_ken.ofproto.ofproto_parser").setLevel(logging.CRITICAL)

VERSION = ofproto_v1_3.OFP_VERSION
HEADER_BYTES = 8
_OF = ofproto_v1_3
_P = ofproto_v1_3_parser
# What the encoder wants to know of a connection is its version alone.
_PEER = ProtocolDesc(VERSION)
_METER_FLAGS = _OF.OFPMF_KBPS | _OF.OFPMF_BURST | _OF.OFPMF_STATS
# Fields of a match, ours and OpenFlow's; addresses and ports depend on the protocol.
_PLAIN = {
    "in_port": "in_port",
    "eth_source": "eth_src",
    "eth_target": "eth_dst",
    "eth_type": "eth_type",
    "protocol": "ip_proto",
    "source": "ipv4_src",
    "dscp": "ip_dscp",
}
# What stands where a switch does something that is not ours: it is equal to nothing that we want.
_FOREIGN = -1


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
    """Rules of a switch with the bytes that each let pass; not the last where `has_more`."""

    rules: Mapping[m.Place, m.Entry]
    passed: Mapping[m.Place, int]
    has_more: bool


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
    """A switch could not do something."""

    why: str


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
            return _bytes(_flow(place, _OF.OFPFC_ADD, entry), number)
        case m.RemoveRule(place):
            return _bytes(_flow(place, _OF.OFPFC_DELETE_STRICT, None), number)
        case m.AddMeter(at, meter):
            return _bytes(_meter(at, _OF.OFPMC_ADD, meter), number)
        case m.ChangeMeter(at, meter):
            return _bytes(_meter(at, _OF.OFPMC_MODIFY, meter), number)
        case m.RemoveMeter(at):
            return _bytes(_meter(at, _OF.OFPMC_DELETE, None), number)
        case m.Barrier():
            return _bytes(_P.OFPBarrierRequest(_PEER), number)
        case m.Read():
            rules = _P.OFPFlowStatsRequest(_PEER, 0, _OF.OFPTT_ALL, _OF.OFPP_ANY, _OF.OFPG_ANY)
            meters = _P.OFPMeterConfigStatsRequest(_PEER, 0, _OF.OFPM_ALL)
            return _bytes(rules, number) + _bytes(meters, number)
        case m.ReadPorts():
            return _bytes(_P.OFPPortStatsRequest(_PEER, 0, _OF.OFPP_ANY), number)
        case m.PacketOut(port, frame):
            return _bytes(
                _P.OFPPacketOut(
                    _PEER,
                    _OF.OFP_NO_BUFFER,
                    _OF.OFPP_CONTROLLER,
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
        return _heard(ofproto_parser.msg(_PEER, version, kind, length, number, data))
    except Exception as error:
        # Whatever a stranger sends: the decoder has many ways to stumble over it.
        raise ValueError(f"a message of kind {kind} that is not OpenFlow 1.3: {error!r}") from None


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
        case _P.OFPFlowStatsReply():
            places = [(_place(one), one) for one in message.body]
            rules = {place: m.Entry(_actions(one), one.cookie) for place, one in places}
            passed = {place: one.byte_count for place, one in places}
            return Rules(rules, passed, _has_more(message))
        case _P.OFPMeterConfigStatsReply():
            meters = {x.meter_id: _meter_of(x) for x in message.body}
            return Meters(meters, _has_more(message))
        case _P.OFPPortStatsReply():
            return PortCounts({x.port_no: x.rx_packets for x in message.body})
        case _P.OFPPacketIn():
            return Frame(message.match["in_port"], bytes(message.data))
        case _P.OFPEchoRequest():
            return Echo(bytes(message.data or b""))
        case _P.OFPErrorMsg():
            return Refusal(_refusal(message))
        case _P.OFPBarrierReply():
            return Done(message.xid)
        case None:
            raise ValueError("it cannot be read")
    return None


def _bytes(message: Any, number: int = 0) -> bytes:
    message.set_xid(number)
    message.serialize()
    return bytes(message.buf)


def _has_more(message: Any) -> bool:
    return bool(message.flags & _OF.OFPMPF_REPLY_MORE)


def _flow(place: m.Place, command: int, entry: m.Entry | None) -> Any:
    return _P.OFPFlowMod(
        _PEER,
        cookie=entry.cookie if entry else 0,
        table_id=place.table,
        command=command,
        priority=place.priority,
        out_port=_OF.OFPP_ANY,
        out_group=_OF.OFPG_ANY,
        match=_match(place.match),
        instructions=_instructions(entry.actions) if entry else [],
    )


def _match(match: m.Match) -> Any:
    if match.other:
        return _P.OFPMatch.parser(bytes.fromhex(match.other), 0)
    fields = {theirs: getattr(match, ours) for ours, theirs in _PLAIN.items()}
    fields["arp_tpa" if match.eth_type == m.ARP else "ipv4_dst"] = match.target
    fields["udp_dst" if match.protocol == m.UDP else "tcp_dst"] = match.port
    fields["udp_src" if match.protocol == m.UDP else "tcp_src"] = match.source_port
    return _P.OFPMatch(**{name: value for name, value in fields.items() if value is not None})


def _place(stats: Any) -> m.Place:
    fields = dict(stats.match.items())
    known = {ours: fields.pop(theirs, None) for ours, theirs in _PLAIN.items()}
    known["target"] = fields.pop("arp_tpa" if known["eth_type"] == m.ARP else "ipv4_dst", None)
    known["port"] = fields.pop("udp_dst" if known["protocol"] == m.UDP else "tcp_dst", None)
    known["source_port"] = fields.pop("udp_src" if known["protocol"] == m.UDP else "tcp_src", None)
    if fields or any(isinstance(value, tuple) for value in known.values()):
        # It looks at something that no rule of ours does, or at a part of it.
        buffer = bytearray()
        stats.match.serialize(buffer, 0)
        return m.Place(stats.table_id, stats.priority, m.Match(other=buffer.hex()))
    return m.Place(stats.table_id, stats.priority, m.Match(**known))


def _instructions(actions: m.Actions) -> list[Any]:
    found = [_P.OFPInstructionMeter(actions.meter)] if actions.meter is not None else []
    done = []
    if actions.dscp is not None:
        done.append(_P.OFPActionSetField(ip_dscp=actions.dscp))
    if actions.eth_source is not None:
        done.append(_P.OFPActionSetField(eth_src=actions.eth_source))
    if actions.output is not None:
        done.append(_P.OFPActionOutput(actions.output, _OF.OFPCML_NO_BUFFER))
    if done:
        found.append(_P.OFPInstructionActions(_OF.OFPIT_APPLY_ACTIONS, done))
    if actions.goto is not None:
        found.append(_P.OFPInstructionGotoTable(actions.goto))
    return found


def _actions(stats: Any) -> m.Actions:
    """What a rule does; what no rule of ours does is told by an output that is none."""
    found: dict[str, Any] = {}
    for instruction in stats.instructions:
        match instruction:
            case _P.OFPInstructionMeter():
                found["meter"] = instruction.meter_id
            case _P.OFPInstructionGotoTable():
                found["goto"] = instruction.table_id
            case _P.OFPInstructionActions(type=_OF.OFPIT_APPLY_ACTIONS):
                found |= _applied(instruction.actions)
            case _:
                found["output"] = _FOREIGN
    return m.Actions(**found)


def _applied(actions: Iterable[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    ours = {"ip_dscp": "dscp", "eth_src": "eth_source"}
    for action in actions:
        if isinstance(action, _P.OFPActionOutput) and "output" not in found:
            found["output"] = action.port
        elif (
            isinstance(action, _P.OFPActionSetField)
            and action.key in ours
            and not found.get("output")
        ):
            found[ours[action.key]] = action.value
        else:
            found["output"] = _FOREIGN
    return found


def _meter(number: int, command: int, meter: m.Meter | None) -> Any:
    bands = [_P.OFPMeterBandDrop(meter.rate_kbps, meter.burst_kbit)] if meter else []
    return _P.OFPMeterMod(_PEER, command, _METER_FLAGS if meter else 0, number, bands)


def _meter_of(stats: Any) -> m.Meter:
    is_ours = stats.flags == _METER_FLAGS and len(stats.bands) == 1
    if not is_ours or stats.bands[0].type != _OF.OFPMBT_DROP:
        return m.Meter(_FOREIGN, _FOREIGN)
    return m.Meter(stats.bands[0].rate, stats.bands[0].burst_size)


def _port(desc: Any, is_there: bool) -> PortState:
    is_up = is_there and not desc.config & _OF.OFPPC_PORT_DOWN
    name = desc.name.split(b"\0")[0].decode(errors="replace")
    return PortState(name, desc.port_no, is_up and not desc.state & _OF.OFPPS_LINK_DOWN)


def _refusal(message: Any) -> str:
    kind = _OF.ofp_error_type_to_str(message.type)
    return f"{kind}, {_OF.ofp_error_code_to_str(message.type, message.code)}"
