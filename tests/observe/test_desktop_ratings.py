"""Statistics of opinions: against R's numbers, closed forms, and planted effects."""

import json
from pathlib import Path

import numpy as np
import pytest

from studies.rig.desktop import raters
from weir.cli import main
from weir.errors import BadInput
from weir.observe.desktop import ratings
from weir.observe.desktop.ratings import Rating

pytest.importorskip("statsmodels", reason="statsmodels is not installed: extra observe")

HERE = Path(__file__).parent
R_SAYS = HERE / "ratings_reference.json"


def fixture():
    return ratings.load(HERE / "ratings.csv")


def test_the_file_of_ratings_is_what_the_raters_say():
    drawn = [one for name in raters.ACTIVITIES for one in raters.ratings(name, 1)]
    assert fixture() == drawn


@pytest.mark.parametrize("activity", raters.ACTIVITIES)
def test_everything_is_as_r_has_it(activity):
    """By t.test, lme4, multcomp and lm; the script that asked R stands beside its answers."""
    expected = json.loads(R_SAYS.read_text())[activity]
    own = ratings.of(fixture(), activity)
    for found, one in zip(ratings.t_tests(own), expected["t_tests"], strict=True):
        assert found.p == pytest.approx(one["p"], rel=1e-6)
        assert (found.low, found.high) == pytest.approx((one["low"], one["high"]), rel=1e-6)
    for found, one in zip(ratings.t_tests(own, pooled=False), expected["welch"], strict=True):
        assert found.p == pytest.approx(one["p"], rel=1e-6)
    for found, one in zip(ratings.honest_differences(own), expected["honest"], strict=True):
        assert found.estimate == pytest.approx(one["estimate"], abs=2e-4)
        # R draws, too, as we do: both are sure to about three digits.
        assert found.low == pytest.approx(one["low"], abs=5e-3)
        assert found.high == pytest.approx(one["high"], abs=5e-3)
        assert found.p == pytest.approx(one["p"], abs=3e-3)
    line = ratings.opinion_slope(own)
    assert line.estimate == pytest.approx(expected["slope"]["estimate"], abs=2e-4)
    assert line.error == pytest.approx(expected["slope"]["error"], rel=2e-3)


def test_a_balanced_design_without_unbalance_is_the_analysis_of_variance():
    """Every person at every loss: differences are those of means, errors those of paired cells."""
    random = np.random.default_rng(2)
    levels = random.normal(0, 1, 40)
    said = {
        (person, loss): level - 0.1 * loss + random.normal(0, 0.5)
        for person, level in enumerate(levels)
        for loss in (0.0, 5.0, 10.0)
    }
    own = [Rating(str(person), "x", loss, value) for (person, loss), value in said.items()]
    table = np.array([[said[person, loss] for loss in (0.0, 5.0, 10.0)] for person in range(40)])
    rest = table - table.mean(0) - table.mean(1)[:, None] + table.mean()
    error = np.sqrt(2 * (rest**2).sum() / (39 * 2) / 40)
    found = ratings.honest_differences(own)
    for one, (low, high) in zip(found, ((0, 1), (0, 2), (1, 2)), strict=True):
        assert one.estimate == pytest.approx(table[:, high].mean() - table[:, low].mean())
        # 2.344 is the normal limit of Tukey's range for three means, over the root of two.
        assert one.high - one.estimate == pytest.approx(2.3437 * error, rel=2e-3)


@pytest.mark.parametrize("activity", raters.ACTIVITIES)
def test_planted_slopes_are_found_again(activity):
    planted = raters.ACTIVITIES[activity]
    expected = ratings.slope(planted.truth).estimate if activity == "video" else planted.slope
    lines = [
        ratings.opinion_slope(raters.ratings(activity, seed, is_whole=False)) for seed in range(8)
    ]
    mean = np.mean([one.estimate for one in lines])
    error = np.mean([one.error for one in lines]) / len(lines) ** 0.5
    # Losses are not met equally often, so that of a curve each line is another.
    bend = 0.08 if activity == "video" else 0.0
    assert abs(mean - expected) < 4 * error + bend


