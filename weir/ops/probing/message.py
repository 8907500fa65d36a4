"""The payload of echo requests and replies, big-endian, 56 bytes as ping's.

| bytes | |
|---|---|
| 4 | `WEIR` |
| 1 | 1 in a request, 2 in the reply of our responder; ICMP gives back what was sent |
| 3 | zero |
| 8 | token: of one prober, random |
| 8 | key: number of the request |
| 8 | in a reply, for how many ns the responder kept the packet; zero in a request |
| 24 | zero |
"""

import struct
from typing import NamedTuple

SIZE = 56
TOKEN_BYTES = 8
_FORMAT = struct.Struct("!4sB3x8sQq24x")
_MAGIC = b"WEIR"
_REQUEST, _REPLY = 1, 2


class Message(NamedTuple):
    """What a payload says.

    Attributes:
        token: whose it is.
        key: number of the request.
        kept_ns: for how long the responder had it.
    """

    token: bytes
    key: int
    kept_ns: int


def request(token: bytes, key: int) -> bytes:
    """The payload of request `key`."""
    return _FORMAT.pack(_MAGIC, _REQUEST, token, key, 0)


def is_request(payload: bytes) -> bool:
    """Whether it is a request of ours, no byte more or less."""
    return len(payload) == SIZE and payload[:5] == _MAGIC + bytes([_REQUEST])


def is_reply(payload: bytes) -> bool:
    """Whether it is what `reply` makes."""
    return len(payload) == SIZE and payload[:5] == _MAGIC + bytes([_REPLY])


def reply(payload: bytes, kept_ns: int) -> bytes:
    """What a responder answers the request `payload`, which it had for `kept_ns`."""
    _, _, token, key, _ = _FORMAT.unpack(payload)
    return _FORMAT.pack(_MAGIC, _REPLY, token, key, kept_ns)


def parse(payload: bytes) -> Message | None:
    """What a request or reply says; None for what is neither."""
    if not (is_request(payload) or is_reply(payload)):
        return None
    _, _, token, key, kept_ns = _FORMAT.unpack(payload)
    return Message(token, key, kept_ns)
