"""A real desktop over a lossy line: what its packets tell, beside what its screen showed.

Two hosts of the lab, joined by a line that loses packets both ways; TigerVNC's server and the test
card on one, a screen on the other. Packets are captured behind the loss, where they reach the
screen (the work's tap stood there, too: 000-spec 5.2), markers on a link of their own that loses
none. All share one clock.
"""

import contextlib
import json
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from studies.rig.desktop import card
from studies.rig.processes import Processes, module_command, weir_command
from weir import Bytes, Rate, Time
from weir.errors import Unavailable, Unsupported
from weir.lab import Lab, Scenario
from weir.lab.scenario import Bernoulli, Direction, Link, Node, Queue
from weir.observe.desktop import capture, dut, video
from weir.observe.desktop.capture import Packet
from weir.observe.desktop.dut import Rule, Task, Update

RATE, DELAY = Rate("100 Mbit/s"), Time("500 us")
"""What the line has; the delay is one way's."""
RULE = Rule(size=110, gap_ns=2_000_000_000)
"""TCP waits longer and longer for what is lost twice: PCoIP's half a second is too short."""
PAUSE_S = 2.3
"""How long the screen is still before the next task; longer than GAP."""
_FIRST_DISPLAY, _DISPLAYS = 1000, 50_000
_PORT = 5901
_DESKTOP, _SCREEN, _KEEPER = "desktop", "screen", "keeper"
_LIMIT_S = 600.0


@dataclass(frozen=True)
class Line:
    """The line between desktop and screen.

    Attributes:
        loss: the share of packets that it loses, each way.
        rate: each way.
        delay: one way.
        jitter: by which that varies at most.
    """

    loss: float = 0.0
    rate: Rate = RATE
    delay: Time = DELAY
    jitter: Time = field(default_factory=lambda: Time.from_ns(0))


@dataclass(frozen=True)
class Measured:
    """A task, as the packets, the server and the screen tell of it; times in s after its begin.

    Attributes:
        key: what was done.
        dut: VD-DUT, None where undefined.
        fresh_dut: without what was sent again though it had arrived.
        marker: RT-Marker; None where it got lost.
        server: until the server had painted.
        screen: until the screen showed all of it.
        frames: how many different pictures the screen showed whole.
        bytes: of the update's packets.
        packets: how many.
        clip_bytes: of all packets between the task's begin and its end at the server.
        partial: as `Update` has it.
    """

    key: str
    dut: float | None
    fresh_dut: float | None
    marker: float | None
    server: float
    screen: float
    frames: int
    bytes: int
    packets: int
    clip_bytes: int
    partial: str

    @property
    def error_s(self) -> float | None:
        """How much later than the screen the packets have the update's end."""
        return None if self.fresh_dut is None else self.fresh_dut - self.screen


def missing() -> str | None:
    """What a desktop needs and this machine lacks, with the way to it; None if nothing."""
    if shutil.which("Xtigervnc") is None:
        return "Xtigervnc is not installed: apt-get install tigervnc-standalone-server"
    try:
        import Xlib.display  # noqa: F401
    except ImportError:
        return 'python-xlib is not installed: pip install "weir-net[observe]"'
    return None


def carry_out(
    plan: str,
    line: Line,
    seed: int,
    told: Callable[[str], None] = lambda key: None,
    *,
    clip_s: float = 6.0,
    name: str | None = None,
) -> list[Measured]:
    """Does the tasks of a plan, one after another.

    Args:
        plan: keys of the test card.
        line: between desktop and screen.
        seed: of the loss and of the pictures.
        told: is given the key of each task that is done.
        clip_s: how long the clip is.
        name: of the lab.

    Raises:
        Unsupported: this machine has no labs, or lacks a program; says which.
        Unavailable: a program ended before its time.
    """
    lacking = missing()
    if lacking is not None:
        raise Unsupported(lacking)
    with tempfile.TemporaryDirectory() as folder, Lab.up(_scenario(line, seed), name=name) as lab:
        tap, marks = Path(folder) / "screen.pcap", Path(folder) / "marks.pcap"
        with Processes(lab, Path(folder)) as processes:
            _record(processes, lab, "tap", _SCREEN, "line", tap)
            _record(processes, lab, "keeper", _DESKTOP, "marks", marks)
            display = _framebuffer(processes)
            painted = _card(lab, processes, display, seed, clip_s)
            seen = _view(processes, lab.address(_DESKTOP), plan, painted, told)
        # The captures are whole when those who wrote them have ended.
        server, client = (ip_address(lab.address(one)) for one in (_DESKTOP, _SCREEN))
        tasks = dut.tasks(capture.read(marks).packets)
        tapped = capture.read(tap)
        sent = tapped.between(server, client, _PORT)
        return _joined(seen, sent, tasks, tapped.packets[-1].at_ns)