def test_counts_are_those_of_table_5_1():
    assert {
        name: list(one.values()) for name, one in raters.counts((0, 0.5, 3, 5, 10)).items()
    } == {
        "images": [75, 31, 44, 44, 31],
        "scenes": [58, 24, 34, 34, 24],
        "calls": [53, 26, 27, 27, 26],
        "video": [66, 28, 38, 38, 28],
    }


def test_mean_opinions_are_students():
    own = [Rating(str(at), "x", 0.0, value) for at, value in enumerate((3, 4, 5))]
    ((mean, margin),) = ratings.mean_opinions(own).values()
    assert mean == 4
    assert margin == pytest.approx(4.302653 / 3**0.5, rel=2e-4)  # t of two degrees at 97.5 %


def test_slopes_and_correlations_of_a_line():
    line = {0.0: 3.0, 0.5: 2.75, 3.0: 1.5}
    found = ratings.slope(line)
    assert (found.estimate, found.start) == (pytest.approx(-0.5), pytest.approx(3))
    assert ratings.correlation(line, {loss: 7 + 2 * one for loss, one in line.items()}) == 1
    assert ratings.correlation(line, {loss: -one for loss, one in line.items()}) == -1


def test_several_ratings_of_one_iteration_count_once(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text(
        "subject,activity,loss_percent,iteration,rating\n"
        "a,images,0,1,4\na,images,0,1,5\na,images,0,2,1\nb,images,0,1,2\n"
    )
    assert [one.rating for one in ratings.load(path)] == [4.5, 1, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("subject,activity,rating\n", "no column loss_percent"),
        ("subject,activity,loss_percent,rating\n", "has no ratings"),
        ("subject,activity,loss_percent,rating\na,x,0,6\n", ":2: a rating of 6"),
        ("subject,activity,loss_percent,rating\na,x,200,3\n", ":2: a loss of 200 %"),
        ("subject,activity,loss_percent,rating\na,x,0,good\n", ":2: could not convert"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, text, words):
    path = tmp_path / "some.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=words):
        ratings.load(path)


def some(*rows):
    return [Rating(subject, "x", loss, value) for subject, loss, value in rows]


@pytest.mark.parametrize(
    ("act", "own", "words"),
    [
        (ratings.t_tests, some(("a", 0, 1), ("b", 1, 2), ("c", 1, 3)), "one rating at 0 %"),
        (ratings.honest_differences, some(("a", 0, 1), ("a", 0, 2)), "one loss only"),
        (ratings.opinion_slope, some(("a", 0, 1), ("a", 0, 2)), "no slope"),
        (ratings.honest_differences, some(("a", 0, 1), ("b", 1, 2)), "nobody rated twice"),
    ],
)
def test_too_little_says_what_is_missing(act, own, words):
    with pytest.raises(BadInput, match=words):
        act(own)


def test_correlation_needs_three_losses_that_differ():
    with pytest.raises(BadInput, match="needs three"):
        ratings.correlation({0.0: 1, 1.0: 2}, {0.0: 1, 1.0: 2})
    with pytest.raises(BadInput, match="goes together with nothing"):
        ratings.correlation(dict.fromkeys((0.0, 1.0, 2.0), 1.0), {0.0: 1, 1.0: 2, 2.0: 3})


def test_the_command_prints_all_of_it(capsys):
    assert main(["observe", "desktop", "ratings", str(HERE / "ratings.csv")]) == 0
    said = capsys.readouterr().out
    assert "images" in said
    assert "0 and 0.5 %" in said
    assert said.count("slope:") == 4
    assert main(["observe", "desktop", "ratings", str(HERE / "ratings.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["images"]["pairs"]) == 10
    assert len(found["video"]["pairs"]) == 3
