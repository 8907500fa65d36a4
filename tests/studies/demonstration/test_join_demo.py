"""`weir demo join`: what is made of counts, and a few clients over a real line."""

import pytest
from rig import lab_lacks

from studies.demonstration.join import SECONDS, SETTLE_S, Join
from studies.rig.joined import RATE_BPS, Seen, carry_out

# Between these instants half of the line's rate arrives.
HALF = int(RATE_BPS / 8 * (SECONDS - SETTLE_S) / 2)


def seen(shares):
    """Clients of which so much arrived, as shares of half of the line."""
    arrived = {client: int(share * HALF) for client, share in enumerate(shares)}
    return Seen([(10.0, {0: 0}), (10.0 + SETTLE_S, {}), (10.0 + SECONDS, arrived)])


def shown(plain, joined, weighted):
    demo = Join(seed=1, clients=4)
    for way, shares in zip(demo._ways, (plain, joined, weighted, EVEN), strict=True):
        way.seen = seen(shares)
    return demo


EVEN, BY_WEIGHT = (0.5, 0.5, 0.5, 0.5), (0.25, 0.25, 0.75, 0.75)


def test_figures_are_shares_of_the_line_and_fairness_by_weights():
    demo = shown((1.0, 0.0, 0.0, 0.0), EVEN, BY_WEIGHT)
    demo._of("joined").seen.acknowledged = {0: 1_000, 1: 500}
    demo._of("joined").seen.received = {0: 400, 1: 500}
    figures = demo.figures()
    assert (figures["plain_goodput"], figures["joined_goodput"]) == (0.5, 1.0)
    # One of four has all: 1/4 by Jain's definition.
    assert (figures["plain_jain"], figures["joined_jain"]) == (0.25, 1.0)
    assert figures["weighted_jain"] == 1.0
    assert figures["acknowledged_undelivered_bytes"] == 600
    demo._of("strict").seen.acknowledged = demo._of("strict").seen.received = {0: 700}
    assert demo.figures()["strict_acknowledged_undelivered_bytes"] == 0
    assert demo.holds()
    assert "Jain 0.250" in demo.picture()
    assert "600 bytes that the server never got" in str(next(iter(demo.notes())))
    demo._of("strict").seen.received = {0: 699}
    assert not demo.holds()


@pytest.mark.parametrize(
    "ways",
    [((0.6, 0.6, 0.6, 0.6), EVEN, BY_WEIGHT), (EVEN, (0.9, 0.5, 0.4, 0.3), BY_WEIGHT)],
)
def test_it_does_not_hold_where_joining_costs_the_line_or_is_unfair(ways):
    assert not shown(*ways).holds()


@pytest.mark.parametrize("arrived", [[], [(10.0, {0: 5})]])
def test_nothing_counted_yet_is_no_figure(arrived):
    demo = Join(seed=1)
    demo._of("plain").seen = Seen(arrived)
    figures = demo.figures()
    assert figures["plain_goodput"] is None and figures["weighted_jain"] is None


@pytest.mark.parametrize("weights", [None, (1, 3)])
def test_clients_of_a_real_line_are_counted(weights):
    if lacking := lab_lacks():
        pytest.skip(f"a lab needs {lacking}")
    told = []
    found = carry_out(4, 2.0, 1, weights, told.append)
    taken_s, counts = found.within(0.0, 2.0)
    assert taken_s >= 2.0 and counts and set(counts) <= {0, 1, 2, 3}
    # What waited in the line's queue, or for a server that is late to read, counts as well.
    assert 0 < sum(counts.values()) * 8 / taken_s < 2 * RATE_BPS
    assert told and told[-1] is found
    # Who is acknowledged by the server's kernel itself has sent no more than it took.
    assert set(found.acknowledged) == {0, 1, 2, 3}
    assert all(found.acknowledged[x] >= counts[x] for x in counts)
