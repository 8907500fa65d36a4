"""The test card: a program on a desktop that paints when a key is pressed, and says when it did.

`python -m studies.rig.desktop.card DISPLAY MARKERS PORT SEED SECONDS`; a line of JSON for each
task. Every task begins and ends with a marker packet, sent to this port of the address MARKERS; a
clip takes SECONDS.
"""

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.rig.desktop.pictures import (
    NUMBERS,
    ROUGHNESS,
    Pixels,
    picture,
    stamp,
    stored,
    unpacked,
)
from studies.rig.output import write_json
from weir.observe.desktop import mark

WIDTH, HEIGHT = 640, 480
CLIP_WIDTH, CLIP_HEIGHT = 320, 256
CLIP_FPS, SLOW_FPS, CLIP_FRAMES = 23.9, 1.0, 12
"""The clip's frame rates, and how many frames of it differ."""
TURN_STEPS, TURN_FPS, TURN_PIXELS = 10, 12.5, 32
"""How a scene turns."""
MOVING = NUMBERS - 1
"""The number of all that is shown only in passing, and at first."""
_STRIP_BYTES = 250_000  # one request of X takes 262 140 at most


@dataclass
class _Screen:
    """A window that covers the corner of a display."""

    display: Any
    window: Any
    context: Any
    depth: int

    def paint(self, pixels: Pixels) -> None:
        """Hands a picture to the server; it is not yet shown."""
        height, width = pixels.shape[:2]
        rows = _STRIP_BYTES // (4 * width)
        for top in range(0, height, rows):
            strip = pixels[top : top + rows]
            place = (0, top, width, len(strip))
            data = strip.tobytes()
            self.window.put_image(self.context, *place, 2, self.depth, 0, data)  # 2: ZPixmap

    def until_painted(self) -> None:
        """Waits until the server has done all that it was asked for."""
        self.display.sync()


class Card:
    """What is shown, by key: `i` another picture, `p` a turn, `v` the clip, `s` it slowly.

    Args:
        screen: where to.
        markers: the address and port of markers.
        seed: of the pictures.
        seconds: how long the clip is.
    """

    def __init__(
        self, screen: _Screen, markers: tuple[str, int], seed: int, seconds: float
    ) -> None:
        self._screen, self._seconds = screen, seconds
        self._markers, self._port = markers
        self._number = 0
        drawn = [picture(WIDTH, HEIGHT, one, seed + at) for at, one in enumerate(ROUGHNESS)]
        self._files = [stored(one) for one in drawn]
        self._scene = np.concatenate([drawn[0], drawn[2]], axis=1)
        self._turned = 0
        self._frames = moving(seed)
        self._next = itertools.cycle(range(len(self._files)))
        self._tasks: dict[str, Callable[[], None]] = {
            "i": self._picture,
            "p": self._turn,
            "v": lambda: self._clip(CLIP_FPS),
            "s": lambda: self._clip(SLOW_FPS),
        }

    def begin(self) -> None:
        """Shows the first picture, which no task's number is on."""
        pixels = unpacked(self._files[-1], WIDTH, HEIGHT)
        stamp(pixels, MOVING)
        self._screen.paint(pixels)
        self._screen.until_painted()

    def do(self, key: str) -> dict[str, Any] | None:
        """The task of a key; what is to be told of it."""
        act = self._tasks.get(key)
        if act is None:
            return None
        mark.send(self._markers, label=key, port=self._port)
        begin_ns = time.time_ns()
        act()
        end_ns = time.time_ns()
        mark.send(self._markers, is_end=True, port=self._port)
        return {"key": key, "number": self._number, "begin_ns": begin_ns, "end_ns": end_ns}

    def _count(self) -> int:
        self._number = self._number % (MOVING - 1) + 1
        return self._number

    def _picture(self) -> None:
        pixels = unpacked(self._files[next(self._next)], WIDTH, HEIGHT)
        stamp(pixels, self._count())
        self._screen.paint(pixels)
        self._screen.until_painted()

    def _turn(self) -> None:
        number = self._count()
        for step in _in_time(TURN_FPS, TURN_STEPS):
            self._turned = (self._turned + TURN_PIXELS) % WIDTH
            pixels = self._scene[:, self._turned :][:, :WIDTH].copy()
            stamp(pixels, number if step == TURN_STEPS - 1 else MOVING)
            self._screen.paint(pixels)
            self._screen.until_painted()

    def _clip(self, fps: float) -> None:
        for at in _in_time(fps, round(self._seconds * CLIP_FPS) if fps > 2 else CLIP_FRAMES):
            pixels = self._frames[at % CLIP_FRAMES]
            stamp(pixels, self._count())
            self._screen.paint(pixels)
            self._screen.until_painted()


def moving(seed: int) -> list[Pixels]:
    """The frames of a clip that differ: a part of a picture that moves by."""
    large = picture(CLIP_WIDTH + 8 * CLIP_FRAMES, CLIP_HEIGHT, 1.8, seed + 99)
    return [large[:, 8 * at :][:, :CLIP_WIDTH].copy() for at in range(CLIP_FRAMES)]


def _in_time(fps: float, count: int) -> Iterator[int]:
    """Numbers from 0, each in its time; those whose time has passed are left out but the last."""
    begin_s = time.monotonic()
    for at in range(count):
        late_s = time.monotonic() - begin_s - at / fps
        if late_s > 1 / fps and at < count - 1:
            continue
        time.sleep(max(0.0, -late_s))
        yield at
    # A frame is shown for its time.
    time.sleep(max(0.0, begin_s + count / fps - time.monotonic()))


def _opened(name: str) -> _Screen:
    from Xlib import X, display

    shown = display.Display(name)
    screen = shown.screen()
    window = screen.root.create_window(
        *(0, 0, WIDTH, HEIGHT, 0, screen.root_depth, X.InputOutput, X.CopyFromParent),
        background_pixel=screen.black_pixel,
        override_redirect=1,
        event_mask=X.KeyPressMask,
    )
    context = window.create_gc()
    window.map()
    shown.sync()
    return _Screen(shown, window, context, screen.root_depth)


def main(arguments: list[str]) -> None:
    """Waits for keys, until `q`."""
    from Xlib import X

    name, markers, port, seed, seconds = arguments
    screen = _opened(name)
    card = Card(screen, (markers, int(port)), int(seed), float(seconds))
    card.begin()
    write_json({"ready": True})
    while True:
        event = screen.display.next_event()
        if event.type != X.KeyPress:
            continue
        key = chr(screen.display.keycode_to_keysym(event.detail, 0) & 0xFF)
        if key == "q":
            return
        told = card.do(key)
        if told is not None:
            write_json(told)


if __name__ == "__main__":
    main(sys.argv[1:])
