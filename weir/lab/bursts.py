"""When background UDP sends how fast: constant, on and off, or the Poisson-Pareto burst process.

A source is an endless sequence of `(time_s, rate_bps)`: from that time on, that rate. Everything
here is a function of its arguments and a seeded generator; `weir.lab.sender` turns it to packets.
"""

import heapq
import itertools
from collections.abc import Iterator
from random import Random

Change = tuple[float, float]


def constant(rate_bps: float) -> Iterator[Change]:
    """One rate for ever."""
    yield 0.0, rate_bps


def on_off(rate_bps: float, on_s: float, off_s: float) -> Iterator[Change]:
    """Square wave: `on_s` at the rate, `off_s` silent, and again (001-spec section 3.2)."""
    for number in itertools.count():
        begin = number * (on_s + off_s)
        yield begin, rate_bps
        yield begin + on_s, 0.0


def ppbp(
    random: Random, burst_rate_bps: float, interval_s: float, mean_s: float, hurst: float
) -> Iterator[Change]:
    """The Poisson-Pareto burst process of 000-spec section 3.6.1.

    Args:
        random: the source's own generator.
        burst_rate_bps: what each burst adds (r).
        interval_s: mean time between beginnings of bursts (1 / lambda_p).
        mean_s: mean length of a burst (T_on).
        hurst: H; lengths are Pareto of shape 3 - 2 H.
    """
    ends: list[float] = []
    for start, length in _bursts(random, interval_s, mean_s, 3 - 2 * hurst):
        while ends and ends[0] <= start:
            end = heapq.heappop(ends)
            yield end, burst_rate_bps * len(ends)
        heapq.heappush(ends, start + length)
        yield start, burst_rate_bps * len(ends)


def _bursts(
    random: Random, interval_s: float, mean_s: float, shape: float
) -> Iterator[tuple[float, float]]:
    """Start and length of every burst, the ones under way at time 0 first.

    Beginning with the bursts that a process of infinite age would have, with what remains of
    them, makes the source stationary from its first packet: no slow start of its own.
    """
    shortest = mean_s * (shape - 1) / shape
    under_way = random.expovariate(1) * interval_s
    while under_way < mean_s:
        yield 0.0, _remainder(random.random(), mean_s, shape)
        under_way += random.expovariate(1) * interval_s
    start = 0.0
    while True:
        start += random.expovariate(1) * interval_s
        yield start, shortest * random.paretovariate(shape)


def _remainder(uniform: float, mean_s: float, shape: float) -> float:
    """What remains of a burst met at a random moment: the equilibrium law of the Pareto one."""
    shortest = mean_s * (shape - 1) / shape
    if uniform < shortest / mean_s:
        return uniform * mean_s
    beyond = (1 - uniform) * mean_s * (shape - 1) / shortest**shape
    return float(beyond ** (1 / (1 - shape)))
