"""A real desktop over a lossy line: what its packets tell, beside what its screen showed.

Two hosts of the lab, joined by a line that loses packets both ways; TigerVNC's server and the test
card on one, a screen on the other. Packets are captured behind the loss, where they reach the
screen (the work's tap stood there, too: 000-spec 5.2), markers on a link of their own that loses
none. All share one clock.
"""

import json
import math
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np

from studies.rig.desktop import card, rdp, rtp
from studies.rig.desktop.screen import run_at_once
from studies.rig.processes import Processes, module_command, weir_command
from studies.rig.threads import at_once
from studies.rig.workspace import open_workspace
from weir import Bytes, Rate, Time, extras
from weir.errors import Unavailable, Unsupported
from weir.lab import Lab, Scenario
from weir.lab.scenario import (
    Bernoulli,
    Direction,
    GilbertElliott,
    Iperf3Traffic,
    Link,
    Node,
    Queue,
)
from weir.observe.desktop import capture, dut, video
from weir.observe.desktop.capture import Packet
from weir.observe.desktop.dut import Rule, Task, Update

RATE, DELAY = Rate("100 Mbit/s"), Time("500 us")
"""What the line has; the delay is one way's."""
VNC, RTP, RDP = "vnc", "rtp", "rdp"
"""TigerVNC's over TCP, VP8 over RTP, which repairs itself (`rtp`), and xrdp's (`rdp`)."""
RULES = {
    # TCP waits longer and longer for what is lost twice: PCoIP's half a second is too short.
    VNC: Rule(size=110, gap_ns=2_000_000_000),
    # A frame without change takes up to SIZE bytes; what stays lost is given up in less than GAP.
    RDP: Rule(size=110, gap_ns=2_000_000_000),
    RTP: Rule(size=160, gap_ns=1_000_000_000),
}
PAUSES_S = {VNC: 2.3, RDP: 2.3, RTP: 1.3}
"""How long the screen is still before the next task; longer than GAP."""
PATIENT_NS = 10_000_000_000
"""A GAP as long as TCP ever pauses here. Between tasks it is not waited for: as the screen has all
of an update by then, only the next task's packets could follow."""
_FIRST_DISPLAY, _DISPLAYS = 1000, 50_000
_VNC_PORT, _RDP_PORT, _RTP_PORT, _RTP_PORTS = 5901, 3389, 6000, 10
DESKTOP, SCREEN, KEEPER = "desktop", "screen", "keeper"
"""The hosts; the last keeps the markers."""
LIMIT_S = 600.0
"""A program that has been told to end has ended by then."""
_XRDP_S = 1.0
_SHOWN_HZ = 1000
"""Each look at a screen is late by its own time and no more."""


@dataclass(frozen=True)
class Line:
    """The line between desktop and screen.

    Attributes:
        loss: the share of packets that it loses, each way.
        rate: each way.
        delay: one way.
        jitter: by which that varies at most.
        burst: how many packets are lost in a row, in the mean; 1 for each by itself.
        queue: in front of each way.
        bulk: how many TCP connections send to the screen's host beside it, as CS1.
    """

    loss: float = 0.0
    rate: Rate = RATE
    delay: Time = DELAY
    jitter: Time = field(default_factory=lambda: Time.from_ns(0))
    burst: float = 1.0
    queue: Queue = field(default_factory=lambda: Queue("fifo", Bytes("256 kB")))
    bulk: int = 0

    def direction(self) -> Direction:
        """Each of its ways."""
        return Direction(
            rate=self.rate,
            delay=self.delay,
            jitter=self.jitter,
            loss=self._lost(),
            queue=self.queue,
        )

    def _lost(self) -> Bernoulli | GilbertElliott | None:
        if not self.loss:
            return None
        if self.burst == 1:
            return Bernoulli(self.loss)
        # All is lost in the bad state, which lasts `burst` packets and takes `loss` of all.
        r = 1 / self.burst
        return GilbertElliott(p=r * self.loss / (1 - self.loss), r=r)


@dataclass(frozen=True)
class Measured:
    """A task, as the packets, the server and the screen tell of it; times in s after its begin.

    Attributes:
        key: what was done.
        dut: VD-DUT, None where undefined.
        fresh_dut: without what was sent again though it had arrived.
        patient_dut: the same with a GAP of 10 s.
        marker: RT-Marker; None where it got lost.
        server: until the server had painted.
        screen: until the screen showed all of it; None where it did not within a minute.
        waited: how much of that the screen's program was ready and had no processor.
        frames: how many different pictures the screen showed whole.
        bytes: of the update's packets.
        packets: how many.
        clip_bytes: of all packets between the task's begin and its end at the server.
        partial: as `Update` has it.
    """

    key: str
    dut: float | None
    fresh_dut: float | None
    patient_dut: float | None
    marker: float | None
    server: float
    screen: float | None
    waited: float
    frames: int
    bytes: int
    packets: int
    clip_bytes: int
    partial: str

    @property
    def error_s(self) -> float | None:
        """How much later than the screen the packets have the update's end."""
        if self.fresh_dut is None or self.screen is None:
            return None
        return self.fresh_dut - self.screen


