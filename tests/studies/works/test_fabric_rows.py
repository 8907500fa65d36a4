"""Chapter 2 of work 000: the worked example, what is judged, and a fabric in small."""

import pytest

from studies.reproduction.row import Verdict
from studies.works.w000 import ch2_fabric, ch2_stalls
from weir.observe.infiniband import plan, statistics
from weir.observe.infiniband.statistics import Tally

ROWS = {row.id: row for row in ch2_stalls.ROWS}


def test_the_worked_example_matches():
    row = ROWS["000-tab-2.3"]
    outcome = row.judge([point.run(**point.arguments) for point in row.points(False)])
    assert outcome.verdict == Verdict.MATCHES
    assert outcome.ours == "1.1792"
    other = dict(ch2_stalls.golden(), fitf=1.178)
    assert row.judge([other]).verdict == Verdict.DIFFERS


def tallies(**changed):
    """A made-up result in which every trend holds, or not."""
    shares = {"ToR up": 0.6, "ToR down": 0.6, "GladeLeaf up": 0.9, "GladeLeaf down": 0.4} | changed
    found = {}
    for kind, way in ch2_stalls.ORDER:
        share = shares.get(f"{kind} {way}", 0.3)
        wide = {"GladeLeaf": 0.4, "ToR": 0.04}.get(kind, 0.01)
        found[f"{kind} {way}"] = {
            "rounds": 10,
            "zero": round(990 * (1 - share)),
            "waiting": round(990 * share),
            "whole": 1,
            "maxima": [0.01 + wide * n / 10 for n in range(10)] + [0.9],
            "means": [0.01 + wide * n / 20 for n in range(10)],
        }
    return {"tallies": found, "truth": [100.0, 60.0, 100.0, 25.0]}


@pytest.mark.parametrize("name", ["000-fig-2.5", "000-fig-2.6", "000-fig-2.7", "000-tab-2.2"])
def test_rows_hold_where_trends_do(name):
    assert ROWS[name].judge([tallies()]).verdict == Verdict.TREND_HOLDS


def test_a_minority_of_waiting_intervals_differs_and_says_what_was_missed():
    outcome = ROWS["000-fig-2.5"].judge([tallies(**{"ToR up": 0.2})])
    assert outcome.verdict == Verdict.DIFFERS
    assert "75 % was not seen" in outcome.reason


def test_a_day_of_the_campaign_draws_as_often_as_there_are_switches():
    counts = ch2_fabric.campaign(days=1, seed=1)
    total = sum(counts.values())
    # 24 windows of six instances with 96 rounds of 12.5 s each, and a reset in each round.
    assert total == pytest.approx(24 * 6 * 96, rel=0.01)
    tor = (counts["ToR up"] + counts["ToR down"]) / total
    assert tor == pytest.approx(252 / 693, abs=0.02)


def test_a_small_cluster_is_asked_like_the_large_one():
    found = ch2_fabric.measure(1, 1, queries=10)
    assert set(found.tallies) == set(ch2_stalls.ORDER)
    ports = sum(tally.rounds for tally in found.tallies.values())
    assert ports == sum(
        len(node.cables) for node in plan.cluster(plan.SMALL).values() if node.kind == "switch"
    )
    tor: Tally = found.tallies["ToR", "up"]
    assert tor.zero + tor.waiting == 9 * tor.rounds
    assert found.lost_error < 0.01
    truth = found.truth
    assert 0 < truth.explained <= truth.waited
    assert 0 < truth.seen <= truth.congested
    assert statistics.box(found.tallies["GladeLeaf", "down"].maxima) is not None
