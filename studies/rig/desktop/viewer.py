"""A screen that says when it showed what: presses the test card's keys and reads its numbers.

`python -m studies.rig.desktop.viewer PROTOCOL HOST PORT FRAMES PLAN PAUSES IDLE`: by vnc or rdp,
or by rtp with the file descriptor FRAMES to read them from. PLAN is a word of keys, such as
`iiip`; PAUSES are how long the screen has to be still behind each, with commas between, IDLE how
long nothing is done at first, in s. For each key it is told in a line that it may press it, and in
another the last number that the card has painted; it says in a line of JSON when the screen showed
that. When nothing more is told it ends.
"""

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from studies.rig.desktop import card, rfb, rtp
from studies.rig.desktop.pictures import Pixels, numbers
from weir.errors import Unavailable

_LIMIT_S = 60.0
_LOOK_S = 0.02
_CLIPS = {"v", "s"}


@dataclass
class _Shown:
    """What the screen has shown since a key was pressed, by number.

    Attributes:
        whole_ns: when it stood in every tile.
        waited_ns: how long this program had stood ready and not been run by then.
        changed_ns: when anything changed.
    """

    whole_ns: dict[int, int] = field(default_factory=dict)
    waited_ns: dict[int, int] = field(default_factory=dict)
    changed_ns: int = 0


def run_at_once(pid: int = 0) -> None:
    """Has a screen's program run before all that is not a screen: it has a machine of its own.

    What shows the picture is late here for want of a processor that a far screen would have.
    Without the privilege it waits like any other.

    Args:
        pid: of the program, whose later threads inherit it; 0 for the calling thread.
    """
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))


class Screen(Protocol):
    """What shows a desktop, by whatever protocol."""

    pixels: Pixels

    def key(self, character: str) -> None:
        """Presses a key and lets it go."""

    def take(self) -> None:
        """Waits for what changes it, and shows that."""


def by_vnc(host: str, port: int, changed: Callable[[], None], is_near: bool) -> Screen:
    """A screen of a server of RFB."""
    connection = socket.create_connection((host, port), _LIMIT_S)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return rfb.Screen(connection, changed, is_near)


class Viewer:
    """A screen under a thread of its own.

    Args:
        opened: makes the screen, given what is to be called when it changes.
    """

    def __init__(self, opened: Callable[[Callable[[], None]], Screen]) -> None:
        self._shown = _Shown()
        self._is_clip = False
        self._failed: Unavailable | None = None
        self._screen = opened(self._look)
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
        shown = self._shown
        height, width = (
            (card.CLIP_HEIGHT, card.CLIP_WIDTH) if self._is_clip else (card.HEIGHT, card.WIDTH)
        )
        found = numbers(self._screen.pixels[:height, :width])
        # Whoever waits for a whole number looks at all else as soon as that is there.
        shown.changed_ns = now_ns
        if (found == found[0]).all() and int(found[0]) not in shown.whole_ns:
            shown.waited_ns[int(found[0])] = self._waited_ns()
            shown.whole_ns[int(found[0])] = now_ns

    def _waited_ns(self) -> int:
        """How long the screen's thread has stood ready and not been run; 0 if nobody knows."""
        try:
            return int(self._waits.read_text().split()[1])
        except (OSError, IndexError):
            return 0

    def until_there(self) -> None:
        """Waits until the card is seen as it is at first.

        Raises:
            Unavailable: it never is.
        """
        begin_s = time.monotonic()
        while card.MOVING not in self._shown.whole_ns:
            time.sleep(_LOOK_S)
            if self._failed:
                raise self._failed
            if time.monotonic() - begin_s > _LIMIT_S:
                raise Unavailable(f"the card was not seen within {_LIMIT_S:g} s")

    def press(self, key: str, number: Callable[[], int], pause_s: float) -> dict[str, object]:
        """Presses a key, waits until its last number is there and the screen still.

        Neither is waited for longer than a minute: a screen that stays behind for so long is what
        was to be measured, and has no `whole_ns`.

        Args:
            key: of the test card.
            number: waits for the last number that the card has painted for it.
            pause_s: how long the screen is to be still.

        Raises:
            Unavailable: the server went away.
        """
        self._is_clip = key in _CLIPS
        self._shown = _Shown()
        waited_ns, pressed_ns = self._waited_ns(), time.time_ns()
        self._screen.key(key)
        last = number()
        shown = self._still(last, pause_s)
        return {
            "key": key,
            "number": last,
            "pressed_ns": pressed_ns,
            "whole_ns": shown.whole_ns.get(last),
            "waited_ns": shown.waited_ns.get(last, self._waited_ns()) - waited_ns,
            "frames": len(shown.whole_ns),
        }

    def _still(self, number: int, pause_s: float) -> _Shown:
        """What has been shown when this number is whole, and nothing has changed for so long.

        Or when a minute is over.
        """
        begin_ns = time.time_ns()
        while True:
            time.sleep(_LOOK_S)
            if self._failed:
                raise self._failed
            now_ns, shown = time.time_ns(), self._shown
            if number in shown.whole_ns and now_ns - shown.changed_ns > pause_s * 1e9:
                return shown
            if now_ns - begin_ns > _LIMIT_S * 1e9:
                return shown


def main(arguments: list[str]) -> None:
    """Carries out a plan; ends with it."""
    protocol, host, port, frames, plan, pauses, idle = arguments

    def opened(changed: Callable[[], None]) -> Screen:
        if protocol != "rtp":
            return by_vnc(host, int(port), changed, is_near=protocol == "rdp")
        return rtp.Screen(host, int(port), os.fdopen(int(frames), "rb"), changed)

    viewer = Viewer(opened)
    viewer.until_there()
    time.sleep(0.5)
    _tell({"ready": True, "at_ns": time.time_ns()})
    time.sleep(float(idle))
    for key, pause in zip(plan, pauses.split(","), strict=True):
        if not sys.stdin.readline():
            return
        _tell(viewer.press(key, lambda: int(sys.stdin.readline()), float(pause)))


def _tell(what: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
