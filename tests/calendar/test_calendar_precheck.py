"""Prechecks change nothing and say what submit says; counter-offers are accepted as they stand."""

import dataclasses

import pytest
from calendar_lab import request, settings
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from test_calendar_planner import GB, START, S, asked, engine

from weir.calendar.clock import parse_instant
from weir.calendar.planning.planner import Planner
from weir.calendar.planning.precheck import SPENT_PER_S, TRIES_MAX
from weir.calendar.problem import Problem

POLICIES = ["fixed", "local-ljf", "global-sjf", "weir"]


def planner(policy="local-ljf", hold_s=60):
    ahead = settings(policy).plans_ahead
    return Planner(engine(policy), [], margin_ns=0, hold_ns=hold_s * S, plans_ahead=ahead)


def state(plan):
    """All of a planner that a precheck could spoil."""
    budget = dataclasses.asdict(plan._budget)
    return plan.engine.snapshot(), dict(plan.rates), dict(plan.transfers), plan._last_event, budget


@pytest.mark.parametrize("policy", POLICIES)
@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.integers(5, 300), st.sampled_from(["dtn1", "dtn2"])),
        min_size=1,
        max_size=8,
    )
)
@hypothesis_settings(max_examples=15, deadline=None)
def test_it_says_what_submit_then_says_and_costs_whom_it_said(policy, wanted):
    plan = planner(policy, hold_s=0)
    for number, (size, by_s, source) in enumerate(wanted):
        new = asked(f"t{number}", size * GB // 4, by_s, source=source)
        before = plan.engine.snapshot(), dict(plan.rates), plan._last_event
        forecast = plan.precheck(START, new)
        assert (plan.engine.snapshot(), dict(plan.rates), plan._last_event) == before
        assert forecast.events == forecast.steps == []
        assert forecast.rates == forecast.transfers == {}
        outcome = plan.submit(START, new)
        told = forecast.answer
        assert (told.refusal is None) == (outcome.admitted is not None)
        if told.refusal is None:
            assert told.verdict.rate_bps == plan.rates[new.id]
            changed = {x: rate for x, rate in outcome.rates.items() if x != new.id}
            assert {x: then for x, (_, _, then) in told.costs.items()} == changed
            assert all(now == before[1][x] for x, (_, now, _) in told.costs.items())


def test_it_looks_past_the_offer_that_asking_would_give_up():
    plan = planner()
    plan.submit(START, asked("a", 6 * GB, 60))
    refused = plan.submit(START, asked("b", 3 * GB, 60, source="dtn2")).answer
    assert refused.extra["offer_held_s"] == 60
    wanted = asked("c", GB, 60, source="dtn2")
    before = state(plan)
    told = plan.precheck(START, wanted).answer
    assert (told.refusal, plan.engine.held()) == (None, plan.engine.held())
    assert state(plan) == before
    # Somebody else may not look past it.
    assert plan.precheck(START, dataclasses.replace(wanted, owner="bob")).answer.refusal
    assert plan.submit(START, wanted).admitted == "c"


def test_what_is_held_ahead_is_promised_as_asking_would_promise_it():
    plan = planner("weir")
    plan.submit(START, asked("a", 6 * GB, 60))
    wanted = asked("b", 3 * GB, 60, source="dtn2")
    refusal = plan.submit(START, wanted).answer
    assert refusal.extra["offer_held_s"] == 60
    now_ns = START + 30 * S
    before = state(plan)[:4]
    assert plan.precheck(now_ns, wanted).answer.refusal
    offered_ns = parse_instant(refusal.extra["earliest_deadline"])
    offered = dataclasses.replace(wanted, deadline_ns=offered_ns)
    told = plan.precheck(now_ns, offered).answer
    assert state(plan)[:4] == before
    outcome = plan.submit(now_ns, offered)
    assert (told.refusal, outcome.admitted) == (None, "b")
    assert outcome.rates.pop("b") == told.verdict.rate_bps
    assert {x: then for x, (_, _, then) in told.costs.items()} == outcome.rates


def refusals(policy, sizes):
    """A plan, and a request that it refuses."""
    plan = planner(policy, hold_s=0)
    for number, (size, by_s) in enumerate(sizes):
        plan.submit(START, asked(f"t{number}", size * GB // 4, by_s, source="dtn2"))
    return plan


@pytest.mark.parametrize("policy", POLICIES)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(5, 300)), max_size=8),
    st.integers(10, 200),
)
@hypothesis_settings(max_examples=15, deadline=None)
def test_the_largest_size_is_admitted_and_one_percent_more_is_not(policy, sizes, by_s):
    wanted = asked("mine", 30 * GB, by_s)
    refusal = refusals(policy, sizes).submit(START, wanted).answer
    assert isinstance(refusal, Problem)
    largest = refusal.extra["largest_size_bytes"]
    if largest is None:
        # Not even a megabyte: there is no room at all.
        tiny = dataclasses.replace(wanted, size_bytes=10**6)
        assert refusals(policy, sizes).submit(START, tiny).admitted is None
        return
    exactly = dataclasses.replace(wanted, size_bytes=largest)
    more = dataclasses.replace(wanted, size_bytes=int(largest * 1.01) + 1)
    assert refusals(policy, sizes).submit(START, exactly).admitted == "mine"
    assert refusals(policy, sizes).submit(START, more).admitted is None


