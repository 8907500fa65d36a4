"""Agents that move nothing: they take assignments and report what a perfect mover would move."""

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benches.calendar_service import NODES, Connection
from weir.calendar.agents.agent import PAYLOAD_PER_WIRE_BIT, REPORT_EVERY_S
from weir.calendar.agents.turns import Turns


@contextmanager
def agents(port: int, token: str) -> Iterator[None]:
    """One agent for each host of G-scale, all of them in a process of their own."""
    # Afresh, so that nothing of this process's is copied or shared.
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(port, token))
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _run(port: int, token: str) -> None:
    async def run_all() -> None:
        await asyncio.gather(*(_Agent(port, token, host).run() for host in NODES))

    asyncio.run(run_all())


class _Agent:
    def __init__(self, port: int, token: str, number: int) -> None:
        self._port, self._token, self._path = port, token, f"/v1/agents/{number}"
        self._number = number
        self._turns: Turns[_Job] = Turns()
        self._jobs = self._turns.jobs

    async def run(self) -> None:
        """Never ends by itself."""
        await asyncio.gather(self._take_assignments(), self._report_forever())

    async def _take_assignments(self) -> None:
        while True:
            connection = await Connection(self._port, self._token).open()
            async for message in connection.events(f"{self._path}/assignments"):
                if message["kind"] == "snapshot":
                    wanted = {x["id"] for x in message["assign"]}
                    for identifier in self._jobs.keys() - wanted:
                        del self._jobs[identifier]
                for assigned in message["assign"]:
                    job = self._jobs.setdefault(assigned["id"], _Job(assigned))
                    job.pace(assigned["rate_bps"])
                for identifier in message.get("release", ()):
                    self._jobs.pop(identifier, None)
            # Fallen behind: it begins anew, with a snapshot.
            connection.close()

    async def _report_forever(self) -> None:
        connection = await Connection(self._port, self._token).open()
        # Agents on different hosts know nothing of each other's time.
        await asyncio.sleep(self._number / len(NODES) * REPORT_EVERY_S)
        due_s = time.monotonic()
        while True:
            chosen = self._turns.next(lambda job: job.has_news)
            reports = [self._jobs[x].report(x) for x in chosen]
            body = {"transfers": reports, "data_address": "127.0.0.1:1"}
            _, answer = await connection.ask("POST", f"{self._path}/reports", body)
            done = [x["id"] for x in reports if x["state"] == "done"]
            for identifier in (*answer["stop"], *done):
                self._jobs.pop(identifier, None)
            due_s = max(due_s + REPORT_EVERY_S, time.monotonic())
            await asyncio.sleep(due_s - time.monotonic())


class _Job:
    def __init__(self, assignment: dict[str, Any]) -> None:
        self._total: int = assignment["size_bytes"]
        self._rate_bps = 0.0
        self._moved = 0.0
        self._at_s = time.monotonic()
        self._is_new = True

    def pace(self, rate_bps: int) -> None:
        self._advance()
        self._rate_bps = rate_bps * PAYLOAD_PER_WIRE_BIT

    @property
    def has_news(self) -> bool:
        self._advance()
        return self._is_new or self._moved >= self._total

    def report(self, identifier: str) -> dict[str, Any]:
        self._is_new = False
        state = "done" if self._moved >= self._total else "running"
        durable = {"bytes_durable": int(self._moved), "bytes_total": self._total}
        return {"id": identifier, "state": state, **durable}

    def _advance(self) -> None:
        now_s = time.monotonic()
        moved = self._rate_bps / 8 * (now_s - self._at_s)
        self._moved, self._at_s = min(self._total, self._moved + moved), now_s


__all__ = ["agents"]
