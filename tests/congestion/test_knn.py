"""The work's nearest neighbours in use: votes, windows, and what is unlike any recording."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.congestion.classify.knn import KnnRecogniser, by_second
from weir.congestion.recordings import KERNEL_ACTIVE, NetworkPath, Recording, load, save
from weir.errors import BadInput
from weir.probe import Pattern

PATH = NetworkPath.parse("500 Mbit/s, 65 ms, 6 MiB")
PATTERN = Pattern.parse("C2-S1")


def recording(label, rtt_ms, pattern="C2-S1", rate_hz=2.0, requests=1):
    values = np.array(rtt_ms, dtype=float)
    return Recording(
        *(label, "kernel", PATH, pattern, 1, rate_hz, requests, values),
        np.zeros(len(values), dtype=int),
    )


@pytest.fixture
def file(tmp_path):
    """A function that writes recordings."""

    def write(*recordings):
        save(tmp_path / "some.npz", recordings, {})
        return tmp_path / "some.npz"

    return write


def flat(*levels):
    """A value a second, as two samples each."""
    return [value for level in levels for value in (level - 1, level + 1)]


def test_the_nearest_vote_and_of_equally_many_the_nearer(file):
    # Two windows of each class begin with the pattern; what is left over makes none.
    levels = {"B1-C0": (10, 10, 10, 14, 14, 14, 10), "B0-C1": (20, 20, 20, 22, 22, 22, 22)}
    there = file(*(recording(label, flat(*each)) for label, each in levels.items()))
    window = np.array([15.0, 15.0, 15.0])  # at 3, 15, 15 and 21 from them
    votes = {1: {"B1-C0": 1.0}, 2: {"B1-C0": 1.0}, 3: {"B1-C0": 2 / 3, "B0-C1": 1 / 3}}
    for count, shares in votes.items():
        found = KnnRecogniser(PATTERN, count, file=there).of_window(window)
        assert found.probabilities == pytest.approx(shares)
        assert found.bbr == pytest.approx(shares["B1-C0"])
    even = KnnRecogniser(PATTERN, 4, file=there).of_window(np.array([18.0] * 3))
    assert even.probabilities == {"B0-C1": 0.5, "B1-C0": 0.5}
    assert even.why == "one stream of CUBIC (2 of 4 nearest neighbours)"


def test_a_path_that_was_not_recorded_is_unknown(file):
    # The farthest of them is 3 * 12 ms from its nearest; three times that is 3 * 36.
    there = file(
        recording("B1-C0", flat(*[10] * 3, *[14] * 3)), recording("B0-C1", flat(26, 26, 26))
    )
    recogniser = KnnRecogniser(PATTERN, file=there)
    assert recogniser.of_window(np.array([61.9] * 3)).known
    found = recogniser.of_window(np.array([62.1] * 3))
    assert not found.known
    assert "3.0 times as far" in found.why
    assert "the path is not the recorded one" in found.why


def test_more_neighbours_than_there_are_windows_are_all_of_them(file):
    there = file(recording("B1-C0", flat(10, 10, 10)), recording("B0-C1", flat(20, 20, 20)))
    recogniser = KnnRecogniser(PATTERN, count=2**62, band=1, file=there)
    assert recogniser.of_window(np.array([10.0, 10.0, 10.0])).probabilities == {
        "B1-C0": 0.5,
        "B0-C1": 0.5,
    }


def test_of_a_single_window_nothing_is_recognised(file):
    for recordings in (1, 2):
        there = file(*[recording("B1-C0", flat(10, 10, 10))] * recordings)
        with pytest.raises(BadInput, match="a single window of 3 s is recorded"):
            KnnRecogniser(PATTERN, file=there)


def test_the_nearest_is_that_of_the_definition():
    """Checked on the recordings that come along, against the recurrence of 001-spec 5.7."""

    def warped(a, b, band=10):
        cells = {(-1, -1): 0.0}
        for i, j in itertools.product(range(len(a)), range(len(b))):
            if abs(i - j) <= band:
                before = [cells.get(at, np.inf) for at in ((i - 1, j), (i, j - 1), (i - 1, j - 1))]
                cells[i, j] = abs(a[i] - b[j]) + min(before)
        return cells[len(a) - 1, len(b) - 1]

    pattern = Pattern.parse("C5-B5-C5-S5")
    known = [
        (one.label, by_second(one.rtt_ms, one.rate_hz)[begin : begin + 20])
        for one in load(KERNEL_ACTIVE)
        if one.pattern == str(pattern)
        for begin in range(0, 120, 20)
    ]
    recogniser = KnnRecogniser(pattern)
    assert (recogniser.rate_hz, recogniser.requests, recogniser.seconds) == (20.0, 1, (20.0,))
    draw = np.random.default_rng(1)
    for _, window in known[::20]:
        asked = window + draw.normal(0, 6, 20)
        label, _ = min(known, key=lambda one: warped(asked, one[1]))
        assert recogniser.of_window(asked).probabilities == {label: 1.0}


def test_samples_are_taken_from_the_last_ones_by_the_second(file):
    there = file(recording("B1-C0", flat(10, 11, 12)), recording("B0-C1", flat(30, 31, 32)))
    recogniser = KnnRecogniser(PATTERN, file=there)

    def samples(*rtts_ms):
        return [SimpleNamespace(mean_ns=rtt and rtt * 1e6) for rtt in rtts_ms]

    found = recogniser.recognise(samples(99, 99, 29, 31, None, None, 32, None))
    assert found.probabilities == {"B0-C1": 1.0}
    with pytest.raises(BadInput, match="5 samples are fewer than the 6 of a window"):
        recogniser.recognise(samples(1, 2, 3, 4, 5))
    with pytest.raises(BadInput, match="no request was answered"):
        recogniser.recognise(samples(*[None] * 6))


@given(st.lists(st.one_of(st.just(np.nan), st.floats(1, 1000)), min_size=4, max_size=40))
def test_a_second_without_a_reply_is_as_that_before_it(values):
    def by_hand():
        held = None
        for begin in range(0, len(values) // 4 * 4, 4):
            there = [value for value in values[begin : begin + 4] if value == value]
            held = sum(there) / len(there) if there else held
            yield held

    expected = list(by_hand())
    if all(value is None for value in expected):
        with pytest.raises(BadInput):
            by_second(np.array(values), 4.0)
        return
    # Before the first reply there is only what comes after.
    first = next(value for value in expected if value is not None)
    expected = [first if value is None else value for value in expected]
    assert by_second(np.array(values), 4.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("recordings", "choices", "told"),
    [
        ([], {}, "some.npz has none"),
        ([("B1-C0", flat(1, 1, 1), None)], {}, "recognise C2-S1 by: some.npz has passive"),
        ([("B1-C0", flat(1, 1, 1))], {"pattern": None}, "--pattern passive makes them"),
        ([("B1-C0", flat(1, 1))], {}, "no recording has the 3 s of a window"),
        ([("B1-C0", flat(1, 1, 1))], {"seconds": 4}, "no recording has the 4 s of a window"),
        (
            [("B1-C0", [1.0] * 9, "C2-S1", 1.5)],
            {},
            "1.5 samples a second: a whole number is needed",
        ),
        ([("B1-C0", flat(1)), ("B0-C1", [1.0], "C2-S1", 1.0)], {}, "all have to be alike"),
    ],
)
def test_recordings_that_do_not_fit_are_told(file, recordings, choices, told):
    there = file(*(recording(*one) for one in recordings))
    with pytest.raises(BadInput, match=told):
        KnnRecogniser(**{"pattern": PATTERN, "file": there, **choices})
