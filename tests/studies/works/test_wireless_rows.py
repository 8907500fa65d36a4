"""Rows 003-fig-2.15 and 2.16: losses on the first and on the last link, and proxies between."""

import copy
import math

import pytest

from studies.works.row import Verdict
from studies.works.w003.ch2_wireless import LOSS, READINGS_MS, ROWS, flow, model

BY_ID = {row.id: row for row in ROWS}


def found(joined_mbit_s=1.2, joined_ms=110.0):
    """Runs in which proxies do what the model says: 1.22 times as much at 1.152 times the delay."""
    run = {
        None: {"mbit_s": 1.0, "delays_ms": [95.5, 95.5]},
        "strict": {"mbit_s": joined_mbit_s, "delays_ms": [joined_ms, joined_ms]},
        "none": {"mbit_s": 2.5, "delays_ms": [50.0, 50.0]},
    }
    points = BY_ID["003-fig-2.15"].points(True)
    return [copy.deepcopy(run[point.arguments["linked_ack"]]) for point in points]


@pytest.mark.parametrize("delay_ms", READINGS_MS)
def test_a_flow_alone_gets_what_mathis_foresees(delay_ms):
    got = flow(delay_ms=delay_ms, linked_ack=None, seconds=120, seed=2)
    round_trip_s = sum(got["delays_ms"]) / len(got["delays_ms"]) / 1e3
    # Mathis et al. 1997 with an acknowledgement for every second segment: sqrt(3 / 4p).
    least = 1448 * 8 / round_trip_s * math.sqrt(0.75 / (2 * LOSS)) / 1e6
    most = least * math.sqrt(2)
    assert 0.9 * least < got["mbit_s"] < 1.1 * most
    assert round_trip_s > 4 * delay_ms / 1e3


def test_without_links_between_acknowledgements_each_leg_goes_by_itself():
    alone = flow(delay_ms=20, linked_ack=None, seconds=30, seed=1)["mbit_s"]
    assert flow(delay_ms=20, linked_ack="none", seconds=30, seed=1)["mbit_s"] > 1.5 * alone


def test_the_model_is_the_published_one():
    # 003-spec section 2.10: the published delays' ratio of 1.152 gives 0.8145.
    assert model(1.0, 1.152) == pytest.approx(0.8145, abs=2e-4)


def test_throughput_matches_only_where_the_gain_and_the_model_do():
    judge = BY_ID["003-fig-2.15"].judge
    assert judge(found()).verdict == Verdict.MATCHES
    assert judge(found(joined_mbit_s=1.02)).verdict == Verdict.DIFFERS
    assert judge(found(joined_ms=150.0)).verdict == Verdict.DIFFERS


def test_delay_differs_where_proxies_add_none():
    judge = BY_ID["003-fig-2.16"].judge
    assert judge(found()).verdict == Verdict.TREND_HOLDS
    assert judge(found(joined_ms=90.0)).verdict == Verdict.DIFFERS
