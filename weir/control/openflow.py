"""The switches' connections: what they say goes to the core, what it wants goes to them.

Everything runs in one event loop. A switch that has said nothing for `SILENCE_S`, though it was
asked, is taken for gone; it connects again by itself.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from weir.control import codec
from weir.control import messages as m
from weir.control.core import TICK_S, Core
from weir.errors import BadInput

log = logging.getLogger(__name__)

ASK_S = 1.0
SILENCE_S = 5.0
# Answers of a switch that is asked for 10 000 rules come in pieces of 64 KiB at most.
MESSAGE_BYTES_MAX = 65_535


class Switches:
    """Listens for switches and keeps them at what a core wants, until cancelled."""

    def __init__(
        self,
        core: Core,
        tell: Callable[[str], None],
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        """Tells operators what they should know by `tell`, a line at a time.

        Calls `on_news` when the alarm of a promise begins or ends.
        """
        self.core = core
        self.tell = tell
        self._on_news = on_news
        self._connections: dict[str, _Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, listen: str) -> asyncio.Server:
        """Takes connections at `HOST:PORT`, or `unix:PATH`.

        Raises:
            BadInput: this is no address, or nobody can listen there.
        """
        try:
            if listen.startswith("unix:"):
                return await asyncio.start_unix_server(self._meet, listen.removeprefix("unix:"))
            host, _, port = listen.rpartition(":")
            if not host or not port.isdigit() or int(port) > 65_535:
                raise BadInput(f'"{listen}" is not HOST:PORT or unix:PATH')
            return await asyncio.start_server(self._meet, host.strip("[]"), int(port))
        except OSError as error:
            raise BadInput(f"cannot listen at {listen}: {error.strerror or error}") from None

    async def run(self) -> None:
        """Asks the core what is due, for ever."""
        while True:
            self.pump()
            await asyncio.sleep(TICK_S)

    def pump(self) -> None:
        """Sends what is due now."""
        for name, messages in self.core.poll(time.monotonic()).items():
            if connection := self._connections.get(name):
                connection.send(messages)
        for line in self.core.take_told():
            self.tell(line)
        if self.core.take_news():
            self._on_news()

    async def close(self) -> None:
        """Ends every connection; switches go on by the rules that they have."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def joined(self, name: str, connection: "_Connection") -> None:
        """A switch has said who it is."""
        before = self._connections.get(name)
        if before is not None:
            # It may have come back before it was missed; or there are two that say so.
            self.tell(f"switch {name} connects from {connection.peer}, the first connection ends")
            before.close()
        else:
            self.tell(f"switch {name} is connected")
        self._connections[name] = connection

    def left(self, name: str, connection: "_Connection") -> None:
        """A connection has ended."""
        if self._connections.get(name) is connection:
            del self._connections[name]
            self.core.on_gone(name)
            self.tell(f"switch {name} is gone: it goes on by its last rules")

    def stranger(self, datapath: int, peer: str) -> None:
        """A switch that is not in the network file has connected."""
        self.tell(f"a switch with the datapath id {datapath:016x}, from {peer}, is not in the file")

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_Connection(self, reader, writer).run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Connection:
    """One switch, from its hello to its end."""

    def __init__(
        self, switches: Switches, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._switches, self._core = switches, switches.core
        self._reader, self._writer = reader, writer
        self.peer = str(writer.get_extra_info("peername") or "a socket of this machine")
        self._datapath: int | None = None
        self._name: str | None = None
        self._ports: dict[str, int] = {}
        self._rules: dict[m.Place, m.Entry] = {}
        self._passed: dict[m.Place, int] = {}
        self._meters: dict[int, m.Meter] = {}
        self._unread = {"rules", "meters"}
        self._number = 0
        self._barrier = 0

    async def run(self) -> None:
        """Until either end closes it."""
        asking = asyncio.create_task(self._ask_forever())
        try:
            self._write(codec.hello())
            self._write(codec.who_are_you())
            while True:
                async with asyncio.timeout(SILENCE_S):
                    data = await self._message()
                self._take(codec.decoded(data))
                self._switches.pump()
        except (OSError, EOFError, TimeoutError) as error:
            log.info("switch %s: %s", self._name or self.peer, error or type(error).__name__)
        except ValueError as error:
            self._switches.tell(f"{self._name or self.peer}: {error}")
        finally:
            asking.cancel()
            self.close()
            if self._name is not None:
                self._switches.left(self._name, self)

    def send(self, messages: list[m.Message]) -> None:
        """Sends a batch."""
        data = []
        for message in messages:
            self._number = self._number % 0xFFFF_FFFF + 1
            if isinstance(message, m.Barrier):
                self._barrier = self._number
            data.append(codec.encoded(message, self._number))
        self._write(b"".join(data))

    def close(self) -> None:
        """Ends it."""
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.close()

    def _write(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)

    async def _message(self) -> bytes:
        head = await self._reader.readexactly(codec.HEADER_BYTES)
        length = int.from_bytes(head[2:4])
        if length < codec.HEADER_BYTES:
            raise ValueError(f"a message of {length} bytes is not OpenFlow")
        return head + await self._reader.readexactly(length - codec.HEADER_BYTES)

    async def _ask_forever(self) -> None:
        while True:
            await asyncio.sleep(ASK_S)
            self._write(codec.are_you_there())

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
                self._core.on_frame(self._name, port, data)
            case codec.Refusal(why):
                self._core.on_refused(self._name, why, now_s)
            case codec.Done(number) if number == self._barrier:
                self._core.on_done(self._name)
            case codec.Rules(rules, passed, has_more):
                self._rules |= rules
                self._passed |= passed
                self._read("rules", has_more, now_s)
            case codec.Meters(meters, has_more):
                self._meters |= meters
                self._read("meters", has_more, now_s)

    def _note(self, port: codec.PortState) -> None:
        """A port is known by its name and by its number, as a network file may have either."""
        for name in (port.name, str(port.number)):
            self._ports.pop(name, None)
            if port.is_up:
                self._ports[name] = port.number

    def _join(self) -> None:
        if self._datapath is None or self._name is not None:
            return
        name = self._core.topology.switch(self._datapath)
        if name is None:
            self._switches.stranger(self._datapath, self.peer)
            self.close()
            return
        self._name = name
        self._switches.joined(name, self)
        self._core.on_connected(name, self._ports)

    def _read(self, what: str, has_more: bool, now_s: float) -> None:
        if not has_more:
            self._unread.discard(what)
        if self._unread or self._name is None:
            return
        self._unread = {"rules", "meters"}
        self._core.on_read(self._name, m.Tables(self._rules, self._meters), self._passed, now_s)
        self._rules, self._passed, self._meters = {}, {}, {}
