"""Watches a transfer to its end: a progress line on a terminal, or events for a machine.

`weir send` and `weir get` show transfers through this; so can any other program.
"""

import contextlib
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO

from weir import deadline
from weir._core import Rate, Time
from weir.errors import WeirError
from weir.format import counted, rate, size
from weir.printable import path_facts, printable, sum_line
from weir.transfer import FailedFile, HostShare, Progress, SettledFile, Transfer
from weir.transfer.forecast import Forecast
from weir.transfer.line import columns, duration, fitted

if TYPE_CHECKING:
    from weir.transfer.limits import Limit, Limits

EVENT_INTERVAL = 0.5
LINE_INTERVAL = 0.2
CANCELLED = 130
"""The exit code after Ctrl-C."""


def say(stream: TextIO, text: str) -> None:
    """Writes at once, as a terminal or a reading program expects."""
    stream.write(text)
    stream.flush()


class News(NamedTuple):
    """Something to be told of a transfer.

    Attributes:
        words: for a person; empty for what is told to machines only.
        event: its kind, for a machine.
        facts: what is told of it, for a machine.
    """

    words: str
    event: str
    facts: Mapping[str, Any]


class Companion(Protocol):
    """Something that accompanies a transfer from its beginning to its end."""

    def start(self) -> None:
        """The transfer has begun."""

    def stop(self) -> None:
        """The transfer is over."""

    def take_news(self) -> list[News]:
        """What there is to tell since the last call."""

    @property
    def status(self) -> str:
        """What it is at, in a word or three beside the progress; empty for nothing."""


class ThreadedCompanion(ABC):
    """A companion that works in a thread of its own.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._news: list[News] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """The transfer has begun."""
        self._thread.start()

    def stop(self) -> None:
        """The transfer is over; waits for the thread."""
        self._stop.set()
        self._thread.join()

    def take_news(self) -> list[News]:
        """What there is to tell since the last call."""
        with self._lock:
            news, self._news = self._news, []
        return news

    @property
    def status(self) -> str:
        """What it is at; nothing, unless a companion says otherwise."""
        return ""

    def _add_news(self, news: News) -> None:
        with self._lock:
            self._news.append(news)

    @abstractmethod
    def _run(self) -> None:
        """What the thread does, until it is done or `_stop` is set."""


class Ending(NamedTuple):
    """When a transfer was over.

    Attributes:
        seconds: how long it took.
        at: the time of day, by the clock that its deadline is kept by.
        limit: what kept it from being faster, where that could be told.
    """

    seconds: float
    at: datetime
    limit: "Limit | None" = None

    def slack_s(self, due: datetime) -> float:
        """Time to spare at the deadline, negative if it was late."""
        return (due - self.at).total_seconds()


class View(Protocol):
    """What shows a transfer.

    Attributes:
        interval: between two updates, in seconds.
        shows_files: it shows single files at the end.
    """

    interval: float
    shows_files: bool

    def start(self) -> None:
        """The transfer is about to begin."""

    def update(self, progress: Progress, news: list[News], status: str) -> None:
        """Called every `interval` seconds; `status` is the companion's, if it has one."""

    def end(self, progress: Progress, files: list[SettledFile], ending: Ending) -> None:
        """The transfer is over, well or not: see `progress.state`."""


