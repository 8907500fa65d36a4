"""A transport that sends together what is written together.

An answer is written as its head and then its body, and the event loop gives each to the kernel at
once. That is its dearest call: over the loopback the kernel takes the packet as far as the reader,
and wakes it, within it.
"""

import asyncio
from typing import Any


class JoinedTransport(asyncio.Transport):
    """Sends with `flush` what was written until then, and in any case as soon as the loop can."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> None:
        """Sends bytes, before long."""
        if not self._pieces:
            self._loop.call_soon(self.flush)
        self._pieces.append(data)

    def flush(self) -> None:
        """Sends what is held."""
        pieces, self._pieces = self._pieces, []
        if pieces and not self._transport.is_closing():
            self._transport.write(b"".join(pieces))

    def close(self) -> None:
        """Sends what is held, and closes."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Closes at once; what is held is lost."""
        self._pieces.clear()
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether it is closed, or will be."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Takes nothing from the peer until `resume_reading`."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Takes what the peer sends."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What is known of the connection."""
        return self._transport.get_extra_info(name, default)
