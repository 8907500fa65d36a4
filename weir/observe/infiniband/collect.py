"""How ports are asked: the work's random rounds, and all of them at once (000-spec 2.5, A1)."""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from weir.errors import BadInput
from weir.observe.infiniband.asking import Backend, Names, Port, rows_of
from weir.observe.infiniband.records import MOST_QUERIES, Flag, Rows

QUERIES, GAP_S, WINDOW_S = 100, 0.1, 1200.0
"""The work's: queries of a round, how long is slept after each, how long an instance runs."""
INSTANCES = 6
MOST_S = 10 * 365 * 86_400.0
"""Longer than anybody waits, and not too long for a clock."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """How random rounds go.

    Attributes:
        queries: of each.
        gap_s: slept after each answer.
        window_s: none begins after so long.
    """

    queries: int = QUERIES
    gap_s: float = GAP_S
    window_s: float = WINDOW_S

    def __post_init__(self) -> None:
        """Sees that there is a pair in a round.

        Raises:
            BadInput: there is not, or a time is negative or without end.
        """
        if not 2 <= self.queries <= MOST_QUERIES:
            raise BadInput(f"a round has two queries or more, and up to {MOST_QUERIES}")
        # What is no number is neither.
        if not 0 <= self.gap_s <= MOST_S or not 0 < self.window_s <= MOST_S:
            raise BadInput(f"no time is negative, nor longer than {MOST_S:.0f} s")


def disjoint(lids: Sequence[int], instances: int = INSTANCES) -> list[list[int]]:
    """The LIDs in sets of about one size, one for each instance: no port is asked by two."""
    ordered = sorted(set(lids))
    if not 1 <= instances <= len(ordered):
        raise BadInput(f"{instances} instances for {len(ordered)} switches")
    cuts = [len(ordered) * number // instances for number in range(instances + 1)]
    return [ordered[a:b] for a, b in itertools.pairwise(cuts)]


def random_rounds(
    backend: Backend,
    ports: Sequence[Port],
    seed: int,
    how: Rounds | None = None,
    names: Names | None = None,
) -> Iterator[Rows]:
    """Rounds of ports drawn at random until the window has passed, each as its rows.

    A switch is drawn, then one of its ports that are up, with replacement. Its counter is reset,
    then read again and again; where it cannot be reset, it is read all the same, for what counts
    is by how much it grows.
    """
    how = how or Rounds()
    by_switch: dict[int, list[Port]] = {}
    for port in ports:
        if port.is_up:
            by_switch.setdefault(port.lid, []).append(port)
    if not by_switch:
        raise BadInput("no port of any of these switches is up")
    lids, draw = sorted(by_switch), random.Random(seed)
    end_ns = backend.now_ns() + round(how.window_s * 1e9)
    while backend.now_ns() < end_ns:
        port = draw.choice(by_switch[draw.choice(lids)])
        backend.reset(port)
        begin_ns, answers = backend.now_ns(), []
        for _ in range(how.queries):
            answers += backend.ask([port])
            backend.sleep(how.gap_s)
        yield rows_of(begin_ns, [port] * how.queries, answers, names)


def sweeps(
    backend: Backend,
    ports: Sequence[Port],
    count: int | None,
    gap_s: float,
    names: Names | None = None,
    renewed: Callable[[bool], Sequence[Port] | None] | None = None,
) -> Iterator[Rows]:
    """All ports, again and again, each time as rows of one time.

    Args:
        backend: who asks.
        ports: all that are asked.
        count: how often; None for ever.
        gap_s: from the begin of one to that of the next.
        names: of kinds and directions.
        renewed: called after each sweep with whether a port that was up did not answer; the ports
            that there are now if the fabric has changed, or None for the same.
    """
    done = 0
    while count is None or done < count:
        begin_ns = backend.now_ns()
        answers = backend.ask(ports)
        yield rows_of(begin_ns, ports, answers, names)
        done += 1
        if renewed:
            ports = renewed(any(Flag.MISSING in answer.flags for answer in answers)) or ports
        if count is None or done < count:
            passed_s = (backend.now_ns() - begin_ns) / 1e9
            backend.sleep(max(0.0, gap_s - passed_s))
