"""Whom echo requests go to, and through which socket: ICMP, which every host answers, or our UDP.

What goes through it is the work of `crates/probe`.
"""

import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from weir import _core
from weir.errors import BadInput, Unavailable, Unsupported
from weir.kernel_files import text_if_any
from weir.probe import timestamps

_SOL_RAW, _ICMP_FILTER = 255, 1  # <linux/socket.h>, <linux/icmp.h>
_ICMP_ECHO_REPLY = 0  # RFC 792


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


@dataclass(frozen=True, slots=True)
class Target:
    """A host to probe.

    Attributes:
        name: as it was given.
        family: AF_INET or AF_INET6.
        address: the first one that the name resolves to.
        scope: the interface of a link-local IPv6 address (RFC 4007), 0 for none.
    """

    name: str
    family: socket.AddressFamily
    address: str
    scope: int = 0

    @classmethod
    def resolve(cls, name: str) -> "Target":
        """Raises `BadInput` for a name that stands for no address."""
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "it is not a host name"
            raise BadInput(f"unknown host {name!r}: {why}") from None
        family, _, _, _, address = found[0]
        scope = int(address[3]) if len(address) == 4 else 0
        return cls(name, family, str(address[0]), scope)

    def at(self, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
        """Its socket address with this port."""
        if self.family == socket.AF_INET6:
            return self.address, port, 0, self.scope
        return self.address, port

    def __str__(self) -> str:
        return self.name if self.name == self.address else f"{self.name} ({self.address})"


class Echo:
    """Sends numbered requests to one host and tells the replies apart; the core does it.

    Args:
        endpoint: a socket that is connected to the host; closed with the echo.
        framing: what it wants around the payload, see `weir._core.Echo`.
        how: by what, in words.
        advice: what to do when nothing answers.

    Attributes:
        core: what a `weir._core.Prober` sends through.
        how: see above.
        advice: see above.
    """

    def __init__(self, endpoint: socket.socket, framing: str, how: str, advice: str) -> None:
        timestamps.request_stamps(endpoint)
        self._socket = endpoint
        self.core = _core.Echo(endpoint.fileno(), framing)
        self.how = how
        self.advice = advice

    @property
    def refused(self) -> str:
        """What the network said when it did not take or deliver a request, "" if nothing."""
        return self.core.refused()

    @property
    def stamped(self) -> int:
        """Replies so far whose round-trip time is a difference of kernel timestamps."""
        return self.core.stamped()

    def fileno(self) -> int:
        """For `poll`: readable when there may be replies."""
        return self._socket.fileno()

    def send(self, key: int) -> None:
        """Sends request `key`. One that the network does not take counts as sent: it is lost."""
        self.core.send(key)

    def replies(self) -> list[Reply]:
        """Replies that have come since the last call; never waits."""
        return [Reply(*reply) for reply in self.core.replies()]

    def close(self) -> None:
        """Sends and receives no more."""
        self._socket.close()


class IcmpEcho(Echo):
    """By ICMP, through the kernel's ping sockets, else through a raw socket.

    Ping sockets need no privilege where net.ipv4.ping_group_range covers the user's group.

    Raises:
        Unsupported: this user may open neither.
    """

    def __init__(self, target: Target) -> None:
        endpoint, raw = icmp_socket(target.family)
        framing = "icmpv6"
        if target.family == socket.AF_INET:
            framing = "icmp-raw" if raw else "icmp"
            if raw:
                _hear_only(endpoint, _ICMP_ECHO_REPLY)
        _connect(endpoint, target, 0)
        how = "ICMP, raw socket" if raw else "ICMP, ping socket"
        advice = "is it up? If its network drops ICMP, probe by UDP: --udp PORT"
        super().__init__(endpoint, framing, how, advice)


class UdpEcho(Echo):
    """By UDP to the responder of `weir probe --serve`."""

    def __init__(self, target: Target, port: int) -> None:
        endpoint = socket.socket(target.family, socket.SOCK_DGRAM)
        _connect(endpoint, target, port)
        advice = f"is weir probe --serve {port} running there, and let through?"
        super().__init__(endpoint, "udp", f"UDP port {port}", advice)


def echo_to(target: Target, udp: int | None) -> Echo:
    """By ICMP, or by UDP to the responder at that port."""
    return IcmpEcho(target) if udp is None else UdpEcho(target, udp)


def icmp_socket(family: socket.AddressFamily) -> tuple[socket.socket, bool]:
    """A socket for echo requests, and whether it is a raw one.

    Raises:
        Unsupported: this user may open none.
    """
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    try:
        return socket.socket(family, socket.SOCK_DGRAM, protocol), False
    except OSError:
        pass
    try:
        return socket.socket(family, socket.SOCK_RAW, protocol), True
    except OSError:
        pass
    allowed = text_if_any(Path("/proc/sys/net/ipv4/ping_group_range")).split()
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
        endpoint.connect(target.at(port))
    except OSError as error:
        endpoint.close()
        raise Unavailable(f"{target}: {error.strerror}") from None
