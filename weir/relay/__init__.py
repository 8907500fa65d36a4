"""Many TCP connections joined into one and split again, or relayed one by one.

003-spec section 2. The relays themselves are `weir._core.Relay`; here is what they are told, and
how another process asks one for its status.
"""

from collections.abc import Iterable

from weir._core import Relay
from weir.errors import BadInput
from weir.listener import port_of

WEIGHT_MAX = 10_000
# Bounds of how long who is silent may be gone: the kernel asks four times, in whole seconds.
GONE_AFTER_S = (5, 36_000)
# Bounds of how long the other end of an aggregate may give no sign. A packet that is lost comes a
# second later, and is lost again.
HEARD_WITHIN_S = (5, 3_600)

__all__ = ["GONE_AFTER_S", "HEARD_WITHIN_S", "Relay", "allowed", "weights"]


def allowed(texts: Iterable[str]) -> list[tuple[str, int | None]]:
    """Servers that may be reached: `NETWORK`, or `NETWORK:PORT` with IPv6 in brackets.

    Raises:
        BadInput: a port is none; that a network is none is found by the relay.
    """
    return [_allowed(text) for text in texts]


def _allowed(text: str) -> tuple[str, int | None]:
    network, colon, port = text.rpartition(":")
    if text.startswith("["):
        network, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise BadInput(f'"{text}": the bracket is never closed')
        colon, port = rest[:1], rest[1:]
        if not rest:
            return network, None
    elif not colon or ":" in network:
        return text, None
    number = port_of(port)
    if not number:
        raise BadInput(f'"{text}": {port or "nothing"} is no port')
    return network, number


def weights(texts: Iterable[str]) -> list[tuple[str, int]]:
    """Weights of clients by their networks: `NETWORK=WEIGHT`; the first that fits counts.

    A client of weight 0 is held: what it sends waits until it has another weight.

    Raises:
        BadInput: one is not from 0 to 1000.
    """
    return [_weight(text) for text in texts]


def _weight(text: str) -> tuple[str, int]:
    network, equals, weight = text.rpartition("=")
    is_one = weight.isascii() and weight.isdigit() and len(weight) <= 4
    is_one = is_one and int(weight) <= WEIGHT_MAX
    if not equals or not is_one:
        raise BadInput(f'"{text}": wanted NETWORK=WEIGHT, with a weight from 0 to {WEIGHT_MAX}')
    return network, int(weight)
