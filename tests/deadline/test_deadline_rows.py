"""The rows of work 002, at a tenth of the published length, and the target of Weir's own policy."""

from functools import cache

import pytest

from weir.reproduce import Verdict, deadline, find
from weir.reproduce.deadline import curves

# Not those that any policy was developed on, nor those of the rows.
SEEDS = range(31_000, 31_010)
RIVALS = ("peq", "peq-listing", "pdq", "d3-stateful", "d3-fixed-order", "d3", "sjf", "fair", "fcfs")


@pytest.fixture(scope="module")
def short():
    """Every row at a tenth of its length; nothing is kept from or for the rows themselves."""

    @cache
    def quick(figure, **readings):
        readings.pop("instances", None)
        return curves(figure, seeds=SEEDS, slots=100_000, instances=100, **readings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deadline, "_curves", quick)
        yield


@pytest.mark.parametrize("row", [row.id for row in deadline.ROWS])
def test_no_row_differs_from_what_was_published(row, short):
    (found,) = find([row])
    outcome = found.obtain()
    assert outcome.verdict != Verdict.DIFFERS, outcome
    assert outcome.ours


@pytest.mark.parametrize("figure", [f"3.{number}" for number in range(1, 17)])
def test_no_policy_is_ahead_of_weirs_at_any_point(figure):
    run = curves(figure, (*RIVALS, "weir"), SEEDS, slots=100_000, instances=100)
    for rival in RIVALS:
        for x, (lead, margin) in zip(run.x, run.lead("weir", rival), strict=True):
            # 1.5 margins: of 900 comparisons some are outside a 95 % interval by chance alone.
            assert lead + 1.5 * margin >= 0, f"{rival} at {x}: {lead} ± {margin}"


def test_a_lead_is_the_mean_of_paired_differences():
    run = curves("3.5", ("pdq", "fair"), SEEDS, slots=20_000)
    pdq, fair = (run.percent(policy)[0] for policy in ("pdq", "fair"))
    differences = [a - b for a, b in zip(pdq, fair, strict=True)]
    assert run.lead("pdq", "fair")[0][0] == pytest.approx(sum(differences) / len(differences))
