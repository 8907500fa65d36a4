"""A clip as a file that a browser plays: VP8 in WebM, packed by GStreamer.

It shows what the test card's clip does: a part of a picture moves by, in frames of which a few
differ. One file has its own rate, another a frame a second: a browser plays no slower than 1/16.
"""

import subprocess
from pathlib import Path

from studies.rig.desktop import gstreamer
from studies.rig.desktop.card import (
    CLIP_FPS,
    CLIP_FRAMES,
    CLIP_HEIGHT,
    CLIP_WIDTH,
    SLOW_FPS,
    moving,
)
from weir.errors import Unavailable

_ELEMENTS = ("rawvideoparse", "vp8enc", "webmmux")
_QUANTISER = 10
"""From 0 to 63, as a moving picture by RTP has it (`rtp`)."""
_LIMIT_S = 300.0


def missing() -> str | None:
    """What GStreamer lacks on this machine, with the way to it; None if nothing."""
    return gstreamer.lacking(_ELEMENTS)


def write(folder: Path, seconds: float, seed: int) -> tuple[Path, Path]:
    """Makes the clip in a folder; the file at its own rate, and that of a frame a second.

    Args:
        folder: where to.
        seconds: how long it is at its own rate; at a frame a second it is each of its
            different frames once.
        seed: of the picture.

    Raises:
        Unavailable: GStreamer did not make it; has its last words.
    """
    names = folder / "clip.webm", folder / "slow.webm"
    counts = round(seconds * CLIP_FPS), CLIP_FRAMES
    frames = [one.tobytes() for one in moving(seed)]
    for path, fps, count in zip(names, (CLIP_FPS, SLOW_FPS), counts, strict=True):
        content = b"".join(frames[at % CLIP_FRAMES] for at in range(count))
        command = _packing(path, fps)
        made = subprocess.run(command, input=content, capture_output=True, timeout=_LIMIT_S)
        if made.returncode:
            raise Unavailable(
                f"{gstreamer.PROGRAM}: {made.stderr.decode(errors='replace').strip()}"
            )
    return names


def _packing(path: Path, fps: float) -> list[str]:
    head = f"format=bgrx width={CLIP_WIDTH} height={CLIP_HEIGHT} framerate={round(10 * fps)}/10"
    pack = f"vp8enc deadline=1 min-quantizer={_QUANTISER} max-quantizer={_QUANTISER}"
    return [
        *(gstreamer.PROGRAM, "-q", "fdsrc", "fd=0", "!", "rawvideoparse", *head.split(), "!"),
        *(
            "videoconvert",
            "!",
            *pack.split(),
            "target-bitrate=100000000",
            "!",
            "webmmux",
            "!",
            "filesink",
            f"location={path}",
        ),
    ]
