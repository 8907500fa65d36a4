"""Runs that need the results of others: made after them, kept with what they were made from."""

import pytest
from reproduce_points import same

from studies.reproduction.obtain import cached, obtain
from studies.works.row import Outcome, Row, Verdict
from weir.runs.cache import Cache, Result
from weir.runs.point import Point


def row(numbers):
    """Values, then their sum, which the judge is given behind them."""
    return Row(
        "000-fig-9.9",
        "of two stages",
        "nothing",
        lambda quick: [Point(same, {"value": number}) for number in numbers],
        lambda results: Outcome(str(list(results)), Verdict.MATCHES),
        then=lambda results: [Point(same, {"value": sum(results)})],
    )


class Counted:
    """Computes here, and knows what it was asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, points):
        self.asked.append([point.arguments["value"] for point in points])
        for point in points:
            yield point, Result(point.run(**point.arguments), 1.0)


def test_the_second_stage_is_made_from_the_results_of_the_first(tmp_path):
    compute = Counted()
    ((_, got),) = obtain([row([1, 2])], quick=False, cache=Cache(tmp_path), compute=compute)
    assert compute.asked == [[1, 2], [3]]
    assert got.record.ours == "[1, 2, 3]"
    assert got.record.seconds == 3.0


def test_both_stages_are_cached_and_another_first_result_makes_another_second_run(tmp_path):
    cache, compute = Cache(tmp_path), Counted()
    assert cached(row([1, 2]), cache) is None
    list(obtain([row([1, 2])], quick=False, cache=cache, compute=compute))
    assert cached(row([1, 2]), cache).record.ours == "[1, 2, 3]"
    list(obtain([row([1, 2])], quick=False, cache=cache, compute=compute))
    assert compute.asked == [[1, 2], [3]]
    list(obtain([row([1, 7])], quick=False, cache=cache, compute=compute))
    assert compute.asked == [[1, 2], [3], [7], [8]]


@pytest.mark.parametrize("missing", [1, 3])
def test_a_row_is_not_known_while_a_result_of_either_stage_is_missing(tmp_path, missing):
    cache = Cache(tmp_path)
    for number in {1, 2, 3} - {missing}:
        cache.put(Point(same, {"value": number}), Result(number, 1.0))
    assert cached(row([1, 2]), cache) is None
