"""The calendar's rows judge what they are given: worse results get a worse verdict."""

import pytest

from studies.works.row import Verdict
from studies.works.w000 import ch4_calendar
from studies.works.w000.ch4_published import EPOCH_1, EPOCH_180
from weir.calendar.study import POLICIES, Load, named_network, run

ROWS = {row.id: row for row in ch4_calendar.ROWS}


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


PUBLISHED = {"000-sec-4.4.2-clock-180": EPOCH_180, "000-sec-4.4.2-clock-1": EPOCH_1}


def published(id_, off):
    """Results that are so many standard deviations from the published ones."""
    results = []
    for point in ROWS[id_].points(True):
        policy, rate = point.arguments["policy"], point.arguments["rate_per_s"]
        reject, reject_sd, use, use_sd = PUBLISHED[id_][policy][rate]
        figures = {"reject_rate": reject + off * reject_sd, "utilisation": use - off * use_sd}
        results.append([sample(**figures)])
    return results


@pytest.mark.parametrize("id_", PUBLISHED)
@pytest.mark.parametrize(
    ("off", "verdict"),
    [
        (0.9, Verdict.MATCHES),
        (1.1, Verdict.TREND_HOLDS),
        (3.9, Verdict.TREND_HOLDS),
        (4.1, Verdict.DIFFERS),
    ],
)
def test_the_published_clock_is_held_to_what_its_simulator_wrote(id_, off, verdict):
    outcome = ROWS[id_].judge(published(id_, off))
    assert outcome.verdict == verdict
    assert bool(outcome.reason) == (verdict != Verdict.MATCHES)


def test_another_order_of_policies_is_a_difference():
    """`fixed` has the most rejects by far; those of the policy before it are within 4 of its sd."""
    row = ROWS["000-sec-4.4.2-clock-1"]
    results = []
    for point in row.points(True):
        reject, _, use, _ = EPOCH_1[point.arguments["policy"]][0.95]
        off = {"fixed": -0.0135, "local-ljf": 0.0135}.get(point.arguments["policy"], 0.0)
        results.append([sample(reject_rate=reject + off, utilisation=use)])
    outcome = row.judge(results)
    assert outcome.verdict == Verdict.DIFFERS
    assert outcome.ours.endswith("reject_rate at 0.95/s: 3.9 sd")


def test_the_published_clock_has_the_published_paths_which_the_stated_has_not():
    runs = {}
    for point in ROWS["000-sec-4.4.2-clock-1"].points(True):
        if point.arguments["policy"] == "fixed":
            arguments = {**point.arguments, "requests": 2000, "rate_per_s": 3.0, "seeds": [1]}
            ((figures),) = point.run(**arguments)
            runs[point.arguments["published_clock"]] = figures["reject_rate"]
    own, load = named_network("g-scale"), Load(3.0, 2000)
    for clock, reject_rate in runs.items():
        options = {"epoch_s": 1.0, "published_clock": clock, "published_paths": clock}
        assert run(own, "fixed", load, 1, **options).reject_rate == reject_rate
        other = run(own, "fixed", load, 1, **options | {"published_paths": not clock})
        assert other.reject_rate != reject_rate


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
