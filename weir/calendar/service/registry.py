"""Which agents are alive, where they are reached, and the streams that carry their assignments."""

import asyncio
import itertools
import json
import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from weir.calendar.problem import Problem, unavailable
from weir.calendar.service.events import Subscription
from weir.calendar.sse import sse_text

# An agent reports about once a second; three silent seconds mean that it is gone.
SILENCE_S = 3.0
QUESTION_TIMEOUT_S = 3.0
EDGE_PREFIX = "edge:"
# How long an agent that was told of changes waits for the next, and how many it may wait for
# before it is cut off, to begin anew with a snapshot.
PAUSE_S = 0.02
CHANGED_MAX = 100_000
# As many are told in one message: some milliseconds.
MESSAGE_MAX = 250
# Stands in a stream's queue where changes are to be told.
_CHANGE = b""
# Who an agent speaks for: a host, what passes an edge router, or everything, as the controller.
Role = Literal["host", "edge", "control"]


@dataclass(frozen=True, slots=True)
class Reach:
    """Where an agent is reached, and what it can do.

    Data goes to `data_address`, and over several paths to the `data_ports` there, a port for each;
    what the agent itself sends may take `lanes_max` paths.
    """

    address: str | None = None
    data_address: str | None = None
    data_ports: tuple[int, ...] = ()
    lanes_max: int = 1


NOWHERE = Reach()


@dataclass(slots=True)
class Agent:
    """One agent as last heard. `heard_s` is by the monotonic clock.

    `reports` of it wait to be written: meanwhile it is the service that keeps it waiting.
    """

    heard_s: float
    reports: int = 0
    reach: Reach = NOWHERE
    measured: dict[str, "Measured"] = field(default_factory=dict)


@dataclass(slots=True)
class Measured:
    """Two points of a transfer's progress, and the payload rate between them."""

    at_s: float
    bytes_durable: int
    rate_bps: float = 0.0


@dataclass(frozen=True, slots=True)
class Holder:
    """Which agent speaks for a host, by what it calls itself, and since when."""

    instance: str
    since_s: float


class Stream(Subscription[bytes]):
    """Assignments to one connected agent, as they travel. `identity` is what its token may do.

    What changes is told as it is when it is told: a rate that has changed again by then is told
    once. The first change is told at once, those after it together `PAUSE_S` later. `told` makes
    the message of the transfers with these ids. `instance` is what the agent calls itself, None if
    it does not, as before there was that.
    """

    def __init__(
        self,
        host: str,
        role: Role,
        identity: str,
        told: Callable[[Iterable[str]], bytes],
        instance: str | None = None,
    ) -> None:
        super().__init__()
        self.instance = instance
        self.host = host
        self.role = role
        self.identity = identity
        self._told = told
        self._told_s = -math.inf
        # In the order in which they first changed.
        self._changed: dict[str, None] = {}

    def change(self, identifiers: Iterable[str]) -> None:
        """Has the agent told what has become of transfers."""
        if self.dropped:
            return
        if not self._changed:
            self.put(_CHANGE)
        self._changed.update(dict.fromkeys(identifiers))
        if len(self._changed) > CHANGED_MAX:
            self.drop()

    async def take(self, timeout_s: float) -> bytes | None:
        """The next message, or None when there is none in time; raises `Dropped` at the end."""
        message = await super().take(timeout_s)
        if message is not _CHANGE:
            return message
        loop = asyncio.get_running_loop()
        pause_s = self._told_s + PAUSE_S - loop.time()
        if pause_s > 0:
            await asyncio.sleep(pause_s)
        changed = list(itertools.islice(self._changed, MESSAGE_MAX))
        for identifier in changed:
            del self._changed[identifier]
        if self._changed:
            # Others come between, and the rest at once after them.
            self.put(_CHANGE)
            self._told_s = -math.inf
            await asyncio.sleep(0)
        else:
            self._told_s = loop.time()
        return self._told(changed)


