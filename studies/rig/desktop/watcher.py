"""A screen that says since when it has shown what the desktop shows, whatever that is.

`python -m studies.rig.desktop.watcher HOST PORT PAUSES`: by VNC. It says in a line of JSON when it
has seen the desktop. Then each line of the standard input is the digest of what the desktop shows
in the end; once the screen shows that and has been still for the next of PAUSES (s, with commas
between), a line of JSON tells when its pixels last changed.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from studies.rig.desktop.recorder import digest
from studies.rig.desktop.viewer import Screen, by_vnc, run_at_once
from weir.errors import Unavailable

_LIMIT_S = 60.0
_LOOK_S = 0.02
_NEVER = 0


class Watcher:
    """A screen under a thread of its own, of which every change is seen.

    Args:
        opened: makes the screen, given what is to be called when it may have changed.
    """

    def __init__(self, opened: Callable[[Callable[[], None]], Screen]) -> None:
        self._failed: Unavailable | None = None
        self._changed_ns, self._waited_ns, self._changes = _NEVER, 0, 0
        self._told_waited_ns = 0
        self._screen = opened(self._look)
        self._before = self._screen.pixels.copy()
        self._waits = Path("/proc/self/schedstat")
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        run_at_once()
        self._waits = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        try:
            while True:
                self._screen.take()
        except Unavailable as error:
            self._failed = error

    def _look(self) -> None:
        now_ns = time.time_ns()
        # A server may send again what is there: then no pixel changes.
        if np.array_equal(self._screen.pixels, self._before):
            return
        np.copyto(self._before, self._screen.pixels)
        self._waited_ns = self._waited()
        self._changes += 1
        self._changed_ns = now_ns

    def _waited(self) -> int:
        """How long the screen's thread has stood ready and not been run; 0 if nobody knows."""
        try:
            return int(self._waits.read_text().split()[1])
        except (OSError, IndexError):
            return 0

    def until_there(self, still_s: float) -> None:
        """Waits until something is seen, and still.

        Raises:
            Unavailable: it never is.
        """
        if self._still(None, still_s) is None:
            raise Unavailable(f"nothing still was seen of the desktop within {_LIMIT_S:g} s")

    def shows(self, wanted: str, still_s: float) -> dict[str, Any]:
        """Since when it shows what has this digest, when it has been still for so long.

        Or no time, when a minute is over: what stays behind for so long is what was to be measured.

        Raises:
            Unavailable: the server went away.
        """
        whole_ns = self._still(wanted, still_s)
        waited_ns, changes = self._waited_ns - self._told_waited_ns, self._changes
        self._told_waited_ns, self._changes = self._waited_ns, 0
        return {"whole_ns": whole_ns, "waited_ns": waited_ns, "frames": changes}

    def _still(self, wanted: str | None, still_s: float) -> int | None:
        """The last change, if after it all is as it should be; None when a minute is over."""
        begin_ns = time.time_ns()
        while True:
            if self._failed:
                raise self._failed
            now_ns, changed_ns = time.time_ns(), self._changed_ns
            if changed_ns != _NEVER and now_ns - changed_ns > still_s * 1e9:
                found = wanted is None or digest(self._screen.pixels) == wanted
                if found and changed_ns == self._changed_ns:
                    return changed_ns
            if now_ns - begin_ns > _LIMIT_S * 1e9:
                return None
            time.sleep(_LOOK_S)


def main(arguments: list[str]) -> None:
    """Says what it is asked for; ends with the questions."""
    host, port, told = arguments
    pauses = [float(one) for one in told.split(",")]
    watcher = Watcher(lambda changed: by_vnc(host, int(port), changed, is_near=False))
    watcher.until_there(pauses[0])
    _tell({"ready": True})
    for line, pause_s in zip(sys.stdin, pauses, strict=False):
        _tell(watcher.shows(line.strip(), pause_s))


def _tell(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
