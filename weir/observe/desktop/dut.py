"""VD-DUT: when a display was brought up to date, told by the server's packets (000-spec 5.3.1).

A task begins with a marker packet. Of what the server sends then, packets of more than SIZE bytes
are display updates, and the update has ended with the last of them before a pause longer than GAP.
"""

import bisect
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weir.errors import BadInput
from weir.observe.desktop.capture import TCP, UDP, Capture, Packet
from weir.printable import printable

START, END = b"weir-start", b"weir-end"
"""What a marker's data begin with; behind it and a space may stand the task's name."""
MARKER_PORT = 5300
_DAY_NS = 86_400_000_000_000


@dataclass(frozen=True, slots=True)
class Rule:
    """What counts as part of an update.

    Attributes:
        size: packets have to be larger, in bytes of an Ethernet frame.
        gap_ns: a longer pause between two of them ends the update.
    """

    size: int = 110
    gap_ns: int = 500_000_000

    def __post_init__(self) -> None:
        """Sees that they mean something.

        Raises:
            BadInput: a negative size, or a pause that is none or longer than a day.
        """
        if self.size < 0 or not 0 < self.gap_ns <= _DAY_NS:
            raise BadInput("SIZE is 0 or more, GAP more than 0 s and up to a day")


@dataclass(frozen=True, slots=True)
class Task:
    """What somebody did at the desktop.

    Attributes:
        begin_ns: when it began.
        label: its name; may be empty.
        end_ns: when the server took it for done (RT-Marker); None if no marker told.
    """

    begin_ns: int
    label: str = ""
    end_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """The display's update after a task.

    Attributes:
        task: what caused it.
        packets: of the update.
        bytes: of those packets.
        first_ns: when its first packet passed; None if there was none.
        last_ns: when its last packet passed, and so ends VD-DUT.
        fresh_ns: when the last one passed that brought data not seen before; as `last_ns` where
            the protocol does not number its data.
        partial: why it may have gone on; empty when it has ended.
    """

    task: Task
    packets: int = 0
    bytes: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    fresh_ns: int | None = None
    partial: str = ""

    @property
    def dut_s(self) -> float | None:
        """VD-DUT; None where it is undefined: nothing large was sent."""
        return None if self.last_ns is None else (self.last_ns - self.task.begin_ns) / 1e9

    @property
    def fresh_dut_s(self) -> float | None:
        """The same without what TCP sent again though the tap had seen it pass."""
        return None if self.fresh_ns is None else (self.fresh_ns - self.task.begin_ns) / 1e9

    @property
    def server_s(self) -> float | None:
        """RT-Marker: how long the server took, as its markers say."""
        end_ns = self.task.end_ns
        return None if end_ns is None else (end_ns - self.task.begin_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Parts:
    """What an update's time went to (eq. 5.1), in s.

    Attributes:
        processing: until the server took the task for done.
        transmission: of the update's bytes at the line's rate.
        rest: what is left: packets sent again, waiting, and what the client does about them.
    """

    processing: float
    transmission: float
    rest: float


def tasks(packets: Iterable[Packet], port: int = MARKER_PORT) -> list[Task]:
    """The tasks that marker packets tell of.

    A marker is a UDP packet to `port`. It ends the task under way if its data begin with
    `weir-end`; any other begins one.
    """
    found: list[Task] = []
    for one in packets:
        if one.protocol != UDP or one.ports[1] != port:
            continue
        word, _, label = one.payload.partition(b" ")
        if word.rstrip(b"\0\n") == END:
            if found and found[-1].end_ns is None:
                found[-1] = Task(found[-1].begin_ns, found[-1].label, one.at_ns)
        else:
            name = label.decode(errors="replace").strip("\0\n") if word == START else ""
            found.append(Task(one.at_ns, printable(name)))
    return found


def updates(
    packets: Sequence[Packet], done: Sequence[Task], rule: Rule, until_ns: int | None = None
) -> list[Update]:
    """The update of each task.

    Args:
        packets: what the server sent to the client, in the order of their times.
        done: the tasks, in the order of their times.
        rule: what counts.
        until_ns: how long was captured; None for as long as there are packets.
    """
    large = [one for one in packets if one.size > rule.size]
    is_fresh = fresh(large)
    times = [one.at_ns for one in large]
    if until_ns is None:
        until_ns = max((one.at_ns for one in packets), default=0)
    found = []
    for number, task in enumerate(done):
        is_last = number + 1 == len(done)
        end_ns = until_ns if is_last else done[number + 1].begin_ns
        low = bisect.bisect_left(times, task.begin_ns)
        high = bisect.bisect_right(times, end_ns) if is_last else bisect.bisect_left(times, end_ns)
        stop = next(
            (at for at in range(low + 1, high) if times[at] - times[at - 1] > rule.gap_ns), high
        )
        if low >= high:
            found.append(Update(task, partial="" if until_ns > task.begin_ns else _NOTHING))
            continue
        news = [at for at in range(low, stop) if is_fresh[at]]
        found.append(
            Update(
                task,
                stop - low,
                sum(one.size for one in large[low:stop]),
                times[low],
                times[stop - 1],
                times[news[-1]] if news else times[stop - 1],
                _unsettled(end_ns - times[stop - 1], rule, is_last),
            )
        )
    return found


_NOTHING = "the capture ends with the marker"


def _unsettled(pause_ns: int, rule: Rule, is_last: bool) -> str:
    """Why an update that is followed by so long a pause may have gone on."""
    if pause_ns > rule.gap_ns:
        return ""
    return "the capture ends within it" if is_last else "the next task began within it"


def fresh(packets: Sequence[Packet]) -> list[bool]:
    """Whether each packet has data that no earlier one had: by TCP's sequence numbers.

    True of all that is not TCP. Where the tap stands behind all that loses packets, one that has
    nothing fresh changed nothing at the client.
    """
    seen: dict[object, _Seen] = {}
    answer = []
    for one in packets:
        if one.protocol != TCP or one.sequence is None:
            answer.append(True)
            continue
        key = one.source, one.destination, one.ports
        answer.append(seen.setdefault(key, _Seen(one.sequence)).add(one.sequence, one.length))
    return answer


class _Seen:
    """Which bytes of a stream have been seen: ranges in order, apart from each other."""

    def __init__(self, begin: int) -> None:
        self._last = begin
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, sequence: int, length: int) -> bool:
        """Whether one of these bytes is new; from then on none is."""
        # Sequence numbers begin anew after 2**32: the one nearest to the last is meant.
        begin = self._last + (sequence - self._last + (1 << 31)) % (1 << 32) - (1 << 31)
        end, self._last = begin + length, begin
        low = bisect.bisect_left(self._ends, begin)
        high = bisect.bisect_right(self._begins, end)
        if low < high and self._begins[low] <= begin and end <= self._ends[low]:
            return False
        if low < high:
            begin = min(begin, self._begins[low])
            end = max(end, self._ends[high - 1])
        self._begins[low:high], self._ends[low:high] = [begin], [end]
        return length > 0


