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

Requests are made, and replies read, by `crates/probe`; here they are answered.
"""

import struct

SIZE = 56
_FORMAT = struct.Struct("!4sB3x8sQq24x")
_MAGIC = b"WEIR"
_REQUEST, _REPLY = 1, 2


def is_request(payload: bytes) -> bool:
    """Whether it is a request of ours, no byte more or less."""
    return len(payload) == SIZE and payload[:5] == _MAGIC + bytes([_REQUEST])


def reply(payload: bytes, kept_ns: int) -> bytes:
    """What a responder answers the request `payload`, which it had for `kept_ns`."""
    _, _, token, key, _ = _FORMAT.unpack(payload)
    return _FORMAT.pack(_MAGIC, _REPLY, token, key, kept_ns)
