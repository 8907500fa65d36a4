"""Who is there beside one stream of ours: the counters' features, the file, what is made of it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from studies.training.assess_beside import Streams, run
from weir.congestion.classify import company
from weir.congestion.classify.beside import without
from weir.congestion.classify.classes import ALL_LABELS, WITH_BBR
from weir.congestion.classify.company import Company, inputs, shared_out
from weir.congestion.classify.counted import HISTORY_S, Counted, counted
from weir.congestion.classify.recogniser import Recogniser
from weir.errors import BadInput

RATE_HZ = 20
SIZE = HISTORY_S * RATE_HZ


def past(seconds=HISTORY_S, scale=1.0, queue_ms=10.0):
    """What a stream saw whose window falls each four seconds, and with it the queue."""
    at_s = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    saw = 0.7 + 0.3 * (at_s % 4) / 4
    acked = scale * 1e6 * np.cumsum(saw) / RATE_HZ
    return Counted((30 + queue_ms * saw)[None], acked[None], (scale * 1e5 * saw)[None])


@pytest.mark.parametrize("seconds", [5.0, 7.3, HISTORY_S, 2 * HISTORY_S])
def test_features_are_finite_however_much_is_known(seconds):
    assert counted(past(seconds), RATE_HZ, 5.0).shape == counted(past(), RATE_HZ, 5.0).shape
    assert np.isfinite(counted(past(seconds), RATE_HZ, 5.0)).all()


def test_of_longer_pasts_the_latest_counts():
    longer = past(2 * HISTORY_S)
    cut = Counted(*(one[:, -SIZE:] for one in (longer.rtt_ms, longer.acked, longer.window)))
    assert np.array_equal(counted(longer, RATE_HZ, 5.0), counted(cut, RATE_HZ, 5.0))


@pytest.mark.parametrize("gone", ["rtt_ms", "acked", "window"])
def test_what_stands_still_or_is_not_there_is_finite(gone):
    same = np.full((1, SIZE), 5.0)
    none = np.full((1, SIZE), np.nan if gone == "rtt_ms" else 0.0)
    for values in (same, none):
        assert np.isfinite(counted(replace(past(), **{gone: values}), RATE_HZ, 5.0)).all()


def test_but_for_four_sizes_nothing_depends_on_how_fast_the_path_is():
    """Packets of the window and of a product are two of them; goodput by window is the same."""
    differ = ~np.isclose(counted(past(), RATE_HZ, 5.0), counted(past(scale=4), RATE_HZ, 5.0))
    assert differ.sum() == 2


def test_falls_of_the_queue_count_by_whether_ours_fell_with_them():
    """Each four seconds ours falls; in the other past the queue falls each second without it."""
    at_s = np.arange(SIZE) / RATE_HZ
    theirs = replace(past(), rtt_ms=(30 + 10 * (at_s % 1))[None])
    with_us, without_us = counted(past(), RATE_HZ, 5.0)[0], counted(theirs, RATE_HZ, 5.0)[0]
    more = np.flatnonzero(without_us - with_us >= 2)  # three of five falls at least are not ours
    assert len(more) >= 2


@pytest.mark.parametrize("own", ["cubic", "bbr"])
def test_who_is_there_is_as_was_learned_and_as_heard_within_that(own):
    draw = np.random.default_rng(2)
    for values in draw.dirichlet(np.full(len(ALL_LABELS), 0.3), size=50):
        heard = dict(zip(ALL_LABELS, values.tolist(), strict=True))
        shares = draw.dirichlet(np.ones(3)).tolist()
        found, bbr = shared_out(own, heard, shares)
        before, _ = without(own, heard)
        assert sum(found.values()) == pytest.approx(1)
        assert bbr == pytest.approx(shares[company.BBR])
        assert found["B0-C0"] == pytest.approx(shares[company.NOBODY])
        some = [label for label in before if label in WITH_BBR]
        assert sum(found[label] for label in some) == pytest.approx(bbr)
        assert found[some[0]] * before[some[1]] == pytest.approx(found[some[1]] * before[some[0]])


def test_what_is_not_heard_at_all_has_its_likeliest_label():
    found, bbr = shared_out("cubic", {"B0-C1": 1.0}, [0.1, 0.2, 0.7])
    assert found == pytest.approx({"B0-C0": 0.1, "B0-C1": 0.2, "B1-C0": 0.7})
    assert bbr == pytest.approx(0.7)


def test_what_is_written_is_read(tmp_path):
    shipped = Company.shipped()
    shipped.save(tmp_path / "again.npz")
    again = Company.load(tmp_path / "again.npz")
    assert (again.rate_hz, set(again.models)) == (RATE_HZ, {"cubic", "bbr"})
    for own in again.models:
        for one, other in zip(shipped.judge(own, past()), again.judge(own, past()), strict=True):
            assert np.allclose(one, other)
    assert inputs(past(), RATE_HZ).shape[1] == len(shipped.models["cubic"].mean)


def written(path, **about):
    """A file of that head, and nothing else."""
    np.savez(path, about=np.array(json.dumps(about)))
    return path


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"format": "weir-recogniser", "version": 1}, "its format is 'weir-recogniser'"),
        ({"format": company.FORMAT, "version": 99}, "of version 99, not 1"),
        ({"format": company.FORMAT, "version": 1, "own": ["cubic"]}, "not what was learned"),
        ({}, "not what was learned"),
    ],
)
def test_other_files_are_refused(tmp_path, about, says):
    with pytest.raises(BadInput, match=says):
        Company.load(written(tmp_path / "other.npz", **about))


def test_half_a_file_is_refused(tmp_path):
    whole = company.SHIPPED.read_bytes()
    (tmp_path / "half.npz").write_bytes(whole[: len(whole) // 2])
    for name in ("half.npz", "none.npz"):
        with pytest.raises(BadInput, match=name):
            Company.load(tmp_path / name)


@pytest.mark.parametrize("other", ["cubic", "bbr"])
@pytest.mark.parametrize("own", ["cubic", "bbr"])
def test_whether_bbr_is_among_others_is_told_beside_one_stream_of_ours(own, other):
    """The simulator says who is there; a path and seeds that nothing was learned from."""
    right = []
    for seed in (78, 79, 80):
        seen = run(Streams(own, [(other, 0, 30)]), "70 Mbit/s, 40 ms, 1 BDP", RATE_HZ, seed)
        looks = looks_at(seen, own)
        assert all(look.learned for look in looks)
        right += [look.known and (look.bbr > 0.5) == (other == "bbr") for look in looks]
    assert sum(right) >= 0.8 * len(right)


def looks_at(seen, own):
    """One a second, from 20 s on; our stream began at 2 s."""
    recogniser = Recogniser.shipped()
    return [
        recogniser.beside(seen.samples[begin:end], own, 1, seen.counts[begin:end])
        for end in range(20 * RATE_HZ, 30 * RATE_HZ, RATE_HZ)
        for begin in [max(3 * RATE_HZ, end - SIZE)]
    ]


@pytest.mark.parametrize("cubics", [16, 32])
@pytest.mark.parametrize("path", ["70 Mbit/s, 20 ms, 1.3 BDP", "100 Mbit/s, 30 ms, 1 BDP"])
def test_beside_many_streams_of_cubic_no_bbr_is_said(path, cubics):
    """Simulated; with our stream taken out four looks of ten and more say BBR on each of these."""
    seen = run(Streams("cubic", [("cubic", 0, 40)] * cubics), path, RATE_HZ, seed=82)
    looks = looks_at(seen, "cubic")
    assert all(look.learned for look in looks)
    assert sum(look.known and look.bbr > 0.6 for look in looks) <= 1


def test_without_counters_and_beside_several_it_is_as_before():
    recogniser = Recogniser.shipped()
    seen = run(Streams("cubic", [("cubic", 0, 30)]), "70 Mbit/s, 40 ms, 1 BDP", RATE_HZ, seed=77)
    samples, counts = seen.samples[-SIZE:], seen.counts[-SIZE:]
    assert not recogniser.beside(samples, "cubic").learned
    assert not recogniser.beside(samples, "reno", 1, counts).learned
    assert not recogniser.beside(samples, "cubic", 2, counts).learned
    gone = [replace(one, rtts_ns=()) if one.index % 2 else one for one in samples]
    assert not recogniser.beside(gone, "cubic", 1, counts).learned
