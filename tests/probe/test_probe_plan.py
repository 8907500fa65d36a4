"""What can be asked of a probing; when requests leave is tested beside `crates/probe`."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.errors import BadInput
from weir.probe.sampling import Plan

MS = 1_000_000


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"rate_hz": Fraction(101)}, "101 Hz: 1/60 to 100"),
        ({"rate_hz": Fraction(0)}, "0 Hz"),
        ({"rate_hz": Fraction(1, 61)}, "1/60"),
        ({"requests": 0}, "0 requests"),
        ({"requests": 101}, "101 requests"),
        ({"rate_hz": Fraction(100), "requests": 11}, "at this rate 10 do"),
        ({"seconds": Fraction(-1)}, "-1 seconds"),
        ({"timeout_s": Fraction(11)}, "timeout of 11 s"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(choices, told):
    with pytest.raises(BadInput, match=told):
        Plan(**choices)


@given(st.fractions(Fraction(1, 60), 100), st.integers(1, 100))
def test_a_plan_is_one_whose_requests_fit_into_a_sample(rate, count):
    fits = (count - 1) * MS < int(10**9 / rate)
    try:
        plan = Plan(rate, count, 5 / rate)
    except BadInput:
        assert not fits
        return
    assert fits
    assert plan.samples == 5
