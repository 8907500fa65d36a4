"""The fluid simulator through the Python door: worked numbers, arrays, and bad input."""

import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir import Time
from weir._core import g_scale, simulate_study, simulate_trace
from weir.errors import BadInput

# 000-spec section 1, item 4: a critical and a patient transfer over 500 Mbit/s.
TWO_TRANSFERS = """
link a b 500000000
route 0
flow 0 0 5000000000 deadline_ns=120000000000
flow 0 0 10000000000
"""
NEVER = 2**64 - 1


def whole(array):
    return memoryview(array).cast("Q").tolist()


def doubles(array):
    return memoryview(array).cast("d").tolist()


def study(**changes):
    workload = {
        "seed": 1,
        "flows": 500,
        "arrivals": {"poisson": {"rate_per_s": 2}},
        "sizes": {"bytes": {"pareto": {"shape": 2.1, "minimum": 1e9}}},
    }
    document = {"network": json.loads(g_scale()), "workload": workload | changes}
    return json.dumps(document)


def test_a_fair_share_misses_the_deadline_as_computed_by_hand():
    outcome = simulate_trace(TWO_TRANSFERS)
    assert len(outcome) == 2
    assert whole(outcome.end_ns) == [160 * 10**9, 240 * 10**9]
    assert whole(outcome.arrival_ns) == [0, 0]
    assert whole(outcome.deadline_ns) == [120 * 10**9, NEVER]
    assert whole(outcome.size_bytes) == [5 * 10**9, 10**10]
    assert doubles(outcome.throughput_bps) == pytest.approx([250e6, 1e9 / 3])
    assert outcome.utilisation == [("a-b", 1.0)]
    assert outcome.on_time_share == 0.0
    assert outcome.makespan == outcome.end == Time("240 s")


def test_priority_serves_the_first_class_first_and_a_cut_leaves_flows_under_way():
    trace = TWO_TRANSFERS.replace("flow 0 0 10000000000", "flow 0 0 10000000000 priority=1")
    outcome = simulate_trace(trace, sharing="priority", priorities=2, until=Time("100 s"))
    assert whole(outcome.end_ns) == [80 * 10**9, NEVER]
    assert math.isnan(doubles(outcome.throughput_bps)[1])
    assert outcome.utilisation == [("a-b", pytest.approx(1.0))]


def test_a_study_repeats_itself_and_its_figures_agree_with_its_arrays():
    outcome = simulate_study(study())
    again = simulate_study(study())
    assert outcome.end_ns == again.end_ns and len(outcome) == 500
    throughputs = doubles(outcome.throughput_bps)
    assert outcome.mean_throughput_bps == pytest.approx(sum(throughputs) / 500)
    squares = sum(value**2 for value in throughputs)
    assert outcome.jain_index == pytest.approx(sum(throughputs) ** 2 / (500 * squares))
    spans = zip(whole(outcome.arrival_ns), whole(outcome.end_ns), strict=True)
    assert outcome.mean_completion_s == pytest.approx(sum(b - a for a, b in spans) / 500e9)
    assert all(0 <= share <= 1 + 1e-9 for _, share in outcome.utilisation)
    assert simulate_study(study(seed=2)).end_ns != outcome.end_ns


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"flows": -1}, "workload.flows"),
        ({"arrivals": {"poisson": {"rate_per_s": 0}}}, "arrivals.poisson.rate_per_s"),
        ({"arrivals": {"closed_loop": {"users": 0}}}, "arrivals.closed_loop.users"),
        ({"sizes": {"bytes": {"pareto": {"shape": -1, "minimum": 1}}}}, "pareto.shape"),
        ({"sizes": {"rate_bps": {"constant": 1e8}}}, "deadlines.after_s"),
        ({"pairs": [{"from": "1", "to": "1", "share": 1}]}, '"1"'),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_study_that_cannot_be_is_refused_by_name(changes, part):
    with pytest.raises(BadInput, match=part):
        simulate_study(study(**changes))


@pytest.mark.parametrize(
    ("trace", "options", "part"),
    [
        ("link a b 0", {}, "line 1"),
        ("flow 0 0 1", {}, "line 1"),
        (TWO_TRANSFERS, {"sharing": "first-come"}, "first-come"),
        (TWO_TRANSFERS, {"sharing": "priority", "priorities": 0}, "priorities"),
    ],
)
def test_a_trace_that_cannot_be_is_refused_by_line(trace, options, part):
    with pytest.raises(BadInput, match=part):
        simulate_trace(trace, **options)


@given(st.text())
def test_any_text_is_simulated_or_refused_and_does_not_panic(text):
    for simulate in (simulate_study, simulate_trace):
        with contextlib.suppress(BadInput):
            simulate(text)