def parts(update: Update, line_bps: float, processing_s: float | None = None) -> Parts | None:
    """Where an update's time went; None where it or the server's time is undefined.

    Args:
        update: which.
        line_bps: rate of the client's line, in bit/s; more than 0.
        processing_s: until the server took the task for done; None for what the markers say.
    """
    took_s = update.server_s if processing_s is None else processing_s
    if update.dut_s is None or took_s is None:
        return None
    transmission = update.bytes * 8 / line_bps
    return Parts(took_s, transmission, update.dut_s - took_s - transmission)


def geometric_mean(found: Iterable[Update]) -> float | None:
    """VD-DUT's, over those that have one, as the work has it for the tasks of a run, in s."""
    times = [one.dut_s for one in found if one.dut_s]
    return statistics.geometric_mean(times) if times else None


def require_tasks(capture: Capture, port: int) -> list[Task]:
    """The tasks of a capture.

    Raises:
        BadInput: it has none, or not enough of each; says of an encrypted tunnel that it hides
            them.
    """
    markers = [one for one in capture.packets if one.protocol == UDP and one.ports[1] == port]
    if any(len(one.payload) < min(one.length, len(END)) for one in markers):
        raise BadInput(
            f"{capture.name} has not kept the data of its markers, so that begins and ends of "
            "tasks are alike; capture 96 bytes of each packet, or give the tasks' times by "
            "--tasks FILE"
        )
    found = tasks(markers, port)
    if found:
        return found
    tunnel = capture.tunnel()
    if tunnel is not None:
        raise BadInput(
            f"{capture.name} shows a tunnel ({tunnel}), in which markers cannot be seen; capture "
            "before the tunnel, or give the tasks' times by --tasks FILE"
        )
    raise BadInput(
        f"{capture.name} has no marker packets (UDP to port {port}); send them by weir observe "
        "desktop mark, or give the tasks' times by --tasks FILE"
    )
