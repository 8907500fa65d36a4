"""The benchmark of the fluid simulator: its workload, and that a difference cannot pass unseen."""

import pytest

from benches.fluid import RINGS, Ring, _difference, _most_under_way
from weir._core import simulate_trace
from weir.errors import WeirError


def test_the_ring_takes_the_shorter_side_and_its_flows_all_end():
    ring = Ring("small", 5, 300, 30, 1e8)
    text = ring.trace()
    routes = [line.split()[1:] for line in text.splitlines() if line.startswith("route")]
    assert len(routes) == 20 and max(map(len, routes)) == 2
    # Clockwise from 4 over 0 to 1, and back.
    assert ["4", "0"] in routes and ["5", "9"] in routes
    outcome = simulate_trace(text)
    assert len(outcome) == 300 and outcome.mean_throughput_bps <= 10e9 * (1 + 1e-9)


def test_a_smaller_ring_has_the_same_load():
    small = RINGS[0].smaller(10)
    assert small.flows / small.horizon_s == RINGS[0].flows / RINGS[0].horizon_s
    assert small.trace().count("\nflow ") == small.flows


def test_completion_times_that_differ_fail_the_benchmark():
    assert _difference([0.0, 1.0], [2.0, 3.0], [2.0, 3.0]) == 0
    assert _difference([0.0], [2.01], [2.0]) == pytest.approx(0.005)
    with pytest.raises(WeirError, match="differ"):
        _difference([0.0], [2.1], [2.0])
    with pytest.raises(WeirError, match="ended"):
        _difference([0.0, 1.0], [2.0], [2.0, 3.0])


def test_flows_under_way_are_counted_at_their_most():
    assert _most_under_way([0.0, 1.0, 2.0], [1.0, 4.0, 3.0]) == 2
