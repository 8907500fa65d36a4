"""A screen that says since when it has shown what the desktop shows, whatever that is.

`python -m studies.rig.desktop.watcher HOST PORT WHERE PAUSES`: by VNC, from a server that is `far`
or, on the same host, what shows a desktop by RDP, `near`. It says in a line of JSON when it
has seen the desktop. Then each line of the standard input is the digest of what the desktop shows
in the end; once the screen shows that and has been still for the next of PAUSES (s, with commas
between), a line of JSON tells when its pixels last changed.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from studies.rig.desktop.recorder import digest
from studies.rig.desktop.screen import LIMIT_S, Followed, Screen, by_vnc
from studies.rig.output import write_json
from weir.errors import Unavailable

_NEVER = 0


class Watcher:
    """A screen under a thread of its own, of which every change is seen.

    Args:
        opened: makes the screen, given what is to be called when it may have changed.
    """

    def __init__(self, opened: Callable[[Callable[[], None]], Screen]) -> None:
        self._changed_ns, self._waited_ns, self._changes = _NEVER, 0, 0
        self._told_waited_ns = self._counted = 0
        self._followed = Followed(opened, self._look)
        self._before = self._followed.screen.pixels.copy()
        self._followed.begin()

    def _look(self) -> None:
        now_ns = time.time_ns()
        # A server may send again what is there: then no pixel changes.
        if np.array_equal(self._followed.screen.pixels, self._before):
            return
        np.copyto(self._before, self._followed.screen.pixels)
        self._waited_ns = self._followed.waited_ns()
        # A server hands a picture over in several rectangles.
        if self._followed.taken != self._counted:
            self._counted = self._followed.taken
            self._changes += 1
        self._changed_ns = now_ns

    def until_there(self, still_s: float) -> None:
        """Waits until something is seen, and still.

        Raises:
            Unavailable: it never is.
        """
        if self._still(None, still_s) is None:
            raise Unavailable(f"nothing still was seen of the desktop within {LIMIT_S:g} s")

    def shows(self, wanted: str, still_s: float) -> dict[str, Any]:
        """Since when it shows what has this digest, when it has been still for so long.

        With it, how many updates (`frames`) changed a pixel on the way there.

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

        def still() -> int | None:
            changed_ns = self._changed_ns
            if changed_ns == _NEVER or time.time_ns() - changed_ns <= still_s * 1e9:
                return None
            is_there = wanted is None or digest(self._followed.screen.pixels) == wanted
            return changed_ns if is_there and changed_ns == self._changed_ns else None

        return self._followed.wait_for(still)


def main(arguments: list[str]) -> None:
    """Says what it is asked for; ends with the questions."""
    host, port, where, told = arguments
    pauses = [float(one) for one in told.split(",")]
    watcher = Watcher(lambda changed: by_vnc(host, int(port), changed, where == "near"))
    watcher.until_there(pauses[0])
    write_json({"ready": True})
    for line, pause_s in zip(sys.stdin, pauses, strict=False):
        write_json(watcher.shows(line.strip(), pause_s))


if __name__ == "__main__":
    main(sys.argv[1:])