def watch(
    transfer: Transfer,
    view: View,
    companion: Companion | None = None,
    began: float | None = None,
    clock: Callable[[], datetime] = deadline.wall,
) -> Ending:
    """Starts the transfer, and its companion, and shows it until it is over; when that was.

    Ctrl-C cancels it, resumable.

    Args:
        transfer: what is to be watched.
        view: what shows it.
        companion: what goes with it.
        began: when it was started, on the monotonic clock; None if it was not.
        clock: by which it is late or not.

    Raises:
        WeirError: the transfer failed.
        KeyboardInterrupt: it was cancelled from the keyboard before it was done.
    """
    view.start()
    if not view.shows_files:
        transfer.count_only()
    if began is None:
        began = time.monotonic()
    transfer.start()
    if companion:
        companion.start()
    error: BaseException | None = None
    limits: Limits | None = None
    try:
        # Nothing is shown of a transfer that is over at once: it should not wait for its view.
        while not transfer.wait(Time.from_ns(int(view.interval * 1e9))):
            limits = limits or _limits()
            limits.look(time.monotonic(), transfer.tcp_info())
            view.update(transfer.progress(), _news(transfer, companion), _status(companion))
    except KeyboardInterrupt as interrupt:
        transfer.cancel()
        _settle(transfer)
        error = interrupt
    except WeirError as failure:
        error = failure
    seconds, at = time.monotonic() - began, clock()
    if companion:
        companion.stop()
    progress = transfer.progress()
    if progress.state == "done":
        error = None  # Ctrl-C came when there was nothing left to cancel
    file_bytes = progress.bytes_total.count / max(1, progress.files_total)
    ending = Ending(seconds, at, limits.found(file_bytes) if limits else None)
    view.update(progress, _news(transfer, companion), _status(companion))
    view.end(progress, transfer.take_settled(), ending)
    if error is not None:
        raise error
    return ending


def _limits() -> "Limits":
    # Only here: what is over at once has no limit that could be told.
    from weir.transfer.limits import Limits

    return Limits()


def _news(transfer: Transfer, companion: Companion | None) -> list[News]:
    noticed = [News(text, "notice", {"message": text}) for text in transfer.take_notices()]
    failed = [_failed(file) for file in transfer.take_failures()]
    return noticed + failed + (companion.take_news() if companion else [])


def _failed(file: FailedFile) -> News:
    """What a machine is told of a failure; a person has it among the notices."""
    return News("", "failed", {**path_facts(file.path), "message": file.reason})


def _status(companion: Companion | None) -> str:
    return companion.status if companion else ""


def _settle(transfer: Transfer) -> None:
    # That it was cancelled is what was asked for.
    with contextlib.suppress(WeirError):
        transfer.wait(Time("10 s"))


class Events:
    """One JSON object per line: start, progress, notice, failed, file, done or error."""

    interval = EVENT_INTERVAL
    shows_files = True

    def __init__(
        self,
        request: dict[str, Any],
        due: datetime | None,
        clock: Callable[[], datetime] = deadline.wall,
    ) -> None:
        self._request = request
        self._deadline = due
        self._forecast = Forecast(due, wall=clock)

    def start(self) -> None:  # noqa: D102 - see View
        due = None if self._deadline is None else self._deadline.isoformat()
        self._print("start", deadline=due, **self._request)

    def update(  # noqa: D102 - see View
        self, progress: Progress, news: list[News], _status: str
    ) -> None:
        for one in news:
            self._print(one.event, **one.facts)
        self._forecast.saw(progress)
        slack = self._forecast.slack_s
        facts = {} if slack is None else {"slack_s": round(slack, 3)}
        self._print("progress", **counts(progress), **facts)

    def end(  # noqa: D102 - see View
        self, progress: Progress, files: list[SettledFile], ending: Ending
    ) -> None:
        for file in files:
            self._print(
                "file",
                **path_facts(file.path),
                size_bytes=file.size.count,
                blake3=file.hash,
                already_there=file.already_there,
            )
        facts: dict[str, Any] = {**counts(progress), "seconds": round(ending.seconds, 6)}
        facts["mean_rate_bps"] = mean_rate(progress, ending.seconds).bit_per_s
        if ending.limit:
            facts |= {"limited_by": ending.limit.by, "limited_share": round(ending.limit.share, 3)}
            facts["remedy"] = ending.limit.remedy or None
        if progress.error is None:
            if self._deadline is not None:
                slack = ending.slack_s(self._deadline)
                facts |= {"slack_s": round(slack, 3), "on_time": slack >= 0}
            self._print("done", **facts)
        else:
            error = progress.error
            code = CANCELLED if progress.state == "cancelled" else error.exit_code
            self._print("error", message=str(error), exit_code=code, **facts)

    def _print(self, event: str, **facts: Any) -> None:
        # Only here: what is shown to a person need not wait for it.
        import json

        now = datetime.now().astimezone().isoformat()
        say(sys.stdout, json.dumps({"event": event, "time": now, **facts}) + "\n")


