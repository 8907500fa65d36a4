"""A desktop's picture by VP8 over RTP: UDP that repairs itself, as PCoIP and WebRTC have it.

GStreamer's programs do all of it. What is lost is asked for (NACK, RFC 4585) and sent again on a
stream of its own (RFC 4588); what stays lost makes the receiver ask for a whole picture (PLI). The
quality is constant, so that a change is one frame, and a frame without change a few bytes.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from studies.rig.desktop import card, gstreamer
from studies.rig.desktop.pictures import Pixels
from weir.errors import Unavailable

_ELEMENTS = ("ximagesrc", "vp8enc", "rtpvp8pay", "rtprtxsend", "rtpjitterbuffer", "opusenc")
_FPS = 25
_QUANTISER = 10
"""From 0 to 63: coarse enough for a picture to be some 100 kB."""
_STILL = 8000
"""Squares within 16 by 16 pixels that nothing is sent for: what VP8's own filters change."""
PATIENCE_MS = 600
"""So long a packet is asked for, then a whole picture is."""
_KEPT_PACKETS = 4000
"""What can be sent again: several pictures."""
_PAYLOAD, _REPEATS = 96, 97
_MAP = f"application/x-rtp-pt-map,{_PAYLOAD}=(uint){_REPEATS}"
# Reports go as soon as there is something to ask for: RTP's rules would have them wait for seconds.
_SESSION = "rtpsession name=session rtp-profile=avpf bandwidth=20000000 rtcp-min-interval=10000000"
_LIMIT_S = 60.0


@dataclass(frozen=True)
class Ports:
    """Where a desktop's streams go, counted from its first.

    Attributes:
        media: the picture's packets go from this port to this port.
    """

    media: int

    @property
    def report(self) -> int:
        """What the sender says of itself, at the screen."""
        return self.media + 1

    @property
    def answer(self) -> int:
        """What the screen asks for, at the desktop."""
        return self.media + 2

    @property
    def hand(self) -> int:
        """Keys, at the desktop, over TCP."""
        return self.media + 3


def missing() -> str | None:
    """What GStreamer lacks on this machine, with the way to it; None if nothing."""
    return gstreamer.lacking(_ELEMENTS)


def sending(display: str, screen: str, ports: Ports) -> list[str]:
    """The command that sends a display's picture, 25 times a second.

    Args:
        display: of the X server.
        screen: address of the host that shows it.
        ports: where to.
    """
    return pipeline(
        _SESSION,
        f"ximagesrc display-name={display} show-pointer=false use-damage=false "
        f"endx={card.WIDTH - 1} endy={card.HEIGHT - 1} ! video/x-raw,framerate={_FPS}/1 "
        "! videoconvert ! video/x-raw,format=I420 "
        f"! vp8enc deadline=1 cpu-used=8 threads=1 lag-in-frames=0 keyframe-max-dist=1000000 "
        f"min-quantizer={_QUANTISER} max-quantizer={_QUANTISER} target-bitrate=100000000 "
        f"static-threshold={_STILL} "
        f"! rtpvp8pay pt={_PAYLOAD} picture-id-mode=2 "
        f"! rtprtxsend payload-type-map={_MAP} max-size-packets={_KEPT_PACKETS} "
        "! session.send_rtp_sink",
        f"session.send_rtp_src ! udpsink host={screen} port={ports.media} bind-port={ports.media} "
        "sync=false async=false",
        f"session.send_rtcp_src ! udpsink host={screen} port={ports.report} sync=false async=false",
        f"udpsrc port={ports.answer} ! session.recv_rtcp_sink",
    )


def receiving(desktop: str, ports: Ports) -> list[str]:
    """The command that writes every frame that comes to its standard output, as `Pixels`.

    Args:
        desktop: address of the host that sends it.
        ports: where from.
    """
    caps = (
        "application/x-rtp,media=(string)video,clock-rate=(int)90000,encoding-name=(string)VP8,"
        f"payload=(int){_PAYLOAD},rtcp-fb-nack-pli=(boolean)true"
    )
    return pipeline(
        _SESSION,
        f"udpsrc port={ports.media} buffer-size=4000000 caps={caps} ! session.recv_rtp_sink",
        f"session.recv_rtp_src ! rtprtxreceive payload-type-map={_MAP} ! rtpssrcdemux "
        f"! rtpjitterbuffer mode=none latency={PATIENCE_MS} do-lost=true do-retransmission=true "
        "rtx-next-seqnum=false faststart-min-packets=1 ! rtpptdemux "
        "! rtpvp8depay request-keyframe=true wait-for-keyframe=true ! vp8dec "
        "! videoconvert ! video/x-raw,format=BGRx ! fdsink fd=1 sync=false",
        f"session.send_rtcp_src ! udpsink host={desktop} port={ports.answer} "
        "sync=false async=false",
        f"udpsrc port={ports.report} ! session.recv_rtcp_sink",
    )


def pipeline(*parts: str) -> list[str]:
    """The command of GStreamer's that joins elements, in its own words."""
    return [gstreamer.PROGRAM, "-q", *" ".join(parts).split()]


class Screen:
    """A screen of a desktop whose frames come from a pipe.

    Args:
        desktop: address of the host that takes keys.
        port: where it does.
        frames: what `receiving` writes.
        changed: is called when `pixels` has changed.

    Attributes:
        pixels: what it shows.

    Raises:
        Unavailable: nobody takes keys.
    """

    def __init__(
        self, desktop: str, port: int, frames: BinaryIO, changed: Callable[[], None]
    ) -> None:
        self._frames, self._changed = frames, changed
        self._last = b""
        self.pixels: Pixels = np.zeros((card.HEIGHT, card.WIDTH, 4), np.uint8)
        try:
            self._hand = socket.create_connection((desktop, port), _LIMIT_S)
        except OSError as error:
            raise Unavailable(f"nobody takes keys on {desktop}: {error.strerror}") from None

    def close(self) -> None:
        """Ends it."""
        self._hand.close()
        self._frames.close()

    def key(self, character: str) -> None:
        """Presses a key and lets it go."""
        self._hand.sendall(character.encode())

    def take(self) -> None:
        """One frame.

        Raises:
            Unavailable: no more come.
        """
        size = self.pixels.nbytes
        content = self._frames.read(size)
        if len(content) < size:
            raise Unavailable("the stream of frames ended")
        if content != self._last:
            self._last = content
            self.pixels = np.frombuffer(content, np.uint8).reshape(self.pixels.shape)
            self._changed()
