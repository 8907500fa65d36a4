"""A probing as it was asked for, from the choices to the printed summary."""

import contextlib
import json
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

from weir.errors import BadInput, WeirError
from weir.kernel_files import text_if_any
from weir.probe.carrier import FileSource, Filler, SinkCarrier, require_congestion
from weir.probe.echo import Target, echo_to
from weir.probe.pattern import Pattern
from weir.probe.probe import Active, Probe
from weir.probe.realtime import realtime_priority
from weir.probe.record import Record, row
from weir.probe.responder import DEFAULT_PORT
from weir.probe.sample import Sample
from weir.probe.sampling import Plan
from weir.probe.summary import Summary

_INTERRUPTED = 130
_SECONDS = Fraction(20)  # 001-spec section 6.4: a probing is about 20 s
# Whether a window-based control begins anew after silence; decides what a burst begins with.
_AFTER_IDLE = Path("/proc/sys/net/ipv4/tcp_slow_start_after_idle")


@dataclass(frozen=True)
class Choices:
    """What `weir probe` was asked.

    Attributes:
        host: whom to probe.
        rate_hz: samples a second.
        requests: of a sample.
        seconds: how long: 0 without end, None for the pattern's length or 20 s.
        timeout_s: after which a reply is lost.
        udp: port of a responder; None for ICMP.
        pattern: of our own traffic; None for passive probing.
        sink: port where it goes; None for that of `udp`, or the default.
        file: whose bytes it carries; None for bytes without meaning.
        offset: of the file, where to begin.
        out: file for the samples.
        as_json: events for a machine instead of words and a curve.
    """

    host: str
    rate_hz: Fraction
    requests: int
    seconds: Fraction | None
    timeout_s: Fraction
    udp: int | None
    pattern: str | None
    sink: int | None
    file: str | None
    offset: int
    out: Path | None
    as_json: bool


def carry_out(choices: Choices) -> int:
    """Probes and shows it; returns the exit code.

    Raises:
        WeirError: by what the caller can do about it; what was sampled is in the file by then.
    """
    pattern = None if choices.pattern is None else Pattern.parse(choices.pattern)
    plan = _plan(choices, pattern)
    _refuse(choices)
    if pattern:
        require_congestion(pattern.congestions)
    target = Target.resolve(choices.host)
    with contextlib.ExitStack() as stack:
        if pattern:
            # Bursts are given by Python's threads; this one holds them up while it prints.
            stack.enter_context(realtime_priority())
        active = stack.enter_context(_active(choices, target, pattern)) if pattern else None
        record = stack.enter_context(Record(choices.out)) if choices.out else None
        echo = echo_to(target, choices.udp)
        asked = f"{target}, {echo.how}, {float(choices.rate_hz):g} samples/s of {plan.requests}"
        view: _View = _Events() if choices.as_json else _Words(asked)
        probe, summary = Probe(target, echo, plan, active), Summary()
        with view, probe, _stopped_by_signals(probe) as signals:
            view.start(asked, pattern)
            try:
                for sample in probe:
                    summary.add(sample)
                    if record:
                        record.append(sample, probe.begin_ns)
                    view.sample(sample, probe.begin_ns)
            except WeirError as error:
                view.error(error)
                raise
        own = active.carrier.tcp_info() if active else None
        facts = summary.facts(probe.stamped, probe.turns, own, probe.is_realtime)
        if active:
            facts["next_offset"] = active.carrier.next_offset
            told = text_if_any(_AFTER_IDLE).strip()
            facts["slow_start_after_idle"] = told == "1" if told else None
        view.end(facts)
    return _INTERRUPTED if signals else 0


@contextlib.contextmanager
def _stopped_by_signals(probe: Probe) -> Iterator[list[int]]:
    """Ctrl-C and a polite kill end the probing in order, however often they come; which came."""
    came: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        probe.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        # What came twice comes the second time when the summary is being printed.
        for number, handler in () if came else before.items():
            signal.signal(number, handler)