def counts(progress: Progress) -> dict[str, Any]:
    """The counters of a transfer under the names that its events use."""
    told: dict[str, Any] = {
        "state": progress.state,
        "bytes_done": progress.bytes_done.count,
        "bytes_total": progress.bytes_total.count,
        "bytes_durable": progress.bytes_durable.count,
        "bytes_resumed": progress.bytes_resumed.count,
        "bytes_spare": progress.bytes_spare.count,
        "files_done": progress.files_done,
        "files_failed": progress.files_failed,
        "files_skipped": progress.files_skipped,
        "files_total": progress.files_total,
        "rate_bps": progress.rate.bit_per_s,
    }
    if progress.hosts:
        told["hosts"] = [
            {
                "host": host.name,
                "bytes": host.bytes.count,
                "lost_at": None if host.lost_at_s is None else _time(host.lost_at_s).isoformat(),
                "lost_why": host.why or None,
            }
            for host in progress.hosts
        ]
    return told


def _time(at_s: float) -> datetime:
    """Seconds since 1970 as this host's time of day."""
    return datetime.fromtimestamp(at_s).astimezone()


def _shares(hosts: Sequence[HostShare], did: str) -> str:
    """What each of several hosts took, or gave, for a person; empty where there is one."""
    told = ""
    for host in hosts:
        told += f"{', ' if told else '; '}{printable(host.name)} {did} {size(host.bytes.count)}"
        if host.lost_at_s is not None:
            told += f" (lost at {_time(host.lost_at_s):%H:%M:%S})"
    return told


def mean_rate(progress: Progress, seconds: float) -> Rate:
    """The rate of what was really moved, over the whole transfer."""
    moved = progress.bytes_durable.count - progress.bytes_resumed.count
    return Rate.from_bit_per_s(max(0, int(moved * 8 / max(seconds, 1e-9))))


class Line:
    """One line on a terminal that is drawn over, and a last one that stays."""

    interval = LINE_INTERVAL

    def __init__(
        self,
        what: str,
        due: datetime | None,
        stream: TextIO | None = None,
        show_hashes: bool = False,
        clock: Callable[[], datetime] = deadline.wall,
    ) -> None:
        self._what = what
        self._deadline = due
        self._forecast = Forecast(due, wall=clock)
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self.shows_files = show_hashes

    def start(self) -> None:  # noqa: D102 - see View
        pass

    def update(  # noqa: D102 - see View
        self, progress: Progress, news: list[News], status: str
    ) -> None:
        for one in news:
            if not one.words:
                continue
            self._clear()
            say(self._stream, f"weir: {printable(one.words)}\n")
        self._forecast.saw(progress)
        if self._live and progress.state in ("connecting", "running"):
            self._clear()
            say(self._stream, fitted(progress, self._forecast, status, columns(self._stream)))

    def _clear(self) -> None:
        if self._live:
            say(self._stream, "\r\x1b[K")

    def end(  # noqa: D102 - see View
        self, progress: Progress, files: list[SettledFile], ending: Ending
    ) -> None:
        self._clear()
        if progress.state != "done":
            return
        if self.shows_files:
            for file in files:
                if file.hash is not None:
                    say(sys.stdout, sum_line(file.hash, file.path) + "\n")
        moved = progress.bytes_durable.count - progress.bytes_resumed.count
        done = counted(progress.files_done, "file")
        text = f"{self._what}: {done}, {size(progress.bytes_durable.count)}"
        if progress.bytes_resumed:
            text += f" ({size(moved)} moved, the rest was there)"
        if progress.bytes_spare:
            text += f" ({size(progress.bytes_spare.count)} in the lower class)"
        mean = mean_rate(progress, ending.seconds)
        text += f" in {duration(ending.seconds)}, {rate(mean.bit_per_s)}"
        if self._deadline is not None:
            slack = ending.slack_s(self._deadline)
            text += f", {duration(slack)} early" if slack >= 0 else f", {duration(-slack)} LATE"
        text += _shares(progress.hosts, "took" if self._what == "sent" else "gave")
        if ending.limit:
            text += f"; limited by: {ending.limit.by}"
        say(self._stream, text + "\n")
        if ending.limit and ending.limit.remedy:
            say(self._stream, f"weir: to raise that limit, {ending.limit.remedy}\n")
