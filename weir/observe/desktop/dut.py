"""VD-DUT: when a display was brought up to date, told by the server's packets (000-spec 5.3.1).

A task begins with a marker packet. Of what the server sends then, packets of more than SIZE bytes
are display updates, and the update has ended with the last of them before a pause longer than GAP.
"""

import bisect
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.errors import BadInput
from weir.observe.desktop import capture
from weir.observe.desktop.capture import TCP, UDP, Address, Capture, Packet
from weir.printable import printable

START, END = b"weir-start", b"weir-end"
"""What a marker's data begin with; behind it and a space may stand the task's name."""
MARKER_PORT = 5300
_DAY_NS = 86_400_000_000_000
MOST_TASKS = 100_000
_MOST_KEPT = 300_000
"""So many updates, connections and ranges of their bytes are kept at once."""


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


class Markers:
    """The tasks that marker packets tell of, as they pass.

    A marker is a UDP packet to the port. It ends the task under way if its data begin with
    `weir-end`; any other begins one.

    Args:
        port: of markers.

    Attributes:
        tasks: so far, in their order.
    """

    def __init__(self, port: int = MARKER_PORT) -> None:
        self._port = port
        self.tasks: list[Task] = []
        self._is_short = False

    def has(self, one: Packet) -> bool:
        """Whether a packet is a marker."""
        return one.protocol == UDP and one.ports[1] == self._port

    def order(self, one: Packet) -> int:
        """What packets are put in the order of: a marker stands before others of its time."""
        return 2 * one.at_ns + (not self.has(one))

    def add(self, one: Packet) -> None:
        """Takes a packet, which may be a marker.

        Raises:
            BadInput: there are too many tasks.
        """
        if not self.has(one):
            return
        self._is_short |= len(one.payload) < min(one.length, len(END))
        word, _, label = one.payload.partition(b" ")
        if word.rstrip(b"\0\n") == END:
            if self.tasks and self.tasks[-1].end_ns is None:
                last = self.tasks[-1]
                self.tasks[-1] = Task(last.begin_ns, last.label, one.at_ns)
            return
        if len(self.tasks) == MOST_TASKS:
            raise BadInput(
                f"more than {MOST_TASKS} packets to UDP port {self._port}: are these markers? "
                "Give theirs by --marker-port, or the tasks' times by --tasks FILE"
            )
        name = label.decode(errors="replace").strip("\0\n") if word == START else ""
        self.tasks.append(Task(one.at_ns, printable(name)))

    def required(self, of: Capture) -> list[Task]:
        """The tasks of a capture, all of whose packets were taken.

        Raises:
            BadInput: it has none, or not enough of each; says of an encrypted tunnel that it hides
                them.
        """
        if self._is_short:
            raise BadInput(
                f"{of.name} has not kept the data of its markers, so that begins and ends of "
                "tasks are alike; capture 96 bytes of each packet, or give the tasks' times by "
                "--tasks FILE"
            )
        if self.tasks:
            return self.tasks
        tunnel = of.tunnel()
        if tunnel is not None:
            raise BadInput(
                f"{of.name} shows a tunnel ({tunnel}), in which markers cannot be seen; capture "
                "before the tunnel, or give the tasks' times by --tasks FILE"
            )
        raise BadInput(
            f"{of.name} has no marker packets (UDP to port {self._port}); send them by weir "
            "observe desktop mark, or give the tasks' times by --tasks FILE"
        )


def tasks(packets: Iterable[Packet], port: int = MARKER_PORT) -> list[Task]:
    """The tasks that marker packets tell of, in the order of their times."""
    found = Markers(port)
    for one in packets:
        found.add(one)
    return found.tasks


def _begin(task: Task) -> int:
    return task.begin_ns


@dataclass(slots=True)
class _Drawn:
    """What has passed of an update."""

    packets: int
    bytes: int
    first_ns: int
    last_ns: int
    fresh_ns: int | None


class Updates:
    """The updates of one desktop, as its packets pass.

    Args:
        rule: what counts.
        done: the tasks, in the order of their times; those that begin later may be added later.
        kept: told how much more is kept for good.
    """

    def __init__(
        self, rule: Rule, done: Sequence[Task], kept: Callable[[int], None] = lambda more: None
    ) -> None:
        self._rule, self._tasks, self._kept = rule, done, kept
        self._fresh = _Fresh(kept)
        self._drawn: dict[int, _Drawn] = {}
        self._number = -1
        self._has_ended = False

    def add(self, one: Packet) -> None:
        """Takes a packet that the server sent to the client; in the order of their times."""
        if one.size <= self._rule.size:
            return
        is_fresh, at_ns = self._fresh.add(one), one.at_ns
        number = self._number
        if number + 1 < len(self._tasks) and self._tasks[number + 1].begin_ns <= at_ns:
            number = bisect.bisect_right(self._tasks, at_ns, number + 1, key=_begin) - 1
        drawn = self._drawn.get(number)
        if number != self._number or drawn is None:
            self._number, self._has_ended = number, number < 0
            if number >= 0:
                self._kept(1)
                fresh_ns = at_ns if is_fresh else None
                self._drawn[number] = _Drawn(1, one.size, at_ns, at_ns, fresh_ns)
            return
        self._has_ended |= at_ns - drawn.last_ns > self._rule.gap_ns
        if not self._has_ended:
            drawn.packets += 1
            drawn.bytes += one.size
            drawn.last_ns = at_ns
            if is_fresh:
                drawn.fresh_ns = at_ns

    def found(self, until_ns: int) -> list[Update]:
        """The update of each task, when all packets were taken.

        Args:
            until_ns: how long was captured: until the last packet, or longer.
        """
        return [self._update(number, until_ns) for number in range(len(self._tasks))]

    def _update(self, number: int, until_ns: int) -> Update:
        task, drawn = self._tasks[number], self._drawn.get(number)
        if drawn is None:
            return Update(task, partial="" if until_ns > task.begin_ns else _NOTHING)
        is_last = number + 1 == len(self._tasks)
        end_ns = until_ns if is_last else self._tasks[number + 1].begin_ns
        return Update(
            task,
            drawn.packets,
            drawn.bytes,
            drawn.first_ns,
            drawn.last_ns,
            drawn.last_ns if drawn.fresh_ns is None else drawn.fresh_ns,
            _unsettled(end_ns - drawn.last_ns, self._rule, is_last),
        )


