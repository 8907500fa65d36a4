"""Whatever text or numbers come through the door: an error of ours or a calendar, never a panic."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weir import Bytes, Rate, Time
from weir._core import Calendar, g_scale
from weir.errors import BadInput

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["nodes", "links", "name", "from", "to", "capacity_bps", "x"]), inner
        )
    ),
    max_leaves=12,
)
names = st.sampled_from(["a", "b", "c", ""])
links = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["x", "y", ""]),
            "from": names,
            "to": names,
            "capacity_bps": st.integers(-1, 2**64) | st.floats(),
        },
        optional={"delay_ns": st.integers(-1, 2**65)},
    ),
    max_size=3,
)
networks = st.fixed_dictionaries({"nodes": st.lists(names, max_size=3), "links": links})
u64 = st.sampled_from([0, 1, 2, 10**9, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)


@given(st.text() | st.builds(json.dumps, json_values | networks))
@settings(max_examples=400, deadline=None)
def test_any_text_is_a_network_or_bad_input(text):
    try:
        calendar = Calendar(text, "fixed", Time("1 s"))
    except BadInput as error:
        assert str(error)
    else:
        assert Calendar.restore(calendar.snapshot()).snapshot() == calendar.snapshot()


@given(st.text() | st.builds(json.dumps, json_values))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_snapshot_or_bad_input(text):
    with pytest.raises(BadInput):
        Calendar.restore(text)


calibers = st.sampled_from(["fixed", "local-sjf", "local-ljf", "global-sjf", "global-ljf"])
policies = st.tuples(calibers, st.sampled_from(["reported", "modelled"])) | st.tuples(
    st.sampled_from(["weir", "weir-all"]), st.just("reported")
)


@given(
    policies,
    st.integers(1, 2**62),
    st.lists(
        st.tuples(
            st.sampled_from(["submit", "progress", "complete", "cancel", "epoch"]), u64, u64, u64
        ),
        max_size=12,
    ),
)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_numbers_give_an_answer_and_hold_the_link(policy, capacity, calls):
    policy, completions = policy
    link = {"name": "x", "from": "a", "to": "b", "capacity_bps": capacity}
    network = json.dumps({"nodes": ["a", "b"], "links": [link]})
    calendar = Calendar(network, policy, Time("1 s"), completions=completions)
    for number, (call, now, size, deadline) in enumerate(calls):
        now, size, flow = Time.from_ns(now), Bytes.from_count(size), str(number // 2)
        try:
            if call == "submit":
                limit = Rate.from_bit_per_s(deadline) if number % 2 else None
                deadline = Time.from_ns(deadline)
                calendar.precheck(now, flow, "a", "b", size, deadline, least=size)
                calendar.submit(now, flow, "a", "b", size, deadline, limit, weight=number)
            elif call == "progress":
                calendar.progress(now, flow, size)
            elif call == "epoch":
                calendar.epoch(now)
            else:
                getattr(calendar, call)(now, flow)
        except BadInput as error:
            assert str(error)
        (view,) = calendar.links()
        assert view.allotted <= view.capacity
        assert Calendar.restore(calendar.snapshot()).snapshot() == calendar.snapshot()


@pytest.mark.parametrize("wrong", [-1, 2**64, 1.5, float("nan"), "5"])
def test_numbers_that_are_no_amount_do_not_get_in(wrong):
    with pytest.raises((OverflowError, TypeError)):
        Bytes.from_count(wrong)
    calendar = Calendar(g_scale(), "fixed", Time("1 s"))
    with pytest.raises(TypeError):
        calendar.submit(Time("0 s"), "x", "1", "2", wrong, Time("1 h"))
