"""When one transfer ends, the next one's rate does not wait for anybody's next turn to look."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from simulated_world import Clocks, VirtualLoop

from weir import Bytes
from weir.calendar.agents.agent import LOOK_EVERY_S, REPORT_EVERY_S, HostAgent, Job, MoverOptions

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
