"""004-spec section 14.1 test 17: values that its section 3.4 states."""

import pytest

from studies.rig.scales import axis_limit, fair_rate, reference_time
from weir import Bytes, Rate, Time
from weir.errors import BadInput


def test_the_reference_time_is_two_round_trips_and_the_object_at_the_rate():
    # 1 MB over 40 Mbit/s and 7 ms: 14 ms and 200 ms.
    found = reference_time(Bytes("1 MB"), Time("7 ms"), Rate("40 Mbit/s"))
    assert found == Time("214 ms")


def test_downloads_share_what_others_leave():
    assert fair_rate(Rate("40 Mbit/s"), Rate("10 Mbit/s"), 6) == Rate("5 Mbit/s")
    with pytest.raises(BadInput, match="0 downloads"):
        fair_rate(Rate("40 Mbit/s"), Rate("10 Mbit/s"), 0)
    with pytest.raises(BadInput, match="leave nothing for downloads"):
        fair_rate(Rate("40 Mbit/s"), Rate("40 Mbit/s"), 1)


def test_the_axis_ends_at_twice_the_share_of_those_not_starved():
    # Both examples of the section: 5 Cubic starved by 2 DCTCP, and 4 Cubic alone.
    assert axis_limit(Rate("40 Mbit/s"), 7, starved=5) == Rate("40 Mbit/s")
    assert axis_limit(Rate("40 Mbit/s"), 4) == Rate("20 Mbit/s")
    with pytest.raises(BadInput, match="2 of 2 flows"):
        axis_limit(Rate("40 Mbit/s"), 2, starved=2)
