"""The agent on a host: moves what the calendar has admitted, at the rates that it allots.

It keeps nothing of its own. After a crash of it, or of the calendar, the assignments are read again
and the mover goes on from the last durable byte.
"""

import asyncio
import contextlib
import errno
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir import Bytes, Rate, Time, python
from weir.calendar.agents.assignments import AssignmentStream
from weir.calendar.agents.source import Questions, source_place, tree_bytes
from weir.calendar.agents.turns import Turns
from weir.calendar.lanes import LANES_MAX, Lane, lanes
from weir.congestion.options import AUTO, Request
from weir.errors import BadInput, Refused, TransferFailed, Unavailable, Unsupported, WeirError
from weir.transfer import PAUSED, Progress, Route, Spare, Transfer

if TYPE_CHECKING:
    from weir.congestion.cycle.cycle import Selection

log = logging.getLogger(__name__)

REPORT_EVERY_S = 1.0
LOOK_EVERY_S = 0.05
# One that has handed everything over ends any moment, and others wait for its rate: so many looks
# are taken at it in that time.
LOOKS_AT_END = 5
# The kernel paces TCP payload, the calendar allots packets: 1448 of 1500 bytes are payload.
PAYLOAD_PER_WIRE_BIT = 1448 / 1500
# Below this a connection would not even be set up in time.
PACE_FLOOR_BPS = 256_000
RETRY_FIRST_S = 0.2
RETRY_LAST_S = 2.0
# What may pass is tried until the deadline. After it, a transfer that fails so often is given up.
FAILURES_MAX = 8
# Probing a path is silence, which the rest of the time to the deadline makes up for: a tenth of it
# at most.
PROBE_SHARE_MAX = 0.1
# How long the mover itself tries at least to reach a peer that went away.
MOVER_RETRY_MIN_S = 2.0
# Transfers that begin at once; those whose file system does not answer count until it does.
BEGINNINGS_MAX = 256
# Questions of users that are on their way at once: more than the file system is asked, which then
# are answered by that.
ANSWERS_MAX = 256
# Transfers in one report: the calendar takes 10 000.
REPORT_MAX = 5_000
# So near its deadline, and after it, a transfer is in every report.
NEAR_S = 60.0
# How the mover ends what it says of an attempt that failed while it goes on.
TRYING_AGAIN = "; trying again"
# What the system may have again in a while: descriptors, memory, a file server.
PASSING = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT}


@dataclass(frozen=True, slots=True)
class MoverOptions:
    """How an agent moves: its root, keys (None: without TLS), streams, congestion controls.

    What is sent beside promises has the second control, if there is one, and packets of at most
    `spare_packet`, 576 to 65535 bytes; None: what the path carries.

    With the congestion control `AUTO` each transfer has its own, chosen for whoever is on its path
    and for its deadline (`weir.congestion`).
    """

    root: Path
    keys: Path | None
    streams: int = 1
    congestion: str | None = None
    spare_congestion: str | None = None
    spare_packet: Bytes | None = None