def _plan(choices: Choices, pattern: Pattern | None) -> Plan:
    seconds: Fraction | None = choices.seconds
    if seconds is None:
        seconds = Fraction(pattern.seconds) if pattern else _SECONDS
    elif seconds == 0:
        seconds = None
    return Plan(choices.rate_hz, choices.requests, seconds, choices.timeout_s)


def _refuse(choices: Choices) -> None:
    for option, port in (("--udp", choices.udp), ("--sink", choices.sink)):
        if port is not None and not 1 <= port <= 65_535:
            raise BadInput(f"{option} {port}: 1 to 65535 are possible")
    if choices.pattern is None:
        for option, value in (("--sink", choices.sink), ("--file", choices.file)):
            if value is not None:
                raise BadInput(f"{option} is for bursts: give --active PATTERN, too")
    if choices.offset < 0 or (choices.offset and choices.file is None):
        raise BadInput(f"--offset {choices.offset}: a place in the --file is needed, from 0")


@contextlib.contextmanager
def _active(choices: Choices, target: Target, pattern: Pattern) -> Iterator[Active]:
    port = choices.sink or choices.udp or DEFAULT_PORT
    with contextlib.ExitStack() as stack:
        if choices.file is None:
            source: FileSource | Filler = Filler()
        else:
            source = FileSource(choices.file)
            stack.callback(source.close)
            if choices.offset > source.size_bytes:
                raise BadInput(
                    f"--offset {choices.offset}: {choices.file} has {source.size_bytes} bytes"
                )
        carrier = SinkCarrier(target, port, source, choices.offset)
        stack.callback(carrier.close)
        yield Active(pattern, carrier)


class _View(ABC):
    """What shows a probing."""

    @abstractmethod
    def start(self, asked: str, pattern: Pattern | None) -> None: ...

    @abstractmethod
    def sample(self, sample: Sample, begin_ns: int) -> None: ...

    @abstractmethod
    def error(self, error: WeirError) -> None: ...

    @abstractmethod
    def end(self, facts: dict[str, Any]) -> None: ...

    def __enter__(self) -> "_View":
        return self

    def __exit__(self, *_: object) -> None:
        return None


class _Events(_View):
    """One JSON object per line: start, sample, then done or error."""

    def start(self, asked: str, pattern: Pattern | None) -> None:
        self._print("start", what=asked, pattern=str(pattern) if pattern else None)

    def sample(self, sample: Sample, begin_ns: int) -> None:
        self._print("sample", **row(sample, begin_ns))

    def error(self, error: WeirError) -> None:
        self._print("error", message=str(error), exit_code=error.exit_code)
        error.is_told = True

    def end(self, facts: dict[str, Any]) -> None:
        self._print("done", **facts)

    def _print(self, event: str, **facts: Any) -> None:
        now = datetime.now(UTC).isoformat()
        sys.stdout.write(json.dumps({"event": event, "time": now, **facts}) + "\n")
        sys.stdout.flush()


class _Words(_View):
    """A curve while it runs, on a terminal; a summary at the end."""

    def __init__(self, title: str) -> None:
        # Only here, so that --json starts without them.
        from rich.console import Console

        from weir.probe.view import LastMinute

        self._console = Console()
        self._view = LastMinute(title, self._console) if self._console.is_terminal else None
        self._title = title

    def start(self, asked: str, pattern: Pattern | None) -> None:
        """The title says it."""

    def sample(self, sample: Sample, begin_ns: int) -> None:
        if self._view:
            self._view.add(sample)

    def error(self, error: WeirError) -> None:
        """`weir` prints it."""

    def end(self, facts: dict[str, Any]) -> None:
        from weir.probe.format import words

        self._console.print(self._title, highlight=False)
        for line in words(facts):
            self._console.print(line, highlight=False, soft_wrap=True)

    def __enter__(self) -> _View:
        if self._view:
            self._view.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._view:
            self._view.__exit__(None, None, None)
