"""A calendar, its agents, its users and its readers under a seed's faults, in virtual time.

Everything but the mover and the network is the code that runs in production: REST face, gate,
service, planner, engine, store (SQLite on a real file), agents and their streams. The seed
decides who asks for what and what goes wrong: lost, late and doubled messages, cut streams, failed
statements and commits, kills at any of them, steps of the wall clock, movers that break off.

What must hold whatever happens is checked while it runs and when all has been quiet for a while;
a `Violation` says what did not.
"""

import asyncio
import contextlib
import itertools
import json
import logging
import random
import secrets
import sqlite3
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio.to_thread
import httpx
import sqlalchemy as sa
from calendar_lab import headers, settings
from simulated_world import Clocks, Network, StandStill, VirtualLoop

from weir import Bytes, Rate
from weir.calendar.agents import agent as agent_module
from weir.calendar.agents.agent import HostAgent, MoverOptions
from weir.calendar.agents.assignments import AssignmentStream
from weir.calendar.agents.source import Questions
from weir.calendar.records import ACTIVE
from weir.calendar.rest.api import create_app
from weir.calendar.rest.tokens import TokenFile
from weir.calendar.service.events import Subscription
from weir.calendar.service.service import Service
from weir.calendar.storage.store import Store
from weir.errors import Unavailable, WeirError
from weir.transfer import Progress, SettledFile

HOSTS = ("dtn1", "dtn2", "dtn3", "dtn4")
URL = "http://calendar"
# Faults come for this long; then whatever was accepted has this long to be carried out.
TROUBLE_S = 60.0
PEACE_S = 900.0
MB = 10**6


class Violation(AssertionError):
    """Something that must never happen did."""


@dataclass(frozen=True)
class Mix:
    """How often what goes wrong; each is a probability, or a mean time between two in seconds."""

    lost: float = 0.02
    doubled: float = 0.02
    cut: float = 0.1
    statement: float = 0.002
    commit: float = 0.005
    broken_mover: float = 0.1
    kill_every_s: float = 15.0
    step_every_s: float = 20.0
    agent_kill_every_s: float = 25.0

    def without(self, *names):
        """The same mix less some of its faults."""
        return replace(self, **dict.fromkeys(names, 0.0))

    def only(self, names):
        """The same mix with these faults alone."""
        return self.without(*(name for name in vars(self) if name not in names))


EVERYTHING = Mix()


class Faults:
    """The seed's choices of what goes wrong, until peace is declared."""

    def __init__(self, seed, mix):
        self._random = {}
        self._seed = seed
        self.mix = mix
        self.peace = False
        self.on_kill = None

    def source(self, name):
        """A generator of its own for each purpose, so that one more choice disturbs no other."""
        return self._random.setdefault(name, random.Random(f"{self._seed}/{name}"))

    def happens(self, name, probability):
        """Whether it goes wrong this time."""
        return self.source(name).random() < probability and not self.peace

    def delay_s(self):
        slow = self.happens("slow", 0.02)
        return self.source("delay").uniform(0.001, 3.0 if slow else 0.02)

    def disk_s(self):
        return self.source("disk").uniform(0.0001, 0.3 if self.happens("slow disk", 0.02) else 0.01)

    def loses_request(self):
        return self.happens("request", self.mix.lost)

    def loses_answer(self):
        return self.happens("answer", self.mix.lost)

    def doubles(self, request):
        streams = request.method == "GET"
        return not streams and self.happens("double", self.mix.doubled)

    def cuts_stream_after_s(self, request):
        if request.url.path.endswith(("/events", "/assignments")):
            return self.source("cut").uniform(1, 20) if self.happens("cuts", self.mix.cut) else None
        return None

    def at_statement(self):
        if self.happens("statement", self.mix.statement):
            raise sqlite3.OperationalError("disk I/O error")

    def around_commit(self, commit):
        """Fails before or after the commit, now and then by a kill, which answers nobody."""
        fails = self.happens("commit", self.mix.commit)
        after = self.source("after").random() < 0.5
        kills = self.source("kills").random() < 0.3
        if not fails or after:
            commit()
        if fails and kills and self.on_kill is not None and self.mix.kill_every_s:
            self.on_kill()
        if fails:
            raise sqlite3.OperationalError("disk I/O error")


