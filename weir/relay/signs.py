"""Signs that this process runs, for whoever supervises it, by the protocol of sd_notify(3).

A process that is stopped, or hangs, cannot tell anybody so, and its kernel goes on to answer for
it. A supervisor that misses its signs may end it: then its clients are reset.
"""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping

_EACH = 3  # signs in the time that the supervisor waits for one


class Signs:
    """Tells the supervisor that the environment names, if it names one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        where = environment.get("NOTIFY_SOCKET", "")
        # A name that begins with @ is none of the file system's.
        self._where = "\0" + where[1:] if where.startswith("@") else where
        waits_us = environment.get("WATCHDOG_USEC", "")
        is_meant = environment.get("WATCHDOG_PID") in (None, str(os.getpid()))
        is_number = waits_us.isascii() and waits_us.isdigit()
        self._every_s = int(waits_us) / 1e6 / _EACH if is_meant and is_number else None
        self._due_s = 0.0

    def ready(self) -> None:
        """All is set up."""
        self._tell("READY=1")

    def running(self, is_so: Callable[[], bool]) -> None:
        """Gives a sign, where one is due and it is so."""
        now_s = time.monotonic()
        if self._every_s is None or now_s < self._due_s:
            return
        if is_so():
            self._due_s = now_s + self._every_s
            self._tell("WATCHDOG=1")

    def _tell(self, words: str) -> None:
        if not self._where:
            return
        # A supervisor that does not listen misses it.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            to.sendto(words.encode(), self._where)
