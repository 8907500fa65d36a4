"""What a cut of one of several links saves, against integer programs and a share that is proven."""

import random

import pytest
from campaign_cuts import TOLERANCE, admit, cut, network, ring

SEEDS = range(1, 11)


@pytest.mark.parametrize("part", [0.0, 0.3])
def test_no_more_is_saved_than_can_be_and_who_has_nothing_there_loses_nothing(part):
    for seed in SEEDS:
        chance = random.Random(seed)
        links = ring(chance)
        calendar, admitted = admit(chance, links, 15)
        name = chance.choice(links["links"])["name"]
        found = cut(calendar, admitted, links, name, part)
        assert found.kept
        assert found.untouched <= found.saved <= found.most + TOLERANCE
        assert found.most <= found.most_of_all + TOLERANCE


def test_of_what_is_due_at_one_time_a_proven_share_is_saved():
    """All cross the link that is cut, over ways of three links, and are due at the same time.

    Whoever is left out, when those of the most weight for their size come first, finds each of its
    ways full but for less than its own size: the shares that those before it have of the links
    there add up to 1 - e, if no size is above e of what the narrowest link carries. So prices of
    the links that make these the price of every way, by the weight for size of who is left out,
    cost at most hops/(1 - e) times the weight that is kept; and by duality nobody gets more weight
    into the links beside it. What is kept is at least 1/(1 + hops/(1 - e)) of the most.
    """
    hops, deadline_s, wide, part = 3, 60.0, 1000, 0.4
    ways = [
        ("a", "m", wide),
        ("m", "x", wide),
        ("x", "b", wide),
        ("m", "y", wide),
        ("y", "b", wide),
    ]
    links = network(ways)
    most_mbit = 0.2 * part * wide * deadline_s
    share = 1 / (1 + hops / (1 - 0.2))
    lost = 0
    for seed in SEEDS:
        chance = random.Random(seed)
        calendar, admitted = admit(
            chance, links, 30, ends=[("a", "b")], deadline_s=deadline_s, most_mbit=most_mbit
        )
        found = cut(calendar, admitted, links, "a-m", part)
        assert found.untouched == 0
        assert share * found.most - TOLERANCE <= found.saved <= found.most + TOLERANCE
        lost += found.saved < found.admitted
    assert lost == len(SEEDS)


def test_what_fails_on_one_way_goes_over_the_other():
    """Two ways from end to end, all due at one time; when one fails, the other is as one link.

    Whoever is first left out, by weight for size, finds less room than its own size. Those before
    it have at least its weight for size and fill all else, so that what is kept is at least 1 - e
    of the most, even in parts, where e is the largest size against the room beside the untouched.
    """
    rate, deadline_s, most_mbit = 500, 60.0, 3000.0
    links = network([("a", "x", rate), ("x", "b", rate), ("a", "y", rate), ("y", "b", rate)])
    lost = 0
    for seed in SEEDS:
        chance = random.Random(seed)
        calendar, admitted = admit(
            chance, links, 24, ends=[("a", "b")], deadline_s=deadline_s, most_mbit=most_mbit
        )
        found = cut(calendar, admitted, links, "a-x", 0.0)
        assert found.kept
        room_mbit = rate * deadline_s - found.untouched_bytes * 8 / 1e6
        share = 1 - most_mbit / room_mbit
        least = found.untouched + share * (found.most - found.untouched)
        assert least - TOLERANCE <= found.saved <= found.most + TOLERANCE
        lost += found.saved < found.admitted
    assert lost
