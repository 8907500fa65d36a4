"""The calendar service: one writer around the planner, and everyone else reads.

A command waits in a queue; the writer takes whatever waits, lets the planner decide each in
turn, makes all outcomes durable in one commit, and only then answers and publishes. So an
answer that was sent is on disk, concurrent requests share one disk write, and what readers see
is never ahead of what a crash would leave.
"""

import asyncio
import contextlib
import itertools
import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from weir import Time
from weir._core import Calendar
from weir.calendar.clock import Clock
from weir.calendar.engine import RecordedEngine
from weir.calendar.events import EventHub
from weir.calendar.metrics import Metrics
from weir.calendar.network import Network
from weir.calendar.planner import WIRE_PER_FILE_BYTE, Planner, Report
from weir.calendar.problem import Problem, invalid, unavailable
from weir.calendar.records import STATES, Event, Outcome, Snapshot, Submission, Transfer
from weir.calendar.registry import EDGE_PREFIX, Registry, Stream
from weir.calendar.store import Store
from weir.errors import BadInput, WeirError

log = logging.getLogger(__name__)

BATCH_MAX = 256
# Commands that may wait for the writer; beyond it a request is answered 503 at once.
QUEUE_MAX = 4_096
TICK_S = 0.25
# Transfers that lists are answered from without asking the store.
RECENT_MAX = 2_000
# Steps after which the engine's state is saved whole, which bounds the time of a restart.
SNAPSHOT_STEPS = 5_000