class Registry:
    """Agents by name: a host's name, or "edge:" and a router's name for an edge agent."""

    def __init__(self, started_s: float) -> None:
        self._started_s = started_s
        self._questions: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._holders: dict[str, Holder] = {}
        self.agents: dict[str, Agent] = {}
        self.streams: set[Stream] = set()

    def heard(self, name: str, now_s: float) -> Agent:
        """Notes that an agent spoke; creates it when it is new."""
        agent = self.agents.setdefault(name, Agent(now_s))
        agent.heard_s = now_s
        return agent

    def hold(self, host: str, instance: str | None, now_s: float) -> None:
        """Has one agent speak for a host: two would send all of it twice, and either could fail it.

        Raises:
            Problem: 409, another one does, which is connected and has not been silent.
        """
        holder = self._holders.get(host)
        if instance is None or (holder is not None and holder.instance == instance):
            return
        if holder is not None and self._is_there(host, holder, now_s):
            raise Problem(
                409,
                "another-agent",
                "Another agent speaks for this host",
                f'another agent speaks for "{host}", from {self.reach(host).address}',
                hint="end that one, or start this one for its own host",
            )
        self._holders[host] = Holder(instance, now_s)
        for stream in self._of_host(host):
            if stream.instance not in {None, instance}:
                stream.drop()

    def _is_there(self, host: str, holder: Holder, now_s: float) -> bool:
        is_connected = any(x.instance == holder.instance for x in self._of_host(host))
        is_new = now_s - holder.since_s < SILENCE_S
        return is_connected and (is_new or not self._is_silent(host, now_s))

    def _of_host(self, host: str) -> list[Stream]:
        """The streams of agents that speak for a host."""
        return [x for x in self.streams if x.role == "host" and x.host == host and not x.dropped]

    def reach(self, name: str) -> Reach:
        """Where an agent was last reached."""
        agent = self.agents.get(name)
        return NOWHERE if agent is None else agent.reach

    def lanes_max(self, source: str, destination: str) -> int:
        """Over how many paths the agents of two hosts can carry data; 1 of those not heard of."""
        ports = len(self.reach(destination).data_ports)
        return max(1, min(self.reach(source).lanes_max, ports))

    def silent(self, names: Iterable[str], now_s: float) -> set[str]:
        """Which of `names`, and of all agents ever heard, have been silent for too long."""
        return {name for name in {*names, *self.agents} if self._is_silent(name, now_s)}

    def alive(self, now_s: float) -> list[str]:
        """The agents heard of lately."""
        return [name for name in self.agents if not self._is_silent(name, now_s)]

    @contextmanager
    def reporting(self, agent: Agent) -> Iterator[None]:
        """While its report is taken, an agent is not silent: it waits for the answer."""
        agent.reports += 1
        try:
            yield
        finally:
            agent.reports -= 1
            agent.heard_s = time.monotonic()

    def forgive(self, late_s: float) -> None:
        """Takes time during which nobody was listened to off every agent's silence."""
        now_s = time.monotonic()
        self._started_s = min(now_s, self._started_s + late_s)
        for agent in self.agents.values():
            agent.heard_s = min(now_s, agent.heard_s + late_s)

    def measure(self, agent: Agent, now_s: float, identifier: str, bytes_durable: int) -> None:
        """Notes a transfer's progress for the measured rate."""
        last = agent.measured.get(identifier)
        if last is None:
            agent.measured[identifier] = Measured(now_s, bytes_durable)
        elif now_s - last.at_s >= 0.5:
            rate_bps = max(0, bytes_durable - last.bytes_durable) * 8 / (now_s - last.at_s)
            agent.measured[identifier] = Measured(now_s, bytes_durable, rate_bps)

    def measured_bps(self, host: str, identifier: str) -> float:
        """The measured rate of a transfer from `host`, in bit/s of file bytes; 0 if unknown."""
        agent = self.agents.get(host)
        measured = agent.measured.get(identifier) if agent else None
        return measured.rate_bps if measured else 0.0

    def forget(self, host: str, identifier: str) -> None:
        """Drops the measurements of a finished transfer."""
        if agent := self.agents.get(host):
            agent.measured.pop(identifier, None)

    def keep(self, known: Callable[[str], bool]) -> None:
        """Ends the streams whose token is not known any more."""
        for stream in self.streams:
            if not known(stream.identity):
                stream.drop()

    def close(self) -> None:
        """Ends every stream."""
        for stream in self.streams:
            stream.drop()

    async def ask(self, host: str, question: dict[str, Any]) -> dict[str, Any]:
        """Asks the agent on `host` and waits for its answer.

        Raises:
            Problem: no agent is connected, or it does not answer in time.
        """
        ticket = secrets.token_hex(8)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._questions[ticket] = future
        try:
            async with asyncio.timeout(QUESTION_TIMEOUT_S):
                stream = await self._stream(host)
                told = {"kind": "question", "ticket": ticket, **question}
                stream.put(sse_text("question", json.dumps(told)))
                return await future
        except TimeoutError:
            raise _silent(host) from None
        finally:
            del self._questions[ticket]

    async def _stream(self, host: str) -> Stream:
        """The stream to the agent on a host, which may be about to connect again."""
        while True:
            for stream in self.streams:
                if stream.host == host and stream.role == "host":
                    return stream
            await asyncio.sleep(0.05)

    def answer(self, ticket: str, answer: dict[str, Any]) -> None:
        """Hands an agent's answer to whoever waits for it, if anyone still does."""
        future = self._questions.get(ticket)
        if future is not None and not future.done():
            future.set_result(answer)

    def _is_silent(self, name: str, now_s: float) -> bool:
        agent = self.agents.get(name)
        if agent is None:
            return now_s - self._started_s > SILENCE_S
        return not agent.reports and now_s - agent.heard_s > SILENCE_S


def _silent(host: str) -> Problem:
    problem = unavailable(f'no agent answers on "{host}", so the size of the file is not known')
    problem.field, problem.hint = "size_bytes", "give the size, or start the agent"
    return problem
