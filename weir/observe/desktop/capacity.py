"""How many desktops a server and a line carry: VD-DUT of many, worked out from one's.

A closed network of queues (mean value analysis, Reiser and Lavenberg 1980): everybody looks at the
screen for a while, asks for an update, and waits until the server's processors have made it and the
line has carried it. Work 000 names this as future work (000-spec section 5.9).
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weir.errors import BadInput

_MOST, _MOST_S = 1024, 1e9
MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class Demand:
    """What an update of one desktop takes when nobody else is there, in s.

    Attributes:
        server: of a processor of the server.
        line: of the line: the update's bytes at its rate.
        waiting: that is waited for neither: round trips, packets sent again.
        think: the mean time from a finished update to the next task.
        processors: of the server.
    """

    server: float
    line: float
    waiting: float
    think: float
    processors: int = 1

    def __post_init__(self) -> None:
        times = (self.server, self.line, self.waiting, self.think)
        if not 0 <= min(times) <= max(times) <= _MOST_S or not 1 <= self.processors <= _MOST:
            raise BadInput(
                f"times are 0 s or more and up to {_MOST_S:g} s, processors 1 to {_MOST}"
            )
        if self.server + self.line <= 0:
            raise BadInput("an update takes time of the server or of the line")


@dataclass(frozen=True, slots=True)
class Load:
    """What many desktops come to.

    Attributes:
        desktops: how many.
        dut: mean VD-DUT, in s.
        server: the share of the server's processors that is used.
        line: that of the line.
    """

    desktops: int
    dut: float
    server: float
    line: float


def loads(demand: Demand) -> Iterator[Load]:
    """For one desktop, two, and so on without end."""
    processors = demand.processors
    at_server = at_line = 0.0
    # How likely fewer are at the server than it has processors, by how many.
    few = np.zeros(processors)
    few[0] = 1.0
    numbers = np.arange(1, processors)
    others = processors - 1.0 - np.arange(processors)
    for desktops in itertools.count(1):
        idle = float(others @ few)
        server = demand.server / processors * (1 + at_server + idle)
        line = demand.line * (1 + at_line)
        dut = server + line + demand.waiting
        rate = desktops / (demand.think + dut)
        at_server, at_line = rate * server, rate * line
        busy = rate * demand.server
        later = busy / numbers * few[:-1]
        unused = float(others[:-1] @ later)
        # Near its limit the server's chance of nobody is a small difference of large numbers.
        few = np.concatenate([[max(0.0, 1 - (busy + unused) / processors)], later])
        yield Load(desktops, dut, busy / processors, rate * demand.line)


def most(demand: Demand, limit_s: float, at_most: int = MOST_COUNTED) -> int:
    """How many desktops have updates within a time, in the mean; 0 if not even one has.

    Args:
        demand: of each.
        limit_s: that time.
        at_most: where counting ends.

    Raises:
        BadInput: a time that is not positive.
    """
    if limit_s <= 0:
        raise BadInput(f"a limit of {limit_s:g} s: VD-DUT takes more than 0 s")
    for load in loads(demand):
        if load.dut > limit_s:
            return load.desktops - 1
        if load.desktops >= at_most:
            return at_most
    raise AssertionError("there is no end")
