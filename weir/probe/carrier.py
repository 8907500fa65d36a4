"""Our own traffic in active probing: bytes of a source over one TCP connection.

The connection is kept through silence and changes of the congestion control (001-spec section
7.5), and little waits unsent in the kernel (section 8.5), so that a burst ends when it is told to.
"""

import contextlib
import errno
import os
import select
import socket
import threading
from pathlib import Path
from typing import Protocol

from weir import kernel_controls
from weir.errors import BadInput, TransferFailed, Unavailable, Unsupported
from weir.probe.echo import Target
from weir.probe.realtime import realtime_priority
from weir.probe.tcp_info import TcpInfo, read_tcp_info

HELLO = b"WEIRSINK"
TOTAL_BYTES = 8  # the sink tells how many bytes it has had, big-endian, again and again
UNSENT_MAX_BYTES = 256 * 1024
_GIVEN_AT_ONCE = 256 * 1024
_CONNECT_TIMEOUT_S = 5.0
_SILENCE_MS = 30_000  # an unanswered connection is given up


class DataSource(Protocol):
    """Where bursts take their bytes from."""

    def send(self, out: socket.socket, offset: int) -> int:
        """Gives the kernel bytes from `offset`, without waiting; how many it took, 0 at the end.

        Raises:
            BlockingIOError: it takes none now.
        """


class Filler:
    """Bytes without meaning or end, which no link can compress."""

    def __init__(self) -> None:
        self._block = memoryview(os.urandom(4 * _GIVEN_AT_ONCE))

    def send(self, out: socket.socket, offset: int) -> int:
        """See `DataSource`."""
        begin = offset % (len(self._block) - _GIVEN_AT_ONCE)
        return out.send(self._block[begin : begin + _GIVEN_AT_ONCE])


class FileSource:
    """A file's own bytes: probing that transfers.

    Raises:
        BadInput: the file cannot be read.
    """

    def __init__(self, path: str | Path) -> None:
        try:
            self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115 (closed by `close`)
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from None
        self.size_bytes = os.fstat(self._file.fileno()).st_size

    def send(self, out: socket.socket, offset: int) -> int:
        """See `DataSource`."""
        return os.sendfile(out.fileno(), self._file.fileno(), offset, _GIVEN_AT_ONCE)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class Carrier(Protocol):
    """What carries the bursts of a pattern: a connection to a sink, or a transfer.

    Attributes:
        next_offset: of the source: everything before it has been confirmed by the receiver.
        sent_bytes: given to the kernel so far.
        confirmed_bytes: of them, confirmed by the receiver.
        finished: whether the source has ended and all of it is confirmed.
    """

    @property
    def next_offset(self) -> int: ...  # noqa: D102 - see above
    @property
    def sent_bytes(self) -> int: ...  # noqa: D102 - see above
    @property
    def confirmed_bytes(self) -> int: ...  # noqa: D102 - see above
    @property
    def finished(self) -> bool: ...  # noqa: D102 - see above

    def carry(self, congestion: str) -> None:
        """Sends on, under this congestion control."""

    def pause(self) -> None:
        """Gives the kernel nothing more until `carry`."""

    def fileno(self) -> int | None:
        """The connection, for what its kernel tells at each sample; None without one."""

    def tcp_info(self) -> TcpInfo | None:
        """The connection as its kernel sees it, None without one."""

    def check(self) -> None:
        """Raises what went wrong, if something did."""


