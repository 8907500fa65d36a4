"""Rows of work 003's chapter 3: their judges, and the aggregators in tandem for real."""

import copy

import pytest
from rig import lab_lacks

from studies.rig import grid
from studies.works.row import Verdict
from studies.works.w003 import ch3_smart_grid_live as rows

BY_ID = {row.id: row for row in rows.ROWS}
# What the plain framework, aggregation alone, and the proposal give each of the six meters.
SHARES = (
    (2.3, 1.2, 1.2, 3.0, 3.0, 3.0),
    (5.0, 2.5, 2.5, 3.3, 3.3, 3.3),
    (3.3,) * 6,
)
GOOD = {Verdict.MATCHES, Verdict.TREND_HOLDS}


def found(shares=SHARES):
    return [[list(share)] * 5 for share in shares]


@pytest.mark.parametrize("row", rows.ROWS, ids=lambda row: row.id)
def test_each_row_holds_where_shares_are_as_foreseen(row):
    assert len(row.points(True)) == len(grid.FRAMEWORKS)
    assert row.judge(found()).verdict in GOOD


@pytest.mark.parametrize(
    ("number", "framework", "spoilt"),
    [
        ("3.5", 1, (3.3,) * 6),
        ("3.6", 2, (1.0, 4.0, 4.0, 3.6, 3.6, 3.6)),
        ("3.6", 2, (1.0,) * 6),
        ("3.7", 2, (1.0, 4.0, 4.0, 3.6, 3.6, 3.6)),
        ("3.8", 0, (3.3,) * 6),
        ("3.9", 2, (4.4, 3.3, 3.3, 3.3, 2.2, 3.3)),
        ("3.10", 2, (2.0,) * 6),
    ],
)
def test_each_row_differs_where_they_are_not(number, framework, spoilt):
    shares = copy.copy(list(SHARES))
    shares[framework] = spoilt
    assert BY_ID[f"003-fig-{number}"].judge(found(shares)).verdict == Verdict.DIFFERS


@pytest.mark.skipif(lab_lacks() is not None, reason=f"no lab: {lab_lacks()}")
def test_aggregators_in_tandem_give_each_meter_the_same():
    steps = rows.run(framework="by meters", seconds=4, seed=1)
    means = [sum(rates) for rates in zip(*steps, strict=True)]
    assert len(means) == sum(grid.METERS)
    # By themselves the nearest have two and a half times what the farthest have.
    assert max(means) < 1.8 * min(means)