Command = Callable[[Planner, int], Outcome]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a calendar is run with. Changing any of it re-plans the active transfers."""

    network: Network
    policy: str
    epoch: Time
    margin: Time

    def configuration(self) -> str:
        """Text that is equal for equal settings."""
        return json.dumps([self.network.engine_json(), self.policy, self.epoch.ns, self.margin.ns])


class Service:
    """A running calendar. `start` and `stop` frame its life, within one event loop."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.registry = Registry(time.monotonic())
        self.active: dict[str, Transfer] = {}
        self.rates: dict[str, int] = {}
        self.hub = EventHub(0)
        self._store = store
        self._clock = Clock()
        self._thread = ThreadPoolExecutor(1, "weir-writer")
        self._queue: asyncio.Queue[tuple[Command, asyncio.Future[Any]]] = asyncio.Queue(QUEUE_MAX)
        self._tasks: list[asyncio.Task[None]] = []
        self._planner: Planner | None = None
        self._snapshot_step = 0
        self._lost: set[str] = set()
        # The newest transfers in whatever state, oldest first, and whether there are older ones.
        self._recent: dict[str, Transfer] = {}
        self._forgotten = False

    # --- life ---

    async def start(self) -> None:
        """Takes up the plan where the store has it, and starts to write and to tick.

        Raises:
            Unavailable: the store does not answer.
            BadInput: the settings cannot be right.
        """
        await self._in_thread(self._load)
        self._publish_state()
        self._tasks = [
            asyncio.create_task(self._write_forever(), name="weir-writer"),
            asyncio.create_task(self._tick_forever(), name="weir-tick"),
        ]

    async def stop(self) -> None:
        """Answers what waits, saves the engine's state and closes every stream."""
        self.hub.close()
        self.registry.close()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        while not self._queue.empty():
            _, future = self._queue.get_nowait()
            _fail(future, unavailable("the calendar is stopping"))
        if self._planner is not None:
            with contextlib.suppress(WeirError):
                await self._in_thread(self._commit, self._planner, [], True)
        self._thread.shutdown()
        self._store.close()

    @property
    def healthy(self) -> bool:
        """Whether the plan is loaded and the writer runs."""
        return self._planner is not None and not any(task.done() for task in self._tasks)

    def now_ns(self) -> int:
        """The service's time."""
        return self._clock.now_ns()

    # --- commands ---

    async def submit(self, asked: Submission) -> tuple[Transfer, bool]:
        """Admits a transfer durably; the flag is False when its key had been used for it before.

        Raises:
            Problem: 409 refused, with the link and the earliest deadline; 422 for a key that was
                used for another request; 503.
        """

        def command(planner: Planner, now_ns: int) -> Outcome:
            earlier = self._earlier(planner, asked)
            if earlier is not None:
                return Outcome(answer=earlier)
            started_s = time.perf_counter()
            outcome = planner.submit(now_ns, asked)
            self.metrics.decisions.observe(time.perf_counter() - started_s)
            return outcome

        answer = await self._command(command)
        if isinstance(answer, Problem):
            raise answer
        return answer, answer.id == asked.id

    async def cancel(self, identifier: str) -> Transfer:
        """Cancels an active transfer durably."""
        answer: Transfer = await self._command(lambda planner, now: planner.cancel(now, identifier))
        return answer

    async def report(self, host: str, reports: Sequence[Report]) -> list[str]:
        """Takes an agent's measurements; the ids that it should stop."""
        now_s = time.monotonic()
        agent = self.registry.heard(host, now_s)
        for report in reports:
            if report.bytes_durable is not None:
                self.registry.measure(agent, now_s, report.id, report.bytes_durable)
        if not reports:
            return []
        stop: list[str] = await self._command(
            lambda planner, now: planner.report(now, host, reports)
        )
        return stop

    # --- reading ---

    async def find(self, identifier: str) -> Transfer | None:
        """A transfer, active or finished."""
        return self.active.get(identifier) or await asyncio.to_thread(self._store.find, identifier)

    async def page(
        self, states: Sequence[str], before: Transfer | None, count_max: int
    ) -> list[Transfer]:
        """Transfers in any of `states`, newest first, older than `before`."""
        if before is None:
            wanted = (x for x in reversed(self._recent.values()) if x.state in states)
            found = list(itertools.islice(wanted, count_max))
            if len(found) == count_max or not self._forgotten:
                return found
        return await asyncio.to_thread(self._store.page, states, before, count_max)

    def history(self, after: int) -> list[Event]:
        """Stored events after a number, a thousand at most; blocks."""
        return self._store.events_after(after, 1_000)

    def links(self) -> list[tuple[str, int, int, float]]:
        """Each link's name, capacity, allotted and measured rate on the wire, in bit/s."""
        allotted = dict.fromkeys(self.settings.network.links, 0)
        measured = dict.fromkeys(self.settings.network.links, 0.0)
        for transfer in self.active.values():
            rate_bps = self.rates.get(transfer.id, 0)
            wire_bps = self.measured_bps(transfer) * WIRE_PER_FILE_BYTE
            for link in transfer.path if transfer.planned else ():
                allotted[link] += rate_bps
                measured[link] += wire_bps
        links = self.settings.network.links.values()
        return [(x.name, x.capacity_bps, allotted[x.name], measured[x.name]) for x in links]

    def measured_bps(self, transfer: Transfer) -> float:
        """What a transfer really moves, in bit/s of file bytes."""
        return self.registry.measured_bps(transfer.source, transfer.id)

    def metrics_text(self) -> bytes:
        """The Prometheus exposition."""
        self.metrics.active.set(len(self.active))
        self.metrics.at_risk.set(sum(bool(x.risk) for x in self.active.values()))
        self.metrics.agents.set(len(self.registry.alive(time.monotonic())))
        self.metrics.readers.set(self.hub.readers)
        self.metrics.utilisation(self.links())
        return self.metrics.text()

    # --- agents ---

    def open_stream(self, host: str, edge: bool) -> Stream:
        """A stream of orders; the first one is everything the agent should be doing."""
        stream = Stream(host, edge)
        orders = [
            self.order(x) for x in self.active.values() if x.planned and self._concerns(stream, x)
        ]
        stream.put({"kind": "snapshot", "assign": orders})
        self.registry.streams.add(stream)
        return stream

    def heard_agent(self, name: str, data_address: str | None, address: str | None) -> None:
        """Notes where an agent is reached, and tells those who send to it when that changed."""
        agent = self.registry.heard(name, time.monotonic())
        known = (agent.data_address, agent.address)
        agent.data_address, agent.address = data_address, address
        if known != (data_address, address):
            self._order([x for x in self.active.values() if name in (x.source, x.destination)])

    def agent_state(self, node: str) -> str:
        """Whether an agent on a node, or at this edge, is "alive" or "lost", or there is "none"."""
        known = {node, EDGE_PREFIX + node} & self.registry.agents.keys()
        if not known:
            return "none"
        return "alive" if known.intersection(self.registry.alive(time.monotonic())) else "lost"

    def order(self, transfer: Transfer) -> dict[str, Any]:
        """What agents are told about a transfer."""
        destination = self.registry.agents.get(transfer.destination)
        return {
            "id": transfer.id,
            "source": transfer.source,
            "source_path": transfer.source_path,
            "source_address": self._address(transfer.source),
            "destination": transfer.destination,
            "destination_path": transfer.destination_path,
            "destination_address": self._address(transfer.destination),
            "data_address": destination.data_address if destination else None,
            "size_bytes": transfer.size_bytes,
            "deadline_ns": transfer.deadline_ns,
            "rate_bps": self.rates.get(transfer.id, 0),
        }

    def _address(self, host: str) -> str | None:
        declared = self.settings.network.nodes.get(host)
        agent = self.registry.agents.get(host)
        return declared or (agent.address if agent else None)

    def _concerns(self, stream: Stream, transfer: Transfer) -> bool:
        if not stream.edge:
            return transfer.source == stream.host
        links = self.settings.network.links
        return any(links[name].source == stream.host for name in transfer.path)

    def _order(self, transfers: Iterable[Transfer]) -> None:
        """Sends the present state of transfers to every agent that they concern."""
        transfers = list(transfers)
        for stream in self.registry.streams:
            concerned = [x for x in transfers if self._concerns(stream, x)]
            assign = [self.order(x) for x in concerned if x.active and x.planned]
            release = [x.id for x in concerned if not (x.active and x.planned)]
            if assign or release:
                stream.put({"kind": "change", "assign": assign, "release": release})

    # --- the writer ---

    async def _command(self, command: Command) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((command, future))
        except asyncio.QueueFull:
            raise unavailable("too many requests wait to be written") from None
        return await future

    async def _write_forever(self) -> None:
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty() and len(batch) < BATCH_MAX:
                batch.append(self._queue.get_nowait())
            commands = [command for command, _ in batch]
            try:
                outcomes = await self._in_thread(self._process, commands)
            except WeirError as error:
                for _, future in batch:
                    _fail(future, unavailable(str(error)))
                continue
            self._publish([x for x in outcomes if isinstance(x, Outcome)])
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, Problem):
                    _fail(future, outcome)
                elif not future.done():
                    future.set_result(outcome.answer)

    def _process(self, commands: Sequence[Command]) -> list[Outcome | Problem]:
        """Decides and makes durable, in the writer's thread.

        On any failure the plan is dropped, so that the next batch starts from what is stored:
        memory must not know more than the disk.
        """
        planner = self._planner or self._load()
        try:
            outcomes = [_outcome(command, planner, self._clock.now_ns()) for command in commands]
            due = planner.engine.last_step - self._snapshot_step >= SNAPSHOT_STEPS
            self._commit(planner, [x for x in outcomes if isinstance(x, Outcome)], due)
        except WeirError:
            self._planner = None
            raise
        except Exception:
            log.exception("a command failed; taking the plan up again from the store")
            self._planner = None
            raise unavailable("a command failed; it was not carried out") from None
        return outcomes

    def _commit(self, planner: Planner, outcomes: Sequence[Outcome], with_state: bool) -> None:
        started_s = time.perf_counter()
        snapshot = None
        if with_state:
            engine, configuration = planner.engine, self.settings.configuration()
            snapshot = Snapshot(engine.last_step, configuration, engine.snapshot())
            self._snapshot_step = engine.last_step
        self._store.commit(outcomes, snapshot)
        self.metrics.commits.observe(time.perf_counter() - started_s)

    def _load(self) -> Planner:
        """Takes the plan up from the store: snapshot, then the steps after it.

        Where they do not fit the settings, every active transfer is planned anew.
        """
        settings = self.settings
        last_step, last_event = self._store.last_numbers()
        transfers = self._store.active()
        snapshot = self._store.snapshot()
        engine = self._restored(snapshot, transfers)
        fresh = engine is None
        if engine is None:
            calendar = Calendar(settings.network.engine_json(), settings.policy, settings.epoch)
            engine = RecordedEngine(calendar, max(last_step, snapshot.number if snapshot else 0))
        planner = Planner(
            engine,
            transfers,
            margin_ns=settings.margin.ns,
            last_event=last_event,
            lost=self._lost,
        )
        if fresh:
            self._commit(planner, [planner.readmit(self._clock.now_ns())], with_state=True)
        self._snapshot_step = snapshot.number if snapshot and not fresh else engine.last_step
        self._planner = planner
        return planner

    def _restored(
        self, snapshot: Snapshot | None, transfers: Sequence[Transfer]
    ) -> RecordedEngine | None:
        """The engine as it was, or None when what is stored does not lead to a sound one."""
        if snapshot is None or snapshot.configuration != self.settings.configuration():
            return None
        try:
            engine = RecordedEngine(Calendar.restore(snapshot.state), snapshot.number)
            engine.replay(self._store.steps_after(snapshot.number))
        except BadInput as error:
            log.warning("the stored plan is not usable (%s); planning anew", error)
            return None
        if engine.rates().keys() != {x.id for x in transfers if x.planned}:
            log.warning("the stored plan does not match the transfers; planning anew")
            return None
        return engine

    def _earlier(self, planner: Planner, asked: Submission) -> Transfer | None:
        """The transfer that the same owner submitted under the same key."""
        if asked.idempotency_key is None:
            return None
        wanted = (asked.owner, asked.idempotency_key)
        earlier = planner.find_key(*wanted) or self._store.find_key(*wanted)
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
        ordered: set[str] = set()
        finished: list[Transfer] = []
        for outcome in outcomes:
            self._count(outcome)
            self.rates |= outcome.rates
            ordered |= outcome.rates.keys()
            for transfer in outcome.transfers.values():
                before = self.active.get(transfer.id)
                self.active[transfer.id] = transfer
                self._remember(transfer, new=before is None)
                if before is None or before.planned != transfer.planned:
                    ordered.add(transfer.id)
                if not transfer.planned:
                    self.rates.pop(transfer.id, None)
                if not transfer.active:
                    finished.append(self.active.pop(transfer.id))
                    self.registry.forget(transfer.source, transfer.id)
            self.hub.publish(outcome.events)
        self._order([*(self.active[x] for x in ordered if x in self.active), *finished])

    def _remember(self, transfer: Transfer, new: bool) -> None:
        if new or transfer.id in self._recent:
            self._recent[transfer.id] = transfer
        if len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]
            self._forgotten = True

    def _publish_state(self) -> None:
        """Shows readers the plan as it was loaded."""
        assert self._planner is not None, "loaded before"
        self.active = dict(self._planner.transfers)
        self.rates = dict(self._planner.rates)
        recent = self._store.page(STATES, None, RECENT_MAX)
        self._recent = {x.id: self.active.get(x.id, x) for x in reversed(recent)}
        self._forgotten = len(recent) == RECENT_MAX
        self.hub.last_number = self._store.last_numbers()[1]

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
        for transfer in outcome.transfers.values():
            before = self.active.get(transfer.id)
            moved = transfer.bytes_durable - (before.bytes_durable if before else 0)
            self.metrics.delivered.inc(max(0, moved))

    # --- time ---

    async def _tick_forever(self) -> None:
        epoch_ns = self.settings.epoch.ns
        next_epoch_ns = self.now_ns() // epoch_ns * epoch_ns + epoch_ns
        while True:
            await asyncio.sleep(TICK_S)
            silent = self.registry.silent(self._hosts(), time.monotonic())
            gone, back = silent - self._lost, self._lost - silent
            self._lost = silent
            commands: list[Command] = []
            if gone:
                commands.append(_lost(gone))
            if back:
                commands.append(_back(back))
            commands.append(lambda planner, now: planner.tick(now))
            if self.now_ns() >= next_epoch_ns:
                next_epoch_ns = self.now_ns() // epoch_ns * epoch_ns + epoch_ns
                commands.append(lambda planner, now: planner.epoch(now))
            for command in commands:
                try:
                    await self._command(command)
                except Problem as problem:
                    log.warning("the calendar cannot go on for now: %s", problem.detail)

    def _hosts(self) -> set[str]:
        """Every host that an active transfer needs."""
        return {host for x in self.active.values() for host in (x.source, x.destination)}


def _lost(hosts: set[str]) -> Command:
    return lambda planner, now_ns: planner.hosts_lost(now_ns, hosts)


def _back(hosts: set[str]) -> Command:
    return lambda planner, now_ns: planner.hosts_back(now_ns, hosts)


def _outcome(command: Command, planner: Planner, now_ns: int) -> Outcome | Problem:
    try:
        return command(planner, now_ns)
    except Problem as problem:
        return problem
    except BadInput as error:
        # The engine found what no earlier check can know, such as two nodes without a path.
        return invalid(None, str(error))


def _fail(future: asyncio.Future[Any], problem: Problem) -> None:
    if not future.done():
        future.set_exception(problem)
