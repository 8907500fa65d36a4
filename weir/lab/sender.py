"""Sends UDP packets at the rate a source asks for: one process per background flow.

Runs inside the sending host, with one JSON argument, its order. It prints `ready`, reads from
standard input the moment to begin (seconds of CLOCK_MONOTONIC), and prints what it sent as JSON
when it ends, by its time or by SIGTERM. Packets are due when the integral of the rate says so;
each tick hands the due ones to the kernel as one segmented send, so that Python's cost is per
tick, not per packet.
"""

import errno
import json
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from random import Random
from types import FrameType
from typing import Any

from weir.errors import BadInput
from weir.lab.bursts import Change, constant, on_off, ppbp

_TICK_S = 0.0005
_STALL_S = 0.05
_HEADERS_B = 28  # IPv4 and UDP
_SEGMENTS_MAX = 40  # of one send: below the kernel's 64, and 40 x 1472 B is below 64 KiB
_UDP_SEGMENT = 103  # <linux/udp.h>; Python's socket module does not name it


@dataclass
class Sent:
    """What a sender did.

    Attributes:
        packets: sent.
        payload_bytes: of them together.
        stalled_s: time that the machine kept the sender from running, and that it left out
            rather than send a burst that the source never asked for.
    """

    packets: int = 0
    payload_bytes: int = 0
    stalled_s: float = 0.0


class Stopped(Exception):
    """SIGTERM came."""


class Stop:
    """Raises `Stopped` at SIGTERM, but not within it as a context: only when that is left.

    What the kernel has taken shall be counted.
    """

    def __init__(self) -> None:
        self._asked = self._held = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, _signal: int, _frame: FrameType | None) -> None:
        self._asked = True
        if not self._held:
            raise Stopped

    def __enter__(self) -> None:
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False
        if self._asked:
            raise Stopped


def source_of(spec: dict[str, Any]) -> Iterator[Change]:
    """The source that the JSON `spec` describes; its `kind` chooses."""
    arguments = {key: value for key, value in spec.items() if key not in ("kind", "seed")}
    match spec["kind"]:
        case "ppbp":
            return ppbp(Random(spec["seed"]), **arguments)
        case "on_off":
            return on_off(**arguments)
        case _:
            return constant(**arguments)


class Due:
    """How many packets of a size have come due: the integral of a source's rate."""

    def __init__(self, source: Iterator[Change], packet_bits: int) -> None:
        self._source = source
        self._packet_bits = packet_bits
        self._time_s = 0.0
        self._rate_bps = 0.0
        self._bits = 0.0
        self._next: Change | None = next(source, None)

    def until(self, time_s: float) -> int:
        """Packets that came due since the last call, up to `time_s` of the source's time."""
        while self._next and self._next[0] <= time_s:
            self._advance(self._next[0])
            self._rate_bps = self._next[1]
            self._next = next(self._source, None)
        self._advance(time_s)
        packets, self._bits = divmod(self._bits, self._packet_bits)
        return int(packets)

    def _advance(self, time_s: float) -> None:
        self._bits += (time_s - self._time_s) * self._rate_bps
        self._time_s = time_s


def send(order: dict[str, Any], sent: Sent, stop: Stop) -> None:
    """Carries out an order: when told to begin, for its `length_s` (None: until stopped)."""
    payload = order["payload_bytes"]
    due = Due(source_of(order["source"]), (payload + _HEADERS_B) * 8)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.setsockopt(socket.SOL_UDP, _UDP_SEGMENT, payload)
        out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, order["dscp"] << 2 | order["ecn"])
        out.connect((order["address"], order["port"]))
        _say("ready")
        begin_s = tick_s = float(sys.stdin.readline())
        stop_s = begin_s + (order["length_s"] or float("inf"))
        while tick_s < stop_s:
            time.sleep(max(0.0, tick_s - time.monotonic()))
            now_s = min(time.monotonic(), stop_s)
            if now_s - tick_s > _STALL_S:
                sent.stalled_s += now_s - tick_s
                begin_s += now_s - tick_s
            with stop:
                _send_packets(out, due.until(now_s - begin_s), payload, sent)
            tick_s = now_s + _TICK_S


def _send_packets(out: socket.socket, packets: int, payload: int, sent: Sent) -> None:
    while packets > 0:
        batch = min(packets, _SEGMENTS_MAX, 65_000 // payload)
        try:
            out.send(bytes(batch * payload))
        except OSError as error:
            # The kernel refuses to segment into what is larger than the device's packets.
            if error.errno not in (errno.EINVAL, errno.EMSGSIZE):
                raise
            why = f"a payload of {payload} B does not fit the packets of the path"
            raise BadInput(why) from None
        sent.packets += batch
        sent.payload_bytes += batch * payload
        packets -= batch


def main() -> int:
    """Sends by the order in the first argument; 0 when all of it was sent."""
    sent, error = Sent(), None
    try:
        send(json.loads(sys.argv[1]), sent, Stop())
    except Stopped:
        pass
    except BadInput as failure:
        error = str(failure)
    except OSError as failure:
        error = f"cannot send: {failure.strerror}"
    _say(json.dumps({**asdict(sent), "error": error}))
    return 0 if error is None else 1


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
