"""OpenFlow as bytes: what was encoded is read back, and no bytes do any harm."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.control import codec
from weir.control import messages as m

KINDS = range(30)


@settings(max_examples=300)
@given(st.sampled_from(KINDS), st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_whatever_a_stranger_sends_is_read_or_refused(kind, body, number):
    head = struct.pack("!BBHI", codec.VERSION, kind, 8 + len(body), number)
    try:
        codec.decoded(head + body)
    except ValueError as error:
        assert str(error)


@settings(max_examples=300)
@given(st.sampled_from([13, 19]), st.integers(0, 15), st.binary(max_size=200))
def test_answers_that_are_broken_are_refused(kind, what, body):
    body = struct.pack("!HH4x", what, 0) + body if kind == 19 else body
    try:
        codec.decoded(struct.pack("!BBHI", codec.VERSION, kind, 8 + len(body), 1) + body)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("version", "said"), [(1, "it speaks OpenFlow 1.0 and not 1.3"), (3, "OpenFlow 1.2")]
)
def test_a_switch_of_an_older_version_is_told_so(version, said):
    with pytest.raises(ValueError, match=said):
        codec.decoded(struct.pack("!BBHI", version, 0, 8, 1))


def test_a_newer_switch_may_say_hello_and_nothing_else():
    assert codec.decoded(struct.pack("!BBHI", 6, 0, 8, 1)) is None
    with pytest.raises(ValueError, match="version 6"):
        codec.decoded(struct.pack("!BBHI", 6, 2, 8, 1))


def test_bytes_are_those_of_the_specification():
    # OpenFlow 1.3.5, 7.3.8 and A.3.4.1: a barrier is a header; delete strict is command 4.
    assert codec.encoded(m.Barrier(), 7).hex() == "0414000800000007"
    place = m.Place(1, 258, m.Match(in_port=3))
    data = codec.encoded(m.RemoveRule(place), 9)
    version, kind, length, number = struct.unpack_from("!BBHI", data)
    assert (version, kind, length, number) == (4, 14, len(data), 9)
    table, command, idle, hard, priority = struct.unpack_from("!BBHHH", data, 24)
    assert (table, command, idle, hard, priority) == (1, 4, 0, 0, 258)
    # The match: type 1 (OXM), 12 bytes, and the field of in_port with 4 bytes.
    assert data[48:60].hex() == "0001000c8000000400000003"