def test_the_latest_start_that_would_do_is_offered_with_the_deadline_asked_for():
    plan = planner("weir", hold_s=0)
    wanted = asked("late", 5 * GB, 100, start_ns=START + 90 * S)
    refusal = plan.submit(START, wanted).answer
    latest_ns = parse_instant(refusal.extra["latest_start"])
    # 5 GB of content are 41.8 Gbit of packets, which take 41.8 s of a gigabit.
    assert START + 56 * S < latest_ns < START + 58.3 * S
    assert plan.submit(START, dataclasses.replace(wanted, start_ns=latest_ns)).admitted == "late"


def test_searches_are_bounded_in_number_and_by_the_clock():
    plan = planner("fixed", hold_s=0)
    plan.submit(START, asked("t", 6 * GB, 60))
    calls = []
    precheck = plan.engine.precheck

    def counted(*args):
        calls.append(args)
        return precheck(*args)

    plan.engine.precheck = counted
    spent = []
    for number in range(200):
        plan.submit(START, asked(f"r{number}", 30 * GB, 50, source="dtn2"))
        spent.append(len(calls) - sum(spent))
    # A constant rate's largest size is known but for rounding.
    assert spent[0] <= 3
    assert max(spent) <= TRIES_MAX
    assert len(calls) <= SPENT_PER_S // 100
    assert spent[-1] == 0
    refusal = plan.submit(START, asked("last", 30 * GB, 50, source="dtn2")).answer
    assert refusal.extra["largest_size_bytes"] is None
    refusal = plan.submit(START + S, asked("later", 30 * GB, 50, source="dtn2")).answer
    assert refusal.extra["largest_size_bytes"] > 0


# --- over a real service ---


def test_a_precheck_over_rest_leaves_no_trace(api):
    first = api.post("/v1/transfers", json=request(size_bytes=6 * 10**9)).json()
    wanted = request(source="dtn2", destination_path="in/b")
    told = api.post("/v1/prechecks", json=wanted)
    assert told.status_code == 200, told.text
    told = told.json()
    assert (told["admitted"], told["refusal"], told["costs_count"]) == (True, None, 1)
    cost = told["costs"][0]
    assert (cost["id"], cost["owner"], cost["rate_bps"]) == (first["id"], "submit", 10**9)
    assert len(api.get("/v1/transfers").json()) == 1
    made = api.post("/v1/transfers", json=wanted).json()
    assert made["rate_bps"] == pytest.approx(told["rate_bps"], rel=0.05)
    assert made["path"] == told["path"]
    told = api.post("/v1/prechecks", json=wanted | {"size_bytes": 9 * 10**9}).json()
    assert (told["admitted"], told["costs"]) == (False, [])
    assert told["refusal"]["type"] == "urn:weir:problem:refused"
    assert told["refusal"]["link"] == "core.forward"
    assert told["refusal"]["offer_held_s"] == 0
    wrong = api.post("/v1/prechecks", json=wanted | {"source": "mars"})
    assert wrong.status_code == 422
