"""A stream that enters among several of CUBIC takes its share, and no more, however many they are.

The packet simulator is the oracle: it knows how many there are, and what each of them gets. Told
who is there by the recogniser alone, who takes four streams for one or two, ours took 1.8 and 2.6
of its share on the first two paths, and three shares among eight.
"""

import pytest

from studies.training.entered import World, enters, stays
from weir.congestion.cycle.entering import cubic_after, others_by


@pytest.mark.parametrize(
    ("path", "others"),
    [
        ("100 Mbit/s, 65 ms, 1.5 BDP", 4),
        ("100 Mbit/s, 150 ms, 0.5 BDP", 4),
        ("100 Mbit/s, 65 ms, 2 BDP", 8),
        ("100 Mbit/s, 30 ms, 1 BDP", 2),
    ],
)
def test_it_takes_about_its_share_among_so_many(path, others):
    found, entry = enters(World(path, others), 60.0)
    plain = stays(World(path, others), 60.0)
    assert 0.75 < found.of_fair < 1.3
    assert found.jain > 0.9
    assert found.jain > plain.jain - 0.02
    assert others / 3 <= entry.others <= 2 * others


def test_beside_one_it_has_more_than_under_cubic_and_no_more_than_half():
    world = World("100 Mbit/s, 65 ms, 1 BDP", 1)
    found, entry = enters(world, 60.0)
    assert stays(world, 60.0).of_fair + 0.05 < found.of_fair < 1.1
    assert entry.others < 3


def test_the_later_a_queue_stands_the_fewer_others_have_filled_it():
    """100 packets fill a path of 50 ms; 30 were left. RFC 9438 has 0.53 packets a round trip."""
    counts = [others_by(seconds, 0.05, 100.0, 30.0) for seconds in (0.1, 1.0, 2.0, 4.0, 30.0)]
    assert counts[0] == 8.0
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1.0
    # Three of them have 10 packets each, 15 to go, and 28 round trips to do it in.
    assert others_by(0.1 + 15 / 0.53 * 0.05, 0.05, 100.0, 30.0) == pytest.approx(3.0, abs=0.11)


def test_a_window_grows_as_the_rfc_has_it():
    """1 000 packets after a loss at 1428 that was below the last maximum: 1 214, K of 8.1 s."""
    assert cubic_after(0.0, 1000.0, 0.1) == pytest.approx(1000.0)
    assert cubic_after(8.121, 1000.0, 0.1) == pytest.approx(1214.3, abs=0.1)
    # In a small window Reno's line is ahead: 9 / 17 of a packet a round trip.
    assert cubic_after(2.0, 10.0, 0.02) == pytest.approx(10 + 100 * 9 / 17)