def missing(protocol: str = VNC) -> str | None:
    """What a desktop needs and this machine lacks, with the way to it; None if nothing."""
    if shutil.which("Xtigervnc") is None:
        return "Xtigervnc is not installed: apt-get install tigervnc-standalone-server"
    try:
        import Xlib.display  # noqa: F401
    except ImportError:
        return f"python-xlib is not installed: {extras.REMEDY}"
    others = {RTP: rtp.missing, RDP: rdp.missing}
    return others[protocol]() if protocol in others else None


def carry_out(
    plan: str,
    line: Line,
    seed: int,
    told: Callable[[str], None] = lambda key: None,
    *,
    clip_s: float = 6.0,
    name: str | None = None,
    protocol: str = VNC,
    limit_s: float = math.inf,
) -> list[Measured]:
    """Does the tasks of a plan, one after another.

    Args:
        plan: keys of the test card.
        line: between desktop and screen.
        seed: of the loss and of the pictures.
        told: is given the key of each task that is done.
        clip_s: how long the clip is.
        name: of the lab.
        protocol: one of `RULES`.
        limit_s: no task begins later behind the first than that; the rest is left out.

    Raises:
        Unsupported: this machine has no labs, or lacks a program; says which.
        Unavailable: a program ended before its time.
    """
    pauses = [PAUSES_S[protocol]] * len(plan)
    plans = [(plan, pauses)]
    (found,) = carried_out(plans, line, seed, told, clip_s, name, protocol, limit_s)
    return found


def carry_out_together(
    desktops: int, plan: str, line: Line, seed: int, think_s: float, *, name: str | None = None
) -> list[list[Measured]]:
    """Does a plan at each of several desktops of one server, whose screens share a line.

    Whoever sits there looks at a picture for a random time (exponential) before the next. Where
    that is shorter than GAP, updates are partial, though the screen had all of them.

    Args:
        desktops: how many.
        plan: keys of the test card.
        line: which all share.
        seed: of the loss, the pictures and the times between tasks.
        think_s: mean time that somebody looks.
        name: of the lab.

    Returns:
        The tasks of each desktop.

    Raises:
        Unsupported: as `carry_out`.
        Unavailable: likewise.
    """
    random = np.random.default_rng([seed, desktops])
    plans = [(plan, random.exponential(think_s, len(plan)).tolist()) for _ in range(desktops)]
    return carried_out(plans, line, seed, lambda key: None, 1.0, name, VNC)


def carried_out(
    plans: Sequence[tuple[str, Sequence[float]]],
    line: Line,
    seed: int,
    told: Callable[[str], None],
    clip_s: float,
    name: str | None,
    protocol: str,
    limit_s: float = math.inf,
    kind: "type[Desktop] | None" = None,
) -> list[list[Measured]]:
    """The tasks of each desktop, of which a plan has keys and the pauses behind them.

    `kind` is what stands on each, the test card where nothing is said; all else is as `carry_out`
    has it.
    """
    kind = kind or Desktop
    lacking = missing(protocol)
    if lacking is not None:
        raise Unsupported(lacking)
    with open_workspace(kind.files_bytes) as folder, Lab.up(scenario(line, seed), name=name) as lab:
        tap, marks = folder / "screen.pcap", folder / "marks.pcap"
        with Processes(lab, folder) as processes:
            _record(processes, lab, "tap", SCREEN, "line", tap)
            _record(processes, lab, "keeper", DESKTOP, "marks", marks)
            desktops = [
                kind(lab, processes, folder, number, protocol, seed, clip_s)
                for number in range(len(plans))
            ]
            with at_once(len(plans)) as threads:
                runs = [
                    threads.submit(desktop.view, *plan, told, limit_s)
                    for desktop, plan in zip(desktops, plans, strict=True)
                ]
                seen = [run.result() for run in runs]
        # The captures are whole when those who wrote them have ended.
        server, client = (ip_address(lab.address(one)) for one in (DESKTOP, SCREEN))
        marked, tapped = capture.read(marks).packets, capture.read(tap)
        until_ns = tapped.packets[-1].at_ns
        return [
            _joined(
                one,
                tapped.between(server, client, desktop.port),
                dut.tasks(marked, desktop.marker_port),
                RULES[protocol],
                until_ns,
            )
            for one, desktop in zip(seen, desktops, strict=True)
        ]