class SinkCarrier:
    """Bursts to the sink of `weir probe --serve`, by a thread of its own.

    Args:
        target: the host.
        port: the sink's.
        source: of the bytes.
        offset: of the source, where to begin.

    Raises:
        Unavailable: no sink answers there.
    """

    def __init__(self, target: Target, port: int, source: DataSource, offset: int = 0) -> None:
        self._where = f"the sink at {target}, port {port}"
        self._source = source
        self._begin = offset
        self._connection = self._connect(target, port)
        self._sent = self._confirmed = 0
        self._told = b""
        self._carrying = self._closing = self._at_end = False
        self._error: str | None = None
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="weir-bursts", daemon=True)
        self._thread.start()

    def _connect(self, target: Target, port: int) -> socket.socket:
        connection = socket.socket(target.family, socket.SOCK_STREAM)
        try:
            tcp = socket.IPPROTO_TCP
            connection.setsockopt(tcp, socket.TCP_NOTSENT_LOWAT, UNSENT_MAX_BYTES)
            connection.setsockopt(tcp, socket.TCP_USER_TIMEOUT, _SILENCE_MS)
            connection.settimeout(_CONNECT_TIMEOUT_S)
            connection.connect(target.at(port))
            connection.sendall(HELLO)
            connection.setblocking(False)
        except OSError as error:
            connection.close()
            why = error.strerror or "no answer"
            raise Unavailable(
                f"{self._where}: {why}; start it there: weir probe --serve {port}"
            ) from None
        return connection

    @property
    def next_offset(self) -> int:
        """Where the source goes on: everything before it has been confirmed."""
        return self._begin + self._confirmed

    @property
    def sent_bytes(self) -> int:
        """Given to the kernel so far."""
        return self._sent

    @property
    def confirmed_bytes(self) -> int:
        """Confirmed by the sink."""
        return self._confirmed

    @property
    def finished(self) -> bool:
        """Whether the source has ended and all of it is confirmed."""
        return self._at_end and self._confirmed == self._sent

    def carry(self, congestion: str) -> None:
        """Sends on, under this congestion control, set in place."""
        set_congestion(self._connection, congestion)
        self._carrying = True
        os.eventfd_write(self._wake, 1)

    def pause(self) -> None:
        """Gives the kernel nothing more; at most `UNSENT_MAX_BYTES` are still unsent."""
        self._carrying = False
        os.eventfd_write(self._wake, 1)

    def fileno(self) -> int:
        """The connection."""
        return self._connection.fileno()

    def tcp_info(self) -> TcpInfo | None:
        """The connection as the kernel sees it."""
        return read_tcp_info(self._connection)

    def check(self) -> None:
        """Raises what ended the connection, if something did."""
        if self._error is not None:
            raise TransferFailed(
                f"{self._where} broke off: {self._error}; {self._confirmed} bytes were confirmed"
            )

    def close(self) -> None:
        """Ends the connection."""
        self._closing = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._connection.close()
        os.close(self._wake)

    @realtime_priority()
    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        try:
            while not self._closing:
                gives = self._carrying and not self._at_end
                events = select.POLLIN | (select.POLLOUT if gives else 0)
                poll.register(self._connection, events)
                ready = dict(poll.poll())
                if self._wake in ready:
                    os.eventfd_read(self._wake)
                seen = ready.get(self._connection.fileno(), 0)
                if seen & ~select.POLLOUT:
                    self._hear()
                if seen & select.POLLOUT and self._carrying:
                    self._give()
        except OSError as error:
            self._error = error.strerror or str(error)

    def _hear(self) -> None:
        told = self._connection.recv(4096)
        if not told:
            raise ConnectionResetError(errno.ECONNRESET, "the sink has closed the connection")
        told = self._told + told
        whole = len(told) - len(told) % TOTAL_BYTES
        if whole:
            self._confirmed = int.from_bytes(told[whole - TOTAL_BYTES : whole])
        self._told = told[whole:]

    def _give(self) -> None:
        with contextlib.suppress(BlockingIOError):
            given = self._source.send(self._connection, self._begin + self._sent)
            self._sent += given
            self._at_end = given == 0


def set_congestion(connection: socket.socket, name: str) -> None:
    """Changes the congestion control of a connection in place.

    Raises:
        Unsupported: the kernel has none of this name, or keeps it for root.
    """
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    except PermissionError:
        raise Unsupported(
            f"the kernel keeps congestion control {name} for root; root may allow it: "
            "sysctl net.ipv4.tcp_allowed_congestion_control"
        ) from None
    except OSError:
        has = ", ".join(kernel_controls.available())
        raise Unsupported(
            f"this kernel has no congestion control {name}; it has {has} (weir doctor)"
        ) from None


def require_congestion(names: list[str]) -> None:
    """Raises `Unsupported` unless this user's connections may use all of `names`."""
    with socket.socket() as connection:
        for name in names:
            set_congestion(connection, name)
