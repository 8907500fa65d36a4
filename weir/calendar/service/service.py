"""The calendar service: one writer around the planner, and everyone else reads.

A command waits in a queue; the writer takes whatever waits, lets the planner decide each in
turn, makes all outcomes durable in one commit, and only then answers and publishes. So an
answer that was sent is on disk, concurrent requests share one disk write, and what readers see
is never ahead of what a crash would leave.
"""

import asyncio
import contextlib
import itertools
import logging
import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from weir.calendar.answering import ANSWERED_S
from weir.calendar.clock import NS_PER_S, ClockChange, Source
from weir.calendar.compact import compact_json
from weir.calendar.elephants import Elephant, Sighting, Sightings
from weir.calendar.fast_record import changed
from weir.calendar.planning.planner import Planner
from weir.calendar.planning.precheck import Forecast
from weir.calendar.planning.reports import Report
from weir.calendar.planning.split import lanes
from weir.calendar.planning.wire import WIRE_PER_FILE_BYTE
from weir.calendar.problem import Problem, invalid, unavailable
from weir.calendar.records import Outcome, Submission, Transfer
from weir.calendar.service.backlog import Backlog
from weir.calendar.service.events import EventHub
from weir.calendar.service.keeper import RECENT_MAX, Command, Keeper, Making, Taken
from weir.calendar.service.kept import Change, Kept, Promises
from weir.calendar.service.metrics import Metrics
from weir.calendar.service.models import Views
from weir.calendar.service.orders import Orders
from weir.calendar.service.registry import EDGE_PREFIX, Reach, Registry, Role, Stream
from weir.calendar.service.why import Known, Link, why, why_mine
from weir.calendar.settings import Settings
from weir.calendar.sse import sse_text
from weir.calendar.storage.ownership import Fenced
from weir.calendar.storage.store import Store
from weir.calendar.timetable import Timetable
from weir.errors import Unavailable, WeirError

log = logging.getLogger(__name__)

Found = TypeVar("Found")

TICK_S = 0.25
# So much lies between a tick and a turn of the plan, or two of these: each is a commit.
TURN_LEAST_S = 0.02
CHECKPOINT_S = 1.0
# Without a tick made durable for so long the service is not healthy.
HEALTH_S = 5.0
# Transfers of a report that are taken in one command: few milliseconds.
REPORT_PIECE = 50
# The same trouble is logged again after so long.
REPEAT_S = 30.0
# Readers of events, with all tokens and with one.
READERS_MAX = 1_000
READERS_PER_TOKEN_MAX = 256
# So long somebody waits for what is read in the store; threads are few, and each may wait.
READ_S = ANSWERED_S
# Where the store took longer than this to fail, it does not answer those who came meanwhile either.
STORE_AWAY_S = 1.0
# Told to stop, the service waits for its store so long.
STOP_S = 5.0
# How often the event loop is looked at, and by how much it may be late before agents are given
# that time: what they sent meanwhile has arrived, but nobody has read it.
LOOK_S = 0.1
LATE_S = 0.1


