"""The grammar of patterns (001-spec section 5.4), against a brute-force reading of it."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.errors import BadInput
from weir.probe.pattern import Pattern, PatternError

NS = 10**9
SEGMENTS = st.lists(st.tuples(st.sampled_from("CBS"), st.integers(1, 30)), min_size=1, max_size=8)
# What the specification writes, and our bound on the seconds.
GRAMMAR = re.compile(r"[CBScbs]0*[1-9][0-9]*(-[CBScbs]0*[1-9][0-9]*)*")


@given(SEGMENTS, st.randoms())
def test_a_pattern_is_read_in_any_case_and_written_as_the_thesis_does(segments, random):
    text = "-".join(f"{code}{seconds}" for code, seconds in segments)
    mixed = "".join(random.choice((letter.lower(), letter.upper())) for letter in text)
    pattern = Pattern.parse(mixed)
    assert str(pattern) == text
    assert pattern.seconds == sum(seconds for _, seconds in segments)
    assert [(each.code, each.seconds) for each in pattern.segments] == segments


@given(SEGMENTS, st.integers(0, 10**12))
def test_the_segment_at_a_time_is_that_of_its_second(segments, since_ns):
    pattern = Pattern.parse("-".join(f"{code}{seconds}" for code, seconds in segments))
    by_second = [f"{code}{seconds}" for code, seconds in segments for _ in range(seconds)]
    assert str(pattern.at(since_ns)) == by_second[since_ns // NS % len(by_second)]


@given(SEGMENTS, st.integers(1, 200 * NS))
def test_turns_tile_the_time_and_agree_with_the_segment_at_each(segments, length_ns):
    pattern = Pattern.parse("-".join(f"{code}{seconds}" for code, seconds in segments))
    turns = list(pattern.turns(length_ns))
    assert turns[0].begin_ns == 0
    assert turns[-1].end_ns == length_ns
    assert all(a.end_ns == b.begin_ns for a, b in itertools.pairwise(turns))
    for number, turn in enumerate(turns):
        assert turn.number == number
        assert turn.segment == pattern.at(turn.begin_ns) == pattern.at(turn.end_ns - 1)


@given(st.text(alphabet="CBSXcbs0123456789- ٣.", max_size=12))
def test_exactly_what_the_grammar_allows_is_a_pattern(text):
    try:
        pattern = Pattern.parse(text)
    except PatternError as error:
        too_long = any(int(number) > 3600 for number in re.findall("[0-9]+", text))
        assert not GRAMMAR.fullmatch(text) or too_long
        assert text.split("-")[error.number - 1] == error.segment
    else:
        assert GRAMMAR.fullmatch(text)
        assert pattern.seconds > 0


@pytest.mark.parametrize(
    ("text", "number", "why"),
    [
        ("C5-X5", 2, "X is not a code"),
        ("C5--S5", 2, "it is empty"),
        ("", 1, "it is empty"),
        ("C5-B", 2, "not a letter and whole seconds"),
        ("C5-B5-S0", 3, "1 to 3600 seconds"),
        ("C1.5", 1, "not a letter and whole seconds"),
        ("C-5", 1, "not a letter and whole seconds"),
        ("S3601", 1, "1 to 3600 seconds"),
        ("C٣", 1, "not a letter and whole seconds"),
    ],
)
def test_a_bad_segment_is_named(text, number, why):
    with pytest.raises(PatternError, match=why) as refused:
        Pattern.parse(text)
    assert isinstance(refused.value, BadInput)
    assert refused.value.number == number
    assert f"segment {number}" in str(refused.value)
