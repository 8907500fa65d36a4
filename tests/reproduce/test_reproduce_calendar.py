"""The calendar's rows judge what they are given: worse results get a worse verdict."""

import pytest

from weir.calendar.study import POLICIES
from weir.reproduce import calendar
from weir.reproduce.published_calibers import EPOCH_1, EPOCH_180
from weir.reproduce.row import Verdict

ROWS = {row.id: row for row in calendar.ROWS}


def sample(**figures):
    return {
        "success": 1.0,
        "reject_rate": 0.0,
        "utilisation": 0.1,
        "index": 1.1,
        "bytes_on_time_share": 1.0,
        "bytes_delivered_share": 1.0,
        "missed": 0,
        "changes_per_request": 0.0,
    } | figures


def published(off):
    """Results that are so many standard deviations from the published ones."""
    results = []
    for point in ROWS["000-sec-4.4.2-clock-180"].points(True):
        reject, reject_sd, use, use_sd = EPOCH_180[point.arguments["policy"]][0.05]
        figures = {"reject_rate": reject + off * reject_sd, "utilisation": use - off * use_sd}
        results.append([sample(**figures)])
    return results


@pytest.mark.parametrize(("off", "verdict"), [(0.9, Verdict.MATCHES), (1.1, Verdict.TREND_HOLDS)])
def test_the_published_clock_is_held_to_one_standard_deviation(off, verdict):
    outcome = ROWS["000-sec-4.4.2-clock-180"].judge(published(off))
    assert outcome.verdict == verdict
    assert bool(outcome.reason) == (verdict != Verdict.MATCHES)


def test_another_order_of_policies_is_a_difference():
    row = ROWS["000-sec-4.4.2-clock-1"]
    rejects = {policy: rows[0.95][0] for policy, rows in EPOCH_1.items()}
    order = sorted(rejects, key=rejects.get)
    for chosen, verdict in (
        (rejects, Verdict.CANNOT_FOLLOW),
        (dict(zip(order, sorted(rejects.values(), reverse=True), strict=True)), Verdict.DIFFERS),
    ):
        results = [
            [sample(reject_rate=chosen[point.arguments["policy"]], utilisation=0.5)]
            for point in row.points(True)
        ]
        assert row.judge(results).verdict == verdict, chosen


def test_what_the_simulator_wrote_is_that_of_its_readme():
    assert EPOCH_180["global-ljf"][0.05] == (0.3229, 0.0056, 0.6839, 0.0049)
    assert {len(rows) for rows in (*EPOCH_180.values(), *EPOCH_1.values())} == {16}


def test_a_missed_deadline_is_a_difference():
    row = ROWS["000-own-4.1-policies"]
    results = [[sample()] for _ in row.points(True)]
    assert row.judge(results).verdict == Verdict.OURS
    results[-1] = [sample(missed=1)]
    assert row.judge(results).verdict == Verdict.DIFFERS


def test_a_policy_above_the_bound_is_a_difference():
    row = ROWS["000-own-4.3-bound"]
    gets = {policy: [9.0, 0.9] for policy in POLICIES}
    found = [{"bounds": [10.5, 1.0], "whole": 10, "gets": gets}]
    results = [found for _ in row.points(True)]
    assert row.judge(results).verdict == Verdict.OURS
    found[0]["gets"] = gets | {"edf": [11.0, 0.9]}
    assert row.judge(results).verdict == Verdict.DIFFERS


@pytest.mark.parametrize("quick", [True, False])
def test_every_row_judges_results_of_either_size(quick):
    for id_, row in ROWS.items():
        if id_ == "000-own-4.3-bound":
            continue
        outcome = row.judge([[sample(), sample()] for _ in row.points(quick)])
        assert outcome.ours


def test_a_point_is_its_arguments():
    point = ROWS["000-fig-4.2a"].points(True)[0]
    arguments = {**point.arguments, "requests": 300, "seeds": [1, 2]}
    first, second = point.run(**arguments)
    assert point.run(**arguments) == [first, second]
    assert first != second
