"""A real fabric, through libibumad: queries to many ports under way at a time, from one process.

The library is loaded when it is wanted, and nothing is linked with it: who has no InfiniBand needs
none of it. ibsim works as well: `ibsim-run weir observe fabric …` puts itself before the library.
"""

import ctypes
import itertools
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from weir.errors import Unavailable, Unsupported
from weir.observe.infiniband import mad
from weir.observe.infiniband.asking import Answer, Port, tick_ns
from weir.observe.infiniband.records import CLAMPED, Flag

DEBIAN_PACKAGE = "libibumad3"
_TEXT, _NUMBER, _POINTER = ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p
_FUNCTIONS: tuple[tuple[str, list[Any]], ...] = (
    ("umad_init", []),
    ("umad_open_port", [_TEXT, _NUMBER]),
    ("umad_close_port", [_NUMBER]),
    ("umad_register", [_NUMBER, _NUMBER, _NUMBER, ctypes.c_uint8, _POINTER]),
    ("umad_unregister", [_NUMBER, _NUMBER]),
    ("umad_size", []),
    ("umad_send", [_NUMBER, _NUMBER, _POINTER, _NUMBER, _NUMBER, _NUMBER]),
    ("umad_recv", [_NUMBER, _POINTER, ctypes.POINTER(_NUMBER), _NUMBER]),
    ("umad_status", [_POINTER]),
)
# Where a datagram goes to, within `struct ib_user_mad`: what stands before it the library fills in.
_ADDRESS_AT = 20
_ADDRESS = struct.Struct(">IIHBB")
_WINDOW = 64
"""Queries under way at a time."""
_TIMEOUT_MS, _RETRIES = 200, 3
_PATIENCE_MS = 2 * _TIMEOUT_MS * (_RETRIES + 1)
_UNSUPPORTED_STATUS = {0x8, 0xC, 0x1C}
"""The method, or it with the attribute, or a value of it is not supported."""


def lacking() -> str | None:
    """What this machine lacks for asking a fabric; None if nothing."""
    try:
        _library()
    except Unsupported as error:
        return str(error)
    return None


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libibumad.so.3", use_errno=True)
    except OSError:
        raise Unsupported(
            f"libibumad.so.3 is not installed (apt-get install {DEBIAN_PACKAGE})"
        ) from None
    for name, arguments in _FUNCTIONS:
        function = getattr(library, name)
        function.restype, function.argtypes = _NUMBER, arguments
    return library


@dataclass(frozen=True, slots=True)
class _Query:
    port: Port
    attribute: int
    resets: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    asked_ns: int
    took_ns: int
    reply: mad.Reply | None