@dataclass(slots=True)
class Job:
    """One transfer that this host is to send; `control` is what was chosen for it."""

    assignment: dict[str, Any]
    transfer: Transfer | None = None
    selection: "Selection | None" = None
    control: str | None = None
    state: str = "waiting"
    bytes_durable: int | None = None
    bytes_total: int = 0
    file_hash: str | None = None
    error: str | None = None
    trouble: str | None = None
    trouble_at_bytes: int = 0
    failures: int = 0
    retry_at_s: float = 0.0
    ended_s: float = field(default=0.0)
    # All of it has been handed to the kernel.
    is_ending: bool = False
    # It is about to begin; the file system was asked about its source and has not answered.
    beginning: bool = False
    asking: bool = False
    told: tuple[str, str | None] | None = None

    def keep_rate(self, options: MoverOptions) -> None:
        """Paces it as it is assigned; while its path is probed, from then on."""
        rate = _rate(self.assignment, options)
        if self.selection is not None:
            self.selection.set_rate(rate)
        elif self.transfer is not None and (several := routes(self.assignment, rate)):
            self.transfer.set_routes(several)
        elif self.transfer is not None:
            self.transfer.set_rate(rate)

    def drop_transfer(self) -> None:
        """Ends the attempt; the next one has the control that was chosen for this one."""
        if self.selection is not None:
            self.control, self.selection = self.selection.control, None
        if self.transfer is not None:
            self.transfer.cancel()
            self.transfer = None
        self.trouble, self.trouble_at_bytes, self.is_ending = None, 0, False

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to do but to report it."""
        return self.state in {"done", "failed"}

    @property
    def has_news(self) -> bool:
        """Whether the calendar has to be told of it now, not just some time soon."""
        news = self.ended or self.told != (self.state, self.error)
        return news or _left_s(self.assignment) < NEAR_S

    def note_trouble(self, notices: Sequence[str], durable_bytes: int) -> None:
        """Why the mover tries again, until something arrives: it says so once, and tries on."""
        if durable_bytes > self.trouble_at_bytes:
            self.trouble = None
        if again := [words for words in notices if words.endswith(TRYING_AGAIN)]:
            self.error = self.trouble = again[-1]
            self.trouble_at_bytes = durable_bytes

    def report(self, now_s: float) -> dict[str, Any]:
        """What the calendar is told."""
        report: dict[str, Any] = {"id": self.assignment["id"], "state": self.state}
        if self.bytes_durable is not None:
            report |= {"bytes_durable": self.bytes_durable, "bytes_total": self.bytes_total}
        if self.ended:
            report["finished_ago_s"] = max(0.0, now_s - self.ended_s)
        optional = {"hash": self.file_hash, "error": self.error}
        return report | {key: value for key, value in optional.items() if value is not None}


class HostAgent:
    """Runs the mover for one host until it is cancelled."""

    def __init__(
        self,
        stream: AssignmentStream,
        options: MoverOptions,
        data_address: str | None = None,
        data_ports: Sequence[int] = (),
    ) -> None:
        """An agent that receives at `data_address`, and at all of `data_ports` if told."""
        self._stream = stream
        self._options = options
        self._data_address = data_address
        # What a calendar older than lanes does not take.
        self._about_lanes: dict[str, Any] = {}
        if options.congestion != AUTO:
            self._about_lanes["lanes_max"] = LANES_MAX
        if data_ports:
            self._about_lanes["data_ports"] = list(data_ports)
        self._turns: Turns[Job] = Turns()
        self._jobs = self._turns.jobs
        self._questions = Questions()
        # Apart, so that users' questions never keep transfers waiting.
        self._beginnings = Questions(BEGINNINGS_MAX)
        self._answering: set[asyncio.Task[None]] = set()
        self._report_now = asyncio.Event()

    async def run(self) -> None:
        """Takes assignments, moves and reports; raises `BadInput` if the calendar turns it away."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._take_assignments())
                group.create_task(self._look_after_jobs())
                group.create_task(self._report_forever())
        except* WeirError as errors:
            raise errors.exceptions[0] from None
        finally:
            for job in self._jobs.values():
                job.drop_transfer()

    # --- assignments ---

    async def _take_assignments(self) -> None:
        async for message in self._stream.messages():
            kind = message["kind"]
            if kind == "question":
                self._take_question(message)
                continue
            if "assign" not in message:
                continue
            if kind == "snapshot":
                wanted = {x["id"] for x in message["assign"]}
                for identifier in self._jobs.keys() - wanted:
                    self._release(identifier)
                # A calendar that was restarted may know less than it was told.
                for job in self._jobs.values():
                    job.told = None
            for identifier in message.get("release", ()):
                self._release(identifier)
            for assigned in message["assign"]:
                self._assign(assigned)

    def _assign(self, assignment: dict[str, Any]) -> None:
        """Takes up a transfer, or the new rate or address of one; at once."""
        job = self._jobs.get(assignment["id"])
        if job is None:
            job = self._jobs[assignment["id"]] = Job(assignment)
        moved = _place(job.assignment) != _place(assignment)
        job.assignment = assignment
        if job.transfer is not None and not job.ended:
            if moved:
                job.drop_transfer()
            else:
                job.keep_rate(self._options)
        self._look_after(job)

    def _release(self, identifier: str) -> None:
        job = self._jobs.pop(identifier, None)
        if job is not None:
            job.drop_transfer()

    def _take_question(self, question: dict[str, Any]) -> None:
        """Answers beside all else; whoever asks for ever more is not answered."""
        if len(self._answering) < ANSWERS_MAX:
            task = asyncio.get_running_loop().create_task(self._answer(question))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, question: dict[str, Any]) -> None:
        """Says how large a file or tree is."""
        answer: dict[str, Any] = {"ticket": question["ticket"]}
        try:
            root, path = self._options.root, question["path"]
            size = await self._questions.ask(lambda: tree_bytes(source_place(root, path)))
            answer["size_bytes"] = size
        except (WeirError, OSError) as error:
            answer["error"] = _reason(error)
        with contextlib.suppress(Unavailable):
            await self._stream.post("answers", answer)

    # --- jobs ---

    async def _look_after_jobs(self) -> None:
        while True:
            for job in list(self._jobs.values()):
                self._look_after(job)
            ending = [job for job in self._jobs.values() if job.is_ending]
            looks = LOOKS_AT_END if ending else 1
            for _ in range(looks - 1):
                await asyncio.sleep(LOOK_EVERY_S / looks)
                # It may have been dropped meanwhile.
                for job in filter(lambda job: job.is_ending, ending):
                    self._look_after(job)
            await asyncio.sleep(LOOK_EVERY_S / looks)

    def _look_after(self, job: Job) -> None:
        """Starts, follows and retries one transfer."""
        if job.ended:
            return
        if job.transfer is None:
            self._consider(job)
            return
        notices = job.transfer.take_notices()
        for words in (*notices, *_told(job.selection)):
            log.info("%s: %s", job.assignment["id"], words)
        progress = job.transfer.progress()
        job.note_trouble(notices, progress.bytes_durable.count)
        if progress.state in {"running", "done"} and progress.total_is_known:
            job.state, job.error = "running", job.trouble
            job.bytes_durable = progress.bytes_durable.count
            job.bytes_total = progress.bytes_total.count
            job.is_ending = progress.bytes_done == progress.bytes_total
        if progress.state == "done":
            self._conclude(job, job.transfer, progress)
        elif progress.state in {"failed", "cancelled"}:
            self._stumble(job, progress.error or TransferFailed("it was cancelled"))

    def _conclude(self, job: Job, transfer: Transfer, progress: Progress) -> None:
        """Takes the mover's word for what was delivered."""
        settled, skipped = transfer.take_settled(), progress.files_skipped
        if skipped and not progress.files_total:
            self._end(job, "failed", "it is not a file or directory any more, and was not sent")
            return
        job.file_hash = settled[0].hash if len(settled) == 1 else None
        left_out = f"{skipped} left out that are neither files, directories nor links"
        self._end(job, "done", left_out if skipped else None)

    def _consider(self, job: Job) -> None:
        """Begins a transfer whose time has come, unless its file system still owes an answer."""
        is_due = job.assignment["data_address"] and time.monotonic() >= job.retry_at_s
        if is_due and not (job.beginning or job.asking or self._beginnings.is_full):
            job.beginning = job.asking = True
            asyncio.get_running_loop().create_task(self._begin(job))

    async def _begin(self, job: Job) -> None:
        assignment, options = job.assignment, self._options
        selects = options.congestion == AUTO and job.control is None and _has_time(assignment)
        # Where one is chosen by its path, there is one path.
        selects = selects and not _has_lanes(assignment)

        def prepared() -> Transfer:
            try:
                return _prepared(assignment, options, job.control, paused=selects)
            finally:
                job.asking = False

        try:
            transfer = await self._beginnings.ask(prepared)
            is_wanted = self._jobs.get(assignment["id"]) is job and job.transfer is None
            if not is_wanted or _place(job.assignment) != _place(assignment):
                return
            job.transfer = transfer
            if not selects:
                job.keep_rate(options)
            transfer.start()
            if selects:
                rate = _rate(job.assignment, options)
                job.selection = _selection(transfer, assignment, rate)
                job.selection.start()
        except (WeirError, OSError) as error:
            if self._jobs.get(assignment["id"]) is job:
                self._stumble(job, error)
        finally:
            job.beginning = False

    def _stumble(self, job: Job, error: WeirError | OSError) -> None:
        """Tries again later what may yet succeed, and gives up what cannot."""
        moved = job.transfer is not None and job.transfer.progress().bytes_done.count
        job.drop_transfer()
        job.error = _reason(error)
        is_late = _left_s(job.assignment) <= 0
        job.failures = 1 if moved and not is_late else job.failures + 1
        is_away = isinstance(error, Unavailable)
        exhausted = is_late and job.failures >= FAILURES_MAX and not is_away
        if exhausted or not _may_pass(error):
            self._end(job, "failed", job.error)
            return
        log.info("%s: %s; trying again", job.assignment["id"], job.error)
        pause_s = min(RETRY_FIRST_S * 2 ** min(job.failures, 8), RETRY_LAST_S)
        job.retry_at_s = time.monotonic() + pause_s

    def _end(self, job: Job, state: str, error: str | None) -> None:
        job.state, job.error, job.ended_s = state, error, time.monotonic()
        self._report_now.set()

    # --- reports ---

    async def _report_forever(self) -> None:
        while True:
            await self._report()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._report_now.wait(), REPORT_EVERY_S)
            self._report_now.clear()

    async def _report(self) -> None:
        now_s = time.monotonic()
        chosen = self._turns.next(lambda job: job.has_news)
        reports = [self._jobs[x].report(now_s) for x in chosen]
        # At least one: it is a sign of life too.
        for first in range(0, max(1, len(reports)), REPORT_MAX):
            await self._post(reports[first : first + REPORT_MAX])

    async def _post(self, reported: list[dict[str, Any]]) -> None:
        body: dict[str, Any] = {"transfers": reported, **self._about_lanes}
        if self._data_address is not None:
            body["data_address"] = self._data_address
        try:
            answer = await self._stream.post("reports", body)
        except Unavailable as error:
            # Whatever was to be said is said again with the next report.
            if str(error).startswith("422") and self._about_lanes:
                self._about_lanes = {}
            log.info("report: %s", error)
            await asyncio.sleep(RETRY_FIRST_S)
            return
        for report in reported:
            job = self._jobs.get(report["id"])
            if report["state"] in {"done", "failed"}:
                self._jobs.pop(report["id"], None)
            elif job is not None:
                job.told = (report["state"], report.get("error"))
        for identifier in answer.get("stop", ()):
            self._release(identifier)


