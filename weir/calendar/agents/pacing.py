"""Rates enforced by the source alone: its kernel paces the connections of each pair of hosts.

No router and no switch has a part in it. Whatever program has opened a connection, it is found
by its addresses and port, may send what is allotted (`SO_MAX_PACING_RATE`) and carries the code
point of its class. A mark (`SO_MARK`) stays with what is held, so that a later process knows it.

Only who may reach into other programs can do so: root. It holds programs that ignore their rate,
not an administrator of the host.
"""

import contextlib
import ctypes
import errno
import functools
import ipaddress
import logging
import os
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroute2 import DiagSocket
from pyroute2.netlink.exceptions import NetlinkError

from weir.calendar.agents.enforcer import LOWER_DSCPS, Allotment, Pair
from weir.calendar.agents.htb import CEILING_PER_RATE
from weir.errors import Unsupported

log = logging.getLogger(__name__)

# A connection that is opened, or whose program changes its rate, is held after so long at most.
LOOK_EVERY_S = 0.5
MARK = 0x57656972
UNLIMITED = 2**64 - 1
_SO_MAX_PACING_RATE = 47
_SYS_PIDFD_GETFD = 438  # the same on all processors
_ESTABLISHED = 1 << 1
# What the kernel is to tell beside addresses: its figures, and the type of service or, as IPv6
# calls it, the traffic class.
_INFO, _TOS, _CLASS = 1 << 1, 1 << 4, 1 << 5

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Held:
    """How a connection is held: bytes per second, the type of service or class, and the mark."""

    rate_bytes_s: int
    service: int
    mark: int


