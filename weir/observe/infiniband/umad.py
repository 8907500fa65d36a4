"""A real fabric, through libibumad: queries to many ports under way at a time, from one process.

The library is loaded when it is wanted, and nothing is linked with it: who has no InfiniBand needs
none of it. ibsim works as well: `ibsim-run weir observe fabric …` puts itself before the library.
"""

import ctypes
import itertools
import os
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
    ("umad_get_port", [_TEXT, _NUMBER, _POINTER]),
    ("umad_release_port", [_POINTER]),
    ("umad_size", []),
    ("umad_send", [_NUMBER, _NUMBER, _POINTER, _NUMBER, _NUMBER, _NUMBER]),
    ("umad_recv", [_NUMBER, _POINTER, ctypes.POINTER(_NUMBER), _NUMBER]),
    ("umad_status", [_POINTER]),
)
# Where a datagram goes to, within `struct ib_user_mad`: what stands before it the library fills in.
_ADDRESS_AT, _SENDER_AT = 20, 28
_ADDRESS = struct.Struct(">IIHBB")
_SENDER = struct.Struct(">H")
_TRANSACTION_MOST = 0x7FFFFFFF
_WINDOW = 64
"""Queries under way at a time."""
_STATES, _STATES_PART = 64, 60
"""After each sweep so many ports are asked for their state, or a part of all if that is more."""
_MOST_NOTICES, _DEAF_NS = 1000, 60_000_000_000
"""When more come between two looks nobody is asked to tell for so long: one says as much as many,
and whoever sends them without end could hold up every sweep."""
_TIMEOUT_MS, _RETRIES = 200, 3
_PATIENCE_MS = 2 * _TIMEOUT_MS * (_RETRIES + 1)
_MOMENT_MS, _LANES_S = 1, 0.001
# Where `struct umad_port` has the LID of the subnet manager and its service level; it is shorter.
_MANAGER = struct.Struct("@II")
_MANAGER_AT, _PORT_SIZE = 32, 1024
_METHODS = ctypes.c_long * 2
_DOWNED_MOST = 255
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
        self._counts: dict[int, bool] = {}
        # Who was asked for its tick, or whether it counts, and did not answer: by place, by LID.
        self._without_tick: set[tuple[int, int]] = set()
        self._without_class: set[int] = set()
        self._downed: dict[tuple[int, int], int] = {}
        self._has_changed = False
        # The agent that is told of notices: none yet, or negative where there is none to be had.
        self._notices: int | None = None
        self._noticed, self._deaf_until_ns = 0, 0
        self._ends = (os.fsencode(device) if device else None, port)
        self._transactions = itertools.count(1)
        if self._umad.umad_init() < 0:
            raise Unavailable("the kernel's InfiniBand devices cannot be reached (ib_umad)")
        self._port = self._umad.umad_open_port(*self._ends)
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
        manager = (mad.SUBNET_CLASS, mad.SUBNET_VERSION, 0, None)
        self._manager_agent = self._umad.umad_register(self._port, *manager)
        self._ports: Sequence[Port] = ()
        self._is_up: dict[tuple[int, int], bool] = {}
        self._next_state = 0
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
        if self._notices is not None and self._notices >= 0:
            self._subscribe(self._notices, on=False)
            self._umad.umad_unregister(self._port, self._notices)
        if self._manager_agent >= 0:
            self._umad.umad_unregister(self._port, self._manager_agent)
        self._umad.umad_unregister(self._port, self._agent)
        self._umad.umad_close_port(self._port)

    def now_ns(self) -> int:
        """Nanoseconds of Unix time."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Sleeps."""
        time.sleep(seconds)

    def ask(self, ports: Sequence[Port]) -> list[Answer]:
        """Asks all ports for their counter of waiting, and those not yet known what it means."""
        self._ports = ports
        self._learn(ports)
        up = [port for port in ports if port.is_up]
        found = iter(self._exchange([_Query(port, mad.PORT_COUNTERS) for port in up]))
        now = self.now_ns()
        down = Answer(now, 0, flags=frozenset({Flag.DOWN}))
        return [self._answer(port, next(found)) if port.is_up else down for port in ports]

    def reset(self, port: Port) -> bool:
        """Sets the port's counter of waiting to zero, and no other."""
        (found,) = self._exchange([_Query(port, mad.PORT_COUNTERS, resets=True)])
        return found.reply is not None and found.reply.status == 0

    def changed(self) -> bool:
        """Whether something has said since the last time that the fabric has changed.

        That is a notice from the subnet manager, which is asked for them the first time; a link
        that went down by its own counter; or a port whose state is another than it was, of which
        some are looked at each time, in turn. What is refused is done without; and for a minute,
        notices that come in floods.
        """
        if self._notices is None and time.monotonic_ns() >= self._deaf_until_ns:
            agent = self._listener()
            self._notices = None if time.monotonic_ns() < self._deaf_until_ns else agent
        while self._receive(_MOMENT_MS) is not None:
            pass  # an answer that came too late
        self._look_at_states()
        has_changed, self._has_changed = self._has_changed, False
        self._noticed = 0
        return has_changed

    def _look_at_states(self) -> None:
        if self._manager_agent < 0 or not self._ports:
            return
        count = min(len(self._ports), max(_STATES, len(self._ports) // _STATES_PART))
        places = [(self._next_state + n) % len(self._ports) for n in range(count)]
        self._next_state = (places[-1] + 1) % len(self._ports)
        some = [self._ports[place] for place in places]
        found = self._exchange([_Query(port, mad.PORT_INFO) for port in some])
        for port, one in zip(some, found, strict=True):
            if one.reply is not None and one.reply.status == 0:
                is_up = one.reply.state != mad.DOWN
                self._has_changed |= is_up != self._is_up.get(port.place, port.is_up)
                self._is_up[port.place] = is_up

    def lanes(self, port: Port) -> tuple[int, ...] | None:
        """By how many ticks each virtual lane waits in about a millisecond.

        The counters end at 65 535 ticks, a millisecond or two: they are set to zero before. None
        where the port does not know lanes.
        """
        self._exchange([_Query(port, mad.PORT_LANES_WAIT, resets=True)])
        time.sleep(_LANES_S)
        (found,) = self._exchange([_Query(port, mad.PORT_LANES_WAIT)])
        if found.reply is None or found.reply.status:
            return None
        return found.reply.lanes

    def _listener(self) -> int:
        """An agent that the manager tells of notices; negative if it will not."""
        methods = _METHODS(1 << mad.REPORT, 0)
        kind = (mad.ADMINISTRATION_CLASS, mad.ADMINISTRATION_VERSION, 0)
        agent = int(self._umad.umad_register(self._port, *kind, methods))
        if agent >= 0 and not self._subscribe(agent, on=True):
            self._umad.umad_unregister(self._port, agent)
            return -1
        return agent

    def _subscribe(self, agent: int, *, on: bool) -> bool:
        """Asks the manager to tell of notices, or no longer to; whether it will."""
        about = ctypes.create_string_buffer(_PORT_SIZE)
        if self._umad.umad_get_port(*self._ends, about) < 0:
            return False
        lid, _ = _MANAGER.unpack_from(about, _MANAGER_AT)
        self._umad.umad_release_port(about)
        transaction = next(self._transactions) & _TRANSACTION_MOST
        datagram = mad.subscription(transaction, on=on)
        if not lid or not self._post(agent, lid, datagram, _TIMEOUT_MS, _RETRIES):
            return False
        while (got := self._receive()) is not None:
            if got[0] == transaction:
                return got[1] is not None and got[1].status == 0
        return False

    def _on_notice(self, agent: int, datagram: bytes) -> None:
        """Takes and answers word of a notice, which the buffer holds."""
        self._has_changed |= mad.notice(datagram) in mad.CHANGES
        self._noticed += 1
        if self._noticed == _MOST_NOTICES:
            # What is on its way is taken yet; the kernel drops what comes from now on.
            self._umad.umad_unregister(self._port, agent)
            self._notices, self._deaf_until_ns = None, time.monotonic_ns() + _DEAF_NS
        if self._noticed >= _MOST_NOTICES:
            return
        (lid,) = _SENDER.unpack_from(self._buffer, _SENDER_AT)
        self._post(agent, lid, mad.noticed(datagram), 0, 0)

    def _learn(self, ports: Sequence[Port]) -> None:
        """Asks each port for its tick, and each switch whether it counts waiting, once.

        Who does not answer is taken for one that counts, with an assumed tick, and is asked again
        when it has answered something.
        """
        up = [port for port in ports if port.is_up]
        new = [one for one in up if one.place not in self._ticks]
        first = {one.lid: one for one in up if one.lid not in self._counts}
        queries = [_Query(port, mad.PORT_SAMPLES_CONTROL) for port in new]
        queries += [_Query(port, mad.CLASS_PORT_INFO) for port in first.values()]
        for query, found in zip(queries, self._exchange(queries), strict=True):
            told = found.reply if found.reply is not None and found.reply.status == 0 else None
            if query.attribute == mad.PORT_SAMPLES_CONTROL:
                self._ticks[query.port.place] = None if told is None else told.tick
                if found.reply is None:
                    self._without_tick.add(query.port.place)
            else:
                self._counts[query.port.lid] = told is None or told.counts_waiting
                if found.reply is None:
                    self._without_class.add(query.port.lid)

    def _answer(self, port: Port, found: _Found) -> Answer:
        told = self._ticks.get(port.place)
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
            self._watch(port, found.reply.downed)
            if wait >= CLAMPED:
                flags.add(Flag.CLAMPED)
            # What a switch that does not count has there stands still, as that of a calm port does.
            if not self._counts.get(port.lid, True):
                flags.add(Flag.UNSUPPORTED)
            self._heard(port)
        return Answer(found.asked_ns, found.took_ns, wait, tick, frozenset(flags))

    def _heard(self, port: Port) -> None:
        """It answers: what it did not say before is worth asking again."""
        if port.place in self._without_tick:
            self._without_tick.remove(port.place)
            del self._ticks[port.place]
        if port.lid in self._without_class:
            self._without_class.remove(port.lid)
            del self._counts[port.lid]

    def _watch(self, port: Port, downed: int) -> None:
        """Sees that a link has gone down since its port was asked before."""
        before = self._downed.get(port.place, downed)
        self._has_changed |= before < downed <= _DOWNED_MOST
        self._downed[port.place] = downed

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
            transaction = next(self._transactions) & _TRANSACTION_MOST
            under_way[transaction] = (index, time.time_ns())
            self._send(transaction, query)

    def _send(self, transaction: int, query: _Query) -> None:
        datagram = mad.request(transaction, query.attribute, query.port.number, resets=query.resets)
        agent = self._manager_agent if query.attribute == mad.PORT_INFO else self._agent
        if not self._post(agent, query.port.lid, datagram, _TIMEOUT_MS, _RETRIES):
            raise Unavailable("the kernel does not send queries: has the adapter gone?")

    def _post(self, agent: int, lid: int, datagram: bytes, timeout_ms: int, retries: int) -> bool:
        """Sends a datagram, and again as often if no answer comes; whether the kernel took it."""
        ctypes.memset(self._buffer, 0, self._head)
        pair, key = mad.QUEUE_PAIR, mad.QUEUE_KEY
        if agent == self._manager_agent:
            pair, key = mad.SUBNET_QUEUE_PAIR, mad.SUBNET_QUEUE_KEY
        _ADDRESS.pack_into(self._buffer, _ADDRESS_AT, pair, key, lid, 0, 0)
        ctypes.memmove(ctypes.byref(self._buffer, self._head), datagram, mad.SIZE)
        how = (mad.SIZE, timeout_ms, retries)
        return bool(self._umad.umad_send(self._port, agent, self._buffer, *how) >= 0)

    def _receive(self, patience_ms: int = _PATIENCE_MS) -> tuple[int, mad.Reply | None] | None:
        """The next answer's transaction with the answer, or without if it was given up.

        None where nothing came for so long; the kernel gives a query up before. Notices that come
        meanwhile are seen to.
        """
        while True:
            length = _NUMBER(mad.SIZE)
            ends = (self._buffer, ctypes.byref(length), patience_ms)
            agent = self._umad.umad_recv(self._port, *ends)
            if agent < 0:
                return None
            datagram = self._buffer.raw[self._head :]
            if mad.notice(datagram) is not None:
                self._on_notice(agent, datagram)
                continue
            reply = mad.reply(datagram)
            # What is given up comes back as it was sent, with a status of the kernel's.
            return reply.transaction, None if self._umad.umad_status(self._buffer) else reply