def scenario(line: Line, seed: int) -> Scenario:
    """Desktop, screen and the markers' keeper: a line between the first two."""
    way = line.direction()
    nodes = tuple(Node(one) for one in (DESKTOP, SCREEN, KEEPER))
    links = (
        Link("line", (DESKTOP, SCREEN), way, way),
        Link("marks", (DESKTOP, KEEPER), Direction(), Direction()),
    )
    bulk = Iperf3Traffic(
        name="bulk",
        source=DESKTOP,
        destination=SCREEN,
        start=Time.from_ns(0),
        stop=None,
        dscp="CS1",
        streams=line.bulk,
    )
    return Scenario("desktop", seed, nodes, links, (bulk,) if line.bulk else ())


def _record(processes: Processes, lab: Lab, name: str, node: str, link: str, path: Path) -> None:
    device = lab.device(node, link)
    command = weir_command("observe", "desktop", "record", device, "--out", path)
    processes.start(name, node, command)
    # A capture has begun when its file has a head.
    processes.wait_until(
        f"the capture on {node}", lambda: path.exists() and path.stat().st_size > 0
    )


class Desktop:
    """A desktop with the test card on it.

    Args:
        lab: where it is.
        processes: of the lab.
        folder: where files may lie until all has ended.
        number: of the desktop, from 0.
        protocol: by which its screen shows it.
        seed: of its pictures.
        clip_s: how long its clip is.
    """

    files_bytes = 32 << 20
    """What captured headers and logs need, at least, and what shows the pictures."""

    def __init__(
        self,
        lab: Lab,
        processes: Processes,
        folder: Path,
        number: int,
        protocol: str,
        seed: int,
        clip_s: float,
    ) -> None:
        self._lab, self._processes, self._protocol = lab, processes, protocol
        self._folder, self._number = folder, number
        self._ports = rtp.Ports(_RTP_PORT + _RTP_PORTS * number)
        self._vnc_port, self._rdp_port = _VNC_PORT + number, _RDP_PORT + number
        self.marker_port = dut.MARKER_PORT + number
        self._display = self._framebuffer("desktop", DESKTOP)
        self._painted = self._start(seed, clip_s)

    @property
    def port(self) -> int:
        """From which it sends."""
        known = {VNC: self._vnc_port, RDP: self._rdp_port, RTP: self._ports.media}
        return known[self._protocol]

    def _name(self, what: str) -> str:
        return f"{what}-{self._number}"

    def _framebuffer(self, what: str, node: str, shown_hz: int | None = None) -> str:
        """An X server with nothing on it that speaks RFB; its display's name.

        Of a screen's, `shown_hz` is how often it is looked at; a desktop is sent as its server
        does by itself.
        """
        # A display's files are the machine's, not a lab's host's, and stay when its server is
        # killed: this one has none, only an abstract address, which is its host's and goes with it.
        # Its programs look for a file all the same: no other display may be called so.
        number = _FIRST_DISPLAY + secrets.randbelow(_DISPLAYS)
        command = ["Xtigervnc", f":{number}", "-displayfd", "1", "-noreset"]
        command += ["-nolisten", "unix", "-nolock"]
        command += ["-rfbport", str(self._vnc_port), "-SecurityTypes", "None", "-AlwaysShared"]
        command += ["-geometry", f"{card.WIDTH}x{card.HEIGHT}", "-depth", "24"]
        if shown_hz is not None:
            command += ["-FrameRate", str(shown_hz)]
        pipe = {"stdout": subprocess.PIPE, "text": True}
        server = self._processes.start(self._name(what), node, command, **pipe)
        if shown_hz is not None:
            run_at_once(server.pid)
        return f":{said_line(self._processes, server).strip()}"

    def _start(self, seed: int, clip_s: float) -> "subprocess.Popen[str]":
        """What shows pictures there, once it does: a line of JSON for each task."""
        markers = self._lab.address(KEEPER), str(self.marker_port)
        command = module_command(
            "studies.rig.desktop.card", self._display, *markers, str(seed), f"{clip_s:g}"
        )
        pipe = {"stdout": subprocess.PIPE, "text": True}
        painted = self._processes.start(self._name("card"), DESKTOP, command, **pipe)
        said_line(self._processes, painted)
        return painted

    def view(
        self,
        plan: str,
        pauses: Sequence[float],
        told: Callable[[str], None],
        limit_s: float,
    ) -> "list[Seen]":
        """What card and screen say of each task of a plan, as far as they begin in time."""
        screen = self._screen(plan, pauses)
        said_line(self._processes, screen)
        assert screen.stdin, "a pipe"
        found: list[Seen] = []
        end_s = time.monotonic() + limit_s
        for key in plan:
            if found and time.monotonic() > end_s:
                break
            self._begin(screen, key)
            shown = json.loads(said_line(self._processes, self._painted))
            # A line that loses packets pauses for seconds: only the desktop knows what is the last.
            self._tell(screen, shown["number"])
            seen = json.loads(said_line(self._processes, screen))
            found.append(Seen(shown, seen, time.time_ns()))
            told(key)
        screen.stdin.close()
        screen.wait(LIMIT_S)
        return found

    def _begin(self, screen: "subprocess.Popen[str]", key: str) -> None:
        """Has a task begin: the screen's program knows the plan, and presses the next key."""
        self._tell(screen, "go on")

    def _tell(self, program: "subprocess.Popen[str]", word: object) -> None:
        """A line to a program.

        Raises:
            Unavailable: it has ended, with its last words.
        """
        assert program.stdin, "a pipe"
        try:
            print(word, file=program.stdin, flush=True)
        except BrokenPipeError:
            program.wait(LIMIT_S)
            self._processes.check()
            raise

    def _screen(self, plan: str, pauses: Sequence[float]) -> "subprocess.Popen[str]":
        host, port, frames = self._lab.address(DESKTOP), self._vnc_port, -1
        if self._protocol == RTP:
            port, frames = self._ports.hand, self._stream()
        if self._protocol == RDP:
            self._show(host)
            host = "127.0.0.1"
        where = (self._protocol, host, str(port), str(frames))
        times = ",".join(f"{one:.3f}" for one in pauses)
        command = module_command("studies.rig.desktop.viewer", *where, plan, times, "0.5")
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        kept = () if frames < 0 else (frames,)
        screen = self._processes.start(
            self._name("screen"), SCREEN, command, pass_fds=kept, **pipes
        )
        for one in kept:
            os.close(one)
        return screen

    def _show(self, desktop: str) -> None:
        """The desktop is shown by RDP on an X server of the screen's host from now on."""
        display = self._framebuffer("shown", SCREEN, _SHOWN_HZ)
        command = rdp.serving(self._folder, self._rdp_port, self._vnc_port)
        self._processes.start(self._name("xrdp"), DESKTOP, command)
        time.sleep(_XRDP_S)  # it does not say when it listens
        command = rdp.showing(desktop, self._rdp_port, display)
        run_at_once(self._processes.start(self._name("freerdp"), SCREEN, command).pid)

    def _stream(self) -> int:
        """The picture comes over RTP from now on; the file descriptor that frames are read from."""
        desktop, screen = (self._lab.address(one) for one in (DESKTOP, SCREEN))
        frames, written = os.pipe()
        receiving = rtp.receiving(desktop, self._ports)
        receiver = self._processes.start(self._name("receiver"), SCREEN, receiving, stdout=written)
        run_at_once(receiver.pid)
        os.close(written)
        sending = rtp.sending(self._display, screen, self._ports)
        self._processes.start(self._name("sender"), DESKTOP, sending)
        command = module_command("studies.rig.desktop.hand", self._display, str(self._ports.hand))
        pipe = {"stdout": subprocess.PIPE, "text": True}
        hand = self._processes.start(self._name("hand"), DESKTOP, command, **pipe)
        said_line(self._processes, hand)
        return frames


