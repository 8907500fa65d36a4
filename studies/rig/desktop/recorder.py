"""A script at a desktop with any program on it: presses keys by xdotool, records what is painted.

`python -m studies.rig.desktop.recorder DISPLAY MARKERS PORT TITLE`: once a window whose title
begins with TITLE is shown and nothing changes any more, it has the keys and a line of JSON says so.
From then on each line of the standard input is a key of a task: a marker packet goes to PORT of the
address MARKERS, xdotool presses the key, and a line of JSON tells when the X server was last
painted to (its extension DAMAGE) and what it shows since then.
"""

import hashlib
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np

from studies.rig.desktop.pictures import Pixels
from studies.rig.output import write_json
from weir.errors import Unavailable
from weir.observe.desktop import mark

_STILL_S, _FIRST_STILL_S = 1.0, 2.0
"""What has not been painted to for so long is done: after a key, and at first."""
_SLOW, _SLOW_STILL_S = "s", 2.5
"""A clip with a frame a second is not done after one of them."""
_LIMIT_S, _FOCUS_S = 60.0, 10.0
_LOOK_S = 0.01


def digest(pixels: Pixels) -> str:
    """A name for what is shown, the same for the same colours of all pixels."""
    return hashlib.sha256(pixels[:, :, :3].tobytes()).hexdigest()


class Damage:
    """When a display was painted to, whoever did it.

    Args:
        name: of the display.
    """

    def __init__(self, name: str) -> None:
        from Xlib import display
        from Xlib.ext import damage

        self._watched, self._looked = display.Display(name), display.Display(name)
        self.last_ns = 0
        self._watched.damage_query_version()
        # Each rectangle is an event: nothing has to be taken back before the next is told.
        root = self._watched.screen().root
        root.damage_create(damage.DamageReportRawRectangles)
        self._watched.sync()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while True:
            if self._watched.next_event().type == self._watched.extension_event.DamageNotify:
                self.last_ns = time.time_ns()

    def until_still(self, since_ns: int, still_s: float) -> int:
        """Waits until nothing was painted for so long, and not since this time; the last time.

        Raises:
            Unavailable: it was never still within a minute.
        """
        while True:
            now_ns, last_ns = time.time_ns(), max(self.last_ns, since_ns)
            if now_ns - last_ns > still_s * 1e9:
                return self.last_ns
            if now_ns - since_ns > _LIMIT_S * 1e9:
                raise Unavailable(f"the display was never still within {_LIMIT_S:g} s")
            time.sleep(_LOOK_S)

    def shown(self) -> Pixels:
        """What it shows."""
        return shown(self._looked)


def shown(display: Any) -> Pixels:
    """What a display shows, an open `Xlib.display.Display`."""
    screen = display.screen()
    width, height = screen.width_in_pixels, screen.height_in_pixels
    image = screen.root.get_image(0, 0, width, height, 2, 0xFFFFFFFF)  # 2: ZPixmap
    return np.frombuffer(image.data, np.uint8).reshape(height, width, 4)


def task(
    key: str, before: str, damage: Damage, markers: tuple[str, int], environment: dict[str, str]
) -> dict[str, Any]:
    """Has a task done; what is to be told of it.

    Args:
        key: which xdotool presses.
        before: the digest of what is shown.
        damage: of the display.
        markers: the address and port of markers.
        environment: of xdotool.

    Raises:
        Unavailable: nothing else is shown in the end, or the display is not still.
    """
    address, port = markers
    if digest(damage.shown()) != before:
        # Whoever compares the screen with what was told of the task before would be misled.
        raise Unavailable(f"the display changed by itself after {_STILL_S:g} s")
    mark.send(address, label=key, port=port)
    begin_ns = time.time_ns()
    subprocess.run(["xdotool", "key", key], env=environment, check=True, timeout=_LIMIT_S)
    end_ns = damage.until_still(begin_ns, _SLOW_STILL_S if key == _SLOW else _STILL_S)
    after = digest(damage.shown())
    if after == before:
        raise Unavailable(f"the key {key} changed nothing on the display")
    return {"key": key, "number": after, "begin_ns": begin_ns, "end_ns": end_ns}


def _focused(title: str, environment: dict[str, str]) -> None:
    """Waits for a window, puts it into the corner and gives it the keys."""
    end_s = time.monotonic() + _LIMIT_S
    while not _try_to_focus(title, environment):
        if time.monotonic() > end_s:
            raise Unavailable(f"no window called {title} was shown within {_LIMIT_S:g} s")
        time.sleep(0.1)


def _try_to_focus(title: str, environment: dict[str, str]) -> bool:
    """Whether there is a window that has the keys now.

    One that is just being shown is out of sight for a moment, while its manager puts it into a
    frame, and cannot have them.
    """
    command = ["xdotool", "search", "--onlyvisible", "--name", f"^{title}"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    if not found.stdout.split():
        return False
    window = found.stdout.split()[0]
    # A pointer in the window has the window manager leave the keys there.
    command = ["xdotool", "mousemove", "--window", window, "100", "100"]
    command += ["windowmove", window, "0", "0", "windowfocus", "--sync", window]
    try:
        subprocess.run(command, env=environment, check=True, timeout=_FOCUS_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return False
    return True


def main(arguments: list[str]) -> None:
    """Does what is read from the standard input, until that ends."""
    name, markers, port, title = arguments
    environment = os.environ | {"DISPLAY": name}
    damage = Damage(name)
    _focused(title, environment)
    damage.until_still(time.time_ns(), _FIRST_STILL_S)
    before = digest(damage.shown())
    write_json({"ready": True})
    for line in sys.stdin:
        done = task(line.strip(), before, damage, (markers, int(port)), environment)
        before = done["number"]
        write_json(done)


if __name__ == "__main__":
    main(sys.argv[1:])
