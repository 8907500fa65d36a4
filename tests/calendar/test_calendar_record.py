"""Records are changed as dataclasses are replaced, and JSON is written as Python writes it."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_calendar_planner import asked
from test_calendar_store import transfer

from weir.calendar.compact import compact_json
from weir.calendar.fast_record import changed
from weir.calendar.planning.engine import Verdict
from weir.calendar.records import Event

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    # Half a surrogate is text to JSON, and none to UTF-8.
    st.text(),
    st.text(st.characters(categories=["Cs", "Lu"])),
)
values = st.recursive(
    leaves,
    lambda x: st.lists(x) | st.tuples(x) | st.dictionaries(st.text(), x),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("one", "changes"),
    [
        (transfer("t1"), {"risk": "late", "paths": (("a",), ("b", "c"))}),
        (asked(), {"paths_able": 7}),
        (Verdict(True, 1, (), {}, None, None, None, 5), {"earliest_ns": 6}),
    ],
)
def test_a_record_is_changed_as_it_would_be_replaced(one, changes):
    before = replace(one)
    assert changed(one, **changes) == replace(one, **changes) != one
    assert one == before and changed(one) == one is not changed(one)
    with pytest.raises(KeyError):
        changed(one, unknown=1)


def test_what_a_record_has_made_of_itself_does_not_outlast_a_change():
    event = Event(1, 2, "clock", None, {"ahead_s": 1})
    assert event.text == '{"ahead_s":1}'
    assert changed(event, data={"ahead_s": 2}).text == '{"ahead_s":2}'


@given(values)
def test_json_says_what_python_would_say(value):
    text = compact_json(value)
    assert json.loads(text) == json.loads(json.dumps(value))
    # As events travel, a line end would end them.
    assert not {"\n", "\r"} & set(text)
