"""Slow-motion video quality: how much of a clip's data arrived in its time (000-spec 5.3.2).

The same clip is played at its own rate under the conditions of interest, and at a frame a second
over a perfect network, where every frame arrives whole. It needs no knowledge of the protocol.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from weir.errors import BadInput
from weir.observe.desktop import capture
from weir.observe.desktop.capture import MOST_PAIRS, Address, Capture, Packet
from weir.observe.desktop.dut import Markers, Which


@dataclass(frozen=True, slots=True)
class Playback:
    """One playing of a clip.

    Attributes:
        bytes: that were sent to the client, behind whatever loses packets.
        seconds: it took.
        ideal_fps: frames a second that it was to show.
    """

    bytes: int
    seconds: float
    ideal_fps: float

    @property
    def bytes_per_frame(self) -> float:
        """Data rate over frame rate.

        Raises:
            BadInput: a time or a frame rate that is not positive.
        """
        if self.seconds <= 0 or self.ideal_fps <= 0:
            raise BadInput(
                f"a clip played for {self.seconds:g} s at {self.ideal_fps:g} frames/s: both are "
                "more than 0"
            )
        return self.bytes / self.seconds / self.ideal_fps


def slow_motion_quality(normal: Playback, slow: Playback) -> float:
    """The share of a frame's data that arrived in its time (eq. 5.2): 1 is all.

    Args:
        normal: at the clip's own rate, under the conditions of interest.
        slow: at a frame a second or so, over a perfect network.

    Raises:
        BadInput: nothing was sent in slow motion, or a time is not positive.
    """
    if slow.bytes <= 0:
        raise BadInput("nothing was sent to the client in slow motion: no clip was played")
    return normal.bytes_per_frame / slow.bytes_per_frame


def played(packets: Iterable[Packet], begin_ns: int, end_ns: int, ideal_fps: float) -> Playback:
    """A playing between two times, from what the server sent to the client."""
    count = sum(one.size for one in packets if begin_ns <= one.at_ns < end_ns)
    return Playback(count, (end_ns - begin_ns) / 1e9, ideal_fps)


def of_file(
    path: Path, which: Which, ideal_fps: float
) -> tuple[Capture, tuple[Address, Address], Playback]:
    """A playing from its markers, start to end, by a capture that may be larger than memory.

    Returns:
        What is in the file, server and client, and the playing.

    Raises:
        BadInput: the file cannot be read, is no capture, has no markers of begin and end, or
            nothing that the server sent between them.
    """
    about, markers = Capture(str(path)), Markers(which.marker_port)
    counted: Counter[tuple[Address, Address]] = Counter()
    for one in capture.passing(path, about, markers.order):
        markers.add(one)
        is_played = len(markers.tasks) == 1 and markers.tasks[0].end_ns is None
        ends = one.source, one.destination
        if is_played and which.has(one) and (ends in counted or len(counted) < MOST_PAIRS):
            counted[ends] += one.size
    task = markers.required(about)[0]
    if task.end_ns is None:
        why = about.cut or "weir observe desktop mark end"
        raise BadInput(f"{path} has no marker that ends the clip: {why}")
    seconds = (task.end_ns - task.begin_ns) / 1e9
    server, client = which.chosen(about)
    if not counted[server, client]:
        raise BadInput(
            f"{path} has nothing that {server} sent to {client} between the clip's markers; are "
            "these the desktop's (--server, --client, --port)?"
        )
    return about, (server, client), Playback(counted[server, client], seconds, ideal_fps)
