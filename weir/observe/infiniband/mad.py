"""Management datagrams: what a port is asked for and what it answers, as bytes.

InfiniBand Architecture Specification, volume 1: 13.4 (the header, notices and who is told of them),
14.2.5 (subnet management), 15.2.5 (its administration), 16.1.3 (performance management).
"""

import struct
from dataclasses import dataclass

SIZE = 256
PERFORMANCE_CLASS, PERFORMANCE_VERSION = 4, 1
QUEUE_PAIR, QUEUE_KEY = 1, 0x80010000
SUBNET_CLASS, SUBNET_VERSION = 1, 1
SUBNET_QUEUE_PAIR, SUBNET_QUEUE_KEY = 0, 0
ADMINISTRATION_CLASS, ADMINISTRATION_VERSION = 3, 2
GET, SET, REPORT, RESPONSE, REPORT_RESPONSE = 1, 2, 6, 0x81, 0x86
NOTICE, INFORM_INFO = 2, 3
CLASS_PORT_INFO = 0x01
PORT_SAMPLES_CONTROL, PORT_COUNTERS, PORT_LANES_WAIT = 0x10, 0x12, 0x1C
PORT_INFO = 0x15
"""What subnet management is asked for; the others here are performance management's."""
DOWN = 1
CHANGES = {64, 65, 128, 144}
"""Notices by which the fabric has changed: a port came or went, a switch's or its own state did."""
LANES = 16

_HEADER = struct.Struct(">BBBBHHQHHI")
_DATA = 64
_PORT_SELECT, _COUNTER_SELECT_2 = _DATA + 1, _DATA + 18
_XMIT_WAIT = struct.Struct(">I")
_XMIT_WAIT_AT, _TICK_AT, _DOWNED_AT = _DATA + 40, _DATA + 2, _DATA + 7
_STATE_AT, _STATE_BITS = _DATA + 32, 0xF
_ABLE = struct.Struct(">H")
_ABLE_AT, _COUNTS_WAITING = _DATA + 2, 1 << 12
_LANES_WAIT = struct.Struct(f">{LANES}H")
_LANES_WAIT_AT = _DATA + 4
_ONLY_WAIT = 1
_ALL_LANES = struct.pack(">H", 0xFFFF)
# Subnet administration has its data further on. Subscribing: all LIDs, generic, on or off, all
# types, all traps, the queue pair that is told, how long an answer may take, all producers.
_TOLD = 56
_SUBSCRIPTION = struct.Struct(">16xHHHBBHHIBBH")
_ALL, _ANSWER_TIME = 0xFFFF, 19
_TRAP = struct.Struct(">H")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer.

    Attributes:
        transaction: whose it is, the lower half.
        status: 0 if the port does what it was asked for.
        attribute: which it was.
        xmit_wait: of PortCounters.
        downed: of the same: how often the link went down, up to 255.
        lanes: of PortVLXmitWaitCounters, lane by lane.
        tick: of PortSamplesControl.
        state: of PortInfo: DOWN, or something else where there is a link.
        counts_waiting: of ClassPortInfo: whether PortCounters' PortXmitWait means anything there.
    """

    transaction: int
    status: int
    attribute: int
    xmit_wait: int
    downed: int
    lanes: tuple[int, ...]
    tick: int
    state: int
    counts_waiting: bool


def request(transaction: int, attribute: int, port: int, *, resets: bool = False) -> bytes:
    """A query of one port; with `resets` one that sets its counter of waiting to zero, no other."""
    mad = bytearray(SIZE)
    if attribute == PORT_INFO:
        kind = (1, SUBNET_CLASS, SUBNET_VERSION, GET)
        _HEADER.pack_into(mad, 0, *kind, 0, 0, transaction, attribute, 0, port)
        return bytes(mad)
    method = SET if resets else GET
    head = (1, PERFORMANCE_CLASS, PERFORMANCE_VERSION, method, 0, 0, transaction, attribute, 0, 0)
    _HEADER.pack_into(mad, 0, *head)
    mad[_PORT_SELECT] = port
    if resets and attribute == PORT_LANES_WAIT:
        mad[_PORT_SELECT + 1 : _PORT_SELECT + 3] = _ALL_LANES
    elif resets:
        mad[_COUNTER_SELECT_2] = _ONLY_WAIT
    return bytes(mad)


def subscription(transaction: int, *, on: bool) -> bytes:
    """What asks the subnet manager to tell of all notices, or no longer to."""
    mad = bytearray(SIZE)
    kind = (1, ADMINISTRATION_CLASS, ADMINISTRATION_VERSION, SET)
    _HEADER.pack_into(mad, 0, *kind, 0, 0, transaction, INFORM_INFO, 0, 0)
    wanted = (_ALL, 0, 0, 1, int(on), _ALL, _ALL, QUEUE_PAIR << 8 | _ANSWER_TIME, 0, 0xFF, _ALL)
    _SUBSCRIPTION.pack_into(mad, _TOLD, *wanted)
    return bytes(mad)


def notice(mad: bytes) -> int | None:
    """The number of the trap that the manager tells of; None if that is not what this is."""
    _, _, _, method, _, _, _, attribute, _, _ = _HEADER.unpack_from(mad)
    if (method, attribute) != (REPORT, NOTICE):
        return None
    (number,) = _TRAP.unpack_from(mad, _TOLD + 4)
    return int(number)


def noticed(mad: bytes) -> bytes:
    """The answer to such word, without which it is told again."""
    return mad[:3] + bytes([REPORT_RESPONSE]) + mad[4:]


def reply(mad: bytes) -> Reply:
    """What an answer says."""
    _, _, _, _, status, _, transaction, attribute, _, _ = _HEADER.unpack_from(mad)
    (wait,) = _XMIT_WAIT.unpack_from(mad, _XMIT_WAIT_AT)
    (able,) = _ABLE.unpack_from(mad, _ABLE_AT)
    return Reply(
        transaction & 0xFFFFFFFF,
        status & 0x7FFF,
        attribute,
        wait,
        mad[_DOWNED_AT],
        _LANES_WAIT.unpack_from(mad, _LANES_WAIT_AT),
        mad[_TICK_AT],
        mad[_STATE_AT] & _STATE_BITS,
        bool(able & _COUNTS_WAITING),
    )