class FaultyCursor(sqlite3.Cursor):
    """A cursor whose statements can fail."""

    def execute(self, *args):
        self.connection.faults.at_statement()
        return super().execute(*args)

    def executemany(self, *args):
        self.connection.faults.at_statement()
        return super().executemany(*args)


class FaultyConnection(sqlite3.Connection):
    """A connection whose commits can fail, before they happen or after."""

    faults: Faults

    def cursor(self, factory=FaultyCursor):
        return super().cursor(factory)

    def commit(self):
        self.faults.around_commit(super().commit)


@dataclass
class Ledger:
    """What really happened, whatever the calendar believes."""

    sources: dict = field(default_factory=dict)
    delivered: dict = field(default_factory=dict)
    delivered_s: dict = field(default_factory=dict)
    accepted: dict = field(default_factory=dict)
    keys: dict = field(default_factory=dict)
    asked_to_cancel: set = field(default_factory=set)
    cancelled: set = field(default_factory=set)
    events: dict = field(default_factory=dict)


class Mover:
    """A mover of `size` bytes over a path that breaks now and then; durable bytes stay."""

    def __init__(self, world, source, destination, rate):
        self._world = world
        self._name = str(source)
        self._size = world.ledger.sources[Path(source).name]
        self._place = destination
        self._rate_bps = rate.bit_per_s
        self._at_s = world.loop.time()
        self._error = None
        chance = world.faults.source("mover")
        breaks = world.faults.happens("breaks", world.faults.mix.broken_mover)
        self._breaks_s = self._at_s + (chance.uniform(0, 5) if breaks else 1e9)
        self.state = "connecting"

    @classmethod
    def factory(cls, world):
        """What stands in for `Transfer` in the agent."""

        class Movers:
            @staticmethod
            def send(sources, destination, *, rate=None, **_choices):
                address, _, path = destination.partition("/")
                place = (address.split(":")[0], path)
                return cls(world, sources[0], place, rate)

        return Movers

    def start(self):
        self.state = "running"

    def set_rate(self, rate):
        self._advance()
        self._rate_bps = rate.bit_per_s

    def set_congestion(self, name):
        pass

    def ports(self):
        return []

    def take_notices(self):
        return []

    def take_settled(self):
        return [SettledFile(b"f", Bytes.from_count(self._size), "0" * 64, False)]

    def cancel(self):
        if self.state in {"connecting", "running"}:
            self.state = "cancelled"

    def progress(self):
        self._advance()
        durable = Bytes.from_count(int(self._durable()))
        total = Bytes.from_count(self._size)
        done = self.state == "done"
        return Progress(
            bytes_done=durable,
            bytes_total=total,
            bytes_durable=durable,
            bytes_resumed=Bytes.from_count(0),
            files_done=int(done),
            files_total=1,
            files_failed=0,
            files_skipped=0,
            total_is_known=True,
            rate=Rate.from_bit_per_s(self._rate_bps),
            state=self.state,
            error=self._error,
        )

    def _durable(self):
        return self._world.ledger.delivered.get(self._place, 0)

    def _advance(self):
        now_s = self._world.loop.time()
        span_s, self._at_s = now_s - self._at_s, now_s
        if self.state != "running":
            return
        if now_s >= self._breaks_s:
            self.state, self._error = "failed", Unavailable("the peer broke off")
            return
        moved = min(self._size, self._durable() + self._rate_bps * span_s / 8)
        self._world.ledger.delivered[self._place] = moved
        if moved >= self._size:
            self.state = "done"
            self._world.ledger.delivered_s.setdefault(self._place, now_s)


