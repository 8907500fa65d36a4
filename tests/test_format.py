"""How rates and amounts are written for people."""

import pytest

from weir.format import counted, mbit_s, rate, size


@pytest.mark.parametrize(
    ("rate_bps", "text"),
    [(320, "320 bit/s"), (49_000, "49.0 kbit/s"), (100_000, "0.1 Mbit/s"), (1e9, "1000.0 Mbit/s")],
)
def test_no_rate_is_shown_as_nothing(rate_bps, text):
    assert mbit_s(rate_bps) == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (rate(0), "0 bit/s"),
        (rate(999), "999 bit/s"),
        (rate(1_000), "1 kbit/s"),
        (rate(213_400_000), "213 Mbit/s"),
        (rate(999_700_000), "1 Gbit/s"),
        (rate(2.5e12), "2.5 Tbit/s"),
        (size(90_000_000), "90 MB"),
        (size(1_024_000_000), "1.02 GB"),
        (size(3 * 10**15), "3 PB"),
    ],
)
def test_rates_and_amounts_have_three_figures(written, text):
    assert written == text


def test_one_thing_is_not_told_as_several():
    assert [counted(count, "file") for count in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
