"""Connections with bounds: nobody holds a place by asking slowly, or by not asking at all.

A connection waits while it has no whole request: from its first moment, between requests, and
while a body is on its way. Waiting may last `REQUEST_S`, and where too many wait, or there are too
many connections at all, those that have waited longest are cut off. Honest clients ask at once, so
however many strangers come, it is the strangers who make way for them.

What comes of a request before its body, or behind it, is bounded: kept as it comes, a head without
end would fill the memory, by whoever can connect. So is what comes of a body after the answer.

One address has half of all connections at most, so that whoever fills them, asking or reading
slowly, leaves room for the others. It is half and no less because behind a proxy all clients have
one address.
"""

import asyncio
import ipaddress
import time
from collections import Counter
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from weir.calendar.rest.auth import BODY_BYTES_MAX
from weir.calendar.rest.joined import JoinedTransport

# A whole request, body included, has this long to arrive; so has an idle connection.
REQUEST_S = 20.0
WAITING_MAX = 512
# So much may come in which neither a head ends nor a body goes on.
HEAD_BYTES_MAX = 64 * 1024
# Descriptors that are not for connections: the store's, the listener's, and new connections that
# are accepted before others are closed.
RESERVED = 384
# How many are accepted at one time.
BACKLOG = 256
_SWEEP_S = 1.0


class Crowd:
    """All connections of one server."""

    def __init__(self, descriptors: int) -> None:
        self.total_max = max(64, descriptors - RESERVED)
        self.address_max = self.total_max // 2
        self.waiting_max = min(WAITING_MAX, self.total_max // 2)
        self._all: set[Connection] = set()
        self._addresses: Counter[str] = Counter()
        # Since when by the monotonic clock, longest first.
        self._waiting: dict[Connection, float] = {}

    def enter(self, connection: "Connection") -> None:
        """A connection has come; another may have to go for it."""
        self._all.add(connection)
        self._addresses[connection.address] += 1
        self.wait(connection)
        if self._addresses[connection.address] > self.address_max:
            # The one that has waited longest, at worst the one that has come.
            self.cut(next(x for x in self._waiting if x.address == connection.address))
        elif len(self._all) > self.total_max or len(self._waiting) > self.waiting_max:
            self.cut(next(iter(self._waiting)))

    def wait(self, connection: "Connection") -> None:
        """From now on, the connection waits without a whole request."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = time.monotonic()

    def serve(self, connection: "Connection") -> None:
        """Its request is there."""
        self._waiting.pop(connection, None)

    def leave(self, connection: "Connection") -> None:
        """The connection has gone."""
        if connection in self._all:
            self._all.remove(connection)
            self._addresses[connection.address] -= 1
            if not self._addresses[connection.address]:
                del self._addresses[connection.address]
        self._waiting.pop(connection, None)

    def sweep(self) -> None:
        """Cuts off whoever has waited for too long."""
        last_s = time.monotonic() - REQUEST_S
        late = []
        for connection, since_s in self._waiting.items():
            if since_s > last_s:
                break
            late.append(connection)
        for connection in late:
            self.cut(connection)

    def abort(self) -> None:
        """Cuts everybody off."""
        for connection in list(self._all):
            connection.transport.abort()

    def cut(self, connection: "Connection") -> None:
        """Cuts one off."""
        # Now, not once the loop has closed it: others come meanwhile.
        self.leave(connection)
        connection.transport.abort()


class Connection(HttpToolsProtocol):
    """One connection, counted in the crowd."""

    crowd: Crowd
    transport: JoinedTransport
    # Whose it is; see `_origin`.
    address = ""
    # What has come since something came of it, and whether something does now.
    _unused_bytes = 0
    _is_used = False
    # What came of a body since its request was answered.
    _answered_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Joins the crowd."""
        super().connection_made(JoinedTransport(transport, self.loop))
        self.address = _origin(transport.get_extra_info("peername"))
        self.crowd.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leaves it."""
        self.crowd.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes what comes, unless there is no end to it."""
        self._is_used = False
        super().data_received(data)
        self._unused_bytes = 0 if self._is_used else self._unused_bytes + len(data)
        if self._unused_bytes > HEAD_BYTES_MAX:
            self.crowd.cut(self)

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._is_used = True
        self._answered_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body is there."""
        self._is_used = True
        super().on_body(body)
        # It is taken at all so that whoever sends it comes to read the answer.
        if self.cycle.response_complete:
            self._answered_bytes += len(body)
            if self._answered_bytes > BODY_BYTES_MAX:
                self.crowd.cut(self)

    def on_message_complete(self) -> None:
        """The whole request is there."""
        self._is_used = True
        self.crowd.serve(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The request is answered; the next one may come, or what is left of this one."""
        self.transport.flush()
        self.crowd.wait(self)
        super().on_response_complete()


def connections_of(crowd: Crowd) -> type[Connection]:
    """The class of connections that belong to one crowd."""
    return type("Connection", (Connection,), {"crowd": crowd})


async def sweep_forever(crowd: Crowd) -> None:
    """Cuts off who waits for too long, again and again."""
    while True:
        await asyncio.sleep(_SWEEP_S)
        crowd.sweep()


def _origin(peer: Any) -> str:
    """The address that a connection comes from; of IPv6 the network, whose addresses are one's."""
    if not peer:
        return ""
    address = ipaddress.ip_address(peer[0].partition("%")[0])
    return str(address) if address.version == 4 else str(int(address) >> 64)