class DataServer:
    """`weir serve` as a child that ends with this process and is started again when it dies."""

    def __init__(self, root: Path, listen: str, keys: Path | None, ports: int = 1) -> None:
        security = ["--insecure"] if keys is None else ["--keys", str(keys)]
        self._command = [
            *python.script(_CHILD, str(os.getpid())),
            *("serve", "--root", str(root), "--listen", listen, *security),
            *(("--ports", str(ports)) if ports > 1 else ()),
        ]

    async def run(self) -> None:
        """Keeps the server running until cancelled."""
        pause_s = RETRY_FIRST_S
        while True:
            started_s = time.monotonic()
            child = await asyncio.create_subprocess_exec(*self._command)
            try:
                code = await child.wait()
            finally:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
            lived_s = time.monotonic() - started_s
            pause_s = RETRY_FIRST_S if lived_s > 5 else min(pause_s * 2, RETRY_LAST_S)
            log.warning("weir serve ended with %d; again in %.1f s", code, pause_s)
            await asyncio.sleep(pause_s)


# The kernel ends the child with its parent (PR_SET_PDEATHSIG), or the check finds it gone.
_CHILD = """
import ctypes, os, signal, sys
parent = int(sys.argv.pop(1))
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != parent:
    sys.exit(1)
from weir.cli import main
sys.exit(main())
"""