class Umad:
    """A fabric as seen from one port of this host; a context manager.

    Args:
        device: the adapter, such as mlx5_0; None for the first with an active port.
        port: of it; 0 for the first active one.
        window: queries under way at a time.
    """

    def __init__(self, device: str | None = None, port: int = 0, window: int = _WINDOW) -> None:
        self._umad = _library()
        self._window = window
        self._ticks: dict[tuple[int, int], int | None] = {}
        self._transactions = itertools.count(1)
        if self._umad.umad_init() < 0:
            raise Unavailable("the kernel's InfiniBand devices cannot be reached (ib_umad)")
        self._port = self._umad.umad_open_port(device.encode() if device else None, port)
        if self._port < 0:
            of = f"{device} port {port}" if device else "any adapter"
            raise Unavailable(
                f"no port of {of} can be opened: is there an active InfiniBand port, and may you "
                "read and write /dev/infiniband/umad*?"
            )
        kind = (mad.PERFORMANCE_CLASS, mad.PERFORMANCE_VERSION, 0, None)
        self._agent = self._umad.umad_register(self._port, *kind)
        if self._agent < 0:
            self._umad.umad_close_port(self._port)
            raise Unavailable("the kernel takes no agent for performance queries")
        self._head = self._umad.umad_size()
        self._buffer = ctypes.create_string_buffer(self._head + mad.SIZE)

    def __enter__(self) -> "Umad":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._umad.umad_unregister(self._port, self._agent)
        self._umad.umad_close_port(self._port)

    def now_ns(self) -> int:
        """Nanoseconds of Unix time."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Sleeps."""
        time.sleep(seconds)

    def ask(self, ports: Sequence[Port]) -> list[Answer]:
        """Asks all ports for their counter of waiting, and those not yet known for their tick."""
        self._learn_ticks(ports)
        up = [port for port in ports if port.is_up]
        found = iter(self._exchange([_Query(port, mad.PORT_COUNTERS) for port in up]))
        now = self.now_ns()
        down = Answer(now, 0, flags=frozenset({Flag.DOWN}))
        return [self._answer(port, next(found)) if port.is_up else down for port in ports]

    def reset(self, port: Port) -> bool:
        """Sets the port's counter of waiting to zero, and no other."""
        (found,) = self._exchange([_Query(port, mad.PORT_COUNTERS, resets=True)])
        return found.reply is not None and found.reply.status == 0

    def _learn_ticks(self, ports: Sequence[Port]) -> None:
        """Asks each port once; what does not answer, or not this, is not asked again."""
        new = [one for one in ports if one.is_up and (one.lid, one.number) not in self._ticks]
        queries = [_Query(port, mad.PORT_SAMPLES_CONTROL) for port in new]
        for port, found in zip(new, self._exchange(queries), strict=True):
            is_told = found.reply is not None and found.reply.status == 0
            told = found.reply.tick if found.reply is not None and is_told else None
            self._ticks[port.lid, port.number] = told

    def _answer(self, port: Port, found: _Found) -> Answer:
        told = self._ticks.get((port.lid, port.number))
        tick = tick_ns(told, port.speed)
        flags = {Flag.TICK_ASSUMED} if told is None else set()
        wait = 0
        if found.reply is None:
            flags.add(Flag.MISSING)
        elif found.reply.status:
            is_unknown = found.reply.status in _UNSUPPORTED_STATUS
            flags.add(Flag.UNSUPPORTED if is_unknown else Flag.MISSING)
        else:
            wait = found.reply.xmit_wait
            if wait >= CLAMPED:
                flags.add(Flag.CLAMPED)
        return Answer(found.asked_ns, found.took_ns, wait, tick, frozenset(flags))

    def _exchange(self, queries: Sequence[_Query]) -> list[_Found]:
        """Sends them, no more than the window under way, and waits for all answers."""
        found: list[_Found | None] = [None] * len(queries)
        under_way: dict[int, tuple[int, int]] = {}
        waiting = iter(enumerate(queries))
        self._fill(under_way, waiting)
        while under_way:
            got = self._receive()
            now = time.time_ns()
            if got is None:  # the library gave none up, and none came: no more will
                for index, asked in under_way.values():
                    found[index] = _Found(asked, now - asked, None)
                under_way.clear()
            else:
                transaction, reply = got
                if transaction in under_way:
                    index, asked = under_way.pop(transaction)
                    found[index] = _Found(asked, now - asked, reply)
            self._fill(under_way, waiting)
        return [one for one in found if one is not None]

    def _fill(
        self, under_way: dict[int, tuple[int, int]], waiting: Iterator[tuple[int, _Query]]
    ) -> None:
        while len(under_way) < self._window:
            index, query = next(waiting, (0, None))
            if query is None:
                return
            transaction = next(self._transactions) & 0x7FFFFFFF
            under_way[transaction] = (index, time.time_ns())
            self._send(transaction, query)

    def _send(self, transaction: int, query: _Query) -> None:
        datagram = mad.request(transaction, query.attribute, query.port.number, resets=query.resets)
        ctypes.memset(self._buffer, 0, self._head)
        where = (mad.QUEUE_PAIR, mad.QUEUE_KEY, query.port.lid, 0, 0)
        _ADDRESS.pack_into(self._buffer, _ADDRESS_AT, *where)
        ctypes.memmove(ctypes.byref(self._buffer, self._head), datagram, mad.SIZE)
        how = (mad.SIZE, _TIMEOUT_MS, _RETRIES)
        sent = self._umad.umad_send(self._port, self._agent, self._buffer, *how)
        if sent < 0:
            raise Unavailable("the kernel does not send queries: has the adapter gone?")

    def _receive(self) -> tuple[int, mad.Reply | None] | None:
        """The next answer's transaction with the answer, or without if it was given up.

        None where nothing came for longer than the kernel takes to give a query up.
        """
        length = _NUMBER(mad.SIZE)
        ends = (self._buffer, ctypes.byref(length), _PATIENCE_MS)
        if self._umad.umad_recv(self._port, *ends) < 0:
            return None
        reply = mad.reply(self._buffer.raw[self._head :])
        # What is given up comes back as it was sent, with a status of the kernel's.
        return reply.transaction, None if self._umad.umad_status(self._buffer) else reply
