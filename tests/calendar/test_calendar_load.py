"""What keeps answers quick under load: reports take their turn, and nobody is lost by waiting."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_world import VirtualLoop

from weir.calendar.agents.turns import TURN_MAX, Turns
from weir.calendar.service import registry
from weir.calendar.service.backlog import APART_S, REPORTS_MAX, REQUESTS_MAX, WAITING_MAX, Backlog
from weir.calendar.service.events import Dropped
from weir.calendar.service.registry import MESSAGE_MAX, PAUSE_S, SILENCE_S, Registry, Stream


def test_a_request_waits_for_few_reports_however_many_came_before_it():
    async def scenario():
        backlog = Backlog()
        for number in range(1_000):
            assert backlog.put(("report", number), is_report=True)
        backlog.put(("request", 0), is_report=False)
        batch = await backlog.batch()
        assert batch[0] == ("request", 0)
        assert len(batch) == 1 + REPORTS_MAX

    asyncio.run(scenario())


@given(st.lists(st.one_of(st.booleans(), st.none()), max_size=300))
def test_each_kind_is_taken_in_order_and_neither_starves(steps):
    """True is a report that comes, False a request, None the writer that takes."""

    async def scenario():
        backlog, put, taken = Backlog(), {True: [], False: []}, {True: [], False: []}
        for number, step in enumerate([*steps, *[None] * len(steps)]):
            if step is not None:
                backlog.put((step, number), is_report=step)
                put[step].append(number)
            elif put != taken:
                batch = await asyncio.wait_for(backlog.batch(), 30)
                kinds = {is_report for is_report, _ in batch}
                assert kinds == {kind for kind in put if len(put[kind]) > len(taken[kind])}
                assert len(batch) <= REQUESTS_MAX + REPORTS_MAX
                for is_report, item in batch:
                    taken[is_report].append(item)
        assert put == taken
        assert backlog.empty() == []

    asyncio.run(scenario())


def test_what_comes_one_right_after_the_other_is_taken_together():
    async def scenario():
        loop, backlog = asyncio.get_running_loop(), Backlog()
        taken = []
        for number in range(20):
            # One every millisecond.
            loop.call_at(number / 1_000, backlog.put, number, False)
        # The first comes alone; those after it do not, and wait twice as long.
        for due in (0, 1, 3, 5):
            taken.append(await backlog.batch())
            assert loop.time() == pytest.approx(due * APART_S, abs=1e-3)
        assert [x for batch in taken for x in batch] == list(range(20))
        # Whoever comes alone is taken at once.
        await asyncio.sleep(1)
        began_s = loop.time()
        backlog.put(20, False)
        assert await backlog.batch() == [20]
        assert loop.time() == began_s

    virtually(scenario())


def virtually(scenario):
    """Runs it in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario)


def told(identifiers):
    return {"ids": list(identifiers)}


def test_an_agent_is_told_once_what_has_changed_again_meanwhile():
    async def scenario():
        loop = asyncio.get_running_loop()
        stream = Stream("dtn1", "host", "", told)
        stream.put({"kind": "snapshot"})
        stream.change(["a"])
        assert await stream.take(0) == {"kind": "snapshot"}
        assert await stream.take(0) == {"ids": ["a"]}
        began_s = loop.time()
        stream.change(["b", "a"])
        stream.put({"kind": "question"})
        stream.change(["c", "b"])
        assert await stream.take(1) == {"ids": ["b", "a", "c"]}
        assert loop.time() == pytest.approx(began_s + PAUSE_S)
        assert await stream.take(0) == {"kind": "question"}
        assert await stream.take(0) is None
        # After a while the next change is told at once.
        await asyncio.sleep(1)
        began_s = loop.time()
        stream.change(["a"])
        assert await stream.take(1) == {"ids": ["a"]}
        assert loop.time() == began_s

    virtually(scenario())


def test_many_changes_are_told_in_pieces_right_after_each_other():
    async def scenario():
        loop = asyncio.get_running_loop()
        stream = Stream("dtn1", "host", "", told)
        names = [str(n) for n in range(2 * MESSAGE_MAX + 3)]
        stream.change(names)
        stream.put({"kind": "question"})
        messages = []
        while (message := await stream.take(0)) is not None:
            messages.append(message)
            if len(messages) == 1:
                # Told already, and changed again: it comes once more, after the others.
                stream.change(names[:1])
        assert loop.time() < PAUSE_S / 2
        assert messages.pop(1) == {"kind": "question"}
        assert all(len(message["ids"]) <= MESSAGE_MAX for message in messages)
        assert [x for message in messages for x in message["ids"]] == [*names, names[0]]

    virtually(scenario())


def test_an_agent_that_reads_nothing_is_cut_off_in_the_end(monkeypatch):
    async def scenario():
        stream = Stream("dtn1", "host", "", told)
        for number in range(9):
            stream.change([str(number), "a"])
        assert not stream.dropped
        stream.change(["b", "c"])
        with pytest.raises(Dropped):
            await stream.take(1)

    monkeypatch.setattr(registry, "CHANGED_MAX", 10)
    asyncio.run(scenario())


def test_a_backlog_has_an_end():
    backlog = Backlog()
    assert all(backlog.put(n, is_report=False) for n in range(WAITING_MAX))
    assert not backlog.put(0, is_report=False)
    assert backlog.put(0, is_report=True)
    assert len(backlog.empty()) == WAITING_MAX + 1


def test_an_agent_whose_report_waits_to_be_written_is_not_lost():
    agents = Registry(0.0)
    agent = agents.heard("dtn1", 1.0)
    late_s = 1.0 + 100 * SILENCE_S
    assert agents.silent(["dtn1"], late_s) == {"dtn1"}
    with contextlib.suppress(RuntimeError), agents.reporting(agent):
        assert agents.silent(["dtn1"], late_s) == set()
        assert agents.alive(late_s) == ["dtn1"]
        raise RuntimeError("the store does not answer")
    # Its time begins anew: it could not have said anything else.
    assert agents.silent(["dtn1"], agent.heard_s + SILENCE_S - 0.1) == set()
    assert agents.silent(["dtn1"], agent.heard_s + SILENCE_S + 0.1) == {"dtn1"}


@pytest.mark.parametrize("count", [1, TURN_MAX, 5 * TURN_MAX + 3])
def test_everyone_is_reported_in_turn(count):
    turns = Turns()
    turns.jobs.update({str(n): n for n in range(count)})
    rounds = -(-count // TURN_MAX)
    seen = [turns.next(lambda _: False) for _ in range(rounds)]
    assert all(len(x) <= TURN_MAX for x in seen)
    assert set().union(*seen) == turns.jobs.keys()