class Service:
    """A running calendar. `start` and `stop` frame its life, within one event loop."""

    def __init__(self, settings: Settings, store: Store, source: Source | None = None) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.registry = Registry(time.monotonic())
        self.promises = Promises()
        self.sightings = Sightings()
        self.elephants: dict[str, Elephant] = {}
        self.active: dict[str, Transfer] = {}
        self.rates: dict[str, int] = {}
        self.lanes: dict[str, tuple[int, ...]] = {}
        # How many active transfers need each host.
        self._needed: Counter[str] = Counter()
        self.timetables: dict[str, Timetable] = {}
        # How many bytes of an active transfer were counted, where it has fewer by now.
        self._most: dict[str, int] = {}
        self._views = Views()
        self._orders = Orders(settings.network, self.registry.reach, settings.spare)
        self.hub = EventHub(0)
        # Why the service has ended for good, and who is told.
        self.failure: WeirError | None = None
        self.on_failure: Callable[[], None] = lambda: None
        # Whether a token still stands as it did: see `Identity.standing`.
        self.knows: Callable[[str], bool] = lambda _: True
        self._store = store
        self._keeper = Keeper(settings, store, self.metrics, source)
        self._thread = ThreadPoolExecutor(1, "weir-writer")
        # Writes the engine's state as text meanwhile.
        self._scribe = ThreadPoolExecutor(1, "weir-scribe")
        self._scribing: asyncio.Task[None] | None = None
        self._backlog: Backlog[tuple[Command, asyncio.Future[Any]]] = Backlog()
        self._tasks: list[asyncio.Task[None]] = []
        self._lost: set[str] = set()
        # By how much the wall clock is ahead where that is to be followed.
        self._ahead_ns: int | None = None
        self._ticked_s = 0.0
        # When the store last failed.
        self._failed_s = -math.inf
        # Commands were carried out since it was last looked when the plan's next turn comes.
        self._moved = asyncio.Event()
        self._trouble: tuple[str, float] = ("", 0.0)
        # The newest transfers in whatever state, oldest first, and whether there are older ones.
        self._recent: dict[str, Transfer] = {}
        self._newest_ns = 0
        self._forgotten = False

    # --- life ---

    async def start(self) -> None:
        """Takes up the plan where the store has it, and starts to write and to tick.

        Raises:
            Unavailable: the store does not answer.
            BadInput: the settings cannot be right.
        """
        self._take_up(await self._in_thread(self._keeper.take_up, self._lost))
        self._ticked_s = time.monotonic()
        self._tasks = [
            asyncio.create_task(self._write_forever(), name="weir-writer"),
            asyncio.create_task(self._tick_forever(), name="weir-tick"),
            asyncio.create_task(self._look_forever(), name="weir-look"),
        ]

    def close_streams(self) -> None:
        """Ends every stream."""
        self.hub.close()
        self.registry.close()

    async def stop(self) -> None:
        """Answers what waits, saves the engine's state and closes every stream."""
        self.close_streams()
        impatience = threading.Timer(STOP_S, self._give_store_up)
        impatience.daemon = True
        impatience.start()
        tasks = [*self._tasks, *([self._scribing] if self._scribing else [])]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for _, future in self._backlog.empty():
            _fail(future, unavailable("the calendar is stopping"))
        if self.failure is None:
            try:
                await self._in_thread(self._keeper.save)
            except WeirError as error:
                log.warning("the plan was not saved, so the next start takes longer: %s", error)
        self._thread.shutdown()
        self._scribe.shutdown()
        self._store.close()
        impatience.cancel()
        # Whoever still reads would not be answered.
        self._store.wait_no_more()

    def _give_store_up(self) -> None:
        log.warning("store %s does not answer, and the calendar ends without it", self._store.name)
        self._store.wait_no_more()

    @property
    def healthy(self) -> bool:
        """Whether time goes on, and what is decided is made durable."""
        if self.failure is not None or any(task.done() for task in self._tasks):
            return False
        # Between two writes nothing shows whether the store has room again.
        has_failed = self._keeper.written_s <= self._failed_s
        return not has_failed and time.monotonic() - self._ticked_s < HEALTH_S

    def now_ns(self) -> int:
        """The service's time."""
        return self._keeper.clock.now_ns()

    # --- commands ---

    async def submit(self, asked: Submission) -> tuple[Transfer, bool]:
        """Admits a transfer durably; the flag is False when its key had been used for it before.

        What may wait for its answer may be "waiting".

        Raises:
            Problem: 409 refused, with the link and the earliest deadline; 422 for a key that was
                used for another request; 503.
        """
        asked = self._able(asked)

        def command(planner: Planner, now_ns: int) -> Outcome:
            earlier = self._earlier(asked)
            if earlier is not None:
                return Outcome(answer=earlier)
            started_s = time.perf_counter()
            outcome = planner.submit(now_ns, asked)
            self.metrics.decisions.observe(time.perf_counter() - started_s)
            return outcome

        answer = await self._command(command)
        if isinstance(answer, Problem):
            raise answer
        if self._too_wide([answer]):
            # Its agents have come back with less meanwhile.
            await self._narrow([answer])
            answer = self.active.get(answer.id, answer)
        return answer, answer.id == asked.id

    async def precheck(self, asked: Submission) -> Forecast:
        """What `submit` would answer; nothing is changed or stored."""
        able = self._able(asked)
        answer: Forecast = await self._command(lambda planner, now: planner.precheck(now, able))
        return answer

    def _able(self, asked: Submission) -> Submission:
        """A request with the paths that its hosts, as now known, and this service can give it."""
        able = min(self.settings.paths, self.registry.lanes_max(asked.source, asked.destination))
        return changed(asked, paths_max=min(asked.paths_max, able), paths_able=able)

    async def change_timetables(
        self, links: Sequence[str], change: Callable[[Timetable], Timetable]
    ) -> None:
        """Changes what links carry, durably; who is at risk by that is told by events."""
        await self._command(lambda planner, now: planner.change_timetables(now, links, change))

    async def cancel(self, identifier: str) -> Transfer:
        """Cancels an active transfer durably."""
        answer: Transfer = await self._command(lambda planner, now: planner.cancel(now, identifier))
        return answer

    async def tell_elephant(self, asked: Elephant) -> Elephant:
        """Takes up what an application tells of an elephant, durably; the controller marks it.

        Raises:
            Problem: 409, there are too many.
        """
        told: Elephant = await self._command(lambda planner, now: planner.tell_elephant(now, asked))
        return told

    async def end_elephants(self, identifiers: Sequence[str], why: str) -> list[Elephant]:
        """Elephants are over, durably; those that were not before."""
        ended: list[Elephant] = await self._command(
            lambda planner, now: planner.end_elephants(now, identifiers, why)
        )
        return ended

    async def report(self, host: str, reports: Sequence[Report]) -> list[str]:
        """Takes an agent's measurements; the ids that it should stop."""
        now_s = time.monotonic()
        agent = self.registry.heard(host, now_s)
        for report in reports:
            # An agent may name what it likes; what is over already is not measured any more.
            transfer = self.active.get(report.id)
            is_its = transfer is not None and transfer.source == host
            if is_its and report.bytes_durable is not None:
                self.registry.measure(agent, now_s, report.id, report.bytes_durable)
        stop: list[str] = []
        # In pieces, so that others are heard between them.
        with self.registry.reporting(agent):
            for first in range(0, len(reports), REPORT_PIECE):
                piece = _reported(host, reports[first : first + REPORT_PIECE])
                stop += await self._command(piece, is_report=True)
        return stop

    # --- reading ---

    async def find(self, identifier: str) -> Transfer | None:
        """A transfer, active or finished."""
        known = self.active.get(identifier) or self._recent.get(identifier)
        return known or await self._read(self._store.find, identifier)

    async def find_key(self, owner: str, idempotency_key: str | None) -> Transfer | None:
        """The transfer that an owner submitted under a key, active or finished."""
        if idempotency_key is None:
            return None
        return await self._read(self._store.find_key, owner, idempotency_key)

    async def page(
        self, states: Sequence[str], before: Transfer | None, count_max: int
    ) -> list[Transfer]:
        """Transfers in any of `states`, newest first, older than `before`."""
        if before is None:
            wanted = (x for x in reversed(self._recent.values()) if x.state in states)
            found = list(itertools.islice(wanted, count_max))
            if len(found) == count_max or not self._forgotten:
                return found
        return await self._read(self._store.page, states, before, count_max)

    async def why(self, identifier: str) -> dict[str, Any] | None:
        """Why a transfer stands as it does, or a request was refused; None if it is neither."""
        silent = self._silent()
        return await self._read(lambda: why(self._store, self._known(silent), identifier))

    async def why_mine(self, owner: str, key: str | None) -> dict[str, Any] | None:
        """The same of what an owner asked for under a key, or of the owner's last refusal."""
        silent = self._silent()
        return await self._read(lambda: why_mine(self._store, self._known(silent), owner, key))

    async def _read(self, call: Callable[..., Found], *args: Any) -> Found:
        """What a call finds in the store, in a thread; `Problem` where that takes too long."""
        try:
            async with asyncio.timeout(READ_S):
                return await asyncio.to_thread(call, *args)
        except TimeoutError:
            raise unavailable(f"store {self._store.name}: it does not answer") from None

    def _silent(self) -> frozenset[str]:
        return frozenset(self.registry.silent(self._hosts(), time.monotonic()))

    def _known(self, silent: frozenset[str]) -> Known:
        links = {x[0]: Link(*x[:3]) for x in self.links()}
        rates, lanes_bps = dict(self.rates), dict(self.lanes)
        return Known(self.now_ns(), dict(self.active), rates, links, silent, lanes=lanes_bps)

    def follow(self, after: int | None, identity: str) -> AsyncGenerator[bytes, None]:
        """The events after a number, or from now on, to whoever has the token `identity`.

        Raises:
            Problem: there are too many readers already, 503, or too many of this token, 429.
        """
        if self.hub.readers >= READERS_MAX:
            raise unavailable("too many read events already")
        if self.hub.readers_of(identity) >= READERS_PER_TOKEN_MAX:
            raise Problem(
                429,
                "too-many-readers",
                "Too many streams with one token",
                f"{READERS_PER_TOKEN_MAX} streams of events are open with this token",
            )
        return self.hub.follow(after, self._store.sent_events_after, identity)

    def links(self) -> list[tuple[str, int, int, float]]:
        """Each link's name, capacity, allotted and measured rate on the wire, in bit/s.

        With ten thousand active transfers that takes as long as to answer a hundred requests: any
        thread may do it.
        """
        allotted = dict.fromkeys(self.settings.network.links, 0)
        measured = dict.fromkeys(self.settings.network.links, 0.0)
        for transfer in list(self.active.values()):
            if not transfer.planned:
                continue
            rate_bps = self.rates.get(transfer.id, 0)
            wire_bps = self.measured_bps(transfer) * WIRE_PER_FILE_BYTE
            lanes_bps = self.lanes.get(transfer.id) or (rate_bps,)
            for path, lane_bps in zip(transfer.routes, lanes_bps, strict=False):
                # What moves is told of all together: each has its part, without rates the first.
                part = lane_bps / rate_bps if rate_bps else float(path is transfer.routes[0])
                for link in path:
                    allotted[link] += lane_bps
                    measured[link] += part * wire_bps
        links = self.settings.network.links
        return [(x, self.capacity_bps(x), allotted[x], measured[x]) for x in links]

    def capacity_bps(self, link: str) -> int:
        """What a link carries now."""
        nominal_bps = self.settings.network.links[link].capacity_bps
        timetable = self.timetables.get(link)
        return (
            nominal_bps if timetable is None else timetable.capacity_bps(self.now_ns(), nominal_bps)
        )

    def lanes_of(self, transfer: Transfer) -> list[dict[str, Any]]:
        """Every path of a transfer, in an order that stays, with its part of the rate."""
        rate_bps = self.rates.get(transfer.id, 0)
        return lanes(transfer, rate_bps, self.lanes.get(transfer.id))

    def view_text(self, transfer: Transfer, now_ns: int) -> str:
        """A transfer's view as JSON."""
        name = transfer.id
        return self._views.text(
            transfer,
            now_ns,
            self.rates.get(name, 0),
            self.lanes.get(name),
            self.measured_bps(transfer),
            self.promises.of(name),
        )

    def measured_bps(self, transfer: Transfer) -> float:
        """What a transfer really moves, in bit/s of file bytes."""
        return self.registry.measured_bps(transfer.source, transfer.id)

    async def metrics_text(self) -> bytes:
        """The Prometheus exposition."""
        self.metrics.active.set(len(self.active))
        self.metrics.agents.set(len(self.registry.alive(time.monotonic())))
        self.metrics.readers.set(self.hub.readers)
        self.metrics.clock_ahead.set(self._keeper.clock.ahead_ns() / NS_PER_S)
        self.metrics.promises(self.promises)
        self.metrics.herd(len(self.elephants), self.sightings)
        return await asyncio.to_thread(self._metrics_text)

    def _metrics_text(self) -> bytes:
        """What is counted over all transfers, and all of it as text."""
        active = list(self.active.values())
        self.metrics.waiting.set(sum(x.state == "waiting" for x in active))
        self.metrics.at_risk.set(sum(bool(x.risk) for x in active))
        self.metrics.utilisation(self.links())
        return self.metrics.text()

    # --- agents ---

    def open_stream(
        self, host: str, role: Role, identity: str, instance: str | None = None
    ) -> Stream:
        """A stream of assignments; the first one is everything the agent should be doing."""

        def told(identifiers: Iterable[str]) -> bytes:
            return self._changes(stream, identifiers)

        stream = Stream(host, role, identity, told, instance)
        concerned = [x for x in self.active.values() if x.is_sent and self._concerns(stream, x)]
        elephants = {"elephants": [x.assignment() for x in self.elephants.values()]}
        only = elephants if role == "control" else {}
        stream.put(self._assigned("snapshot", concerned, **only))
        self.registry.streams.add(stream)
        return stream

    async def heard_agent(self, name: str, reach: Reach) -> None:
        """Notes where an agent is reached, and tells those who send to it when that changed.

        Transfers that it can no longer carry over all their paths go on over the first ones.
        """
        agent = self.registry.heard(name, time.monotonic())
        if agent.reach != reach:
            agent.reach = reach
            # First, so that nobody is told of a lane for which there is no port.
            await self._narrow(self._at(name))
            self._assign(self._at(name))

    def _at(self, host: str) -> list[Transfer]:
        return [x for x in self.active.values() if host in (x.source, x.destination)]

    async def _narrow(self, transfers: Iterable[Transfer]) -> None:
        """Has transfers take no more paths than the agents of their hosts have told."""
        for host, narrower in self._too_wide(transfers).items():
            why = f"{host[1]} on {host[0]}"
            await self._command(partial(Planner.narrowed, most=narrower, why=why))

    def _too_wide(self, transfers: Iterable[Transfer]) -> dict[tuple[str, str], dict[str, int]]:
        """By host and what it says, how many paths those may have that have more."""
        found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for transfer in transfers:
            if transfer.paths_max == 1:
                continue
            ports = self.registry.reach(transfer.destination).data_ports
            # Who takes no data just now may come back with all that it had.
            if ports and len(ports) < transfer.paths_max:
                told = f"data is taken at {len(ports)} port{'s' if len(ports) > 1 else ''}"
                found[transfer.destination, told][transfer.id] = len(ports)
            sends = self.registry.agents.get(transfer.source)
            if sends is not None and sends.reach.lanes_max < transfer.paths_max:
                most = sends.reach.lanes_max
                told = f"data is sent over {most} path{'s' if most > 1 else ''}"
                found[transfer.source, told][transfer.id] = most
        return found

    async def heard_promises(self, told: Mapping[str, Kept]) -> None:
        """Takes what the controller has measured of the promises of transfers."""
        # What was under way when a transfer ended is told shortly after.
        ours = {x: y for x, y in told.items() if x in self.active or x in self._recent}
        for identifier, kept in ours.items():
            transfer = self.active.get(identifier)
            if transfer is not None and not transfer.remaining_bytes:
                ours[identifier] = kept.without_empty()
        changes = self.promises.take(ours)
        if changes:
            await self._command(_promises(changes))

    async def heard_elephants(
        self, told: Mapping[str, Sighting], found: Iterable[Sighting], over: Mapping[str, str]
    ) -> None:
        """Takes what the controller has of elephants: those told of, those found, those over."""
        self.sightings.take(told, found)
        ours = [x for x in over if x in self.elephants]
        for reason in {over[x] for x in ours}:
            idle = [x for x in ours if over[x] == reason]
            await self._command(partial(Planner.end_idle, identifiers=idle, why=reason))

    def agent_state(self, node: str) -> str:
        """Whether an agent on a node, or at this edge, is "alive" or "lost", or there is "none"."""
        known = {node, EDGE_PREFIX + node} & self.registry.agents.keys()
        if not known:
            return "none"
        return "alive" if known.intersection(self.registry.alive(time.monotonic())) else "lost"

    def assignment_text(self, transfer: Transfer) -> str:
        """What agents are told about a transfer, as JSON."""
        name = transfer.id
        return self._orders.text(transfer, self.rates.get(name, 0), self.lanes.get(name))

    def _concerns(self, stream: Stream, transfer: Transfer) -> bool:
        if stream.role == "control":
            return True
        if stream.role == "host":
            return transfer.source == stream.host
        links = self.settings.network.links
        return any(links[name].source == stream.host for name in transfer.links)

    def _assign(self, transfers: Iterable[Transfer]) -> None:
        """Has every agent that transfers concern told of their present state.

        Where one has left links, it is among them as it was, too: who stands on these has to let
        go of it.
        """
        by_source: dict[str, list[Transfer]] = defaultdict(list)
        for transfer in transfers:
            by_source[transfer.source].append(transfer)
        for stream in self.registry.streams:
            if stream.role != "host":
                everything = itertools.chain.from_iterable(by_source.values())
                concerned = [x for x in everything if self._concerns(stream, x)]
            else:
                concerned = by_source.get(stream.host, [])
            if concerned:
                stream.change(x.id for x in concerned)

    def _changes(self, stream: Stream, identifiers: Iterable[str]) -> bytes:
        """What an agent is told of transfers that concern it, or did: as they are now."""
        found = {x: self.active.get(x) for x in identifiers}
        assign = {
            key: x
            for key, x in found.items()
            if x is not None and x.is_sent and self._concerns(stream, x)
        }
        release = [key for key in found if key not in assign]
        return self._assigned("change", assign.values(), release=release)

    def _assigned(self, kind: str, assign: Iterable[Transfer], **more: Any) -> bytes:
        """A message with assignments, as it travels."""
        assigned = ",".join(map(self.assignment_text, assign))
        head = compact_json({"kind": kind, **more})[:-1]
        return sse_text(kind, f'{head},"assign":[{assigned}]}}')

    def _tell_elephants(self, news: Mapping[str, Elephant | None]) -> None:
        """Tells controllers of elephants that are new, changed or over."""
        add = [x.assignment() for x in news.values() if x is not None]
        remove = [identifier for identifier, x in news.items() if x is None]
        for stream in self.registry.streams:
            if stream.role == "control" and news:
                told = {"kind": "elephants", "add": add, "remove": remove}
                stream.put(sse_text("elephants", compact_json(told)))

    # --- the writer ---

    async def _command(self, command: Command, is_report: bool = False) -> Any:
        if self.failure is not None:
            raise unavailable(str(self.failure))
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if not self._backlog.put((command, future), is_report):
            raise unavailable("too many requests wait to be written")
        return await future

    async def _write_forever(self) -> None:
        while True:
            batch = await self._backlog.batch()
            began_s = time.monotonic()
            try:
                await self._follow()
                await self._write(batch)
            except Problem as problem:
                self._failed_s = time.monotonic()
                if time.monotonic() - began_s > STORE_AWAY_S:
                    batch += self._backlog.empty()
                for _, future in batch:
                    _fail(future, problem)
            except Exception as error:
                for _, future in batch:
                    _fail(future, unavailable(str(error)))
                self._end(error)
                return

    async def _write(self, batch: Sequence[tuple[Command, asyncio.Future[Any]]]) -> None:
        commands = [command for command, _ in batch]
        taken, outcomes = await self._in_thread(self._keeper.process, commands, self._lost)
        if taken is not None:
            self._take_up(taken)
        self._publish([x for x in outcomes if isinstance(x, Outcome)])
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Problem):
                _fail(future, outcome)
            elif not future.done():
                future.set_result(outcome.answer)
        self._moved.set()
        making = self._keeper.to_make()
        if making is not None:
            self._scribing = asyncio.create_task(self._make(making), name="weir-scribe")

    async def _make(self, making: Making) -> None:
        """Has the engine's state written as text, and stored with what comes next."""
        loop, snapshot = asyncio.get_running_loop(), None
        try:
            snapshot = await loop.run_in_executor(self._scribe, making)
        except Exception:
            log.exception("the engine's state could not be written")
        await self._in_thread(self._keeper.made, making, snapshot)

    async def _follow(self) -> None:
        """Follows a step of the wall clock, once it has lasted."""
        ahead_ns, self._ahead_ns = self._ahead_ns, None
        if ahead_ns is None:
            return
        try:
            self._take_up(await self._in_thread(self._keeper.follow, ahead_ns, self._lost))
        except Fenced:
            raise
        except WeirError as error:
            raise unavailable(str(error)) from None

    def _end(self, error: Exception) -> None:
        """Ends the service for good: it is not the store's any more, or cannot be trusted."""
        if isinstance(error, WeirError):
            log.critical("the calendar ends: %s", error)
            self.failure = error
        else:
            log.critical("the calendar ends: its writer failed", exc_info=error)
            self.failure = Unavailable(f"the calendar's writer failed: {error!r}")
        for _, future in self._backlog.empty():
            _fail(future, unavailable(str(self.failure)))
        self.on_failure()

    def _earlier(self, asked: Submission) -> Transfer | None:
        """The transfer that the same owner submitted under the same key."""
        if asked.idempotency_key is None:
            return None
        earlier = self._keeper.find_key(asked.owner, asked.idempotency_key)
        if earlier is not None and earlier.fingerprint != asked.fingerprint:
            raise invalid(
                "Idempotency-Key",
                f'the key "{asked.idempotency_key}" was used for another request',
                "use a new key for a new request",
            )
        return earlier

    async def _in_thread(self, call: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    # --- after the commit ---

    def _publish(self, outcomes: Sequence[Outcome]) -> None:
        """Shows readers what is now durable, and tells the agents what it means for them."""
        ordered: dict[str, Transfer] = {}
        left: list[Transfer] = []
        elephants: dict[str, Elephant | None] = {}
        for outcome in outcomes:
            self._count(outcome)
            self.rates |= outcome.rates
            self.lanes |= outcome.lanes
            self.timetables |= outcome.timetables
            elephants |= outcome.elephants
            for transfer in outcome.transfers.values():
                before = self.active.get(transfer.id)
                self.active[transfer.id] = transfer
                self._remember(transfer, new=before is None)
                if before is None:
                    self._needed.update((transfer.source, transfer.destination))
                if before is None or before.is_sent != transfer.is_sent:
                    ordered[transfer.id] = transfer
                if before is not None and _has_left(before, transfer):
                    left.append(before)
                if not transfer.planned:
                    self.rates.pop(transfer.id, None)
                if not (transfer.planned and transfer.paths):
                    self.lanes.pop(transfer.id, None)
                if not transfer.active:
                    del self.active[transfer.id]
                    ordered[transfer.id] = transfer
                    self._needed.subtract((transfer.source, transfer.destination))
                    self.registry.forget(transfer.source, transfer.id)
                    self._orders.forget(transfer.id)
            ordered |= {x: self.active[x] for x in outcome.rates if x in self.active}
            self.hub.publish(outcome.events)
        self._assign([*ordered.values(), *left])
        for identifier, elephant in elephants.items():
            if elephant is None:
                self.elephants.pop(identifier, None)
            else:
                self.elephants[identifier] = elephant
        self._tell_elephants(elephants)

    def _remember(self, transfer: Transfer, new: bool) -> None:
        if new or transfer.id in self._recent:
            self._recent[transfer.id] = transfer
        if new and transfer.submitted_ns < self._newest_ns:
            # The clock was set back: the store's order is by the time of submission.
            self._set_recent(sorted(self._recent.values(), key=lambda x: (x.submitted_ns, x.id)))
        elif new:
            self._newest_ns = transfer.submitted_ns
        if len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]
            self._forgotten = True

    def _set_recent(self, oldest_first: Sequence[Transfer]) -> None:
        self._recent = {x.id: x for x in oldest_first}
        self._newest_ns = oldest_first[-1].submitted_ns if oldest_first else 0

    def _take_up(self, taken: Taken) -> None:
        """Shows readers the plan as it was taken up, and tells the agents what is new in it.

        A commit can be made and its success be lost on the way back: then the store holds what
        no reader has seen, and readers go on from there.
        """
        self._orders.clear()
        active, rates, lanes_bps = self.active, self.rates, self.lanes
        self.active, self.rates, self.lanes = taken.active, taken.rates, taken.lanes
        self._most = {x: most for x, most in self._most.items() if x in self.active}
        self._needed = Counter(y for x in self.active.values() for y in (x.source, x.destination))
        self.timetables = taken.timetables
        self._set_recent([self.active.get(x.id, x) for x in reversed(taken.recent)])
        self._forgotten = len(taken.recent) == RECENT_MAX
        self.hub.skip_to(taken.last_event)
        ordered = [
            x
            for x in self.active.values()
            if x.id not in active
            or rates.get(x.id) != self.rates.get(x.id)
            or lanes_bps.get(x.id) != self.lanes.get(x.id)
        ]
        gone = [x for x in active.values() if x.id not in self.active]
        for transfer in gone:
            self.registry.forget(transfer.source, transfer.id)
        stays = (x for x in active.values() if x.id in self.active)
        left = [x for x in stays if _has_left(x, self.active[x.id])]
        self._assign([*ordered, *gone, *left])
        over = dict.fromkeys(self.elephants.keys() - taken.elephants.keys())
        self.elephants = taken.elephants
        self._tell_elephants(over | self.elephants)

    def _count(self, outcome: Outcome) -> None:
        for event in outcome.events:
            if event.kind == "admitted":
                self.metrics.admissions.inc()
            elif event.kind == "refused":
                self.metrics.refusals.labels(event.data["link"] or "none").inc()
            elif event.kind == "completed":
                self.metrics.completions.labels(str(event.data["on_time"]).lower()).inc()
            elif event.kind == "missed":
                self.metrics.misses.inc()
        delivered = 0
        for transfer in outcome.transfers.values():
            before = self.active.get(transfer.id)
            most = self._most.pop(transfer.id, before.bytes_durable if before else 0)
            delivered += max(0, transfer.bytes_durable - most)
            if transfer.active and transfer.bytes_durable < most:
                self._most[transfer.id] = most
        self.metrics.delivered.inc(delivered)

    # --- time ---

    async def shorten_log_forever(self) -> None:
        """Keeps the store's log short beside the writer, whose commits need not do it then."""
        while True:
            await asyncio.sleep(CHECKPOINT_S)
            await asyncio.get_running_loop().run_in_executor(self._scribe, self._store.checkpoint)

    async def _tick_forever(self) -> None:
        epoch_ns = self.settings.epoch.ns
        next_epoch_s = time.monotonic() + epoch_ns / NS_PER_S
        tick_s = time.monotonic() + TICK_S
        while True:
            is_turn = await self._turn_before(tick_s)
            self.hub.keep(self.knows)
            self.registry.keep(self.knows)
            commands: list[Command] = [_tick] if is_turn else self._due_commands()
            if not is_turn and time.monotonic() >= next_epoch_s:
                next_epoch_s = time.monotonic() + epoch_ns / NS_PER_S
                commands.append(lambda planner, now: planner.epoch(now))
            try:
                for command in commands:
                    await self._command(command)
                self._ticked_s = time.monotonic()
                self._trouble = ("", 0.0)
            except Problem as problem:
                self._complain(problem.detail)
            if not is_turn:
                tick_s = time.monotonic() + TICK_S

    async def _turn_before(self, tick_s: float) -> bool:
        """Waits for the next turn of the plan, or until then if that is sooner; whether it came.

        A turn that comes late is lost where links are promised to the full.
        """
        least_s = time.monotonic() + TURN_LEAST_S
        while True:
            self._moved.clear()
            turn_ns, now_s = self._keeper.turn_ns, time.monotonic()
            ahead_s = math.inf if turn_ns is None else (turn_ns - self.now_ns()) / NS_PER_S
            turn_s = max(least_s, now_s + ahead_s)
            due_s = min(turn_s, tick_s)
            if now_s >= due_s:
                return turn_s < tick_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(due_s - now_s):
                    await self._moved.wait()

    def _due_commands(self) -> list[Command]:
        """What a tick brings: hosts lost and back, the clock's steps, and the passing of time."""
        silent = self.registry.silent(self._hosts(), time.monotonic())
        gone, back = silent - self._lost, self._lost - silent
        self._lost = silent
        commands: list[Command] = []
        if gone:
            commands.append(_lost(gone))
        if back:
            commands.append(_back(back))
        change = self._keeper.clock.observe()
        if change is not None:
            commands.append(self._told(change))
        commands.append(_tick)
        return commands

    def _told(self, change: ClockChange) -> Command:
        """Tells of the wall clock's step in the log, the metrics and an event."""
        ahead_s = round(change.ahead_ns / NS_PER_S, 3)
        log.warning("the wall clock %s: %+.3f s ahead of the calendar", change.kind, ahead_s)
        self.metrics.clock_steps.labels(change.kind).inc()
        if change.kind == "settled":
            self._ahead_ns = change.ahead_ns
        data: dict[str, object] = {"change": change.kind, "ahead_s": ahead_s}
        return lambda planner, now: planner.tell(now, "clock", data)

    def _complain(self, detail: str) -> None:
        """Logs trouble, but not the same all the time."""
        words, since_s = self._trouble
        if detail != words or time.monotonic() - since_s > REPEAT_S:
            log.warning("the calendar cannot go on for now: %s", detail)
            self._trouble = (detail, time.monotonic())

    async def _look_forever(self) -> None:
        """Notices when the event loop stood still, and holds no agent's silence against it then."""
        while True:
            before_s = time.monotonic()
            await asyncio.sleep(LOOK_S)
            late_s = time.monotonic() - before_s - LOOK_S
            if late_s > LATE_S:
                self.registry.forgive(late_s)

    def _hosts(self) -> set[str]:
        """Every host that an active transfer needs."""
        return {host for host, count in self._needed.items() if count}


def _tick(planner: Planner, now_ns: int) -> Outcome:
    return planner.tick(now_ns)


def _has_left(before: Transfer, now: Transfer) -> bool:
    """Whether a transfer takes links no more that it took before."""
    return before.links != now.links and not set(before.links) <= set(now.links)


def _reported(host: str, reports: Sequence[Report]) -> Command:
    return lambda planner, now_ns: planner.report(now_ns, host, reports)


def _promises(changes: Sequence[Change]) -> Command:
    def told(planner: Planner, now_ns: int) -> Outcome:
        outcome = Outcome()
        for change in changes:
            event = planner.tell(now_ns, change.kind, change.data, change.id)
            outcome.events += event.events
        return outcome

    return told


def _lost(hosts: set[str]) -> Command:
    return lambda planner, now_ns: planner.hosts_lost(now_ns, hosts)


def _back(hosts: set[str]) -> Command:
    return lambda planner, now_ns: planner.hosts_back(now_ns, hosts)


def _fail(future: asyncio.Future[Any], problem: Problem) -> None:
    if not future.done():
        future.set_exception(problem)
