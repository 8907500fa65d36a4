"""What a browser shows on a desktop: pictures, and a scene all around that turns, in one page.

Everything is made here and read from files. `i` shows the next picture, decoded anew as a viewer
does it; `p` turns the scene by an angle, in as many frames as the browser can paint. `v` plays a
clip in the page's corner, and `s` the same at a frame a second; a square beside it changes its
colour when it is over, and its last frame stays.
"""

import json
import struct
import zlib
from pathlib import Path

import numpy as np

from studies.rig.desktop.pictures import ROUGHNESS, Pixels, picture

TITLE = "weir pictures"
"""The page has it once all has been loaded, and another until then."""
_AROUND = 4
"""How many times the window's width goes around the scene: a window sees 90 degrees."""
_TURN_DEGREES, _TURN_S = 30, 0.8
_STRIP = 4
"""The scene is painted in strips of so many pixels, each as far off as its angle."""
_MARK = 16
"""The square that tells of a clip's end, in pixels."""

_PAGE = """<!doctype html>
<meta charset="utf-8">
<title>loading</title>
<style>
html, body { margin: 0; overflow: hidden; background: #000; cursor: none; }
canvas { display: block; }
video { position: absolute; left: 0; top: 0; }
</style>
<canvas width="@width@" height="@height@"></canvas>
<video muted hidden></video>
<script>
const width = @width@, height = @height@, strip = @strip@, mark = @mark@;
const names = @names@, turn = @turn@ * Math.PI / 180, lasts = @lasts@;
const context = document.querySelector("canvas").getContext("2d");
const scene = new Image();
let next = 0, yaw = 0, isTurning = false;

async function show() {
  const image = new Image();
  image.src = names[next];
  next = (next + 1) % names.length;
  await image.decode();
  context.drawImage(image, 0, 0);
}

// A cylinder seen from its axis: what stands beside the middle is farther, and taller on a plane.
function look(at) {
  const far = width / 2 / Math.tan(Math.PI / 4);
  for (let x = 0; x < width; x += strip) {
    const beside = Math.atan((x + strip / 2 - width / 2) / far);
    const around = ((at + beside) / (2 * Math.PI) % 1 + 1) % 1;
    const from = Math.min(Math.floor(around * scene.width), scene.width - strip);
    const tall = height / Math.cos(beside);
    const top = (height - tall) / 2;
    context.drawImage(scene, from, 0, strip, height, x, top, strip, tall);
  }
}

function turned() {
  if (isTurning) return;
  isTurning = true;
  const begin = performance.now(), from = yaw;
  function step() {
    const done = Math.min(1, (performance.now() - begin) / (1000 * lasts));
    look(from + done * turn);
    if (done < 1) return requestAnimationFrame(step);
    yaw = (from + turn) % (2 * Math.PI);
    isTurning = false;
  }
  requestAnimationFrame(step);
}

const video = document.querySelector("video");
let played = 0;

function play(clip) {
  video.hidden = false;
  video.src = clip;
  video.play();
}

video.addEventListener("ended", () => {
  played += 1;
  context.fillStyle = `rgb(${played % 256}, ${played >> 8 & 255}, 255)`;
  context.fillRect(width - 2 * mark, height - 2 * mark, mark, mark);
});

const tasks = {
  i: () => { video.hidden = true; show(); },
  p: () => { video.hidden = true; turned(); },
  v: () => play("clip.webm"),
  s: () => play("slow.webm"),
};
addEventListener("keydown", event => tasks[event.key]?.());
scene.src = "@scene@";
scene.decode().then(show).then(() => { document.title = "@title@"; });
</script>
"""


def write(folder: Path, width: int, height: int, seed: int) -> Path:
    """Makes the page and its pictures in a folder; returns the page.

    Args:
        folder: where to.
        width: of the window, in pixels.
        height: likewise.
        seed: of the pictures.
    """
    names = []
    for at, roughness in enumerate(ROUGHNESS):
        names.append(f"picture-{at}.png")
        (folder / names[-1]).write_bytes(png(picture(width, height, roughness, seed + at)))
    # Its ends meet: what is made of waves repeats itself.
    around = picture(_AROUND * width, height, ROUGHNESS[2], seed + len(names))
    (folder / "scene.png").write_bytes(png(around))
    told = {
        "width": str(width),
        "height": str(height),
        "strip": str(_STRIP),
        "mark": str(_MARK),
        "names": json.dumps(names),
        "turn": str(_TURN_DEGREES),
        "lasts": str(_TURN_S),
        "scene": "scene.png",
        "title": TITLE,
    }
    content = _PAGE
    for name, value in told.items():
        content = content.replace(f"@{name}@", value)
    page = folder / "page.html"
    page.write_text(content)
    return page


def png(pixels: Pixels) -> bytes:
    """A picture as a file (PNG, ISO/IEC 15948: eight bits of each colour, no filter)."""
    height, width = pixels.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    rows[:, 1:] = pixels[:, :, 2::-1].reshape(height, 3 * width)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