def said_line(processes: Processes, process: "subprocess.Popen[str]") -> str:
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
class Seen:
    """What the card and the screen say of a task, and when the screen had said it."""

    card: dict[str, Any]
    screen: dict[str, Any]
    told_ns: int


def _joined(
    seen: Sequence[Seen], sent: Sequence[Packet], tasks: Sequence[Task], rule: Rule, until_ns: int
) -> list[Measured]:
    """With what the packets tell."""
    if len(tasks) != len(seen):
        raise Unavailable(f"{len(tasks)} markers of {len(seen)} tasks were captured")
    # Nothing that is sent when the last one is over is its own: RDP takes its leave.
    over_ns = max((one.told_ns for one in seen), default=0)
    sent = [one for one in sent if one.at_ns < over_ns]
    updates = dut.updates(sent, tasks, rule, until_ns)
    patient = dut.updates(sent, tasks, Rule(rule.size, PATIENT_NS), until_ns)
    each = zip(seen, updates, patient, strict=True)
    return [_measured(one, update, late.fresh_dut_s, sent) for one, update, late in each]


def _measured(
    seen: Seen, update: Update, patient_s: float | None, sent: Sequence[Packet]
) -> Measured:
    painted, screen = seen.card, seen.screen
    begin_ns, whole_ns = painted["begin_ns"], screen["whole_ns"]
    return Measured(
        painted["key"],
        update.dut_s,
        update.fresh_dut_s,
        patient_s,
        update.server_s,
        (painted["end_ns"] - begin_ns) / 1e9,
        None if whole_ns is None else (whole_ns - update.task.begin_ns) / 1e9,
        screen["waited_ns"] / 1e9,
        screen["frames"],
        update.bytes,
        update.packets,
        video.played(sent, begin_ns, painted["end_ns"], 1.0).bytes,
        update.partial,
    )
