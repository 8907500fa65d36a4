"""Deadline policies through the Python door: the worked example of work 002, and bad input."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir._core import (
    deadline_fat_tree,
    deadline_figures,
    deadline_policies,
    deadline_run,
    deadline_serve,
    estimate,
)
from weir.errors import BadInput

# Arrival, size and deadline of f1 to f4 (work 002, figure 1.15).
WORKED = [(0, 10, 23), (0, 13, 15), (0, 4, 26), (0, 3, 25)]


def setting(**changes):
    whole = {
        "workload": {
            "sizes": {"low": 2, "high": 198},
            "deadlines": {"exponential": {"mean_slots": 60}},
        },
        "arrivals": {"closed-loop": {"servers": 40, "probability": 2.5e-4, "slots": 20_000}},
    }
    return json.dumps(whole | changes)


def test_the_worked_example_ends_as_printed():
    assert deadline_serve("edf", WORKED) == [23, 13, None, None]
    assert deadline_serve("peq", WORKED) == [17, None, 7, 3]
    assert sum(end is not None for end in deadline_serve("weir", WORKED)) == 3


def test_a_promise_is_kept_and_best_effort_serves_more():
    # A long flow has begun when three short ones come; together they leave no room for it.
    flows = [(0, 60, 60), *[(1, 20, 61)] * 3]
    assert deadline_serve("weir-firm", flows) == [60, None, None, None]
    assert [end is not None for end in deadline_serve("weir", flows)] == [False, True, True, True]


def test_figures_are_settings_that_can_be_run():
    figures = json.loads(deadline_figures(json.dumps({"slots": 5_000, "instances": 2})))
    assert [figure["id"] for figure in figures] == [f"3.{number}" for number in range(1, 17)]
    for figure in figures:
        for _, point in figure["points"][:1]:
            (sample,) = deadline_run(json.dumps(point), "weir", [1])
            assert 0 < sample.on_time <= sample.generated
            assert sample.on_time_share == sample.on_time / sample.generated
            assert 0 < sample.utilisation <= 1
            if sample.optimum is not None:
                assert sample.on_time == sample.optimum


def test_a_fat_tree_is_run_and_one_that_cannot_be_is_named():
    tree = {"ports": 4, "workload": json.loads(setting())["workload"], "load": 1, "slots": 2_000}
    for policy in ("weir", "pdq", "sjf"):
        first, again = deadline_fat_tree(json.dumps(tree), policy, [1, 1])
        assert 0 < first.on_time == again.on_time < first.generated
    with pytest.raises(BadInput, match="ports"):
        deadline_fat_tree(json.dumps(tree | {"ports": 3}), "weir", [1])
    with pytest.raises(BadInput, match="peq"):
        deadline_fat_tree(json.dumps(tree), "peq", [1])


def test_runs_repeat_and_seeds_differ():
    for policy in deadline_policies():
        first, second, other = deadline_run(setting(), policy, [1, 1, 2])
        assert first.on_time == second.on_time
        assert (first.generated, first.on_time) != (other.generated, other.on_time)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"arrivals": {"closed-loop": {"servers": 0, "probability": 1, "slots": 1}}}, "servers"),
        (
            {"arrivals": {"closed-loop": {"servers": 1, "probability": 2, "slots": 1}}},
            "probability",
        ),
        ({"arrivals": {"closed-loop": {"servers": 1, "probability": 1}}}, "slots"),
        ({"arrivals": {"batch": {"flows": 10**6, "instances": 1}}}, "flows"),
        ({"arrivals": {"market": {}}}, "market"),
        ({"early_termination": "never"}, "early_termination"),
        ({"speed": 3}, "speed"),
        ({"workload": {}}, "sizes"),
    ],
)
def test_a_setting_that_cannot_be_names_the_key(changes, named):
    with pytest.raises(BadInput, match=named):
        deadline_run(setting(**changes), "weir", [1])


@pytest.mark.parametrize(
    ("flow", "named"),
    [((0, 0, 5), "flow 1 has no packets"), ((9, 1, 9), "not after"), ((0, 1, 10**12), "more than")],
)
def test_a_flow_that_cannot_be_is_named(flow, named):
    with pytest.raises(BadInput, match=named):
        deadline_serve("weir", [(0, 1, 5), flow])


def test_unknown_policies_and_readings_are_named_with_what_there_is():
    with pytest.raises(BadInput, match=r"cfq.*weir-firm"):
        deadline_serve("cfq", WORKED)
    with pytest.raises(BadInput, match="reading"):
        deadline_figures('{"reading": "poetic"}')
    with pytest.raises(BadInput, match="slots"):
        deadline_figures('{"slots": 0}')
    with pytest.raises(BadInput):
        estimate([])
    assert estimate([1.0, 2.0, 3.0]) == (2.0, pytest.approx(4.303 / 3**0.5))


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=200),
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ),
)
def test_no_text_makes_the_loaders_panic(text, tree):
    for document in (text, json.dumps(tree), setting(arrivals=tree), setting(workload=tree)):
        with pytest.raises(BadInput):
            deadline_run(document, "weir", [1])


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(deadline_policies()),
    st.lists(st.tuples(*[st.integers(0, 300)] * 3), max_size=30),
)
def test_any_flows_are_served_on_time_or_named(policy, flows):
    try:
        ends = deadline_serve(policy, flows)
    except BadInput as error:
        assert "flow" in str(error)
        assert any(size == 0 or due <= at for at, size, due in flows)
        return
    for (at, size, due), end in zip(flows, ends, strict=True):
        assert end is None or at + size <= end <= due
