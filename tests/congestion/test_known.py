"""What is known of a path, and which meetings count: worked by hand, and what must always hold."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.congestion.choice.known import ANY, Known
from weir.congestion.path import PathState

RATES = (1e7, 1e8)
RTTS = (0.01, 0.1)
DEPTHS = (0.5, 1.0, 2.0, 4.0)
GRID = list(itertools.product(RATES, RTTS, DEPTHS))


def path(use="shared", rtt_s=0.05, **known):
    return PathState(use, rtt_s, **{"goodput_bps": 2e7} | known)


def along(axis, known):
    """How much each value of an axis counts: 0 is the rate, 1 the round trip, 2 the queue."""
    counts = {}
    for point, count in zip(GRID, known.weights(GRID), strict=True):
        counts[point[axis]] = counts.get(point[axis], 0.0) + count
    return counts


def test_a_point_of_the_grid_counts_alone():
    for point in GRID:
        rate, rtt, depth = point
        counts = Known((rate, rate), rtt, (depth, depth)).weights(GRID)
        assert counts[GRID.index(point)] == pytest.approx(1)


def test_between_two_values_both_count_by_logarithms():
    known = Known(rate_bps=(10**7.25, 10**7.25), rtt_s=0.01 * math.sqrt(10), queue_bdp=(2, 2))
    assert along(0, known) == pytest.approx({1e7: 0.75, 1e8: 0.25})
    assert along(1, known) == pytest.approx({0.01: 0.5, 0.1: 0.5})


@given(st.floats(0.2, 8), st.floats(0.2, 8))
def test_of_what_may_be_anything_in_between_the_mean_counts(one, other):
    """Against a sum over many values of the range, each interpolated by numpy."""
    least, most = sorted((one, other))
    within = np.linspace(*np.log(np.clip((least, most), 0.5, 4.0)), 4001)
    hats = {
        depth: np.interp(within, np.log(DEPTHS), np.eye(len(DEPTHS))[i]).mean()
        for i, depth in enumerate(DEPTHS)
    }
    assert along(2, Known(queue_bdp=(least, most))) == pytest.approx(hats, abs=2e-3)


def test_where_nothing_is_known_the_ends_of_an_axis_count_half():
    assert along(2, Known()) == pytest.approx({0.5: 1 / 6, 1.0: 1 / 3, 2.0: 1 / 3, 4.0: 1 / 6})


@given(
    st.lists(st.sampled_from(GRID), min_size=1, max_size=20),
    st.sampled_from([ANY, (3e7, 3e7), (3e7, math.inf), (1e10, 1e10), (1e3, 1e3)]),
    st.sampled_from([None, 1e-5, 0.01, 0.03, 5.0]),
    st.sampled_from([ANY, (0.0, 0.0), (1.3, math.inf), (9.0, math.inf)]),
    st.sampled_from([None, 0.05, 6.0]),
)
def test_of_any_grid_and_any_path_the_weights_are_1_in_all(grid, rate, rtt, depth, full_s):
    counts = Known(rate, rtt, depth, full_s).weights(grid)
    assert len(counts) == len(grid)
    assert min(counts) >= 0
    assert sum(counts) == pytest.approx(1)
    assert Known().weights([]) == []


def test_of_a_point_measured_twice_each_counts_half():
    counts = Known().weights([*GRID[:1] * 3, *GRID[1:]])
    assert counts[:3] == pytest.approx([Known().weights(GRID)[0] / 3] * 3)


def test_beyond_the_grid_its_edge_counts_and_that_is_told():
    known = Known((1e9, math.inf), 0.3, (1.0, math.inf))
    assert along(0, known)[1e8] == along(1, known)[0.1] == pytest.approx(1)
    assert known.beyond(GRID) == (
        "a rate of 1 Gbit/s counts as 100 Mbit/s; a round trip of 300 ms counts as 100 ms"
    )
    assert Known(rtt_s=0.001).beyond(GRID) == "a round trip of 1 ms counts as 10 ms"
    deep = Known(queue_bdp=(9.0, math.inf)).beyond(GRID)
    assert deep == "a queue of 9 bandwidth-delay products counts as 4 bandwidth-delay products"
    assert Known((5e7, 5e7), 0.05).beyond(GRID) == Known().beyond(GRID) == Known().beyond([]) == ""


def test_a_rate_is_known_where_we_fill_the_path_and_at_least_what_we_had_where_others_do():
    alone = path("ours", full_bps=5e7)
    assert Known.of(alone, is_alone=True).rate_bps == (5e7, 5e7)
    # Beside somebody it only looks so.
    assert Known.of(alone).rate_bps == (5e7, math.inf)
    assert Known.of(path("shared", full_bps=3e7)).rate_bps == (3e7, math.inf)
    assert Known.of(path("room", best_bps=9e7)).rate_bps == (9e7, math.inf)
    assert Known.of(None) == Known()


def test_the_least_round_trip_counts_whoever_saw_it():
    assert Known.of(path(rtt_s=0.05), 0.04).rtt_s == 0.04
    assert Known.of(path(rtt_s=0.05), 0.06).rtt_s == 0.05
    assert Known.of(None, 0.06).rtt_s == 0.06


def test_a_queue_holds_what_was_seen_at_least_and_no_more_where_it_overflowed():
    """At 50 ms a queue of 60 ms is 1.2 products of the rate and the round trip."""
    grown = Known.of(path(queue_s=0.06))
    assert grown.queue_bdp == (pytest.approx(1.2), math.inf)
    full = Known.of(path(queue_s=0.06, overflows=3))
    assert full.queue_bdp == pytest.approx((1.2, 1.2))
    assert full.full_s is None
    # Where the path loses as many at random, these may be more of them.
    assert Known.of(path(queue_s=0.06, overflows=3, delivered=100, lost=3)) == grown


def test_a_queue_that_never_empties_hides_the_round_trip():
    """CUBIC gives back three tenths: of 100 ms with a full queue 70 are left, whatever the path.

    Reno gives back half. We know the path if we fill it alone, or if its queue emptied by more.
    """
    for rtt_s, use, depth in ((0.07, "ours", 3 / 7), (0.045, "shared", 11 / 9)):
        seen = path(use, rtt_s, queue_s=0.1 - rtt_s, overflows=3, full_bps=2e7)
        known = Known.of(seen, is_alone=use == "ours")
        assert known.queue_bdp == pytest.approx((depth, depth))
        assert known.full_s is None
    assert Known.of(path(rtt_s=0.05, queue_s=0.05, overflows=3)).full_s == pytest.approx(0.1)
    known = Known.of(path(rtt_s=0.07, queue_s=0.03, overflows=3))
    assert known.queue_bdp == (pytest.approx(3 / 7), math.inf)
    counts = {
        depth: {
            rtt: count
            for (_, rtt, its_depth), count in zip(GRID, known.weights(GRID), strict=True)
            if its_depth == depth and count
        }
        for depth in DEPTHS
    }
    for depth, rtt_s in ((0.5, 0.1 / 1.5), (1.0, 0.05), (4.0, 0.02)):
        mean = sum(math.log(rtt) * c for rtt, c in counts[depth].items())
        assert math.exp(mean / sum(counts[depth].values())) == pytest.approx(rtt_s, rel=1e-6)
