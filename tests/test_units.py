"""Quantities cross the Python door unchanged and refuse what is not a quantity."""

import pickle

import pytest

from weir import Bytes, Rate, Time
from weir.errors import BadInput


def test_text_and_value_agree():
    assert Rate("500 Mbit/s").bit_per_s == 500_000_000
    assert Time("32.5 ms").ns == 32_500_000
    assert Bytes("6 MiB") == Bytes.from_count(6 * 2**20)
    assert str(Rate("1500 Mbit/s")) == "1.5 Gbit/s"


def test_quantities_order_hash_and_pickle():
    assert Rate("1 kbit/s") < Rate("1 Mbit/s")
    assert len({Bytes("1 kB"), Bytes("1000 B")}) == 1
    assert pickle.loads(pickle.dumps(Time("3 s"))) == Time("3 s")


@pytest.mark.parametrize("wrong", ["5", "", "-1 Mbit/s", "fast", 5, 5.0, None])
def test_what_is_no_rate_is_bad_input(wrong):
    with pytest.raises(BadInput):
        Rate(wrong)