def _prepared(
    assignment: dict[str, Any], options: MoverOptions, control: str | None, *, paused: bool
) -> Transfer:
    """The mover of an assignment, not started; looks at the source, for however long that takes."""
    root = options.root.resolve()
    several = routes(assignment, _rate(assignment, options))
    place = source_place(root, assignment["source_path"])
    source = place.relative_to(root)
    return Transfer.send(
        [f"{source}/" if place.is_dir() else str(source)],
        f"{assignment['data_address']}/{assignment['destination_path']}",
        keys=options.keys,
        rate=None if several else PAUSED if paused else _rate(assignment, options),
        routes=several,
        streams=options.streams,
        spare=_spare(assignment, options),
        congestion=control if options.congestion == AUTO else options.congestion,
        retry=Time.from_ns(int(max(MOVER_RETRY_MIN_S, _left_s(assignment)) * 1e9)),
        # What the path is resolved to may be something else by now: nothing that is read is
        # outside the root, whatever becomes a link meanwhile.
        root=root,
    )


def _spare(assignment: dict[str, Any], options: MoverOptions) -> Spare | None:
    """What the calendar wants sent beside the rate; a path that is probed has to be silent."""
    # A calendar older than the agent does not say.
    service = assignment.get("spare")
    if service is None or options.congestion == AUTO:
        return None
    control = options.spare_congestion or options.congestion
    return Spare(service, congestion=control, packet=options.spare_packet)


