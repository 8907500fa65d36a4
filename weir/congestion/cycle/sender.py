"""The transfer in the hands of what chooses for it: its pace, its silence, what it sends under."""

import threading
import time

from weir import kernel_controls
from weir._core import Rate
from weir.probe.connections import Connections
from weir.transfer import PAUSED, Transfer

LOOK_S = 0.25
"""Between two looks at the kernel's counters."""
_LARGE_BYTES = 100_000_000  # what is smaller may be over by the time that a silence would begin
_DRAIN_S = 5.0  # for what was on its way when the transfer fell silent


class Sender:
    """Holds a transfer's pace back while something else is to be sent, or nothing.

    Args:
        transfer: the transfer.
        control: what it was made with; None is the host's default.
        pace: what it is to be paced at; None is unpaced.
        ended: is set when the selection is to end.

    Attributes:
        connections: of the transfer, as the kernel sees them.
        control: the congestion control that was chosen last.
        streams: so many were chosen last.
        is_held: whether the pace waits for the end of a probing.
    """

    def __init__(
        self, transfer: Transfer, control: str | None, pace: Rate | None, ended: threading.Event
    ) -> None:
        self.transfer = transfer
        self.connections = Connections(transfer)
        self.control = control or kernel_controls.default()
        self.streams = 1
        self.is_held = True
        self._pace = pace
        self._pacing = threading.Lock()
        self._ended = ended

    @property
    def pace(self) -> Rate | None:
        """The transfer's pace, or what it will be; None is unpaced."""
        return self._pace

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to choose for."""
        return self._ended.is_set() or self.transfer.is_over

    @property
    def has_sent(self) -> bool:
        """Whether anything of the files is on its way, or was."""
        progress = self.transfer.progress()
        return progress.bytes_done > progress.bytes_resumed

    @property
    def is_small(self) -> bool:
        """Whether what is left may be over before a silence is."""
        return self.transfer.remaining.count < _LARGE_BYTES

    def wait(self, seconds: float) -> None:
        """Waits, or until the selection is to end."""
        self._ended.wait(seconds)

    def set_pace(self, pace: Rate | None) -> None:
        """The pace from now on, or from when it is no longer held back."""
        with self._pacing:
            self._pace = pace
            if not self.is_held:
                self.transfer.set_rate(pace)

    def hold_pace(self) -> None:
        """Keeps the pace back: what the transfer sends is somebody else's to say."""
        with self._pacing:
            self.is_held = True

    def release_pace(self) -> None:
        """Lets it send at its pace."""
        with self._pacing:
            self.is_held = False
            self.transfer.set_rate(self._pace)

    def fall_silent(self) -> None:
        """Waits until nothing of the transfer is on its way, or for as long as is worth it."""
        self.transfer.set_rate(PAUSED)
        end_s = time.monotonic() + _DRAIN_S
        while time.monotonic() < end_s and not self._ended.wait(LOOK_S / 5):
            connections = self.connections.look()
            if not any(info.in_flight_packets or info.unsent_bytes for info in connections):
                return

    def unpaced_streams(self) -> int:
        """How many streams send all they can; none where there is a pace. Waits for the first."""
        while not (connections := self.connections.look()) and not self.is_over:
            self._ended.wait(LOOK_S / 5)
        return len(connections) if self._pace is None else 0

    def take(self, control: str, streams: int) -> None:
        """Sends under this control, on so many streams, from now on."""
        self.transfer.set_congestion(control)
        self.control = control
        if streams != self.streams:
            self.transfer.set_streams(streams)
            self.streams = streams

    def start_anew(self) -> None:
        """Sends on new connections, which know nothing of how little the present ones had."""
        if self.has_sent:
            self.transfer.renew_streams()
