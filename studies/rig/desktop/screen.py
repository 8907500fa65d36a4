"""A screen of a desktop far away, followed by a thread of its own that sees all its changes.

What is read of it is for its user to say: `viewer` reads the numbers of the test card, `watcher`
sees when it became what the desktop shows.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from studies.rig.desktop import rfb
from studies.rig.desktop.pictures import Pixels
from weir.errors import Unavailable

LIMIT_S = 60.0
"""So long something is waited for at most."""
_LOOK_S = 0.02
_T = TypeVar("_T")


class Screen(Protocol):
    """What shows a desktop, by whatever protocol."""

    pixels: Pixels

    def key(self, character: str) -> None:
        """Presses a key and lets it go."""

    def take(self) -> None:
        """Waits for what changes it, and shows that."""


def by_vnc(host: str, port: int, changed: Callable[[], None], is_near: bool) -> Screen:
    """A screen of a server of RFB."""
    connection = socket.create_connection((host, port), LIMIT_S)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return rfb.Screen(connection, changed, is_near)


def run_at_once(pid: int = 0) -> None:
    """Has a screen's program run before all that is not a screen: it has a machine of its own.

    What shows the picture is late here for want of a processor that a far screen would have.
    Without the privilege it waits like any other.

    Args:
        pid: of the program, whose later threads inherit it; 0 for the calling thread.
    """
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))


class Followed:
    """A screen and the thread that follows it.

    Args:
        opened: makes the screen, given what is to be called when it may have changed.
        changed: is called in the thread when it may have.

    Attributes:
        screen: the screen.
        taken: how many times it has been given something to show, what is being shown included.
    """

    def __init__(
        self, opened: Callable[[Callable[[], None]], Screen], changed: Callable[[], None]
    ) -> None:
        self._failed: Unavailable | None = None
        self._waits = Path("/proc/self/schedstat")
        self.taken = 0
        self.screen = opened(changed)

    def begin(self) -> None:
        """Follows it from now on."""
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        run_at_once()
        self._waits = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        try:
            while True:
                self.taken += 1
                self.screen.take()
        except Unavailable as error:
            self._failed = error

    def waited_ns(self) -> int:
        """How long the thread has stood ready and not been run; 0 if nobody knows."""
        try:
            return int(self._waits.read_text().split()[1])
        except (OSError, IndexError):
            return 0

    def wait_for(self, seen: Callable[[], _T | None]) -> _T | None:
        """What is seen, as soon as that is not None; None when a minute is over.

        Raises:
            Unavailable: the server went away.
        """
        end_s = time.monotonic() + LIMIT_S
        while True:
            if self._failed:
                raise self._failed
            if (found := seen()) is not None:
                return found
            if time.monotonic() > end_s:
                return None
            time.sleep(_LOOK_S)
