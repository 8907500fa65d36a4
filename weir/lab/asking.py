"""Who asks a lab something: one line of JSON each way, by a socket.

Nobody holds the lab up that way: it runs its traffic meanwhile, and answers others.
"""

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

# So long a question may take to come whole, or an answer to be taken.
PATIENCE_S = 5.0
LINE_MAX = 1 << 20
# So many may be asking at a time: one more, and the one that has been for longest is cut off.
ASKING_MAX = 64


@dataclass(eq=False)
class Asker:
    """One connection, with what has come of its question, or is left of its answer."""

    connection: socket.socket
    until_s: float
    heard: bytearray = field(default_factory=bytearray)
    left: bytes = b""


class Askers:
    """Those who ask.

    Args:
        selector: tells when they have said something, or take more; their data is an `Asker`.
        answer: of a line; None closes the connection without one.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        answer: Callable[[bytes], dict[str, Any] | None],
    ) -> None:
        self._selector, self._answer = selector, answer
        self._asking: dict[Asker, None] = {}

    def accept(self, listener: socket.socket) -> None:
        """Somebody has come, and may be gone again."""
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            connection.setblocking(False)
            if len(self._asking) >= ASKING_MAX:
                self._end(next(iter(self._asking)))
            asker = Asker(connection, time.monotonic() + PATIENCE_S)
            self._asking[asker] = None
            self._selector.register(connection, selectors.EVENT_READ, asker)

    def hear(self, asker: Asker) -> None:
        """One has said something, or takes more of its answer."""
        if asker not in self._asking:
            return  # It was cut off since this was known.
        try:
            if asker.left:
                self._say(asker)
                return
            part = asker.connection.recv(1 << 16)
            asker.heard += part
            if b"\n" in part:
                self._reply(asker)
            elif not part or len(asker.heard) > LINE_MAX:
                self._end(asker)
        except BlockingIOError:
            return
        except OSError:  # It is gone.
            self._end(asker)

    def cut_off(self) -> None:
        """Ends those that take too long."""
        now_s = time.monotonic()
        for asker in [x for x in self._asking if x.until_s <= now_s]:
            self._end(asker)

    def _reply(self, asker: Asker) -> None:
        reply = self._answer(bytes(asker.heard))
        if reply is None:
            self._end(asker)
            return
        asker.left, asker.until_s = (
            json.dumps(reply).encode() + b"\n",
            time.monotonic() + PATIENCE_S,
        )
        self._selector.modify(asker.connection, selectors.EVENT_WRITE, asker)
        self._say(asker)

    def _say(self, asker: Asker) -> None:
        asker.left = asker.left[asker.connection.send(asker.left) :]
        if not asker.left:
            self._end(asker)

    def _end(self, asker: Asker) -> None:
        del self._asking[asker]
        self._selector.unregister(asker.connection)
        asker.connection.close()