def _scenario(line: Line, seed: int) -> Scenario:
    way = Direction(
        rate=line.rate,
        delay=line.delay,
        jitter=line.jitter,
        loss=Bernoulli(line.loss) if line.loss else None,
        queue=Queue("fifo", Bytes("256 kB")),
    )
    nodes = tuple(Node(one) for one in (_DESKTOP, _SCREEN, _KEEPER))
    links = (
        Link("line", (_DESKTOP, _SCREEN), way, way),
        Link("marks", (_DESKTOP, _KEEPER), Direction(), Direction()),
    )
    return Scenario("desktop", seed, nodes, links, ())


def _record(processes: Processes, lab: Lab, name: str, node: str, link: str, path: Path) -> None:
    device = lab.device(node, link)
    command = weir_command("observe", "desktop", "record", device, "--out", path)
    processes.start(name, node, command)
    # A capture has begun when its file has a head.
    processes.wait_until(
        f"the capture on {node}", lambda: path.exists() and path.stat().st_size > 0
    )


def _framebuffer(processes: Processes) -> str:
    """An X server with nothing on it that speaks RFB; its display's name."""
    # Displays have names of the machine, not of a lab's host: a server that looks for a free one
    # takes that of another.
    number = _FIRST_DISPLAY + secrets.randbelow(_DISPLAYS)
    command = [
        "Xtigervnc",
        f":{number}",
        "-displayfd",
        "1",
        "-noreset",
        "-rfbport",
        str(_PORT),
        "-SecurityTypes",
        "None",
    ]
    command += ["-geometry", f"{card.WIDTH}x{card.HEIGHT}", "-depth", "24", "-AlwaysShared"]
    pipe = {"stdout": subprocess.PIPE, "text": True}
    server = processes.start("desktop", _DESKTOP, command, **pipe)
    return f":{_line(processes, server).strip()}"


def _card(
    lab: Lab, processes: Processes, display: str, seed: int, clip_s: float
) -> "subprocess.Popen[str]":
    arguments = [display, lab.address(_KEEPER), str(seed), f"{clip_s:g}"]
    command = module_command("studies.rig.desktop.card", *arguments)
    painted = processes.start("card", _DESKTOP, command, stdout=subprocess.PIPE, text=True)
    _line(processes, painted)
    return painted


def _view(
    processes: Processes,
    at: str,
    plan: str,
    painted: "subprocess.Popen[str]",
    told: Callable[[str], None],
) -> "list[_Seen]":
    """What card and screen say of each task."""
    arguments = [at, str(_PORT), plan, f"{PAUSE_S:g}", "0.5"]
    command = module_command("studies.rig.desktop.viewer", *arguments)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    screen = processes.start("screen", _SCREEN, command, **pipes)
    _line(processes, screen)
    assert screen.stdin, "a pipe"
    found = []
    for key in plan:
        shown = json.loads(_line(processes, painted))
        # A line that loses packets pauses for seconds: nobody but the card knows what is the last.
        with contextlib.suppress(BrokenPipeError):  # Why it has ended is said below.
            print(shown["number"], file=screen.stdin, flush=True)
        found.append(_Seen(shown, json.loads(_line(processes, screen))))
        told(key)
    screen.wait(_LIMIT_S)
    return found


def _line(processes: Processes, process: "subprocess.Popen[str]") -> str:
    """The next that a program says.

    Raises:
        Unavailable: it has ended, with its last words.
    """
    assert process.stdout, "a pipe"
    line = process.stdout.readline()
    if not line:
        process.wait()
        processes.check()
    return line


@dataclass(frozen=True)
class _Seen:
    """What the card and the screen say of a task."""

    card: dict[str, Any]
    screen: dict[str, Any]


def _joined(
    seen: Sequence[_Seen], sent: Sequence[Packet], tasks: Sequence[Task], until_ns: int
) -> list[Measured]:
    """With what the packets tell."""
    if len(tasks) != len(seen):
        raise Unavailable(f"{len(tasks)} markers of {len(seen)} tasks were captured")
    updates = dut.updates(sent, tasks, RULE, until_ns)
    return [_measured(one, update, sent) for one, update in zip(seen, updates, strict=True)]


def _measured(seen: _Seen, update: Update, sent: Sequence[Packet]) -> Measured:
    painted, screen = seen.card, seen.screen
    begin_ns = painted["begin_ns"]
    return Measured(
        painted["key"],
        update.dut_s,
        update.fresh_dut_s,
        update.server_s,
        (painted["end_ns"] - begin_ns) / 1e9,
        (screen["whole_ns"] - update.task.begin_ns) / 1e9,
        screen["frames"],
        update.bytes,
        update.packets,
        video.played(sent, begin_ns, painted["end_ns"], 1.0).bytes,
        update.partial,
    )
