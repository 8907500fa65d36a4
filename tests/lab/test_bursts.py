"""Background UDP follows its process, on paper, against the values that 000-spec derives."""

import itertools
import statistics
from random import Random

import pytest

from weir.lab.bursts import constant, on_off, ppbp
from weir.lab.sender import Due

BIN_S = 0.2


def bins(source, seconds):
    """Bits that a source sends in each 200 ms."""
    counts = [0.0] * round(seconds / BIN_S)
    time_s, rate = 0.0, 0.0
    for change_s, next_rate in source:
        while time_s < min(change_s, seconds):
            index = int(time_s / BIN_S + 1e-9)
            edge = min(change_s, (index + 1) * BIN_S)
            if index >= len(counts):
                return counts
            counts[index] += rate * (edge - time_s)
            time_s = edge
        if change_s >= seconds:
            return counts
        rate = next_rate
    return counts


# Table 3.1 with the derived mean and coefficient of variation (000-spec section 3.6.1);
# acceptance test 6: mean 400 Mbit/s within 3 %, variation within 5 %.
@pytest.mark.parametrize(
    ("burst_rate_mbps", "bursts_per_s", "mean_mbps", "variation"),
    [(50, 40, 400, 0.295), (110, 18, 396, 0.440), (200, 10, 400, 0.590)],
)
def test_the_burst_process_has_the_mean_and_burstiness_of_the_specification(
    burst_rate_mbps, bursts_per_s, mean_mbps, variation
):
    source = ppbp(Random(1), burst_rate_mbps * 1e6, 1 / bursts_per_s, 0.2, 0.7)
    sent = bins(source, 20_000)
    mean = statistics.fmean(sent)
    assert mean / BIN_S / 1e6 == pytest.approx(mean_mbps, rel=0.03)
    assert statistics.pstdev(sent) / mean == pytest.approx(variation, rel=0.05)


def test_the_burst_process_is_stationary_from_its_first_moment():
    # Table 3.1 row 1 over many short runs: an empty start would give about half the mean.
    firsts = [bins(ppbp(Random(seed), 1e6, 1 / 2000, 0.2, 0.7), 0.4)[0] for seed in range(100)]
    assert statistics.fmean(firsts) / BIN_S / 1e6 == pytest.approx(400, rel=0.03)


def test_the_same_seed_gives_the_same_bursts():
    def first(seed):
        return list(itertools.islice(ppbp(Random(seed), 5e6, 0.01, 0.2, 0.7), 1000))

    assert first(3) == first(3) != first(4)
    times = [time_s for time_s, _ in first(3)]
    assert times == sorted(times) and all(rate >= 0 for _, rate in first(3))


def test_a_square_wave_is_on_and_off():
    wave = list(itertools.islice(on_off(1e6, 2.0, 3.0), 4))
    assert wave == [(0.0, 1e6), (2.0, 0.0), (5.0, 1e6), (7.0, 0.0)]


def test_packets_come_due_as_the_rate_says_however_the_ticks_fall():
    # 1 Mbit/s in packets of 1000 bits, on for 1 s and off for 1 s: 1000 in each burst.
    due = Due(on_off(1e6, 1.0, 1.0), 1000)
    random, time_s, packets = Random(5), 0.0, 0
    while time_s < 3.5:
        time_s += random.random() * 0.3
        packets += due.until(min(time_s, 3.5))
    assert packets == pytest.approx(2000, abs=1)
    steady = Due(constant(1e6), 1000)
    ticks = [steady.until(t / 10_000) for t in range(1, 305)]
    assert max(ticks) == 1 and sum(ticks) == 30
