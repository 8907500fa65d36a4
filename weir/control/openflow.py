"""The switches' connections: what they say goes to the core, what it wants goes to them.

Everything runs in one event loop. A switch that has said nothing for `SILENCE_S`, though it was
asked, is taken for gone; it connects again by itself.
"""

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Callable

from weir.control import codec
from weir.control import messages as m
from weir.control.core import TICK_S, Core
from weir.control.join.relays import Relays
from weir.control.listening import (
    TLS_HANDSHAKE,
    Identity,
    context_for,
    listen_at,
    names,
    refusal,
)
from weir.control.repeats import Repeats
from weir.control.rules import is_joined
from weir.errors import BadInput

log = logging.getLogger(__name__)

ASK_S = 1.0
SILENCE_S = 5.0
# What was said of who connects is known for so many addresses, and so much is said of each: whoever
# makes up something new each time does not fill the log.
PLACES_MAX, TOLD_OF_EACH_MAX = 1_000, 64
# So many connections may be there that have not said which switch they are, for so long: one more,
# and the oldest makes way.
STRANGERS_MAX, STRANGER_S = 256, 30.0
# Switches try every few seconds; who has not come after so long is named.
AWAITED_S = 10.0
# So much may wait to be sent to who does not read: to a switch the rules of a very large network,
# to one that has not said who it is answers to its echo requests.
UNSENT_MAX_BYTES, STRANGERS_UNSENT_MAX_BYTES = 64 << 20, 256 << 10
# So long may one reply be, in as many parts as it likes; and so many ports may a switch have.
REPLY_MAX_BYTES = 64 << 20
PORT_NAMES_MAX = 1 << 17


