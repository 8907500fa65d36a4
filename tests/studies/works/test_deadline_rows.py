"""The rows of work 002, at a tenth of the published length, and the target of Weir's own policy."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from studies.works.row import Verdict
from studies.works.w002 import ch1_worked_example, ch3_deadline, ch4_averages
from studies.works.w002.ch3_deadline import Figure

# Not those that any policy was developed on, nor those of the rows.
SEEDS = range(31_000, 31_010)
RIVALS = ("peq", "peq-listing", "pdq", "d3-stateful", "d3-fixed-order", "d3", "sjf", "fair", "fcfs")


@cache
def _run(text):
    arguments = json.loads(text)
    return ch3_deadline.run(**arguments | {"seeds": [*SEEDS]})


def results(points):
    """Those of the points with the seeds above; the runs let other threads go on."""
    with ThreadPoolExecutor() as pool:
        return [*pool.map(_run, [json.dumps(point.arguments) for point in points])]


def curves(number, policies=ch3_deadline._POLICIES, **readings):
    figure = Figure.of(number, policies, **readings)
    return figure.curves(results(figure.points()))


@pytest.mark.parametrize("row", [*ch3_deadline.ROWS, *ch4_averages.ROWS], ids=lambda row: row.id)
def test_no_row_differs_but_where_small_flows_leave_peq_behind(row):
    outcome = row.judge(results(row.points(True)))
    differs = outcome.verdict == Verdict.DIFFERS
    assert differs == (row.id == "002-fig-3.16"), outcome
    if differs:
        assert "small flows are light load" in outcome.reason
    assert outcome.ours


def test_the_worked_example_is_as_published():
    (row,) = ch1_worked_example.ROWS
    outcome = row.judge([point.run(**point.arguments) for point in row.points(True)])
    assert outcome.verdict == Verdict.MATCHES, outcome


@pytest.mark.parametrize("figure", [f"3.{number}" for number in range(1, 17)])
def test_no_policy_is_ahead_of_weirs_at_any_point(figure):
    run = curves(figure, (*RIVALS, "weir"), slots=100_000, instances=100)
    for rival in RIVALS:
        for x, (lead, margin) in zip(run.x, run.lead("weir", rival), strict=True):
            # 1.5 margins: of 900 comparisons some are outside a 95 % interval by chance alone.
            assert lead + 1.5 * margin >= 0, f"{rival} at {x}: {lead} ± {margin}"


def test_a_lead_is_the_mean_of_paired_differences():
    run = curves("3.5", ("pdq", "fair"), slots=20_000)
    pdq, fair = (run.percent(policy)[0] for policy in ("pdq", "fair"))
    differences = [a - b for a, b in zip(pdq, fair, strict=True)]
    assert run.lead("pdq", "fair")[0][0] == pytest.approx(sum(differences) / len(differences))
