"""Management datagrams: what a port is asked for and what it answers, as bytes.

InfiniBand Architecture Specification, volume 1: 13.4 (the header), 16.1.3 (performance management).
"""

import struct
from dataclasses import dataclass

SIZE = 256
PERFORMANCE_CLASS, PERFORMANCE_VERSION = 4, 1
QUEUE_PAIR, QUEUE_KEY = 1, 0x80010000
GET, SET, RESPONSE = 1, 2, 0x81
PORT_SAMPLES_CONTROL, PORT_COUNTERS = 0x10, 0x12

_HEADER = struct.Struct(">BBBBHHQHHI")
_DATA = 64
_PORT_SELECT, _COUNTER_SELECT_2 = _DATA + 1, _DATA + 18
_XMIT_WAIT = struct.Struct(">I")
_XMIT_WAIT_AT, _TICK_AT = _DATA + 40, _DATA + 2
_ONLY_WAIT = 1


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer.

    Attributes:
        transaction: whose it is, the lower half.
        status: 0 if the port does what it was asked for.
        attribute: which it was.
        xmit_wait: of PortCounters.
        tick: of PortSamplesControl.
    """

    transaction: int
    status: int
    attribute: int
    xmit_wait: int
    tick: int


def request(transaction: int, attribute: int, port: int, *, resets: bool = False) -> bytes:
    """A query of one port; with `resets` one that sets its counter of waiting to zero, no other."""
    mad = bytearray(SIZE)
    method = SET if resets else GET
    head = (1, PERFORMANCE_CLASS, PERFORMANCE_VERSION, method, 0, 0, transaction, attribute, 0, 0)
    _HEADER.pack_into(mad, 0, *head)
    mad[_PORT_SELECT] = port
    if resets:
        mad[_COUNTER_SELECT_2] = _ONLY_WAIT
    return bytes(mad)


def reply(mad: bytes) -> Reply:
    """What an answer says."""
    _, _, _, _, status, _, transaction, attribute, _, _ = _HEADER.unpack_from(mad)
    (wait,) = _XMIT_WAIT.unpack_from(mad, _XMIT_WAIT_AT)
    return Reply(transaction & 0xFFFFFFFF, status & 0x7FFF, attribute, wait, mad[_TICK_AT])
