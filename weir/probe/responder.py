"""The other end of `weir probe`: answers UDP echo requests and swallows bursts.

No amplifier: only payloads of exactly our format are answered, by one of the same size, and an
answer is not a request, so that two responders never keep each other busy. The sink sends 8 bytes
after 10 ms or more, and only over a TCP connection that has said hello.
"""

import contextlib
import select
import socket
import threading
import time
from types import TracebackType
from typing import Self

from weir.errors import BadInput, Unavailable
from weir.probe import message, timestamps
from weir.probe.carrier import HELLO, TOTAL_BYTES
from weir.probe.realtime import realtime_priority

DEFAULT_PORT = 7412
_CONNECTIONS_MAX = 64
_SILENCE_S = 10.0  # for the hello
_CONFIRM_S = 0.01
_BUFFER_BYTES = 1 << 20
_LOOK_S = 0.2  # how often one looks whether to stop


class Responder:
    """Answers on a port, UDP and TCP, until closed.

    Args:
        port: of both; 0 takes any.
        address: where; all addresses by default.

    Attributes:
        port: the one it has.

    Raises:
        BadInput: there is no such port.
        Unavailable: it is taken or not allowed.
    """

    def __init__(self, port: int, address: str = "") -> None:
        if not 0 <= port <= 65_535:
            raise BadInput(f"port {port}: 1 to 65535 are possible")
        self._stopping = threading.Event()
        self._slots = threading.BoundedSemaphore(_CONNECTIONS_MAX)
        try:
            self._listener = _listener(address, port)
            self.port = int(self._listener.getsockname()[1])
            self._echo = socket.socket(self._listener.family, socket.SOCK_DGRAM)
            if self._echo.family == socket.AF_INET6:
                self._echo.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self._echo.bind(self._listener.getsockname())
        except OSError as error:
            raise Unavailable(f"port {port}: {error.strerror}") from None
        timestamps.request_stamps(self._echo, sent=False)
        loops = (self._answer, self._accept)
        self._threads = [threading.Thread(target=loop, daemon=True) for loop in loops]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Ends it; connections that are open end within moments."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._echo.close()
        self._listener.close()

    @realtime_priority()
    def _answer(self) -> None:
        poll = select.poll()
        poll.register(self._echo, select.POLLIN)
        while not self._stopping.is_set():
            poll.poll(_LOOK_S * 1000)
            with contextlib.suppress(OSError):
                self._answer_all()

    def _answer_all(self) -> None:
        while True:
            packet, control, _, peer = self._echo.recvmsg(
                message.SIZE + 1, timestamps.CONTROL_BYTES, socket.MSG_DONTWAIT
            )
            if message.is_request(packet):
                stamp = timestamps.stamp_of(control)
                kept = max(0, time.time_ns() - stamp) if stamp else 0
                self._echo.sendto(message.reply(packet, kept), socket.MSG_DONTWAIT, peer)

    def _accept(self) -> None:
        self._listener.settimeout(_LOOK_S)
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:  # none within the time, or one that gave up before
                continue
            if not self._slots.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError):
                if _says_hello(connection):
                    self._swallow(connection)
        finally:
            self._slots.release()

    def _swallow(self, connection: socket.socket) -> None:
        """Takes all bytes, and tells how many there have been, every 10 ms while they come."""
        buffer = bytearray(_BUFFER_BYTES)
        total = told = 0
        told_s = 0.0
        connection.settimeout(_LOOK_S)
        while not self._stopping.is_set():
            try:
                if total > told:
                    connection.settimeout(max(0.0, told_s + _CONFIRM_S - time.monotonic()))
                taken = connection.recv_into(buffer)
                if not taken:
                    return
                total += taken
            except (BlockingIOError, TimeoutError):
                pass
            now = time.monotonic()
            if total > told and now >= told_s + _CONFIRM_S:
                connection.settimeout(_SILENCE_S)
                connection.sendall(total.to_bytes(TOTAL_BYTES))
                told, told_s = total, now
                connection.settimeout(_LOOK_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _says_hello(connection: socket.socket) -> bool:
    connection.settimeout(_SILENCE_S)
    said = b""
    while len(said) < len(HELLO):
        if not (more := connection.recv(len(HELLO) - len(said))):
            return False
        said += more
    return said == HELLO


def _listener(address: str, port: int) -> socket.socket:
    where = (address, port)
    if not address and socket.has_dualstack_ipv6():
        return socket.create_server(where, family=socket.AF_INET6, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server(where, family=family)
