"""What a socket's buffer allows on a path that has much under way."""

import pytest

from benches.far import goodput_bps
from weir.congestion.recordings import NetworkPath

PATH = NetworkPath.parse("1000 Mbit/s, 100 ms, 1 BDP")


@pytest.mark.parametrize("control", ["cubic", "bbr"])
def test_a_stream_gets_what_its_buffer_or_the_line_allows(control):
    limit_bps = 2**20 * 8 / 0.1
    # A sender writes again when a third is free, so that what leaves at once is two thirds or more.
    assert 0.64 * limit_bps < goodput_bps(PATH, control, 1, 12) < limit_bps
    assert goodput_bps(PATH, control, 128, 12) == pytest.approx(1e9 * 1448 / 1500, rel=0.06)