class Switches:
    """Listens for switches and keeps them at what a core wants, until cancelled."""

    def __init__(
        self,
        core: Core,
        tell: Callable[[str], None],
        on_news: Callable[[], None] = lambda: None,
        joined: Relays | None = None,
    ) -> None:
        """Tells operators what they should know by `tell`, a line at a time.

        Calls `on_news` when the alarm of a promise begins or ends. With `joined`, flows are set up
        through relays.
        """
        self.core = core
        self.joined = joined
        self._tell = tell
        self._repeats = Repeats()
        self._on_news = on_news
        self._tls: ssl.SSLContext | None = None
        # What has been said of those who were turned away, by where they are.
        self._turned_away: dict[str, set[str]] = {}
        self._strangers: dict[_Connection, None] = {}
        self._connections: dict[str, _Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pumping: asyncio.Handle | None = None
        if joined is not None:
            # A connection waits for both relays before its switches are told.
            joined.on_answer = self.pump_soon

    async def listen(self, listen: str, identity: Identity | None = None) -> asyncio.Server:
        """Takes connections at `HOST:PORT`, `ssl:HOST:PORT` or `unix:PATH`.

        Raises:
            BadInput: this is no address, nobody can listen there, or it is `ssl:` and there is no
                identity with which to do so; or switches are bound to certificates, and it is not.
        """
        self._tls = context_for(listen, identity)
        bound = self.core.topology.certificates
        if bound and self._tls is None:
            raise BadInput(
                f"the network file binds {', '.join(bound)} to certificates, which "
                f"--listen {listen} does not ask for: ssl:HOST:PORT does"
            )
        return await listen_at(listen, self._meet)

    async def run(self) -> None:
        """Asks the core what is due, for ever; says once who has not come."""
        awaited = asyncio.get_running_loop().call_later(AWAITED_S, self._tell_missing)
        try:
            while True:
                self.pump()
                await asyncio.sleep(TICK_S)
        finally:
            awaited.cancel()

    def pump_soon(self) -> None:
        """Sends what is due, once for all that has been heard and waits to be taken."""
        if self._pumping is None:
            self._pumping = asyncio.get_running_loop().call_soon(self.pump)

    def pump(self) -> None:
        """Sends what is due now."""
        self._pumping = None
        now_s = time.monotonic()
        orders = [self.core.poll(now_s)]
        told = self.core.take_told()
        if self.joined is not None:
            orders.append(self.joined.poll(self.core.view(), now_s).switches)
            told += self.joined.core.take_told()
        for name, messages in (item for order in orders for item in order.items()):
            if connection := self._connections.get(name):
                self._send(name, connection, messages)
        for line in told:
            self.tell(line)
        for line in self._repeats.due(now_s):
            self._tell(line)
        if self.core.take_news():
            self._on_news()

    def tell(self, line: str) -> None:
        """Tells operators what they should know; what comes again and again is counted."""
        if self._repeats.is_told(line, time.monotonic()):
            self._tell(line)

    def _send(self, name: str, connection: "_Connection", messages: list[m.Message]) -> None:
        try:
            connection.send(messages)
        except Exception as error:
            # Whatever cannot be said to one: the others are to get theirs.
            log.exception("switch %s: its messages cannot be encoded", name)
            why = f"{name}: what is for it cannot be sent, its connection ends: {error!r}"
            self.turn_away(connection.place, why)
            connection.close()

    async def close(self) -> None:
        """Ends every connection; switches go on by the rules that they have."""
        if self._pumping is not None:
            self._pumping.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.joined is not None:
            await self.joined.close()

    def arrived(self, name: str, connection: "_Connection") -> None:
        """A switch has said who it is."""
        before = self._connections.get(name)
        if before is not None:
            # It may have come back before it was missed; or there are two that say so, in turns.
            why = f"switch {name} connects from {connection.place}, the first connection ends"
            self.turn_away(connection.place, f"{why}: if this goes on, two have its datapath id")
            before.close()
        else:
            self.tell(f"switch {name} is connected")
        self._connections[name] = connection
        self._strangers.pop(connection, None)

    def left(self, name: str, connection: "_Connection") -> None:
        """A connection has ended."""
        if self._connections.get(name) is connection:
            del self._connections[name]
            self.core.on_gone(name)
            if self.joined is not None:
                self.joined.core.on_gone(name)
            self.tell(f"switch {name} is gone: it goes on by its last rules")

    def turn_away(self, place: str, why: str) -> None:
        """Something is wrong with who connects, and will be again: this is said once."""
        if place not in self._turned_away and len(self._turned_away) >= PLACES_MAX:
            self._turned_away.clear()
        said = self._turned_away.setdefault(place, set())
        if why in said or len(said) > TOLD_OF_EACH_MAX:
            return
        if len(said) == TOLD_OF_EACH_MAX:
            why = f"{place}: more is wrong with who connects from there, which is not told"
        said.add(why)
        self.tell(why)

    def _tell_missing(self) -> None:
        for name in self.core.missing():
            number = f"{self.core.topology.switches[name]:016x}"
            self.tell(f"switch {name} (datapath {number}) has not connected in {AWAITED_S:.0f} s")

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self, reader, writer)
        if len(self._strangers) >= STRANGERS_MAX:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.close()
        self._strangers[connection] = None
        task = asyncio.create_task(connection.run(self._tls))
        self._tasks.add(task)

        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._strangers.pop(connection, None)
            # One that is cancelled before its first step has closed nothing.
            connection.close()

        task.add_done_callback(end)


