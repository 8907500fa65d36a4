"""Echo requests and their replies: by ICMP, which every host answers, or by our own UDP.

RTTs are differences of kernel timestamps where the kernel gives both, see `timestamps`.
"""

import os
import socket
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weir.errors import BadInput, Unavailable, Unsupported
from weir.ops.probing import message, timestamps

_ICMP_HEADER = struct.Struct("!BBHHH")
_SOL_RAW, _ICMP_FILTER = 255, 1  # <linux/socket.h>, <linux/icmp.h>
_REMEMBERED = 1 << 14  # requests whose replies can still be told: minutes at most rates
# Of (IPv4, IPv6): ICMP's protocol number, echo request, echo reply (RFC 792, RFC 4443).
_ICMP = {
    socket.AF_INET: (socket.IPPROTO_ICMP, 8, 0),
    socket.AF_INET6: (socket.IPPROTO_ICMPV6, 128, 129),
}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answered request.

    Attributes:
        key: the number it was sent under.
        rtt_ns: from the request's way out to the reply's way in, less what the responder says
            that it kept the packet.
        stamped: whether the kernel stamped both ways; otherwise this process's wake-ups are in it.
    """

    key: int
    rtt_ns: int
    stamped: bool


@dataclass(slots=True)
class _Sent:
    real_ns: int
    mono_ns: int
    stamped: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """A host to probe.

    Attributes:
        name: as it was given.
        family: AF_INET or AF_INET6.
        address: the first one that the name resolves to.
    """

    name: str
    family: socket.AddressFamily
    address: str

    @classmethod
    def resolve(cls, name: str) -> "Target":
        """Raises `BadInput` for a name that stands for no address."""
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "it is no host name"
            raise BadInput(f"unknown host {name!r}: {why}") from None
        family, _, _, _, address = found[0]
        return cls(name, family, str(address[0]))

    def __str__(self) -> str:
        return self.name if self.name == self.address else f"{self.name} ({self.address})"


class Echo(ABC):
    """Sends numbered requests to one host and tells the replies apart.

    Attributes:
        how: by what, in words.
        advice: what to do when nothing answers.
        refused: what the network said when it did not take or deliver a request, "" if nothing.
    """

    how: str
    advice: str
    refused = ""

    def __init__(self, endpoint: socket.socket) -> None:
        self._socket = endpoint
        self._token = os.urandom(message.TOKEN_BYTES)
        self._sent: dict[int, _Sent] = {}
        self._unstamped = 0  # requests whose stamps may still be on the error queue
        timestamps.request_stamps(endpoint)

    def fileno(self) -> int:
        """For `poll`: readable when there may be replies."""
        return self._socket.fileno()

    def send(self, key: int) -> None:
        """Sends request `key`. One that the network does not take counts as sent: it is lost."""
        packet = self._request(key, message.request(self._token, key))
        self._sent[key] = _Sent(time.time_ns(), time.monotonic_ns())
        self._sent.pop(key - _REMEMBERED, None)
        try:
            self._socket.send(packet)
        except OSError as error:
            self.refused = error.strerror or str(error)
            return
        self._unstamped += 1
        self._read_stamps()

    def replies(self) -> Iterator[Reply]:
        """Replies that have come since the last call; never waits."""
        self._read_stamps()  # unread ones would make the socket look readable
        while True:
            try:
                received = timestamps.receive(self._socket)
            except OSError as error:  # an ICMP error that answered an earlier request
                self.refused = error.strerror or str(error)
                return
            if received is None:
                return
            if reply := self._reply(*received):
                yield reply

    def close(self) -> None:
        """Sends and receives no more."""
        self._socket.close()

    def _read_stamps(self) -> None:
        # The stamp is on the queue when `send` returns, unless an address had to be resolved.
        while self._unstamped:
            try:
                looped = timestamps.receive(self._socket, sent=True)
            except OSError:
                return
            if looped is None:
                return
            self._unstamped -= 1
            packet, stamp_ns = looped
            # The packet comes back with all its headers in front.
            told = message.parse(packet[-message.SIZE :])
            if told and stamp_ns and told.token == self._token and told.key in self._sent:
                sent = self._sent[told.key]
                sent.real_ns, sent.stamped = stamp_ns, True

    def _reply(self, packet: bytes, stamp_ns: int | None) -> Reply | None:
        now_real, now_mono = time.time_ns(), time.monotonic_ns()
        body = self._body(packet)
        told = message.parse(body) if body else None
        if told is None or told.token != self._token:
            return None
        sent = self._sent.pop(told.key, None)  # so that a duplicate counts once
        if sent is None:
            return None
        at_most = now_mono - sent.mono_ns
        rtt = (stamp_ns or now_real) - sent.real_ns
        stamped = bool(stamp_ns) and sent.stamped
        if not 0 <= rtt <= at_most:
            # Kernel stamps are of the wall clock, and somebody has set it in between.
            rtt, stamped = at_most, False
        kept = told.kept_ns if 0 <= told.kept_ns <= rtt else 0
        return Reply(told.key, rtt - kept, stamped)

    @abstractmethod
    def _request(self, key: int, body: bytes) -> bytes: ...

    @abstractmethod
    def _body(self, packet: bytes) -> bytes | None: ...


class IcmpEcho(Echo):
    """By ICMP, through the kernel's ping sockets, else through a raw socket.

    Ping sockets need no privilege where net.ipv4.ping_group_range covers the user's group.

    Raises:
        Unsupported: this user may open neither.
    """

    def __init__(self, target: Target) -> None:
        _, self._request_type, self._reply_type = _ICMP[target.family]
        endpoint, self._raw = icmp_socket(target.family)
        self.how = "ICMP, raw socket" if self._raw else "ICMP, ping socket"
        self.advice = "is it up? If its network drops ICMP, probe by UDP: --udp PORT"
        self._ip_header = self._raw and target.family == socket.AF_INET
        if self._ip_header:
            _hear_only(endpoint, self._reply_type)
        self._identifier = int.from_bytes(os.urandom(2))
        _connect(endpoint, target, 0)
        super().__init__(endpoint)

    def _request(self, key: int, body: bytes) -> bytes:
        parts = (self._request_type, 0, 0, self._identifier, key & 0xFFFF)
        if not self._ip_header:  # the kernel fills in the sum, of a ping socket the identifier too
            return _ICMP_HEADER.pack(*parts) + body
        total = internet_checksum(_ICMP_HEADER.pack(*parts) + body)
        return _ICMP_HEADER.pack(*parts[:2], total, *parts[3:]) + body

    def _body(self, packet: bytes) -> bytes | None:
        # Raw IPv4 sockets alone give the IP header, and see every ICMP packet of the peer.
        start = (packet[0] & 0x0F) * 4 if self._ip_header and packet else 0
        if len(packet) < start + _ICMP_HEADER.size or packet[start] != self._reply_type:
            return None
        return packet[start + _ICMP_HEADER.size :]


class UdpEcho(Echo):
    """By UDP to the responder of `weir probe --serve`."""

    def __init__(self, target: Target, port: int) -> None:
        self.how = f"UDP port {port}"
        self.advice = f"is weir probe --serve {port} running there, and let through?"
        endpoint = socket.socket(target.family, socket.SOCK_DGRAM)
        _connect(endpoint, target, port)
        super().__init__(endpoint)

    def _request(self, key: int, body: bytes) -> bytes:
        return body

    def _body(self, packet: bytes) -> bytes | None:
        return packet if message.is_reply(packet) else None


def internet_checksum(packet: bytes) -> int:
    """The ones' complement sum of RFC 1071 over an even number of bytes."""
    words: tuple[int, ...] = struct.unpack(f"!{len(packet) // 2}H", packet)
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def icmp_socket(family: socket.AddressFamily) -> tuple[socket.socket, bool]:
    """A socket for echo requests, and whether it is a raw one.

    Raises:
        Unsupported: this user may open none.
    """
    protocol = _ICMP[family][0]
    try:
        return socket.socket(family, socket.SOCK_DGRAM, protocol), False
    except OSError:
        pass
    try:
        return socket.socket(family, socket.SOCK_RAW, protocol), True
    except OSError:
        pass
    allowed = Path("/proc/sys/net/ipv4/ping_group_range").read_text().split()
    raise Unsupported(
        "this user may not send ICMP echo requests: net.ipv4.ping_group_range is "
        f'"{" ".join(allowed)}"; widen it (sysctl -w net.ipv4.ping_group_range="0 2147483647"), '
        "or probe by UDP: weir probe --serve 7412 there, --udp 7412 here"
    )


def _hear_only(endpoint: socket.socket, icmp_type: int) -> None:
    """Makes the kernel keep other ICMP messages from a raw IPv4 socket (raw(7))."""
    blocked = ~(1 << icmp_type) & 0xFFFF_FFFF
    endpoint.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", blocked))


def _connect(endpoint: socket.socket, target: Target, port: int) -> None:
    endpoint.setblocking(False)
    try:
        endpoint.connect((target.address, port))
    except OSError as error:
        endpoint.close()
        raise Unavailable(f"{target}: {error.strerror}") from None
