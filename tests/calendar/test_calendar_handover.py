"""When one transfer ends, or another's turn comes by the plan, rates do not wait for anybody's next
turn to look."""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from calendar_lab import settings
from simulated_world import NS_PER_S, Clocks, VirtualLoop
from test_calendar_planner import GB, asked

from weir import Bytes
from weir.calendar.agents.agent import LOOK_EVERY_S, REPORT_EVERY_S, HostAgent, Job, MoverOptions
from weir.calendar.service.service import Service
from weir.calendar.storage.store import Store

SIZE = Bytes.from_count(10_000_000)
NOTHING = Bytes.from_count(0)


class Mover:
    """Has handed all of a file over, and is done at some time of the loop."""

    def __init__(self, loop, done_s):
        self._loop = loop
        self._done_s = done_s
        self.looks_s = []

    def cancel(self):
        pass

    def take_notices(self):
        return []

    def take_settled(self):
        return []

    def progress(self):
        self.looks_s.append(self._loop.time())
        is_done = self._loop.time() >= self._done_s
        return SimpleNamespace(
            state="done" if is_done else "running",
            total_is_known=True,
            bytes_done=SIZE,
            bytes_durable=SIZE if is_done else NOTHING,
            bytes_total=SIZE,
            files_total=1,
            files_skipped=0,
        )


class Line:
    """Notes when an agent says what of its transfers."""

    def __init__(self, loop):
        self._loop = loop
        self.said = []

    async def post(self, kind, body):
        self.said += [(self._loop.time(), x["id"], x["state"]) for x in body["transfers"]]
        return {"stop": []}


@pytest.mark.parametrize("done_s", [0.101, 0.125, 0.149, 1.951])
def test_the_end_of_a_transfer_is_told_within_10_ms(monkeypatch, done_s):
    loop = VirtualLoop()
    line = Line(loop)
    with Clocks(loop).installed(monkeypatch):
        agent = HostAgent(line, MoverOptions(Path("/nowhere"), None))
        job = agent._jobs["a"] = Job({"id": "a", "deadline_ns": 10**19})
        job.transfer = mover = Mover(loop, done_s)

        async def scenario():
            async with asyncio.timeout(done_s + REPORT_EVERY_S), asyncio.TaskGroup() as group:
                group.create_task(agent._look_after_jobs())
                group.create_task(agent._report_forever())

        with pytest.raises(TimeoutError):
            loop.run_until_complete(scenario())
    loop.close()
    told_s = [at_s for at_s, _, state in line.said if state == "done"]
    assert len(told_s) == 1 and 0 <= told_s[0] - done_s < 0.0101
    assert len(mover.looks_s) <= 1 + (done_s + LOOK_EVERY_S) / 0.01
    assert not agent._jobs


def test_a_transfer_that_has_more_to_send_is_looked_at_as_before(monkeypatch):
    loop = VirtualLoop()
    with Clocks(loop).installed(monkeypatch):
        agent = HostAgent(Line(loop), MoverOptions(Path("/nowhere"), None))
        job = agent._jobs["a"] = Job({"id": "a", "deadline_ns": 10**19})
        job.transfer = mover = Mover(loop, 100.0)
        progress = mover.progress
        mover.progress = lambda: SimpleNamespace(**vars(progress()) | {"bytes_done": NOTHING})

        async def scenario():
            async with asyncio.timeout(1.0):
                await agent._look_after_jobs()

        with pytest.raises(TimeoutError):
            loop.run_until_complete(scenario())
    loop.close()
    assert 1 / LOOK_EVERY_S - 1 <= len(mover.looks_s) <= 1 / LOOK_EVERY_S + 1


@pytest.mark.parametrize("ahead_s", [0.3, 1.131, 1.249, 2.01])
def test_the_turn_of_a_transfer_by_the_plan_is_told_within_30_ms(tmp_path, monkeypatch, ahead_s):
    """Ticks come each quarter of a second: on a link that is promised to the full, who was told so
    late missed its deadline, and others after it."""
    loop = VirtualLoop()
    told_s = []

    async def scenario():
        service = Service(settings("weir"), Store(f"sqlite:///{tmp_path / 'calendar.db'}"))
        await service.start()
        now_ns = service.now_ns()
        turn_ns = now_ns + int(ahead_s * NS_PER_S)
        await service.submit(replace(asked("a", 6 * GB), deadline_ns=now_ns + 300 * NS_PER_S))
        later = replace(asked("b", GB, start_ns=turn_ns), deadline_ns=now_ns + 60 * NS_PER_S)
        await service.submit(later)
        while not service.rates["b"]:
            await asyncio.sleep(0.001)
        told_s.append((service.now_ns() - turn_ns) / NS_PER_S)
        await service.stop()

    with Clocks(loop).installed(monkeypatch):
        loop.run_until_complete(scenario())
    loop.close()
    assert 0 <= told_s[0] < 0.03