def updates(
    packets: Iterable[Packet], done: Sequence[Task], rule: Rule, until_ns: int | None = None
) -> list[Update]:
    """The update of each task.

    Args:
        packets: what the server sent to the client, in the order of their times.
        done: the tasks, in the order of their times.
        rule: what counts.
        until_ns: how long was captured; None for as long as there are packets.
    """
    found, last_ns = Updates(rule, done), 0
    for one in packets:
        found.add(one)
        last_ns = max(last_ns, one.at_ns)
    return found.found(last_ns if until_ns is None else until_ns)


@dataclass(frozen=True, slots=True)
class Which:
    """Whose packets count.

    Attributes:
        ends: server and client; None for who sends most, and whom to.
        port: the server's; None for all.
        marker_port: that markers go to, which are no part of what the server sends.
    """

    ends: tuple[Address, Address] | None = None
    port: int | None = None
    marker_port: int = MARKER_PORT

    def has(self, one: Packet) -> bool:
        """Whether it may be one of them."""
        return (
            (self.ends is None or (one.source, one.destination) == self.ends)
            and (self.port is None or one.ports[0] == self.port)
            and one.ports[1] != self.marker_port
        )

    def chosen(self, of: Capture) -> tuple[Address, Address]:
        """Server and client.

        Raises:
            BadInput: nobody is told, and there is nobody to choose.
        """
        return of.busiest() if self.ends is None else self.ends


def of_file(
    path: Path, which: Which, rule: Rule, done: Sequence[Task] | None = None
) -> tuple[Capture, tuple[Address, Address], list[Update]]:
    """The updates of a capture file, which may be larger than memory.

    Args:
        path: of the file.
        which: whose packets count.
        rule: what does.
        done: the tasks, in the order of their times; None for those of marker packets.

    Returns:
        What is in the file, server and client, and the update of each task.

    Raises:
        BadInput: it cannot be read, is no capture, has no tasks, too much of anything, or nothing
            that the server sent.
    """
    about, markers = Capture(str(path)), Markers(which.marker_port)
    kept = 0

    def keep(more: int) -> None:
        nonlocal kept
        kept += more
        if kept > _MOST_KEPT:
            raise BadInput(
                f"{path} has too many updates, connections and lost packets to keep; give --server "
                "and --client, or cut it to a shorter time (editcap -A BEGIN -B END)"
            )

    known: Sequence[Task] = markers.tasks if done is None else done
    flows: dict[tuple[Address, Address], Updates] = {}
    for one in capture.passing(path, about, markers.order):
        if done is None:
            markers.add(one)
        if which.has(one):
            ends = one.source, one.destination
            flow = flows.get(ends)
            if flow is None:
                keep(1)
                flow = flows[ends] = Updates(rule, known, keep)
            flow.add(one)
    if done is None:
        markers.required(about)
    server, client = which.chosen(about)
    if (server, client) not in flows:
        of = "" if which.port is None else f", port {which.port},"
        raise BadInput(f"{path} has nothing that {server}{of} sent to {client}")
    return about, (server, client), flows[server, client].found(about.last_ns)


_NOTHING = "the capture ends with the marker"


def _unsettled(pause_ns: int, rule: Rule, is_last: bool) -> str:
    """Why an update that is followed by so long a pause may have gone on."""
    if pause_ns > rule.gap_ns:
        return ""
    return "the capture ends within it" if is_last else "the next task began within it"


def fresh(packets: Iterable[Packet]) -> list[bool]:
    """Whether each packet has data that no earlier one had: by TCP's sequence numbers.

    True of all that is not TCP. Where the tap stands behind all that loses packets, one that has
    nothing fresh changed nothing at the client.
    """
    seen = _Fresh()
    return [seen.add(one) for one in packets]


class _Fresh:
    """What has been seen of each connection, packet by packet."""

    def __init__(self, kept: Callable[[int], None] = lambda more: None) -> None:
        self._seen: dict[object, _Seen] = {}
        self._kept = kept

    def add(self, one: Packet) -> bool:
        """Whether it has data that no earlier one had."""
        if one.protocol != TCP or one.sequence is None:
            return True
        key = one.source, one.destination, one.ports
        seen = self._seen.get(key)
        if seen is None:
            self._kept(1)
            seen = self._seen[key] = _Seen(one.sequence)
        before = len(seen)
        is_fresh = seen.add(one.sequence, one.length)
        if len(seen) != before:
            self._kept(len(seen) - before)
        return is_fresh


class _Seen:
    """Which bytes of a stream have been seen: ranges in order, apart from each other."""

    def __init__(self, begin: int) -> None:
        self._last = begin
        self._begins: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._begins)

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


def is_beyond(update: Update, line_bps: float) -> bool:
    """Whether it came faster than a line of so many bit/s carries it: then that is not its line."""
    return update.dut_s is not None and update.bytes * 8 / line_bps > update.dut_s


def geometric_mean(found: Iterable[Update]) -> float | None:
    """VD-DUT's, over those that have one, as the work has it for the tasks of a run, in s."""
    times = [one.dut_s for one in found if one.dut_s]
    return statistics.geometric_mean(times) if times else None