class _Connection:
    """One switch, from its hello to its end."""

    def __init__(
        self, switches: Switches, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._switches, self._core = switches, switches.core
        self._reader, self._writer = reader, writer
        self.peer, self.place = _peer(writer)
        self._begun_s = time.monotonic()
        self._datapath: int | None = None
        self._name: str | None = None
        self._ports: dict[str, int] = {}
        self._rules: dict[m.Place, m.Entry] = {}
        self._passed: dict[m.Place, int] = {}
        self._meters: dict[int, m.Meter] = {}
        self._unread = {"rules", "meters"}
        # Bytes of what was read into these since the last reply was whole.
        self._reply_bytes = 0
        self._number = 0
        self._barrier = 0
        # Batches of joined flows: the number of each by that of its barrier, those that messages
        # are of, the messages of each, and what was refused of any.
        self._confirms: dict[int, int] = {}
        self._batches: dict[int, int] = {}
        self._messages: dict[int, list[int]] = {}
        self._refused: dict[int, str] = {}
        # Questions about rules of flows: the number of each by that of its message, and what has
        # been read so far.
        self._asked: dict[int, tuple[int, dict[m.Place, m.Entry]]] = {}

    async def run(self, tls: ssl.SSLContext | None) -> None:
        """Until either end closes it."""
        asking = None
        try:
            if tls is not None:
                # Before anything else: not a byte may have been read without it.
                async with asyncio.timeout(SILENCE_S):
                    await self._writer.start_tls(tls)
            asking = asyncio.create_task(self._ask_forever())
            self._write(codec.hello())
            self._write(codec.who_are_you())
            while True:
                async with asyncio.timeout(SILENCE_S):
                    data = await self._message()
                self._hear(data)
                if self._name is None and time.monotonic() - self._begun_s > STRANGER_S:
                    raise ValueError(f"it has not said which switch it is for {STRANGER_S:.0f} s")
                self._switches.pump_soon()
        except ssl.SSLError as error:
            self._switches.turn_away(self.place, f"{self.place}: {refusal(error)}")
        except (OSError, EOFError, TimeoutError) as error:
            log.info("switch %s: %s", self._name or self.peer, error or type(error).__name__)
        except ValueError as error:
            self._switches.turn_away(self.place, f"{self._name or self.place}: {error}")
        finally:
            if asking is not None:
                asking.cancel()
            self.close()
            if self._name is not None:
                self._switches.left(self._name, self)

    def send(self, messages: list[m.Message]) -> None:
        """Sends a batch."""
        data = []
        numbers = []
        for message in messages:
            self._number = self._number % 0xFFFF_FFFF + 1
            numbers.append(self._number)
            if isinstance(message, m.Barrier):
                self._barrier = self._number
            elif isinstance(message, m.Confirm):
                self._confirms[self._number] = message.number
                self._batches |= dict.fromkeys(numbers, message.number)
                self._messages[message.number] = numbers
                numbers = []
            elif isinstance(message, m.CountRules | m.ReadRules):
                self._asked[self._number] = message.number, {}
            data.append(codec.encoded(message, self._number))
        self._write(b"".join(data))

    def close(self) -> None:
        """Ends it; what could not be sent so far is not kept for who does not read."""
        with contextlib.suppress(OSError, RuntimeError):
            if self._writer.transport.get_write_buffer_size():
                self._writer.transport.abort()
            self._writer.close()

    def _write(self, data: bytes) -> None:
        if self._writer.is_closing():
            return
        bound = STRANGERS_UNSENT_MAX_BYTES if self._name is None else UNSENT_MAX_BYTES
        if self._writer.transport.get_write_buffer_size() > bound:
            why = "it does not read what it is sent, its connection ends"
            self._switches.turn_away(self.place, f"{self._name or self.place}: {why}")
            self.close()
        else:
            self._writer.write(data)

    async def _message(self) -> bytes:
        head = await self._reader.readexactly(codec.HEADER_BYTES)
        if head[0] == TLS_HANDSHAKE:
            raise ValueError("it speaks TLS, and --listen is without: ssl:HOST:PORT is with")
        length = int.from_bytes(head[2:4])
        if length < codec.HEADER_BYTES:
            raise ValueError(f"a message of {length} bytes is not OpenFlow")
        return head + await self._reader.readexactly(length - codec.HEADER_BYTES)

    async def _ask_forever(self) -> None:
        while True:
            await asyncio.sleep(ASK_S)
            self._write(codec.are_you_there())

    def _hear(self, data: bytes) -> None:
        if codec.has_rules(data) and self._name is None:
            return  # That is work, and not for strangers.
        heard = codec.decoded(data)
        if isinstance(heard, codec.Rules | codec.Meters):
            self._reply_bytes += len(data)
            if self._reply_bytes > REPLY_MAX_BYTES:
                raise ValueError(f"its rules and meters are more than {REPLY_MAX_BYTES} bytes")
        self._take(heard)

    def _take(self, heard: codec.Heard) -> None:
        now_s = time.monotonic()
        match heard:
            case codec.Echo():
                self._write(codec.answer(heard))
            case codec.Connected(datapath):
                self._datapath = datapath
            case codec.Ports(ports, has_more):
                for port in ports:
                    self._note(port)
                if not has_more:
                    self._join()
            case _ if self._name is None:
                pass
            case codec.PortChange(port):
                self._note(port)
                self._core.on_ports(self._name, self._ports)
            case codec.PortCounts(received):
                self._core.on_counted(self._name, received)
            case codec.Frame(port, data):
                self._hand_on(self._name, port, data, now_s)
            case codec.Refusal(why, number) if number in self._batches:
                self._refused[self._batches[number]] = why
            case codec.Refusal(_, number) if number in self._asked:
                self._count_flows(self._name, number, None, now_s)
            case codec.Refusal(why):
                self._core.on_refused(self._name, why, now_s)
            case codec.Done(number) if number in self._confirms:
                self._confirm(self._name, self._confirms.pop(number))
            case codec.Done(number) if number == self._barrier:
                self._core.on_done(self._name)
            case codec.RuleCount(count, number) if number in self._asked:
                self._count_flows(self._name, number, count, now_s)
            case codec.Rules(rules, _, has_more, number) if number in self._asked:
                self._asked[number][1].update(rules)
                if not has_more:
                    self._read_flows(self._name, number)
            case codec.Rules(rules, passed, has_more):
                self._rules |= rules
                self._passed |= passed
                self._read("rules", has_more, now_s)
            case codec.Meters(meters, has_more):
                self._meters |= meters
                self._read("meters", has_more, now_s)

    def _hand_on(self, name: str, port: int, frame: bytes, now_s: float) -> None:
        joined = self._switches.joined
        view = self._core.view()
        if joined is None or not joined.core.on_frame(name, port, frame, view, now_s):
            self._core.on_frame(name, port, frame)

    def _confirm(self, name: str, batch: int) -> None:
        for number in self._messages.pop(batch):
            self._batches.pop(number, None)
        if (joined := self._switches.joined) is not None:
            joined.core.on_done(name, batch, self._refused.pop(batch, ""))

    def _note(self, port: codec.PortState) -> None:
        """A port is known by its name and by its number, as a network file may have either."""
        for name in (port.name, str(port.number)):
            self._ports.pop(name, None)
            if port.is_up:
                self._ports[name] = port.number
        if len(self._ports) > PORT_NAMES_MAX:
            raise ValueError("it has more ports than a switch can have")

    def _join(self) -> None:
        if self._datapath is None or self._name is not None:
            return
        name = self._core.topology.switch(self._datapath)
        if name is None:
            number = f"{self._datapath:016x}"
            why = f"a switch with the datapath id {number}, from {self.place}, is not in the file"
            self._switches.turn_away(self.place, why)
            self.close()
            return
        if why := self._is_another(name):
            self._switches.turn_away(self.place, why)
            self.close()
            return
        self._name = name
        self._switches.arrived(name, self)
        self._core.on_connected(name, self._ports)
        if (joined := self._switches.joined) is not None:
            joined.core.on_connected(name, self._core.view())

    def _is_another(self, name: str) -> str:
        """Why this cannot be the switch that it says; nothing if it can."""
        wanted = self._core.topology.certificates.get(name)
        tls = self._writer.get_extra_info("ssl_object")
        theirs = names(tls.getpeercert() or {}) if tls is not None else set()
        if wanted is None or wanted in theirs:
            return ""
        said = ", ".join(f'"{one}"' for one in sorted(theirs)) or "nobody"
        is_said = f"{self.place} says that it is {name}"
        return f'{is_said}, whose certificate is to name "{wanted}", and its own names {said}'

    def _read(self, what: str, has_more: bool, now_s: float) -> None:
        if not has_more:
            self._unread.discard(what)
        if self._unread or self._name is None:
            return
        self._unread = {"rules", "meters"}
        if (joined := self._switches.joined) is not None:
            ours = {x: y for x, y in self._rules.items() if is_joined(x)}
            joined.core.on_strays(self._name, ours)
            self._rules = {x: y for x, y in self._rules.items() if x not in ours}
        self._core.on_read(self._name, m.Tables(self._rules, self._meters), self._passed, now_s)
        self._rules, self._passed, self._meters = {}, {}, {}
        self._reply_bytes = 0

    def _count_flows(self, name: str, number: int, count: int | None, now_s: float) -> None:
        asked, _ = self._asked.pop(number)
        if (joined := self._switches.joined) is not None:
            joined.core.on_counted(name, asked, count, now_s)

    def _read_flows(self, name: str, number: int) -> None:
        asked, found = self._asked.pop(number)
        self._reply_bytes = 0
        if (joined := self._switches.joined) is not None:
            joined.core.on_read(name, asked, found)


def _peer(writer: asyncio.StreamWriter) -> tuple[str, str]:
    """Who is at the other end, with and without the port, which differs with each attempt."""
    name = writer.get_extra_info("peername")
    if not isinstance(name, tuple):
        return ("a socket of this machine",) * 2
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"{host}:{name[1]}", host
