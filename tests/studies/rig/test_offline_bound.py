"""The offline bound against enumeration, closed forms, and every policy."""

import itertools
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.rig.offline_bound import Request, offline_bound, requests_of
from weir._core import calendar_study
from weir.calendar.study import POLICIES, Load, named_network, run
from weir.errors import BadInput


def line(*capacities):
    """Nodes a, b, c, … joined one after the other, one direction."""
    nodes = [chr(ord("a") + at) for at in range(len(capacities) + 1)]
    links = [
        {"name": f"{x}-{y}", "from": x, "to": y, "capacity_bps": capacity}
        for (x, y), capacity in zip(itertools.pairwise(nodes), capacities, strict=True)
    ]
    return {"nodes": nodes, "links": links}


def test_one_request_is_worth_what_the_narrowest_link_carries_in_its_time():
    bound = offline_bound(line(8, 5), [Request("a", "c", 2.0, 12.0, 100.0, 3.0)])
    assert bound.value == pytest.approx(3.0 * 5 * 10 / 100)
    assert bound.shares == pytest.approx([0.5])


def test_two_ways_carry_the_sum():
    network = line(4, 4)
    network["links"].append({"name": "d", "from": "a", "to": "c", "capacity_bps": 3})
    assert offline_bound(network, [Request("a", "c", 0.0, 10.0, 140.0)]).value == pytest.approx(0.5)


def test_what_may_be_split_beats_what_may_not():
    requests = [Request("a", "b", 0.0, 10.0, 60.0), Request("a", "b", 0.0, 10.0, 60.0)]
    assert offline_bound(line(10), requests).value == pytest.approx(100 / 60)
    assert offline_bound(line(10), requests, whole=True).value == pytest.approx(1.0)


jobs = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 8), st.integers(1, 30), st.integers(1, 5)),
    min_size=1,
    max_size=5,
)


def feasible(chosen):
    """Preemptive jobs on one link of 5 bit/s fit iff no window is asked for more than it has."""
    starts = {start for start, *_ in chosen}
    ends = {start + span for start, span, *_ in chosen}
    return all(
        sum(size for start, span, size, _ in chosen if begin <= start and start + span <= end)
        <= 5 * (end - begin)
        for begin in starts
        for end in ends
        if begin < end
    )


@settings(max_examples=60, deadline=None)
@given(jobs)
def test_on_one_link_it_is_the_best_of_all_subsets(jobs):
    subsets = itertools.chain.from_iterable(
        itertools.combinations(jobs, size) for size in range(len(jobs) + 1)
    )
    best = max(sum(value for *_, value in chosen) for chosen in subsets if feasible(chosen))
    requests = [
        Request("a", "b", float(start), float(start + span), float(size), float(value))
        for start, span, size, value in jobs
    ]
    assert offline_bound(line(5), requests, whole=True).value == pytest.approx(best)
    assert offline_bound(line(5), requests).value >= best - 1e-6


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("ahead_s", [0.0, 900.0])
def test_no_policy_gets_more(policy, ahead_s):
    network = named_network("g-scale")
    for seed in range(3):
        load = Load(0.05, 14, mean_rate_bps=6e9, mean_span_s=200.0, ahead_s=ahead_s)
        figures = run(network, policy, load, seed, epoch_s=10.0)
        assert figures.missed == 0 or policy == "none"
        on_time = [booking.on_time for booking in figures.bookings]
        for value in ("requests", "bytes"):
            requests = requests_of(figures.bookings, value)
            got = sum(
                r.value for r, is_on_time in zip(requests, on_time, strict=True) if is_on_time
            )
            assert got <= offline_bound(network, requests).value * (1 + 1e-6)


@pytest.mark.parametrize(
    ("request_", "part"),
    [
        (Request("a", "z", 0.0, 1.0, 1.0), "'z' is not a node"),
        (Request("a", "a", 0.0, 1.0, 1.0), "both ends are 'a'"),
        (Request("a", "b", 5.0, 5.0, 1.0), "deadline at 5 s is not after its start at 5 s"),
        (Request("a", "b", 0.0, math.nan, 1.0), "times are not finite"),
        (Request("a", "b", 0.0, 1.0, 0.0), "size is 0"),
        (Request("a", "b", 0.0, 1.0, 1.0, math.inf), "value is inf"),
    ],
)
def test_requests_that_cannot_be_are_named(request_, part):
    with pytest.raises(BadInput, match=part):
        offline_bound(line(5), [request_])


def test_a_link_that_carries_nothing_is_named():
    with pytest.raises(BadInput, match="capacity of 0"):
        offline_bound(line(0), [Request("a", "b", 0.0, 1.0, 1.0)])


def test_where_there_is_no_path_nothing_can_be_had():
    assert offline_bound(line(5), [Request("b", "a", 0.0, 1.0, 1.0)]).value == pytest.approx(0.0)
    study = {
        "network": line(5),
        "policy": "fixed",
        "epoch_s": 1.0,
        "workload": Load(1.0, 5).workload(1),
    }
    with pytest.raises(BadInput, match="no path"):
        calendar_study(json.dumps(study))
