"""SIZE and GAP of VD-DUT, found from what a desktop sends while nobody does anything.

The work took both by eye from ten idle minutes of one product (000-spec 5.3.1): keep-alives of 110
bytes every 0.4 s, and larger packets once a minute. Another protocol has others, or none.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from weir.errors import BadInput
from weir.observe.desktop import capture
from weir.observe.desktop.capture import Capture, Packet
from weir.observe.desktop.dut import Markers, Rule, Task, Which

_ALIVE = 0.95
"""So many of the idle packets are keep-alives at least: SIZE is what these do not exceed."""
_MOST_ALIVE_BYTES = 400
"""Larger packets carry pixels."""
_ONE_BURST_NS = 100_000_000
"""Strays closer than this come together."""
_CHANCE = 0.02
"""A stray may fall so often into the pause behind an update, which it would prolong."""
_MOST_PACKETS = 1_000_000
"""An idle desktop sends some thousands."""
_LEAST_IDLE_S = 10.0
_BUSY_HZ = 1.0
"""Bursts a second from which on a display is not idle."""
_MARGIN = 1.25
"""GAP is this much longer than the longest pause within an update."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was found.

    Attributes:
        rule: SIZE and GAP.
        idle_s: how long the idle part was.
        idle_packets: how many packets the server sent in it.
        strays: of them larger than SIZE.
        bursts: in which these came.
        most_gap_s: a longer GAP would take strays for part of an update too often; None if there
            were none.
        pauses_s: pauses within updates, the longest last; empty where no tasks were shown.
        warnings: what is doubtful, in words.
    """

    rule: Rule
    idle_s: float
    idle_packets: int
    strays: int
    bursts: int
    most_gap_s: float | None
    pauses_s: tuple[float, ...]
    warnings: tuple[str, ...]


def calibrate(
    idle: Sequence[Packet],
    idle_s: float,
    updates: Sequence[Packet] = (),
    tasks: Sequence[Task] = (),
) -> Calibration:
    """SIZE and GAP for a desktop.

    Args:
        idle: what the server sent to the client while nobody did anything.
        idle_s: how long that was, in s.
        updates: what it sent while tasks were done, at the worst loss that is to be measured.
        tasks: those tasks.

    Raises:
        BadInput: too short, or the display is not idle.
    """
    if idle_s < _LEAST_IDLE_S:
        raise BadInput(
            f"an idle part of {idle_s:.1f} s tells nothing; leave the desktop alone for a minute, "
            f"{_LEAST_IDLE_S:g} s at least"
        )
    size = _size(idle)
    if size > _MOST_ALIVE_BYTES:
        raise BadInput(
            f"no idle part: packets of {size} bytes are no keep-alives but updates; stop what "
            "changes the display by itself, or show another part"
        )
    strays = [one.at_ns for one in idle if one.size > size]
    bursts = _bursts(strays)
    if bursts > _BUSY_HZ * idle_s:
        raise BadInput(
            f"no idle part: {bursts} bursts of large packets in {idle_s:.0f} s; stop what "
            "changes the display by itself (a clock, a cursor that blinks), or show another part"
        )
    most_s = _CHANCE * idle_s / bursts if bursts else None
    pauses = _pauses(updates, tasks, size, most_s)
    gap_s, warnings = _gap(most_s, pauses)
    if not idle:
        warnings = (*warnings, "the idle server sent nothing: SIZE is the work's")
    rule = Rule(size, round(gap_s * 1e9))
    found = (idle_s, len(idle), len(strays), bursts, most_s, tuple(pauses), warnings)
    return Calibration(rule, *found)


def of_files(idle: Path, updates: Path | None, which: Which) -> tuple[Calibration, list[Capture]]:
    """SIZE and GAP from captures of an idle desktop and, if there is one, of tasks.

    Returns:
        Them, and what is in each file.

    Raises:
        BadInput: a file cannot be read, is no capture, has too many packets, or the second has no
            markers; or as `calibrate` has it.
    """
    markers = Markers(which.marker_port)

    def keep(one: Packet) -> bool:
        return which.has(one) or markers.has(one)

    read = [capture.read(one, _MOST_PACKETS, keep) for one in (idle, updates) if one]
    busy, tasks = read[-1], list[Task]()
    if updates:
        for one in busy.packets:
            markers.add(one)
        tasks = markers.required(busy)
    ours = replace(which, ends=which.chosen(busy))
    sent = [[one for one in file.packets if ours.has(one)] for file in read]
    return calibrate(sent[0], read[0].seconds, sent[1] if updates else (), tasks), read


def _size(idle: Sequence[Packet]) -> int:
    """The least size that nearly all idle packets do not exceed."""
    sizes = sorted(one.size for one in idle)
    return sizes[int(_ALIVE * (len(sizes) - 1))] if sizes else Rule().size


def _bursts(times: Sequence[int]) -> int:
    later = sum(after - before > _ONE_BURST_NS for before, after in itertools.pairwise(times))
    return later + 1 if times else 0


def _pauses(
    updates: Sequence[Packet], tasks: Sequence[Task], size: int, most_s: float | None
) -> list[float]:
    """Between large packets of one task, in s, in order; beyond `most_s` they are not within."""
    begins = [one.begin_ns for one in tasks]
    found = []
    for begin, end in itertools.pairwise([*begins, float("inf")]):
        times = [one.at_ns for one in updates if one.size > size and begin <= one.at_ns < end]
        found += [(after - before) / 1e9 for before, after in itertools.pairwise(times)]
    longest = min(most_s if most_s is not None else _HUMAN_S, _HUMAN_S)
    return sorted(one for one in found if one <= longest)


_HUMAN_S = 3.0
"""Tasks are taken to be further apart than this."""


def _gap(most_s: float | None, pauses: Sequence[float]) -> tuple[float, tuple[str, ...]]:
    """GAP, and what is doubtful about it."""
    wanted = max(Rule().gap_ns / 1e9, _MARGIN * pauses[-1] if pauses else 0.0)
    if most_s is None or wanted <= most_s:
        return wanted, ()
    return most_s, (
        f"a pause of {wanted:.2f} s would be safe for updates, but large packets of the idle "
        f"desktop come too often for more than {most_s:.2f} s",
    )
