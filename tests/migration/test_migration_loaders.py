"""Whatever stands in a problem file or comes through the door: ours or `BadInput`, no panic."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir._core import MigrationProblem, MigrationSearch
from weir.errors import BadInput
from weir.migration import parse

NETWORK = json.dumps(
    {
        "nodes": ["a", "b"],
        "links": [{"name": "x", "from": "a", "to": "b", "capacity_bps": 8_000}],
    }
)
numbers = st.sampled_from([0, 1, 2, 10**9, 2**63, 2**64 - 1, -1]) | st.floats()
names = st.sampled_from(["a", "b", "x", "", "v"])
vms = st.fixed_dictionaries(
    {
        "name": names,
        "source": names,
        "destination": names,
        "size_bytes": numbers,
        "cost": st.lists(numbers, max_size=2),
        "growth_bytes": st.lists(numbers, max_size=2),
    },
    optional={"path": st.lists(names, max_size=2)},
)
documents = st.fixed_dictionaries(
    {"step_ns": numbers, "vms": st.lists(vms, max_size=3)},
    optional={"half_duplex": st.lists(st.tuples(names, names), max_size=1)},
)


@given(st.text() | st.builds(json.dumps, documents))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_problem_or_bad_input(text):
    try:
        problem = MigrationProblem(NETWORK, text)
    except BadInput as error:
        assert str(error)
    else:
        problem.check(problem.greedy(), 0)
        search = MigrationSearch(problem, 1)
        search.improve(5)
        search.tighten(2)
        assert search.bound <= search.degradation


@pytest.mark.parametrize("size", [1, 2**40, 2**44])
def test_the_largest_numbers_neither_overflow_nor_panic(size):
    vm = {"source": "a", "destination": "b", "size_bytes": size, "growth_bytes": [0]}
    vms = [vm | {"name": f"v{index}", "cost": [10**9]} for index in range(3)]
    text = json.dumps({"step_ns": 8 * 10**9, "vms": vms})
    try:
        search = MigrationSearch(MigrationProblem(NETWORK, text), 1)
    except BadInput as error:
        assert "steps" in str(error)
        return
    for _ in range(5):
        search.tighten(3)
    # One link: by Smith's rule the machines go one after the other.
    assert search.bound <= search.degradation


plans = st.lists(
    st.fixed_dictionaries(
        {
            "path": st.lists(names, max_size=2),
            "finish": numbers,
            "pieces": st.lists(st.tuples(numbers, numbers, numbers), max_size=3),
        }
    ),
    max_size=2,
)


@given(st.text() | st.builds(json.dumps, plans))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_plan_that_is_checked_or_bad_input(text):
    vm = {"name": "v", "source": "a", "destination": "b", "size_bytes": 10}
    document = {"step_ns": 10**9, "vms": [vm | {"cost": [1], "growth_bytes": [0]}]}
    problem = MigrationProblem(NETWORK, json.dumps(document))
    for call in (lambda: problem.check(text, 0), lambda: problem.measure(text)):
        try:
            call()
        except BadInput as error:
            assert str(error)


tables = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@given(
    st.dictionaries(
        st.sampled_from(["step", "horizon", "nodes", "links", "vms", "fat_tree", "x"]), tables
    )
)
@settings(max_examples=300, deadline=None)
def test_any_toml_is_a_problem_or_bad_input(document):
    text = "\n".join(f"{key} = {_toml(value)}" for key, value in document.items())
    with pytest.raises(BadInput):
        parse(text)


def _toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value) if isinstance(value, str) else str(value)
