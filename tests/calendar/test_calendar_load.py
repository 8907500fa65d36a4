"""What keeps answers quick under load: reports take their turn, and nobody is lost by waiting."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.calendar.backlog import REPORTS_MAX, REQUESTS_MAX, WAITING_MAX, Backlog
from weir.calendar.registry import SILENCE_S, Registry
from weir.calendar.turns import TURN_MAX, Turns


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


def test_a_backlog_has_an_end():
    backlog = Backlog()
    assert all(backlog.put(n, is_report=False) for n in range(WAITING_MAX))
    assert not backlog.put(0, is_report=False)
    assert backlog.put(0, is_report=True)
    assert len(backlog.empty()) == WAITING_MAX + 1


def test_an_agent_whose_report_waits_to_be_written_is_not_lost():
    registry = Registry(0.0)
    agent = registry.heard("dtn1", 1.0)
    late_s = 1.0 + 100 * SILENCE_S
    assert registry.silent(["dtn1"], late_s) == {"dtn1"}
    with contextlib.suppress(RuntimeError), registry.reporting(agent):
        assert registry.silent(["dtn1"], late_s) == set()
        assert registry.alive(late_s) == ["dtn1"]
        raise RuntimeError("the store does not answer")
    # Its time begins anew: it could not have said anything else.
    assert registry.silent(["dtn1"], agent.heard_s + SILENCE_S - 0.1) == set()
    assert registry.silent(["dtn1"], agent.heard_s + SILENCE_S + 0.1) == {"dtn1"}


@pytest.mark.parametrize("count", [1, TURN_MAX, 5 * TURN_MAX + 3])
def test_everyone_is_reported_in_turn(count):
    turns = Turns()
    turns.jobs.update({str(n): n for n in range(count)})
    rounds = -(-count // TURN_MAX)
    seen = [turns.next(lambda _: False) for _ in range(rounds)]
    assert all(len(x) <= TURN_MAX for x in seen)
    assert set().union(*seen) == turns.jobs.keys()