FREE = Held(UNLIMITED, 0, 0)


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection of this machine, as its kernel tells."""

    pair: Pair
    inode: int
    is_busy: bool
    now: Held

    @property
    def is_lower(self) -> bool:
        """Whether its program has said itself that its packets may wait."""
        return self.now.mark != MARK and self.now.service >> 2 in LOWER_DSCPS


class Pacer:
    """An `Enforcer`: connections from this machine are paced, and others are not its business."""

    def __init__(self) -> None:
        self._allotted: dict[Pair, Allotment] = {}
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._looking: threading.Thread | None = None

    def install(self) -> None:
        """Begins with no pair in force; what an earlier process holds is free with the first.

        Raises:
            Unsupported: this process may not reach into others, or the kernel cannot do it.
        """
        self._stop()
        self._allotted = {}
        if os.geteuid() != 0:
            raise Unsupported("the connections of other programs are paced by root only")
        with socket.socket() as probe:
            number = probe.fileno()
            mine = Opened(os.fstat(number).st_ino, os.getpid(), number)
            with of_process(mine) as same:
                _hold(same, Held(UNLIMITED, 0, MARK))
        self._ends = threading.Event()

    def apply(self, wanted: Mapping[Pair, Allotment]) -> None:
        """Holds the connections of these pairs, those that are there and those to come."""
        with self._lock:
            self._allotted = dict(wanted)
        self._look()
        if self._looking is None:
            self._looking = threading.Thread(target=self._look_forever, daemon=True)
            self._looking.start()

    def in_force(self) -> Mapping[Pair, Allotment]:
        """What the last `apply` was told."""
        return self._allotted

    def remove(self) -> None:
        """Frees every connection that is held."""
        self._stop()
        self._allotted = {}
        with contextlib.suppress(Unsupported, OSError):
            self._look()

    def _stop(self) -> None:
        self._ends.set()
        if self._looking is not None:
            self._looking.join()
            self._looking = None

    def _look_forever(self) -> None:
        while not self._ends.wait(LOOK_EVERY_S):
            try:
                self._look()
            except (Unsupported, OSError, NetlinkError) as error:
                log.warning("connections are not looked after: %s", error)

    def _look(self) -> None:
        with self._lock:
            changes = dict(due(list(_connections()), self._allotted))
            for connection in _opened(changes):
                with contextlib.suppress(ProcessLookupError, OSError):
                    held = changes[connection.inode]
                    with of_process(connection) as found:
                        _hold(found, held)


def due(
    connections: Iterable[Connection], allotted: Mapping[Pair, Allotment]
) -> Iterator[tuple[int, Held]]:
    """Which connections are to be held otherwise than they are, by inode.

    The connections of a pair that have something to send share its rate; one that has nothing may
    begin with all of it.
    """
    known = [x for x in connections if not x.is_lower]
    busy = {pair: sum(x.is_busy for x in known if x.pair == pair) for pair in allotted}
    for connection in known:
        allotment = allotted.get(connection.pair)
        if allotment is None:
            if connection.now.mark == MARK:
                yield connection.inode, FREE
            continue
        share = max(1, busy[connection.pair]) if connection.is_busy else 1
        rate_bytes_s = int(allotment.most_bps * CEILING_PER_RATE / 8 / share)
        held = Held(max(1, rate_bytes_s), allotment.traffic_class.dscp << 2, MARK)
        if held != connection.now:
            yield connection.inode, held


def _connections() -> Iterator[Connection]:
    """Every connection of this network namespace."""
    with DiagSocket() as kernel:
        kernel.bind()
        for family in (socket.AF_INET, socket.AF_INET6):
            told = kernel.get_sock_stats(family, _ESTABLISHED, extensions=_INFO | _TOS | _CLASS)
            yield from map(_connection, told)


def _connection(one: Any) -> Connection:
    """A connection by what the kernel says of it."""
    more = dict(one["attrs"])
    ends = (_address(one["idiag_src"]), _address(one["idiag_dst"]))
    pair = Pair(*ends, one["idiag_dport"])
    # A socket of IPv6 may carry IPv4, which has a type of service.
    service = "INET_DIAG_TCLASS" if pair.is_ipv6 else "INET_DIAG_TOS"
    now = Held(
        more.get("INET_DIAG_INFO", {}).get("tcpi_max_pacing_rate", UNLIMITED),
        int(more.get(service, "0"), 16),
        _mark(more.get("INET_DIAG_MARK")),
    )
    return Connection(pair, one["idiag_inode"], one["idiag_wqueue"] > 0, now)


@functools.lru_cache(maxsize=4096)
def _address(text: str) -> str:
    """An address as pairs have it; one of IPv4 also where the kernel writes it as IPv6."""
    address = ipaddress.ip_address(text)
    return str(getattr(address, "ipv4_mapped", None) or address)


def _mark(told: str | None) -> int:
    return int.from_bytes(bytes.fromhex(told.replace(":", "")), "little") if told else 0


@dataclass(frozen=True, slots=True)
class Opened:
    """Where a connection is open: a process, and the number of its descriptor."""

    inode: int
    process: int
    number: int


def _opened(inodes: Mapping[int, Held]) -> Iterator[Opened]:
    """In which process each of these connections is open; once, if it is in several."""
    sought = {f"socket:[{inode}]": inode for inode in inodes}
    for process in Path("/proc").glob("[0-9]*/fd") if sought else ():
        # Both may end while we look.
        with contextlib.suppress(OSError):
            for descriptor in process.iterdir():
                with contextlib.suppress(OSError):
                    inode = sought.pop(str(descriptor.readlink()), None)
                    if inode is not None:
                        yield Opened(inode, int(process.parent.name), int(descriptor.name))


@contextlib.contextmanager
def of_process(opened: Opened) -> Iterator[socket.socket]:
    """Another process's connection, for as short as may be: it is not closed meanwhile.

    Raises:
        OSError: it was closed before; its number may be another file's.
        Unsupported: this process may not reach into others, or the kernel cannot do it.
    """
    handle = os.pidfd_open(opened.process)
    try:
        descriptor = _libc.syscall(_SYS_PIDFD_GETFD, handle, opened.number, 0)
        if descriptor < 0:
            code = ctypes.get_errno()
            if code in {errno.EPERM, errno.ENOSYS}:
                raise Unsupported(f"another program's connections: {os.strerror(code)}")
            raise OSError(code, os.strerror(code))
    finally:
        os.close(handle)
    try:
        if os.fstat(descriptor).st_ino != opened.inode:
            raise OSError(errno.EBADF, "the connection was closed meanwhile")
        found = socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        raise
    with found:
        yield found


def _hold(connection: socket.socket, held: Held) -> None:
    try:
        rate = struct.pack("=Q", held.rate_bytes_s)
        connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, rate)
        connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, held.service)
        if connection.family == socket.AF_INET6:
            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, held.service)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, held.mark)
    except PermissionError:
        raise Unsupported("this process may not mark connections (CAP_NET_ADMIN)") from None
