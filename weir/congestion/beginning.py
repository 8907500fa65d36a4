"""The beginning of a transfer that sends as soon as it is connected, and what that shows.

`weir.congestion.opening` says what a silence tells; here one is heard, for nothing, while the
connections are made, and the file goes on meanwhile.
"""

import contextlib
import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from weir.congestion.choice.decide import Recognised
from weir.congestion.opening import RATE_HZ, SILENT_LEAST, Opening
from weir.congestion.room import Room
from weir.congestion.sender import Sender
from weir.errors import WeirError
from weir.probe.echo import Target, echo_to
from weir.probe.probe import Probe
from weir.probe.sample import Sample
from weir.probe.sampling import Plan

_LOOKS_EVERY = 5  # samples of the opening: the kernel's counters are read 20 times a second


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


def begin(host: str, udp: int | None, sender: Sender, room: Room) -> Begun | None:
    """Sends, and learns where nobody else is; None where others have to be heard.

    A transfer that was made paused sends as soon as it is connected, whoever is there.
    """
    plan = Plan(rate_hz=Fraction(RATE_HZ), requests=1, seconds=None)
    # What goes wrong here does so again when the path is probed, and is told then.
    with contextlib.suppress(WeirError):
        target = Target.resolve(host)
        with Probe(target, echo_to(target, udp), plan) as probe:
            return _learn(Opening(), probe, sender, room)
    return None


def _learn(opening: Opening, probe: Iterable[Sample], sender: Sender, room: Room) -> Begun | None:
    """Who is there, from samples that begin before the first byte."""
    begin_s: float | None = None
    seen: list[Sample] = []
    for sample in probe:
        if sender.is_over:
            return None
        seen.append(sample)
        if begin_s is None:
            if not sender.transfer.tcp_info():
                opening.hears_silence(sample)
                continue
            is_quiet = _was_quiet(opening, probe, sender)
            begin_s = time.monotonic()
            sender.release_pace()
            if not is_quiet:
                return None
        if opening.shows_others([sample]):
            return None
        if len(seen) % _LOOKS_EVERY:
            continue
        room.look()
        path, seconds = room.path, time.monotonic() - begin_s
        if path and path.use == "shared":
            return None
        if who := opening.finds_nobody(seconds, path):
            room.opening = opening
            return Begun(who, seen, round(seconds, 1))
    return None


def _was_quiet(opening: Opening, probe: Iterable[Sample], sender: Sender) -> bool:
    """Whether the silence before the first byte was; a short one is made a little longer."""
    missing = SILENT_LEAST - opening.silent
    if missing > 0 and not sender.is_small:
        sender.fall_silent()
        for sample in itertools.islice(probe, missing + 1):
            opening.hears_silence(sample)
    return opening.was_quiet
