"""How fast a control can go: against the windows that the standards print."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.congestion.choice.response import (
    cubic_window,
    reach_bps,
    reno_window,
    streams_to_fill,
)
from weir.congestion.path import PathState

# RFC 9438, section 5.1, table 1: the mean window at 100 ms, by the rate of losses.
PRINTED = {  # Reno, CUBIC with C = 0.4
    1e-2: (12, 12),
    1e-3: (38, 38),
    1e-4: (120, 187),
    1e-5: (379, 1054),
    1e-6: (1200, 5926),
    1e-7: (3795, 33325),
    1e-8: (12000, 187400),
}


def lossy(loss, *, rtt_s=0.065, packets=10**8, use="room", **known):
    lost = round(loss * packets)
    counts = {"goodput_bps": 1e6, "delivered": packets, "lost": lost, "loss_events": lost}
    return PathState(use, rtt_s, **counts | known)


@pytest.mark.parametrize(("rate", "windows"), PRINTED.items())
def test_the_mean_windows_are_those_of_the_standard(rate, windows):
    reno, cubic = windows
    assert reno_window(rate) == pytest.approx(reno, rel=0.03)
    assert cubic_window(rate, 0.1) == pytest.approx(cubic, rel=0.03)


def test_a_stream_of_cubic_on_the_path_of_the_issue():
    """65 ms and 0.01 %: 136 packets by the formula, a fifteenth of 500 Mbit/s, as was measured."""
    path = lossy(1e-4)
    assert reach_bps("cubic", path) == pytest.approx(24.2e6, rel=0.02)
    assert reach_bps("cubic", path, streams=8) == pytest.approx(8 * 24.2e6, rel=0.02)
    assert math.isinf(reach_bps("bbr", path))


def test_losses_of_one_round_trip_count_once():
    """A burst is one reason to slow down, however long it is."""
    burst = lossy(1e-2, loss_events=10**4)
    assert burst.loss == pytest.approx(1e-2)
    assert reach_bps("cubic", burst) == reach_bps("cubic", lossy(1e-4))


def test_without_a_loss_the_window_is_the_limit_where_the_path_has_room():
    room = lossy(0, goodput_bps=7e6)
    assert reach_bps("cubic", room) == 7e6
    assert reach_bps("cubic", room, streams=4) == 28e6
    assert reach_bps("cubic", replace(room, streams=2), streams=4) == 14e6
    assert math.isinf(reach_bps("cubic", lossy(0, use="ours")))


@pytest.mark.parametrize(
    ("full_bps", "count"), [(20e6, 1), (50e6, 2), (100e6, 4), (200e6, 8), (1e9, 16), (None, 16)]
)
def test_so_many_streams_fill_the_path_as_carry_its_rate_together(full_bps, count):
    """Each carries 24.2 Mbit/s; nine tenths of the rate are enough."""
    assert streams_to_fill("cubic", lossy(1e-4, full_bps=full_bps)) == count
    assert streams_to_fill("bbr", lossy(1e-4, full_bps=full_bps)) == 1


def test_bbr_too_has_its_limit():
    assert math.isfinite(reach_bps("bbr", lossy(0.2)))


RATES = st.floats(1e-7, 0.1)


@given(RATES, RATES, st.floats(0.001, 0.4), st.integers(1, 16))
def test_more_loss_or_delay_is_never_faster_and_cubic_never_slower_than_reno(p, q, rtt_s, streams):
    p, q = sorted((p, q))
    for control in ("cubic", "reno", "unheard of"):
        less, more = (
            reach_bps(control, lossy(one, rtt_s=rtt_s, packets=10**9), streams) for one in (p, q)
        )
        assert less >= more
        farther = lossy(p, rtt_s=2 * rtt_s, packets=10**9)
        assert less >= reach_bps(control, farther, streams)
    path = lossy(p, rtt_s=rtt_s, packets=10**9)
    assert reach_bps("cubic", path) >= reach_bps("reno", path) == reach_bps("unheard of", path)
