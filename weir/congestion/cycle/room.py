"""Room on a path that nobody else uses: what takes it, and what speaks against being alone."""

import math
import time
from collections.abc import Sequence

from weir.congestion.choice.response import streams_to_fill
from weir.congestion.cycle.opening import Opening
from weir.congestion.cycle.sender import Sender
from weir.congestion.path import PathReader, PathState
from weir.probe.sample import Sample
from weir.probe.tcp_info import TcpInfo

_MORE = 4  # times as many streams, where some of the path is unused
_EVENTS = 3  # losses that tell how many streams it takes
_SEVERAL_S = 60.0  # several streams would not notice one more: after so long it is listened for
_LOOK_S = 0.04  # looks that come together tell no more than one
_ENDING_S = 5.0  # with less than this to go nobody falls silent


class Room:
    """Reads the path while a transfer sends on it.

    Args:
        sender: has the transfer.

    Attributes:
        opening: of a path on which nobody showed; None where somebody did, or may have.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._path = PathReader()
        self._looked_s = -math.inf
        self._connections: list[TcpInfo] = []
        self.opening: Opening | None = None

    @property
    def path(self) -> PathState | None:
        """What is known of it."""
        return self._path.state

    @property
    def is_held(self) -> bool:
        """Whether files, or the receiver, and not the path are the limit by now.

        What is heard beside such a stream is not heard beside one that sends all it can, and no
        control would get it more.
        """
        return self._path.is_held

    def begin_anew(self) -> None:
        """Beside others it tells something else: what was known is so no more."""
        self.opening, self._path = None, PathReader()

    def look(self) -> list[TcpInfo]:
        """Takes a look, unless the last one was just now; the connections as they are."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            self._connections = self._sender.connections.look()
            self._path.sees(now_s, self._connections)
        return self._connections

    def doubts(self, samples: Sequence[Sample], seconds: float) -> str | None:
        """What speaks against being alone where nobody was, after so long without a doubt."""
        if self.opening and samples and self.opening.shows_others(samples):
            return "the round-trip time is less than before the first byte"
        path, streams = self.path, self._sender.streams
        if streams == 1 or path is None:
            return None
        if 8 * self._sender.transfer.remaining.count < _ENDING_S * path.goodput_bps:
            return None  # it is over before silence would tell, and its end looks like others
        if path.use == "shared":
            return "a queue stands that is not ours"
        return f"{streams} streams would not notice others" if seconds > _SEVERAL_S else None

    def more_streams(self, path: PathState) -> int:
        """How many may use what one control leaves unused; as many as now where none can join."""
        streams = self._sender.streams
        if not self._sender.transfer.can_join:
            return streams
        most = streams_to_fill(self._sender.control, path)
        if self.opening and path.loss_events >= _EVENTS:
            return max(streams, most)
        return max(streams, min(most, _MORE * streams))
