"""A screen that says when it showed what: presses the test card's keys and reads its numbers.

`python -m studies.rig.desktop.viewer PROTOCOL HOST PORT FRAMES PLAN PAUSES IDLE`: by vnc or rdp,
or by rtp with the file descriptor FRAMES to read them from. PLAN is a word of keys, such as
`iiip`; PAUSES are how long the screen has to be still behind each, with commas between, IDLE how
long nothing is done at first, in s. For each key it is told in a line that it may press it, and in
another the last number that the card has painted; it says in a line of JSON when the screen showed
that. When nothing more is told it ends.
"""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from studies.rig.desktop import card, rtp
from studies.rig.desktop.pictures import numbers
from studies.rig.desktop.screen import LIMIT_S, Followed, Screen, by_vnc
from studies.rig.output import write_json
from weir.errors import Unavailable

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


class Viewer:
    """A screen under a thread of its own.

    Args:
        opened: makes the screen, given what is to be called when it changes.
    """

    def __init__(self, opened: Callable[[Callable[[], None]], Screen]) -> None:
        self._shown = _Shown()
        self._is_clip = False
        self._followed = Followed(opened, self._look)
        self._followed.begin()

    def _look(self) -> None:
        now_ns = time.time_ns()
        shown = self._shown
        height, width = (
            (card.CLIP_HEIGHT, card.CLIP_WIDTH) if self._is_clip else (card.HEIGHT, card.WIDTH)
        )
        found = numbers(self._followed.screen.pixels[:height, :width])
        # Whoever waits for a whole number looks at all else as soon as that is there.
        shown.changed_ns = now_ns
        if (found == found[0]).all() and int(found[0]) not in shown.whole_ns:
            shown.waited_ns[int(found[0])] = self._followed.waited_ns()
            shown.whole_ns[int(found[0])] = now_ns

    def until_there(self) -> None:
        """Waits until the card is seen as it is at first.

        Raises:
            Unavailable: it never is.
        """
        if self._followed.wait_for(lambda: self._shown.whole_ns.get(card.MOVING)) is None:
            raise Unavailable(f"the card was not seen within {LIMIT_S:g} s")

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
        waited_ns, pressed_ns = self._followed.waited_ns(), time.time_ns()
        self._followed.screen.key(key)
        last = number()
        shown = self._still(last, pause_s)
        return {
            "key": key,
            "number": last,
            "pressed_ns": pressed_ns,
            "whole_ns": shown.whole_ns.get(last),
            "waited_ns": shown.waited_ns.get(last, self._followed.waited_ns()) - waited_ns,
            "frames": len(shown.whole_ns),
        }

    def _still(self, number: int, pause_s: float) -> _Shown:
        """What has been shown when this number is whole, and nothing has changed for so long.

        Or when a minute is over.
        """

        def still() -> _Shown | None:
            now_ns, shown = time.time_ns(), self._shown
            is_still = now_ns - shown.changed_ns > pause_s * 1e9
            return shown if is_still and number in shown.whole_ns else None

        return self._followed.wait_for(still) or self._shown


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
    write_json({"ready": True, "at_ns": time.time_ns()})
    time.sleep(float(idle))
    for key, pause in zip(plan, pauses.split(","), strict=True):
        if not sys.stdin.readline():
            return
        write_json(viewer.press(key, lambda: int(sys.stdin.readline()), float(pause)))


if __name__ == "__main__":
    main(sys.argv[1:])
