"""One trial: a lab of one bottleneck, a background on it, and `weir send` beside that.

Both hosts are the kernel's, joined by one emulated link, as for recordings
(`studies.training.collecting`): what is learned there is used here.
"""

import contextlib
import itertools
import math
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from studies.rig import watch
from studies.rig.background import Stream, background
from studies.rig.bottleneck import FAR, NEAR, scenario
from studies.rig.processes import json_lines, module_command, started, weir_command
from studies.rig.trial.outcome import Outcome
from studies.rig.trial.timetable import Turn
from studies.rig.workspace import open_workspace
from weir.congestion.cycle.probing import PROBE_MAX_S
from weir.congestion.recordings import NetworkPath
from weir.errors import BadInput
from weir.lab import Lab, parse
from weir.lab.traffic import FIRST_PORT

STEP_S = 0.5
ALTERNATING = "ALT-"
ORACLE, RANDOM = "oracle", "random-"
_FALLBACK = "cubic"  # Linux's default, whatever this machine has: beside BBR it is to be left
_PORT = 7411
_FILE_BYTES = 16 << 20
_COPY = "copy"

Seen: TypeAlias = Callable[[float, Sequence[float]], None]


@dataclass(frozen=True, slots=True)
class _Look:
    """Bytes that were acknowledged by an instant: the file's first, then each stream's.

    By connection: `weir send` may take new ones.
    """

    step: int
    at_s: float
    acked: Sequence[Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried.

    Attributes:
        background: its label, as `studies.rig.background` has them, or `ALT-X`: one
            stream that is CUBIC's and BBR's in turns of X s (001-spec 3.2).
        control: of the file: a name in the kernel; `auto`; `oracle`, which is told who is there
            and has the fair control at once; or `random-Y`, by chance one of the two for Y s each.
        path: of which there is one bottleneck.
        seconds: how long, from the request to send on.
        warmup_s: how long the background runs before that.
        seed: of everything that is drawn.
        options: more for `weir send`.
        loss: the share of packets that the path loses at random.
    """

    background: str
    control: str
    path: NetworkPath
    seconds: float = 60.0
    warmup_s: float = 5.0
    seed: int = 1
    options: tuple[str, ...] = ()
    loss: float = 0.0

    @property
    def streams(self) -> list[Stream]:
        """The background's; BadInput if there is no such label."""
        if not self.background.startswith(ALTERNATING):
            return background(self.background, self.path, self.seed)
        turn_ns = _turn_ns(self.background, ALTERNATING)
        starts = range(0, round((self.warmup_s + self.seconds) * 1e9), turn_ns)
        return [
            Stream("iperf3", start, control, (("stop", f"{start + turn_ns} ns"),))
            for start, control in zip(starts, itertools.cycle(("cubic", "bbr")))
        ]

    @property
    def timetable(self) -> list[Turn]:
        """The file's controls, timed from when the lab is up; empty where `weir send` chooses.

        Raises:
            BadInput: there is no such background, or no such control.
        """
        if self.control == ORACLE:
            streams = self.streams
            if self.background.startswith(ALTERNATING):
                return [Turn(one.start_ns / 1e9, str(one)) for one in streams]
            # The work's rule (001-spec 6.3).
            return [Turn(0.0, "bbr" if "bbr" in map(str, streams) else "cubic")]
        if self.control.startswith(RANDOM):
            turn_s = _turn_ns(self.control, RANDOM) / 1e9
            draw = random.Random(f"control {self.seed}")
            return [
                Turn(self.warmup_s + number * turn_s, draw.choice(("bbr", "cubic")))
                for number in range(math.ceil(self.seconds / turn_s))
            ]
        return []


def _turn_ns(label: str, prefix: str) -> int:
    """The length that stands behind the prefix."""
    try:
        turn_ns = round(float(label.removeprefix(prefix)) * 1e9)
    except (ValueError, OverflowError):
        turn_ns = 0
    if turn_ns < 10**9:
        raise BadInput(f"{label!r} has no turns: {prefix}30, say, has some of 30 s; 1 at least")
    return turn_ns


def carry_out(trial: Trial, name: str = "trial", seen: Seen | None = None) -> Outcome:
    """Carries it out, which takes as long as it says and some seconds more.

    Args:
        trial: what to try.
        name: of its lab: those that run at the same time have different ones.
        seen: is told the goodput of each interval as it ends: the file's, and of each stream of
            the background, in bit/s.

    Raises:
        BadInput: it cannot be right.
        Unsupported: this machine has no labs, lacks a congestion control, or has no room for what
            the file may bring.
    """
    text = scenario(name, trial.path, trial.streams, trial.seed, trial.loss)
    lab_of = parse(text, f"the path {trial.path}")
    most_bytes = _FILE_BYTES + round(trial.path.rate_bps / 8 * trial.seconds)
    with open_workspace(most_bytes) as folder:
        files = _Files.to_send(folder, trial.path.rate_bps / 8 * trial.seconds)
        with Lab.up(lab_of) as lab:
            with _sending(lab, trial, files) as told:
                rates = []
                for before, now in itertools.pairwise(_looks(lab, trial)):
                    for rate in _rates(before, now):
                        rates.append(rate)
                        if seen:
                            seen(rate[0], rate[1:])
            headroom = lab.status()["headroom"]
        alike = files.arrived()
    return _outcome(trial, rates, told, headroom, alike)


@dataclass(frozen=True, slots=True)
class _Files:
    """What is sent, and where it arrives.

    Attributes:
        source: its files, all of the same content.
        incoming: the root of the server's.
    """

    source: Path
    incoming: Path

    @classmethod
    def to_send(cls, folder: Path, size: float) -> "_Files":
        """Makes as many bytes to send or more: one file on the disk, and links to it."""
        files = cls(folder / "files", folder / "incoming")
        files.source.mkdir()
        files.incoming.mkdir()
        first = files.source / "0"
        first.write_bytes(random.Random(1).randbytes(_FILE_BYTES))
        for number in range(1, math.ceil(size / _FILE_BYTES)):
            (files.source / str(number)).hardlink_to(first)
        return files

    def arrived(self) -> list[bool]:
        """For each file that arrived whole: is its content what was sent?"""
        content = (self.source / "0").read_bytes()
        copies = (self.incoming / _COPY / one.name for one in self.source.iterdir())
        return [copy.read_bytes() == content for copy in copies if copy.exists()]


@contextlib.contextmanager
def _sending(lab: Lab, trial: Trial, files: _Files) -> Iterator[list[dict[str, Any]]]:
    """The files on their way; what `weir send` told of its choices is known after it."""
    place = f"{lab.address(FAR)}:{_PORT}"
    serve = ["serve", "--root", str(files.incoming), "--listen", place]
    plain = ["--insecure", "--json"]
    told: list[dict[str, Any]] = []
    with started(lab, FAR, weir_command(*serve, *plain), stderr=subprocess.DEVNULL):
        time.sleep(max(0.0, trial.warmup_s - lab.status()["up_s"]))
        what = (f"{files.source}/", f"{place}/{_COPY}/", *plain, "--hash", "none")
        with started(lab, NEAR, [*_send(lab, trial), *what]) as sender:
            begin_s = time.monotonic()  # it has said that it begins
            listener = threading.Thread(target=_listen, args=(sender, told, begin_s))
            listener.start()
            try:
                yield told
            finally:
                ended = len(told)
                sender.terminate()
                listener.join()
                del told[ended:]  # that it was cancelled


def _send(lab: Lab, trial: Trial) -> list[str | Path]:
    """The command that sends, but for what and where to."""
    up_s = time.monotonic() - lab.status()["up_s"]
    if turns := [Turn(up_s + one.at_s, one.control) for one in trial.timetable]:
        return module_command("studies.rig.trial", *(f"--at={turn}" for turn in turns))
    auto = ["--fallback", _FALLBACK] if trial.control == "auto" else []
    return weir_command("send", "--cca", trial.control, *auto, *trial.options)


def _listen(sender: "subprocess.Popen[str]", told: list[dict[str, Any]], begin_s: float) -> None:
    """Takes what it says of its choices and of what went wrong."""
    assert sender.stdout, "a pipe"
    for event in json_lines(sender.stdout):
        if event["event"] in ("choice", "change", "fallback", "notice", "error"):
            told.append({**event, "at_s": time.monotonic() - begin_s})


def _looks(lab: Lab, trial: Trial) -> Iterator[_Look]:
    """A look for each step; late ones come late, and steps missed by then are left out."""
    ports = [_PORT, *(FIRST_PORT + number for number in range(len(trial.streams)))]
    begin_s = time.monotonic()
    steps, step = round(trial.seconds / STEP_S), 0
    while step <= steps:
        time.sleep(max(0.0, begin_s + step * STEP_S - time.monotonic()))
        sockets = watch.sockets(lab, NEAR)
        at_s = time.monotonic()
        step = max(step, round((at_s - begin_s) / STEP_S))
        yield _Look(step, at_s, [watch.by_connection(sockets, port) for port in ports])
        step += 1


def _rates(before: _Look, now: _Look) -> Iterator[list[float]]:
    """Yields the rates for each step between two looks; a machine that keeps up has one step."""
    pairs = zip(before.acked, now.acked, strict=True)
    rates = [_grown(old, new) * 8 / (now.at_s - before.at_s) for old, new in pairs]
    yield from itertools.repeat(rates, now.step - before.step)


def _grown(before: Mapping[str, int], now: Mapping[str, int]) -> int:
    """Bytes that are new; of a connection that has ended none are known."""
    return sum(max(0, acked - before.get(own, 0)) for own, acked in now.items())


def _outcome(
    trial: Trial,
    rates: Sequence[Sequence[float]],
    told: Sequence[Mapping[str, Any]],
    headroom: Mapping[str, Any],
    alike: Sequence[bool],
) -> Outcome:
    own, *others = (tuple(series) for series in zip(*rates, strict=True))
    if trial.background.startswith(ALTERNATING):
        others = [tuple(map(sum, zip(*others, strict=True)))]  # one stream at any time
    flaws = []
    if headroom["bottleneck"]:
        flaws.append(f"the emulator was {headroom['lateness_p99_ns'] / 1e6:.2f} ms late (p99)")
    flaws += [one["message"] for one in told if one["event"] in ("notice", "error")]
    silent_s = _longest_silence_s(own)
    # A choice is preceded by silence; a fixed control is not.
    if silent_s > watch.STALL_S + (PROBE_MAX_S if trial.control == "auto" else 0.0):
        flaws.append(f"the file got nothing through for {silent_s:g} s")
    unseen = len(alike) - math.ceil(sum(own) * STEP_S / 8 / _FILE_BYTES)
    if unseen > 1:  # of what leaves after the last look one may still get there
        flaws.append(f"{unseen} files arrived that were not seen to be sent")
    choices = tuple(one for one in told if one["event"] in ("choice", "change", "fallback"))
    return Outcome(
        STEP_S, own, tuple(others), choices, tuple(flaws), sum(alike), len(alike) - sum(alike)
    )


def _longest_silence_s(rates: Sequence[float]) -> float:
    spans = [
        sum(1 for _ in span)
        for is_silent, span in itertools.groupby(rates, lambda r: not r)
        if is_silent
    ]
    return max(spans, default=0) * STEP_S