def _rate(assignment: dict[str, Any], options: MoverOptions) -> Rate:
    """At which its promised connections send.

    Where nothing is promised now, others take the chunks: one that was begun at next to no rate
    would be what the whole transfer waits for in the end.
    """
    rate_bps = assignment["rate_bps"]
    waits = not rate_bps and _spare(assignment, options) is not None
    return PAUSED if waits else pace(rate_bps)


def _left_s(assignment: dict[str, Any]) -> float:
    """Seconds to the deadline; negative after it."""
    left_s: float = assignment["deadline_ns"] / 1e9 - time.time()
    return left_s


def _has_time(assignment: dict[str, Any]) -> bool:
    """Whether the time to the deadline makes up for the silence of a probing."""
    from weir.congestion.cycle.probing import PROBE_MAX_S

    return _left_s(assignment) >= PROBE_MAX_S / PROBE_SHARE_MAX


def _may_pass(error: WeirError | OSError) -> bool:
    """Whether the same may succeed later, without anybody changing the request or the keys."""
    if isinstance(error, OSError):
        return error.errno in PASSING
    if isinstance(error, BadInput):
        # The name is another agent's, not a user's: it was right, and will be again.
        return str(error).startswith("unknown host")
    return not isinstance(error, Refused | Unsupported)


def _selection(transfer: Transfer, assignment: dict[str, Any], rate: Rate) -> "Selection":
    """What chooses its congestion control, once: rates that change would look like a change."""
    # Only here: agents without it start sooner.
    from weir.congestion.cycle.cycle import Selection
    from weir.congestion.cycle.settings import Settings
    from weir.congestion.recognisers import recogniser

    deadline = datetime.fromtimestamp(assignment["deadline_ns"] / 1e9, UTC)
    settings = Settings(rate=rate, deadline=deadline, steady_s=0.0)
    return Selection(transfer, partial(recogniser, Request()), settings)


def _told(selection: "Selection | None") -> list[str]:
    return [] if selection is None else [news.words for news in selection.take_news()]


def pace(rate_bps: int) -> Rate:
    """What the mover may send of payload for an allotted rate on the wire."""
    return Rate.from_bit_per_s(max(PACE_FLOOR_BPS, int(rate_bps * PAYLOAD_PER_WIRE_BIT)))


def routes(assignment: dict[str, Any], idle: Rate) -> list[Route]:
    """The mover's routes of an assignment over several paths; none of one over a single path.

    A lane without a rate takes nothing, but if no lane has one, the first goes at `idle`.
    """
    each = lanes(assignment) if _has_lanes(assignment) else []
    waits = not any(lane.rate_bps for lane in each)

    def route(lane: Lane) -> Route:
        rate = pace(lane.rate_bps) if lane.rate_bps else PAUSED
        return Route(lane.port, idle if waits and lane is each[0] else rate)

    return [route(lane) for lane in each]


def _has_lanes(assignment: dict[str, Any]) -> bool:
    """Whether it goes over several paths, which a calendar older than lanes does not say."""
    return min(len(assignment.get(key) or ()) for key in ("data_ports", "lanes")) > 1


def _place(assignment: dict[str, Any]) -> tuple[object, ...]:
    """Where a transfer goes: who sends elsewhere begins anew."""
    several = lanes(assignment) if _has_lanes(assignment) else []
    return assignment["data_address"], *(lane.port for lane in several)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    return str(error)
