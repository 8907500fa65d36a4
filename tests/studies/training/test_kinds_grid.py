"""The grid of kinds: what BBR v3, marks, losses at random and applications make of a path."""

from dataclasses import replace

import numpy as np
import pytest

from studies.training import kinds
from studies.training.grid import draw_path
from studies.training.kinds import CHUNK, HELD, KIND_OF, PATHS, loss_for, of_kind, setting
from studies.training.simulated import Span
from weir.congestion.choice.response import reach_bps
from weir.congestion.classify.classes import ALL_LABELS, KINDS
from weir.congestion.path import PathState
from weir.congestion.recordings import NetworkPath
from weir.errors import BadInput

SLOW = replace(PATHS, rates_bps=(10e6, 20e6))
PATH = NetworkPath(20_000_000, 40_000_000, 100_000)


def seen_of(label, variant, seconds=10):
    """Round-trip times beside one variant of a kind, after ten seconds, on `PATH`."""
    there = kinds._VARIANTS[label][variant](PATH, kinds.Draw(f"{label} {variant}"))
    return there, replace(there, span=Span(10, seconds)).simulated()


def test_half_of_a_round_is_of_the_kinds_and_the_rest_are_backgrounds():
    labels = [setting(1, number).label for number in range(CHUNK)]
    held = [label for label in labels if label in HELD]
    assert len(held) == 15
    # How a queue marks is drawn.
    assert set(held) | {"marked", "marked-step"} == set(HELD)
    assert set(labels) - set(HELD) == set(ALL_LABELS) - {"app"}


def test_a_kind_is_known_by_its_label_and_the_background_that_it_is_most_like():
    assert [KIND_OF[kind.label] for kind in KINDS] == list(range(1, 1 + len(KINDS)))
    assert {kind.label for kind in KINDS} <= set(HELD)
    assert not set(HELD) & set(ALL_LABELS)
    assert {row for kind in KINDS for row in kind.nearest} <= set(ALL_LABELS)


def test_the_same_number_is_the_same_recording_and_another_is_another():
    one, same = (setting(3, 20, SLOW).simulated() for _ in range(2))
    np.testing.assert_array_equal(one.rtt_ms, same.rtt_ms)
    assert one.made == same.made
    assert setting(3, 20, SLOW).path != setting(3, 20 + CHUNK, SLOW).path != setting(4, 20).path


def test_what_was_simulated_is_kept_and_a_larger_grid_begins_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(kinds, "CHUNK", 1)
    monkeypatch.setattr(kinds, "SECONDS", 2)
    told = []
    first = list(kinds.grid(1, 5, tmp_path, told.append, SLOW))
    (kept,) = tmp_path.iterdir()
    before = kept.stat().st_mtime_ns
    both = list(kinds.grid(2, 5, tmp_path, told.append, SLOW))
    assert told == [1, 1, 2]
    assert kept.stat().st_mtime_ns == before
    np.testing.assert_array_equal(both[0].rtt_ms, first[0].rtt_ms)


@pytest.mark.parametrize("control", ["cubic", "reno"])
@pytest.mark.parametrize("there", [PATH, NetworkPath(200_000_000, 100_000_000, 10**6)])
def test_losses_leave_streams_the_share_that_was_asked_for(control, there):
    """By the response function of the decision, which was written for another end."""
    loss = loss_for(0.5, control, there, 2)
    lost, many = round(loss * 10**9), 10**9
    path = PathState("room", there.rtt_ns / 1e9, 0.0, None, 1500, many, lost, lost)
    assert reach_bps(control, path, 2) == pytest.approx(0.5 * there.rate_bps, rel=0.02)


def test_a_stream_that_losses_hold_back_leaves_the_queue_empty_and_loses_packets():
    there, one = seen_of("loss-limited", 0, seconds=20)
    assert there.loss > 1e-4
    queued_ms = one.rtt_ms - PATH.rtt_ns / 1e6
    assert np.nanmedian(queued_ms) < 0.1 * (PATH.full_ms - PATH.rtt_ns / 1e6)


def test_a_queue_that_marks_by_a_step_is_held_there():
    queue, path = kinds.marking("step", PATH, kinds.Draw("step"))
    draw = kinds.Draw("marked")
    there = kinds._setting("marked", path, draw, kinds._streams(["dctcp"] * 2, draw), queue)
    one = replace(there, span=Span(10, 10)).simulated()
    step_ms = queue.parameters["ce_threshold"] / 1e6
    queued_ms = np.nanquantile(one.rtt_ms, 0.95) - PATH.rtt_ns / 1e6
    # Two packets take 1.2 ms here.
    assert 0.2 * step_ms < queued_ms < step_ms + 3
    assert one.path.discipline == "codel"


def test_a_kind_on_a_path_of_ones_own():
    for kind in KINDS:
        there = of_kind(kind.label, draw_path(kinds.Draw(1), SLOW), kinds.Draw(2))
        assert there.label == kind.label
        assert there.background
    with pytest.raises(BadInput, match="'other' is not a kind; there are bbr3"):
        of_kind("other", PATH, kinds.Draw(1))
