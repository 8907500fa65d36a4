"""LLDP (IEEE 802.1AB), as far as it takes to learn which port is joined to which."""

import struct
from dataclasses import dataclass

from weir.control.messages import LLDP
from weir.control.rules import LLDP_TARGET

# "Locally assigned": what follows is text of our own.
_LOCAL_CHASSIS, _LOCAL_PORT = 7, 7
_END, _CHASSIS, _PORT, _TTL = 0, 1, 2, 3
_TTL_S = 4


@dataclass(frozen=True, slots=True)
class Origin:
    """The port that a frame was sent out of."""

    datapath: int
    port: int


def frame(origin: Origin) -> bytes:
    """A frame that says where it comes from."""
    header = bytes.fromhex(LLDP_TARGET.replace(":", "")) + b"\x02" + origin.datapath.to_bytes(8)[3:]
    return b"".join(
        (
            header,
            struct.pack("!H", LLDP),
            _value(_CHASSIS, bytes([_LOCAL_CHASSIS]) + b"weir:%016x" % origin.datapath),
            _value(_PORT, bytes([_LOCAL_PORT]) + b"%d" % origin.port),
            _value(_TTL, struct.pack("!H", _TTL_S)),
            _value(_END, b""),
        )
    )


def origin(data: bytes) -> Origin | None:
    """Where a frame of ours comes from; None for any other frame."""
    if data[12:14] != struct.pack("!H", LLDP):
        return None
    values, at = {}, 14
    while at + 2 <= len(data):
        head = int.from_bytes(data[at : at + 2])
        kind, end = head >> 9, at + 2 + (head & 0x1FF)
        if kind == _END or end > len(data):
            break
        values[kind] = data[at + 2 : end]
        at = end
    chassis, port = values.get(_CHASSIS, b""), values.get(_PORT, b"")
    prefix = bytes([_LOCAL_CHASSIS]) + b"weir:"
    if not chassis.startswith(prefix) or port[:1] != bytes([_LOCAL_PORT]):
        return None
    try:
        return Origin(int(chassis[len(prefix) :], 16), int(port[1:]))
    except ValueError:
        return None


def _value(kind: int, content: bytes) -> bytes:
    return struct.pack("!H", kind << 9 | len(content)) + content
