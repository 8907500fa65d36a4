"""The beginning of a transfer that sends as soon as it is connected, and what that shows.

`opening` says what a silence tells; here one is heard, for nothing, while the connections are made,
and the file goes on meanwhile. It waits neither for an answer, which may be lost, nor for a name to
be resolved. On a near path that silence is too short; one is made there, of a tenth of a second,
where the path has room that the file's control does not take.
"""

import time
from dataclasses import dataclass

from weir.congestion.choice.decide import Recognised
from weir.congestion.cycle.opening import OPENING_S, Nobody, Opening
from weir.congestion.cycle.room import Room
from weir.congestion.cycle.samples import SILENT_LEAST, Samples
from weir.congestion.cycle.sender import Sender
from weir.congestion.path import path_words
from weir.errors import WeirError
from weir.probe.sample import Sample

_STEP_S = 0.005  # at most so much later than it may the file begins
_LOOK_S = 0.05  # between two looks at the kernel's counters
_OTHERS_S = OPENING_S + 2.0  # where nobody has not shown by then others are to be heard
_PAUSE_MAX_S = 0.5  # for a silence that is made: what answers more slowly is no near path


@dataclass(frozen=True, slots=True)
class Begun:
    """A path that was quiet before the first byte and has shown nobody since.

    Attributes:
        who: nobody, and why.
        samples: all of them.
        seconds: since the first byte.
    """

    who: Recognised
    samples: list[Sample]
    seconds: float


def begin(silence: Samples, sender: Sender, room: Room) -> Begun | None:
    """Sends, and learns where nobody else is; None where others have to be heard.

    A transfer that was made paused sends as soon as it is connected, whoever is there.

    Args:
        silence: samples from before the connections are made on; ended here.
        sender: has the transfer.
        room: reads the path once it sends.
    """
    with silence:
        beginning = _Beginning(silence, sender)
        opening = beginning.opening
        while not sender.is_over and not beginning.is_decided:
            beginning.sees()
            if beginning.begun_s is None:
                continue
            seconds = time.monotonic() - beginning.begun_s
            room.look()
            if not beginning.is_quiet:
                continue
            path = room.path
            if path and path.use == "shared":
                return None
            if seconds >= _OTHERS_S:
                return None  # it neither shows nobody nor somebody
            if who := opening.finds_nobody(seconds, path):
                room.opening = opening
                return Begun(who, beginning.samples, round(seconds, 1))
    if opening.silent >= SILENT_LEAST or not _has_room(sender, room):
        return None
    return _pause(silence.again(), sender, room, beginning.begun_s or time.monotonic())


def _has_room(sender: Sender, room: Room) -> bool:
    """Whether the path has room, as far as its counters show in the first seconds."""
    end_s = time.monotonic() + OPENING_S
    while time.monotonic() < end_s and not sender.is_over:
        room.look()
        if room.path and room.path.use in ("room", "shared"):
            return room.path.use == "room"
        sender.wait(_LOOK_S)
    return False


def _pause(silence: Samples, sender: Sender, room: Room, begun_s: float) -> Begun | None:
    """Falls silent for as long as it takes to hear that nobody else is there; None if somebody is.

    The path has room, which is told as the reason.
    """
    path, opening, samples = room.path, Opening(), []
    sender.hold_pace()
    sender.fall_silent()
    end_s = time.monotonic() + _PAUSE_MAX_S
    try:
        with silence:
            while opening.silent < SILENT_LEAST and time.monotonic() < end_s and not sender.is_over:
                if sample := silence.take(_LOOK_S):
                    samples.append(sample)
                    opening.hears_silence(sample)
    except WeirError:
        return None  # it goes wrong again when the path is probed, and is told then
    finally:
        sender.release_pace()
    if path is None or not opening.was_quiet:
        return None
    room.opening = opening
    return Begun(Nobody(path_words(path)), samples, round(time.monotonic() - begun_s, 1))


class _Beginning:
    """Takes the samples as they come, and lets the transfer send once it is connected.

    Attributes:
        opening: what the silence tells.
        samples: all so far.
        begun_s: when it was let send, on the monotonic clock; None until then.
        is_quiet: whether the silence was, as far as is known.
        is_decided: whether others were heard, or cannot be.
    """

    def __init__(self, silence: Samples, sender: Sender) -> None:
        self._silence, self._sender = silence, sender
        self._silent_ns = time.monotonic_ns()  # by then nothing of the file was on its way
        self.opening = Opening()
        self.samples: list[Sample] = []
        self.begun_s: float | None = None
        self.is_quiet = self.is_decided = False

    def sees(self) -> None:
        """Takes a look; waits for the next sample, or a moment."""
        step_s = _LOOK_S
        if self.begun_s is None:
            self._begin_if_connected()
            step_s = _STEP_S
        try:
            sample = self._silence.take(step_s)
        except WeirError:
            sample = None  # it goes wrong again when the path is probed, and is told then
        if sample:
            self._hear(sample)
        elif self._silence.is_over:
            if self.begun_s is None:
                self._sender.wait(step_s)
            else:
                self.is_decided = True

    def _begin_if_connected(self) -> None:
        if (until_ns := self._silence.until_ns) is not None:
            self._silent_ns, self.begun_s = until_ns, until_ns / 1e9
            self._sender.release_pace()
            return
        now_ns = time.monotonic_ns()
        is_connected = bool(self._sender.transfer.tcp_info())
        if not (is_connected and self._sender.has_sent):
            self._silent_ns = now_ns
        if not is_connected:
            return
        self.begun_s = time.monotonic()
        self._sender.release_pace()

    def _hear(self, sample: Sample) -> None:
        self.samples.append(sample)
        if self.begun_s is None or sample.at_ns < self._silent_ns:
            self.opening.hears_silence(sample)
            return
        self.is_quiet = self.is_quiet or self.opening.was_quiet
        self.is_decided = not self.is_quiet or self.opening.shows_others([sample])
