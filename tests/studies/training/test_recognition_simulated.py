"""Series from the packet simulator, against what the path and the controls must show."""

import statistics

import pytest

from studies.training.simulated import HOST_MS, NO_BURSTS, P1, rtt_series

FULL_MS = 65 + 6 * 2**20 * 8 / 500e6 * 1e3
"""The path's round-trip time with a full queue: 165.7 ms."""


def test_an_idle_path_shows_its_delay_and_the_hosts():
    series = rtt_series("B0-C0", NO_BURSTS, 0, 400, seed=1)
    assert len(series) == 400
    # 84 bytes take 1.3 us each way; ten exponential delays are averaged in each sample.
    assert statistics.mean(series) == pytest.approx(65 + HOST_MS, abs=0.01)
    assert statistics.stdev(series) == pytest.approx(HOST_MS / 10**0.5, rel=0.2)


def test_a_series_follows_from_its_seed():
    one, same, other = (rtt_series("B0-C1", NO_BURSTS, 0, 5, seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_cubic_fills_the_queue_and_bbr_empties_it_every_ten_seconds():
    cubic = rtt_series("B0-C1", NO_BURSTS, 5, 25, seed=1)
    assert FULL_MS - 5 < max(cubic) <= FULL_MS + 1
    # A reduction by 30 % leaves 0.7 of a bandwidth-delay product and the buffer.
    assert min(cubic) == pytest.approx(0.7 * FULL_MS, rel=0.05)
    bbr = rtt_series("B1-C0", NO_BURSTS, 5, 25, seed=1)
    assert statistics.median(bbr) < 70


def test_bursts_show_only_in_their_segments():
    series = rtt_series("B0-C0", P1, 0, 40, seed=1)
    for begin in (0, 20):
        assert max(series[begin + 1 : begin + 5]) > 100
        # The last burst is over at 15 s, and what it left in the queue within 0.2 s.
        assert max(series[begin + 16 : begin + 20]) < 66
