"""What GStreamer's programs are called, and whether this machine has them."""

import shutil
import subprocess
from collections.abc import Sequence

PROGRAM = "gst-launch-1.0"
_PACKAGES = "gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good"


def lacking(elements: Sequence[str]) -> str | None:
    """What this machine lacks for a pipeline of these, with the way to it; None if nothing."""
    if shutil.which(PROGRAM) is None or shutil.which("gst-inspect-1.0") is None:
        return f"GStreamer is not installed: apt-get install {_PACKAGES}"
    for one in elements:
        if subprocess.run(["gst-inspect-1.0", "--exists", one], check=False).returncode:
            return f"GStreamer has no {one}: apt-get install {_PACKAGES}"
    return None
