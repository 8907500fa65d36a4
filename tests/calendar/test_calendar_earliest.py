"""What a refusal says about the links themselves, against a linear program of fluid schedules."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from test_calendar_planner import GB, START, S, asked, engine, planner

from weir import Bytes, Rate, Time
from weir._core import Calendar
from weir.calendar.clock import parse_instant
from weir.calendar.network import parse_network
from weir.calendar.planning.engine import RecordedEngine
from weir.calendar.planning.planner import Planner
from weir.calendar.planning.wire import WIRE_PER_FILE_BYTE
from weir.calendar.problem import Problem

MBIT = 10**6
POLICIES = ["fixed", "local-ljf", "local-sjf", "global-ljf", "global-sjf"]


def line_calendar(capacities, policy):
    """Nodes in a row, a link from each to the next."""
    links = [
        {"name": f"l{at}", "from": f"n{at}", "to": f"n{at + 1}", "capacity_bps": rate * MBIT}
        for at, rate in enumerate(capacities)
    ]
    nodes = [f"n{at}" for at in range(len(capacities) + 1)]
    return Calendar(json.dumps({"nodes": nodes, "links": links}), policy, Time("10 s"))


def is_possible(jobs, capacities, until_s):
    """Whether rates exist, constant between deadlines, that have every job there by its own.

    Jobs are a first and a last link, a size in Mbit and a deadline in s, None for `until_s`.
    """
    jobs = [(first, last, size, until_s if by is None else by) for first, last, size, by in jobs]
    edges = sorted({0.0, *(by for _, _, _, by in jobs)})
    spans = np.diff(edges)
    width = len(spans)
    # One variable for each job in each interval: how much of it is sent there.
    delivered = np.zeros((len(jobs), len(jobs) * width))
    carried = np.zeros((len(capacities) * width, len(jobs) * width))
    for job, (first, last, _, by) in enumerate(jobs):
        for at in range(width):
            column = job * width + at
            if edges[at + 1] <= by:
                delivered[job, column] = 1
            for link in range(first, last):
                carried[link * width + at, column] = 1
    room = np.concatenate([rate * spans for rate in capacities])
    sizes = [size for _, _, size, _ in jobs]
    zero = np.zeros(len(jobs) * width)
    answer = linprog(zero, A_ub=carried, b_ub=room, A_eq=delivered, b_eq=sizes)
    assert answer.status in {0, 2}, answer.message
    return answer.status == 0


def least_s(jobs, new, capacities):
    """The earliest deadline of one job more, by bisection."""
    low, high = 0.0, 1.0
    while not is_possible([*jobs, (*new, None)], capacities, high):
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        if is_possible([*jobs, (*new, None)], capacities, middle):
            high = middle
        else:
            low = middle
    return high


lines = st.lists(st.integers(10, 100), min_size=1, max_size=3)
jobs = st.tuples(
    st.integers(0, 2), st.integers(1, 3), st.integers(1, 200), st.integers(2, 60), st.integers(0, 5)
)


@settings(max_examples=40, deadline=None)
@given(lines, st.lists(jobs, max_size=6), jobs, st.sampled_from(POLICIES))
def test_on_one_link_it_is_exact_and_on_several_never_later_than_possible(
    capacities, requests, last, policy
):
    calendar = line_calendar(capacities, policy)
    now_s = 0

    def ends(first, length):
        first = min(first, len(capacities) - 1)
        return first, min(first + length, len(capacities))

    for number, (first, length, size_mb, by_s, wait_s) in enumerate(requests):
        now_s += wait_s
        first, end = ends(first, length)
        due = Time.from_ns((now_s + by_s) * S)
        size = Bytes.from_count(size_mb * 10**6)
        now = Time.from_ns(now_s * S)
        calendar.submit(now, f"f{number}", f"n{first}", f"n{end}", size, due)
    first, end = ends(last[0], last[1])
    size = Bytes.from_count(last[2] * 10**6)
    names = (f"n{first}", f"n{end}")
    now = Time.from_ns(now_s * S)
    refused = calendar.submit(now, "new", *names, size, now)
    bound = calendar.earliest_by_links(*names, size)
    left = [
        (int(x.path[0][1:]), int(x.path[-1][1:]) + 1, x.remaining.count * 8 / 1e6, due_s)
        for x in calendar.flows()
        if (due_s := x.deadline.ns / S - now_s) > 0 and x.remaining.count
    ]
    possible_s = least_s(left, (first, end, size.count * 8 / 1e6), capacities)
    bound_s = bound.ns / S - now_s
    assert bound_s <= possible_s * (1 + 3e-6)
    if len(capacities) == 1:
        assert bound_s == pytest.approx(possible_s, rel=3e-6)
    # And the policy, whatever it can do, does no better.
    assert refused.earliest_deadline is None or bound <= refused.earliest_deadline


def test_the_limit_of_the_end_points_counts():
    calendar = line_calendar([100], "local-ljf")
    size, limit = Bytes.from_count(10**6), Rate.from_bit_per_s(MBIT)
    assert calendar.earliest_by_links("n0", "n1", size, limit).ns == 8 * S
    assert calendar.earliest_by_links("n0", "n1", size).ns == 80_000_000


def test_who_is_behind_or_late_holds_nobody_back():
    calendar = line_calendar([100], "local-ljf")
    size = Bytes.from_count(10**8)
    calendar.submit(Time.from_ns(0), "a", "n0", "n1", size, Time("10 s"))
    # Nothing of it has moved after 5 s: 500 Mbit of its 800 it can still have in time.
    calendar.progress(Time("5 s"), "a", size)
    small = Bytes.from_count(1_250_000)
    assert calendar.earliest_by_links("n0", "n1", small).ns == 10_100_000_000
    # Past its deadline nobody's promise waits for it.
    calendar.epoch(Time("11 s"))
    assert calendar.earliest_by_links("n0", "n1", small).ns == 11_100_000_000


def a_link_of_100_mbit():
    link = {"name": "wan", "ends": ["a", "b"], "capacity": "100 Mbit/s"}
    network = parse_network({"nodes": ["a", "b"], "links": [link]})
    calendar = Calendar(network.engine_json(), "local-ljf", Time("180 s"))
    return Planner(RecordedEngine(calendar), [], margin_ns=S)


def test_two_that_fit_one_after_the_other_are_refused_with_the_truth():
    plan, between = a_link_of_100_mbit(), {"source": "a", "destination": "b"}
    plan.submit(START, asked("first", 60 * GB, 90 * 60, **between))
    refused = plan.submit(START, asked("second", 60 * GB, 4 * 3600, **between)).answer
    assert isinstance(refused, Problem)
    # The oracle is arithmetic: 120 GB and their headers at 100 Mbit/s, and a second in hand.
    both_s = 120 * GB * 8 * WIRE_PER_FILE_BYTE / 1e8 + 1
    by_links = parse_instant(refused.extra["earliest_by_links"])
    assert (by_links - START) / S == pytest.approx(both_s, abs=0.01)
    assert by_links < START + 4 * 3600 * S < parse_instant(refused.extra["earliest_deadline"])
    said = refused.hint
    assert f"no plan could have it there before {refused.extra['earliest_by_links']}" in said
    assert "this policy, which keeps constant rates, can promise it for" in said


def test_where_a_policy_can_promise_nothing_the_links_are_told_all_the_same():
    plan, between = a_link_of_100_mbit(), {"source": "a", "destination": "b"}
    plan.submit(START, asked("first", int(100e6 / 8 * 59 / WIRE_PER_FILE_BYTE), 60, **between))
    refused = plan.submit(START, asked("second", GB, 120, **between)).answer
    assert refused.extra["earliest_deadline"] is None
    by_links = parse_instant(refused.extra["earliest_by_links"])
    assert (by_links - START) / S == pytest.approx(60 + GB * 8.36 / 1e8, abs=0.1)


def test_what_no_decade_would_do_is_not_told():
    refused = planner().submit(START, asked("a", 10**18, 60)).answer
    assert refused.extra["earliest_by_links"] is None
    assert "no plan" not in refused.hint


def test_it_is_told_in_calendar_time():
    shifted = RecordedEngine(engine()._calendar, 0, START)
    plan = Planner(shifted, [], margin_ns=0)
    plan.submit(START, asked("a", 6 * GB, 60))
    refused = plan.submit(START, asked("b", 3 * GB, 60)).answer
    at = datetime.fromisoformat(refused.extra["earliest_by_links"])
    assert at.astimezone(UTC).timestamp() == pytest.approx(START / S + 75.24, abs=0.01)