class Secrets:
    """The seed's in the place of the machine's: ids and tickets are the same in every run."""

    def __init__(self, chance):
        self._chance = chance

    def installed(self, patch):
        patch.setattr(secrets, "choice", self._chance.choice)
        patch.setattr(secrets, "token_bytes", lambda count=32: self._chance.randbytes(count))
        patch.setattr(secrets, "token_hex", lambda count=32: self._chance.randbytes(count).hex())
        patch.setattr(secrets, "randbelow", lambda below: self._chance.randrange(below))
        patch.setattr(secrets, "randbits", self._chance.getrandbits)


class Numbers:
    """Numbers the readers' queues: their order in a set is that of their making."""

    def installed(self, patch):
        numbers = itertools.count()
        start = Subscription.__init__

        def numbered(subscription, *args, **choices):
            subscription.number = next(numbers)
            start(subscription, *args, **choices)

        patch.setattr(Subscription, "__init__", numbered)
        patch.setattr(Subscription, "__hash__", lambda subscription: subscription.number)


class World:
    """One run: everything that lives, and what must hold of it."""

    def __init__(self, seed, directory, mix, trouble_s, policy):
        self._settings = settings(policy)
        self.faults = Faults(seed, mix)
        self.loop = VirtualLoop(self.faults.disk_s)
        self.clocks = Clocks(self.loop)
        self.network = Network(self.faults)
        self.ledger = Ledger()
        self.directory = directory
        self._trouble_s = trouble_s
        self.service = None
        self._store = None
        self._tokens = TokenFile(directory / "tokens.json")
        self._names = {"admin": self._tokens.create("admin", "admin")}
        self._names["ana"] = self._tokens.create("ana", "submit")
        self._names["bob"] = self._tokens.create("bob", "submit")
        self._names["eve"] = self._tokens.create("eve", "read")
        self._agents = {}
        self._dead = asyncio.Event()
        self._stopped = False
        self.faults.on_kill = self.die

    # --- life ---

    def run(self, monkeypatch):
        """Lets the seed's trouble come, then peace; what was found wrong, or None."""
        monkeypatch.setattr(agent_module, "Transfer", Mover.factory(self))
        monkeypatch.setattr(FaultyConnection, "faults", self.faults, raising=False)
        monkeypatch.setattr(anyio.to_thread, "run_sync", _no_threads)
        monkeypatch.setattr(Questions, "ask", _answered_at_once)
        Numbers().installed(monkeypatch)
        Secrets(self.faults.source("secrets")).installed(monkeypatch)
        with self.clocks.installed(monkeypatch), faulty_stores():
            try:
                self.loop.run_until_complete(self._run())
            except StandStill:
                return "everybody waits for what will never come"
            except Violation as violation:
                return str(violation)
            finally:
                self._close()
        return None

    async def _run(self):
        (self.directory / "root").mkdir()
        await self._serve()
        tasks = [self._spawn(self._keep_serving())]
        tasks += [self._spawn(self._keep_agent(host)) for host in HOSTS]
        users = [self._spawn(self._use(number)) for number in range(3)]
        tasks += [self._spawn(self._read_events()), self._spawn(self._look())]
        trouble = [self._spawn(self._kill()), self._spawn(self._step_clock())]
        await asyncio.sleep(self._trouble_s)
        self.faults.peace = True
        await _end([*trouble, *users])
        await self._settle()
        await _end(tasks)
        await self._check_leaks()
        self._stopped = True
        await self.service.stop()

    def _spawn(self, work):
        return self.loop.create_task(work)

    def _close(self):
        if self.service is not None and not self._stopped:
            self._abandon()
        left = sorted(asyncio.all_tasks(self.loop), key=hash)
        with contextlib.suppress(StandStill, Violation):
            self.loop.run_until_complete(_end(left))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    # --- the service ---

    async def _serve(self):
        """Starts the service on what the last one left."""
        while True:
            try:
                self._store = Store(f"sqlite:///{self.directory / 'calendar.db'}")
                self.service = Service(self._settings, self._store)
                application = create_app(self.service, self._tokens)
                await self.service.start()
            except WeirError:
                # The disk failed while it started: whoever runs it starts it again.
                if self._store is not None:
                    self._store.close()
                await asyncio.sleep(0.5)
                continue
            self.network.application = application
            return

    def die(self):
        """The service is killed: from here on it answers nobody."""
        self.network.cut_all()
        self._dead.set()

    async def _keep_serving(self):
        while True:
            await self._dead.wait()
            self._abandon()
            await asyncio.sleep(self.faults.source("restart").uniform(0.1, 5))
            await self._serve()
            self._dead.clear()

    def _abandon(self):
        """What the kernel does for a process that was killed."""
        for task in self.service._tasks:
            task.cancel()
        self._store.close()

    async def _kill(self):
        await self._every(self.faults.mix.kill_every_s, "kill", self.die)

    async def _step_clock(self):
        def step():
            chance = self.faults.source("step")
            self.clocks.wall_offset_ns = chance.choice((0, 0, 3600, -3600, 30, -30)) * 10**9

        await self._every(self.faults.mix.step_every_s, "clock", step)
        self.clocks.wall_offset_ns = 0

    async def _every(self, mean_s, name, act):
        """Acts at random times, `mean_s` apart in the mean, until peace."""
        while mean_s and not self.faults.peace:
            await asyncio.sleep(self.faults.source(name).expovariate(1 / mean_s))
            act()

    # --- agents ---

    async def _keep_agent(self, host):
        mean_s = self.faults.mix.agent_kill_every_s
        while True:
            lives_s = self.faults.source(f"agent {host}").expovariate(1 / mean_s) if mean_s else 1e6
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1e6 if self.faults.peace else lives_s):
                    await self._agent(host)
            await asyncio.sleep(0.2)

    async def _agent(self, host):
        stream = AssignmentStream(URL, self._names["admin"], host)
        stream._http = self._http("admin", timeout=httpx.Timeout(5))
        options = MoverOptions(root=self.directory / "root", keys=None)
        async with stream:
            await HostAgent(stream, options, f"{host}:7411").run()

    def _http(self, name, **more):
        return httpx.AsyncClient(
            transport=self.network,
            base_url=URL,
            headers=headers(self._names[name]),
            timeout=more.pop("timeout", 30),
            **more,
        )

    # --- users ---

    async def _use(self, number):
        chance = self.faults.source(f"user {number}")
        async with self._http("ana") as http:
            for count in range(10**6):
                await asyncio.sleep(chance.expovariate(0.5))
                await self._submit(http, chance, f"{number}-{count}")
                if self.ledger.accepted and chance.random() < 0.1:
                    await self._cancel(http, chance.choice(list(self.ledger.accepted)))

    async def _submit(self, http, chance, name):
        size = chance.choice((1, 1000, MB, 20 * MB, 200 * MB))
        self._make_source(name, size)
        declared = chance.choice((size, size, size, max(1, size // 2), size * 2))
        body = {
            "source": (source := chance.choice(HOSTS)),
            "destination": chance.choice([x for x in HOSTS if x != source]),
            "source_path": name,
            "destination_path": f"in/{name}",
            "size_bytes": declared,
            "deadline_s": chance.uniform(10, 300),
        } | self._terms(declared)
        await self._precheck(http, body)
        answer = await self._insist(http, "POST", "/v1/transfers", json=body, key=name)
        if answer.status_code in {200, 201}:
            found = answer.json()
            self._accept(name, found["id"], body)
        elif answer.status_code not in {409, 422, 429}:
            raise Violation(f"a sound request was answered {answer.status_code}: {answer.text}")
        elif "time goes back" in answer.text:
            raise Violation(answer.text)

    def _terms(self, declared):
        """What a request asks for beside a deadline, of a policy that knows of it."""
        if not self._settings.plans_ahead:
            return {}
        chance = self.faults.source("terms")
        terms = {"start_s": chance.uniform(0, 9), "least_bytes": 1 + declared // 4, "weight": 3}
        return {name: value for name, value in terms.items() if chance.random() < 0.5}

    async def _precheck(self, http, body):
        """Asks what would be answered, now and then, where that belongs to the seed's choices."""
        if self._settings.plans_ahead and self.faults.source("precheck").random() < 0.3:
            answer = await self._insist(http, "POST", "/v1/prechecks", json=body)
            if answer.status_code not in {200, 422}:
                raise Violation(f"a precheck was answered {answer.status_code}: {answer.text}")

    def _accept(self, name, identifier, body):
        earlier = self.ledger.keys.setdefault(name, identifier)
        if earlier != identifier:
            raise Violation(f"key {name} was accepted as {earlier}, then as {identifier}")
        self.ledger.accepted[identifier] = body

    def _make_source(self, name, size):
        self.ledger.sources[name] = size
        with (self.directory / "root" / name).open("wb") as file:
            file.truncate(size)

    async def _cancel(self, http, identifier):
        self.ledger.asked_to_cancel.add(identifier)
        answer = await self._insist(http, "DELETE", f"/v1/transfers/{identifier}")
        if answer.status_code == 200:
            self.ledger.cancelled.add(identifier)
        elif answer.status_code != 409:
            raise Violation(f"cancelling {identifier}: {answer.status_code} {answer.text}")

    async def _insist(self, http, method, path, key=None, **more):
        """Asks until it is answered with anything but "not now"."""
        extra = {} if key is None else {"Idempotency-Key": key}
        while True:
            try:
                answer = await http.request(method, path, headers=extra, **more)
                if answer.status_code == 500:
                    raise Violation(f"{method} {path}: {answer.status_code} {answer.text}")
                if answer.status_code != 503:
                    return answer
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.3)

    # --- readers ---

    async def _read_events(self):
        """Reads every event there is, over as many connections as it takes."""
        last = 0
        async with self._http("eve", timeout=httpx.Timeout(20)) as http:
            while True:
                extra = {"Last-Event-ID": str(last)}
                with contextlib.suppress(httpx.HTTPError):
                    async with http.stream("GET", "/v1/events", headers=extra) as answer:
                        async for line in answer.aiter_lines():
                            if line.startswith("data: "):
                                last = self._note(last, json.loads(line[6:]))
                await asyncio.sleep(0.2)

    def _note(self, last, event):
        if event["id"] != last + 1:
            raise Violation(f"event {event['id']} came after event {last}")
        self.ledger.events[event["id"]] = event
        return event["id"]

    async def _look(self):
        """Links never carry more than they can; whatever is refused is refused in order."""
        async with self._http("eve") as http:
            while True:
                await asyncio.sleep(0.5)
                answer = await self._insist(http, "GET", "/v1/network")
                for link in answer.json()["links"]:
                    if link["allotted_bps"] > link["capacity_bps"]:
                        raise Violation(f"link {link['name']} is allotted beyond its capacity")

    # --- what must hold in the end ---

    async def _settle(self):
        end_s = self.loop.time() + PEACE_S
        async with self._http("eve") as http:
            while True:
                answer = await self._insist(http, "GET", "/v1/transfers?state=active&limit=1000")
                if not answer.json():
                    break
                if self.loop.time() > end_s:
                    raise Violation(f"never finished: {answer.text[:2000]}")
                await asyncio.sleep(5)
            for identifier, body in self.ledger.accepted.items():
                answer = await self._insist(http, "GET", f"/v1/transfers/{identifier}")
                if answer.status_code != 200:
                    raise Violation(f"{identifier} was accepted and is not known any more")
                self._check_end(answer.json(), body)
        if not self._settings.plans_ahead:
            await self._check_offer()
        await self._check_service()

    async def _check_offer(self):
        """An offer is kept from others until who got it takes it, over a kill of the service."""
        self._make_source("offered", 2_000 * MB)
        body = {
            "source": "dtn1",
            "destination": "dtn3",
            "source_path": "offered",
            "destination_path": "in/offered",
            "size_bytes": 2_000 * MB,
        }
        late = body | {"destination_path": "in/other", "deadline_s": 600.0}
        async with self._http("bob") as bob, self._http("ana") as ana:
            answer = await self._insist(bob, "POST", "/v1/transfers", json=body | {"deadline_s": 5})
            if answer.status_code != 409 or not answer.json()["offer_held_s"]:
                raise Violation(f"no offer is held: {answer.status_code} {answer.text}")
            deadline = {"deadline": answer.json()["earliest_deadline"]}
            self.die()
            answer = await self._insist(ana, "POST", "/v1/transfers", json=late)
            if answer.status_code != 409:
                raise Violation(f"what is held was given away: {answer.text}")
            answer = await self._insist(bob, "POST", "/v1/transfers", json=body | deadline)
            if answer.status_code != 201:
                raise Violation(f"an offer was not kept: {answer.status_code} {answer.text}")
            identifier = answer.json()["id"]
            await self._insist(bob, "DELETE", f"/v1/transfers/{identifier}")

    def _check_end(self, found, body):
        place = (body["destination"], body["destination_path"])
        whole = self.ledger.sources[body["source_path"]]
        there = self.ledger.delivered.get(place, 0)
        state = found["state"]
        if state in ACTIVE:
            raise Violation(f"{found['id']} is {state} still")
        if state == "cancelled" and found["id"] not in self.ledger.asked_to_cancel:
            raise Violation(f"{found['id']} is cancelled, and nobody asked for it")
        if state == "completed" and (there != whole or found["bytes_durable"] != whole):
            raise Violation(f"{found} is completed; {there} of {whole} bytes are there")
        if state == "failed":
            raise Violation(f"{found} failed, and nothing that was wrong with it was for good")
        if state == "completed" and found["id"] in self.ledger.cancelled:
            raise Violation(f"{found['id']} was cancelled and is completed")

    async def _check_service(self):
        """After all that, a small request is admitted and carried out."""
        async with self._http("ana") as http:
            self._make_source("last", 1000)
            body = {
                "source": "dtn1",
                "destination": "dtn3",
                "source_path": "last",
                "destination_path": "in/last",
                "size_bytes": 1000,
                "deadline_s": 60.0,
            }
            answer = await self._insist(http, "POST", "/v1/transfers", json=body, key="last")
            if answer.status_code != 201:
                raise Violation(f"the last request: {answer.status_code} {answer.text}")
            await asyncio.sleep(30)
            found = await self._insist(http, "GET", f"/v1/transfers/{answer.json()['id']}")
            shown = found.json()
            if shown.get("state") != "completed" or not shown["on_time"]:
                raise Violation(f"the last request is {found.text}")
            health = await self._insist(http, "GET", "/healthz")
            if health.status_code != 200:
                raise Violation(f"healthz: {health.text}")

    async def _check_leaks(self):
        """Readers and agents are gone: nothing of them stays."""
        await asyncio.sleep(30)
        if self.service.hub.readers or self.service.registry.streams:
            raise Violation(
                f"{self.service.hub.readers} readers and {len(self.service.registry.streams)} "
                "streams are left of nobody"
            )
        if self.network.exchanges:
            raise Violation(f"{len(self.network.exchanges)} exchanges never ended")


async def _answered_at_once(_questions, call, *_):
    answer = call()
    await asyncio.sleep(0.001)
    return answer


async def _no_threads(call, *_args, **_choices):
    raise Violation(f"{call} would run in a thread of its own, in real time")


async def _end(tasks):
    """Ends tasks, and raises what one of them has found."""
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


@contextlib.contextmanager
def faulty_stores():
    """Every SQLite connection that SQLAlchemy opens meanwhile can fail."""

    def connect(_dialect, _record, _args, choices):
        choices["factory"] = FaultyConnection

    sa.event.listen(sa.Engine, "do_connect", connect)
    try:
        yield
    finally:
        sa.event.remove(sa.Engine, "do_connect", connect)


def simulate(seed, directory, monkeypatch, mix=EVERYTHING, trouble_s=TROUBLE_S, policy="local-ljf"):
    """One run: what was found wrong, or None, and what happened."""
    logging.getLogger("weir").setLevel(logging.CRITICAL)
    world = World(seed, directory, mix, trouble_s, policy)
    try:
        return world.run(monkeypatch), world.ledger
    finally:
        logging.getLogger("weir").setLevel(logging.NOTSET)
